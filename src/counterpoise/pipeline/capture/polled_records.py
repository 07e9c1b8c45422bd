"""The difference between two polls of a cluster as records of the offsets topic, as a broker would write them.

Known are members, their assignments and commits. Unknown are generations and epochs (increased by one per change), leaders,
subscriptions (each member is assumed to subscribe to every topic that its group owns), claims, user data and time-outs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from counterpoise.clients.member_side import by_topic
from counterpoise.pipeline.capture.group_poll import Committed, SeenGroup, SeenMember
from counterpoise.wire.consumer_protocol import (
    Assignment,
    Partition,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from counterpoise.wire.offsets_topic.keys import GroupKey, MemberKey, OffsetKey, RecordType, decode_key, encode_key
from counterpoise.wire.offsets_topic.records import Record, decode_record, encode_value
from counterpoise.wire.offsets_topic.values import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    GroupMember,
    GroupMetadataValue,
    OffsetCommitValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitionIds,
)

__all__ = ["PolledHistory"]

Change = tuple[bytes, bytes | None]
"""Key and value; None: a tombstone."""
_UNKNOWN_VERSION = 2
"""No library writes version 2 with empty user data, so the library of these members is unknown."""


class PolledHistory:
    """The newest record of each key, and the records to write after the next poll.

    `records` are all records that are written, in order.
    """

    def __init__(self, records: Iterable[tuple[bytes, bytes | None]] = ()) -> None:
        self._values: dict[bytes, bytes] = {}
        self.groups: dict[str, set[bytes]] = {}  # Groups with records -> the keys of these
        for key, value in records:
            self._note(key, value)

    def changes(
        self, groups: Iterable[SeenGroup], topic_ids: Mapping[str, bytes], now_ms: int, is_hidden: Callable[[str], bool]
    ) -> list[Change]:
        """The records of a poll at `now_ms`, group by group.

        A KIP-848 target has topics by id, so topics that are not in `topic_ids` are not in it. Commits that are not shown any
        more are deleted, except those of topics for which `is_hidden` is true.
        """
        changes: list[Change] = []
        for group in groups:
            if group.stable:
                changes += self._modern(group, topic_ids) if group.modern else self._classic(group)
            if group.commits is not None:
                changes += self._commits(group.group_id, group.commits, now_ms, is_hidden)
        for key, value in changes:
            self._note(key, value)
        return changes

    def deletions(self, names: Iterable[str]) -> list[Change]:
        """Tombstones of all records of groups that are not in `names`."""
        changes: list[Change] = [(key, None) for name in sorted(self.groups.keys() - set(names)) for key in self._order(name)]
        for key, _ in changes:
            self._note(key, None)
        return changes

    def _order(self, name: str) -> list[bytes]:
        """The keys of a group: members before the group, as a broker writes them; commits last."""
        rank = {2: 8, 3: 8, 1: 9}
        return sorted(self.groups[name], key=lambda key: (rank.get(key[1], 10 - key[1]), key))

    def _note(self, key: bytes, value: bytes | None) -> None:
        name = key[4 : 4 + int.from_bytes(key[2:4])].decode()
        if value is not None:
            self._values[key] = value
            self.groups.setdefault(name, set()).add(key)
        elif self._values.pop(key, None) is not None:
            self.groups[name].discard(key)
            if not self.groups[name]:
                del self.groups[name]

    def _classic(self, group: SeenGroup) -> Iterator[Change]:
        key = encode_key(RecordType.GROUP_METADATA, GroupKey(group.group_id))
        before = self._read(key)
        generation = before.generation if isinstance(before, GroupMetadataValue) else 0
        value = _generation(group, generation)
        if before == value or (before is None and not group.members):  # a group that only commits has no generation
            return
        if group.group_id in self.groups:  # it was under KIP-848 before
            yield from ((each, None) for each in self._order(group.group_id) if each[1] in (3, 5, 6, 7))
        yield key, encode_value(RecordType.GROUP_METADATA, replace(value, generation=generation + 1), 3)

    def _modern(self, group: SeenGroup, topic_ids: Mapping[str, bytes]) -> list[Change]:
        new = _target(group, topic_ids)
        old = {key: self._values[key] for kind in (5, 7) for key in self._of(group.group_id, RecordType(kind))}
        key = encode_key(RecordType.CONSUMER_GROUP_METADATA, GroupKey(group.group_id))
        before = self._read(key)
        if new == old and before is not None:
            return []
        epoch = 1 + (before.epoch if isinstance(before, ConsumerGroupMetadataValue) else 0)
        changes: list[Change] = [(each, None) for each in self._of(group.group_id, RecordType.GROUP_METADATA)]
        changes += [(each, None) for each in sorted(old, reverse=True) if each not in new]
        changes += [(each, value) for each, value in new.items() if each[1] == 5 and old.get(each) != value]
        changes += [(key, encode_value(RecordType.CONSUMER_GROUP_METADATA, ConsumerGroupMetadataValue(epoch=epoch), 0))]
        changes += [(each, value) for each, value in new.items() if each[1] == 7 and old.get(each) != value]
        kind = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
        target = TargetAssignmentMetadataValue(assignment_epoch=epoch)
        return [*changes, (encode_key(kind, GroupKey(group.group_id)), encode_value(kind, target, 0))]

    def _commits(
        self, name: str, commits: Mapping[Partition, Committed | None], now_ms: int, is_hidden: Callable[[str], bool]
    ) -> Iterator[Change]:
        seen = {encode_key(RecordType.OFFSET_COMMIT, OffsetKey(name, *at)): commits[at] for at in sorted(commits)}
        for key, commit in seen.items():
            if commit is None:  # it could not be read, so it may still be what it was
                continue
            offset, epoch, metadata = commit
            value = OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=now_ms)
            before = self._read(key)
            if isinstance(before, OffsetCommitValue) and replace(before, commit_timestamp=now_ms) == value:
                continue
            yield key, encode_value(RecordType.OFFSET_COMMIT, value, 3)
        for key in self._of(name, RecordType.OFFSET_COMMIT):
            about: Any = decode_key(key)[1]
            if key not in seen and not is_hidden(about.topic):
                yield key, None

    def _of(self, name: str, kind: RecordType) -> list[bytes]:
        return sorted(key for key in self.groups.get(name, ()) if key[1] == kind)

    def _read(self, key: bytes) -> object:
        record = decode_record(key, self._values[key]) if key in self._values else None
        return record.value if isinstance(record, Record) else None


def _generation(group: SeenGroup, generation: int) -> GroupMetadataValue:
    topics = sorted({topic for member in group.members for topic, _ in member.assigned})
    subscription = encode_subscription(Subscription(tuple(topics), b"", version=_UNKNOWN_VERSION))
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=group.assignor or None,
        leader=None,
        members=tuple(_classic_member(member, subscription) for member in group.members),
    )


def _classic_member(member: SeenMember, subscription: bytes) -> GroupMember:
    assignment = Assignment(by_topic(member.assigned), b"", _UNKNOWN_VERSION)
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.host,
        session_timeout=-1,
        subscription=subscription,
        assignment=encode_assignment(assignment),
    )


def _target(group: SeenGroup, topic_ids: Mapping[str, bytes]) -> dict[bytes, bytes]:
    """The records of members (type 5) and their targets (type 7)."""
    topics = tuple(sorted({topic for member in group.members for topic, _ in member.assigned}))
    records: dict[bytes, bytes] = {}
    for member in group.members:
        about = ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=None,
            client_id=member.client_id,
            client_host=member.host,
            subscribed_topic_names=topics,
            subscribed_topic_regex=None,
            rebalance_timeout_ms=-1,
            server_assignor=group.assignor or None,
        )
        held = [
            TopicPartitionIds(topic_id=topic_ids[topic], partitions=parts)
            for topic, parts in by_topic(member.assigned)
            if topic in topic_ids
        ]
        for kind, value in (
            (RecordType.CONSUMER_GROUP_MEMBER_METADATA, about),
            (RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, TargetAssignmentMemberValue(topic_partitions=tuple(held))),
        ):
            records[encode_key(kind, MemberKey(group.group_id, member.member_id))] = encode_value(kind, value, 0)
    return records
