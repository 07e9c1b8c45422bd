"""The steps of a synthetic group as records of the offsets topic, as its client library writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from counterpoise.model.problem import Int32, Problem
from counterpoise.pipeline.synthetic.fleet import GroupPlan, TopicPlan
from counterpoise.pipeline.synthetic.lives import Person, Step
from counterpoise.snapshot.names import named
from counterpoise.wire.consumer_protocol import Assignment, Subscription, TopicPartitions, encode_assignment, encode_subscription
from counterpoise.wire.offsets_topic.keys import GroupKey, MemberKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import (
    AssignedTopic,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    GroupMember,
    GroupMetadataValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitionIds,
    Value,
)
from counterpoise.wire.user_data import encode_cooperative, encode_sticky

__all__ = ["RawRecord", "group_records"]

RawRecord = tuple[int, bytes, bytes | None]
"""Time in ms, key, value."""

_WRITES = {"java": (3, None), "librdkafka": (0, b""), "kafka-python": (0, b""), "aiokafka": (0, b"")}
"""Version and user data of the assignments that a leader of each library writes."""
_MEMBER, _TARGET, _CURRENT = (
    RecordType.CONSUMER_GROUP_MEMBER_METADATA,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)


def group_records(plan: GroupPlan, topics: list[TopicPlan], steps: Iterable[Step]) -> Iterator[RawRecord]:
    """All records of one group except commits."""
    writer = _Writer(plan, [topics[at] for at in plan.topics])
    write = writer.server if plan.protocol == "server" else writer.classic
    for step in steps:
        yield from write(step)
        if step.kind == "emptied":
            yield step.at_ms + 30_000, writer.key, None


class _Writer:
    def __init__(self, plan: GroupPlan, topics: list[TopicPlan]) -> None:
        self._plan, self._topics = plan, topics
        starts = np.cumsum([0] + [topic.partitions for topic in topics])
        self._shape = Problem(1, starts, np.arange(len(topics) + 1), np.zeros(len(topics), np.int32))
        self._names = tuple(topic.name for topic in topics)
        self._targets: dict[str, tuple[TopicPartitionIds, ...]] = {}
        self.key = encode_key(RecordType.GROUP_METADATA, GroupKey(plan.name))

    def classic(self, step: Step) -> Iterator[RawRecord]:
        claimed, given = self._listed(step.claimed, step), self._listed(step.owner, step)
        each = zip(step.people, claimed, given, strict=True)
        members = tuple(self._member(*one, step.generation - 1) for one in each)
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=step.generation,
            protocol=self._plan.protocol if members else None,
            leader=step.people[0].member if members else None,
            current_state_timestamp=step.at_ms - 4,
            members=members,
        )
        yield step.at_ms, self.key, encode_value(RecordType.GROUP_METADATA, value, 3)

    def _member(
        self, person: Person, claimed: tuple[TopicPartitions, ...], given: tuple[TopicPartitions, ...], before: int
    ) -> GroupMember:
        version, user_data = _WRITES[self._plan.library]
        return GroupMember(
            member_id=person.member,
            group_instance_id=person.instance,
            client_id=person.client,
            client_host=f"/10.0.{person.number // 250}.{person.number % 250}",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=encode_subscription(self._subscription(claimed, before if claimed else -1)),
            assignment=encode_assignment(Assignment(given, user_data, version)),
        )

    def _subscription(self, claimed: tuple[TopicPartitions, ...], before: int) -> Subscription:
        protocol, library = self._plan.protocol, self._plan.library
        if library == "java":
            if protocol == "cooperative-sticky":
                return Subscription(self._names, encode_cooperative(before), claimed, before)
            data = encode_sticky(claimed, before) if protocol == "sticky" and claimed else None
            return Subscription(self._names, data)
        if library == "librdkafka":
            owned = claimed if protocol == "cooperative-sticky" else ()
            return Subscription(self._names, b"", owned, before if owned else -1, "")
        data = encode_sticky(claimed, -1) if protocol == "sticky" and claimed else b""
        return Subscription(self._names, data, version=0)

    def server(self, step: Step) -> Iterator[RawRecord]:
        """The epoch of a KIP-848 group: members that joined or left, the epoch, targets, and the epoch of each member."""
        group, now = self._plan.name, {person.member: person for person in step.people}
        ids = {topic.name: topic.topic_id for topic in self._topics}
        targets = {
            member: tuple(TopicPartitionIds(topic_id=ids[name], partitions=held) for name, held in pairs)
            for member, pairs in zip(now, self._listed(step.owner, step), strict=True)
        }
        for member in sorted(self._targets.keys() - now.keys()):
            yield from (_record(step.begin_ms, kind, MemberKey(group, member), None) for kind in (_CURRENT, _TARGET, _MEMBER))
        for member in sorted(now.keys() - self._targets.keys()):
            yield _record(step.begin_ms, _MEMBER, MemberKey(group, member), self._about(now[member]))
        epoch = ConsumerGroupMetadataValue(epoch=step.generation)
        yield _record(step.begin_ms, RecordType.CONSUMER_GROUP_METADATA, GroupKey(group), epoch)
        for member, target in targets.items():
            if self._targets.get(member) != target:
                value = TargetAssignmentMemberValue(topic_partitions=target)
                yield _record(step.begin_ms, _TARGET, MemberKey(group, member), value)
        assigned = TargetAssignmentMetadataValue(assignment_epoch=step.generation)
        yield _record(step.begin_ms, RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, GroupKey(group), assigned)
        for member, target in targets.items():
            reached = ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=step.generation,
                previous_member_epoch=step.generation - 1,
                state=0,
                assigned_partitions=tuple(AssignedTopic(topic_id=one.topic_id, partitions=one.partitions) for one in target),
                partitions_pending_revocation=(),
            )
            yield _record(step.at_ms, _CURRENT, MemberKey(group, member), reached)
        self._targets = targets

    def _about(self, person: Person) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id=person.client,
            client_host=f"/10.1.{person.number // 250}.{person.number % 250}",
            subscribed_topic_names=self._names,
            subscribed_topic_regex=None,
            rebalance_timeout_ms=300_000,
            server_assignor="uniform",
        )

    def _listed(self, owner: Int32, step: Step) -> list[tuple[TopicPartitions, ...]]:
        """Topics and partitions of each member, in order."""
        held = named(self._shape, owner, [person.member for person in step.people], self._names)
        return [tuple((topic, tuple(listed)) for topic, listed in topics.items()) for topics in held.values()]


def _record(at: int, kind: RecordType, key: GroupKey | MemberKey, value: Value | None) -> RawRecord:
    return at, encode_key(kind, key), None if value is None else encode_value(kind, value, 0)
