"""A live group through an AdminClient: members, what they hold, and the lag of every partition, in a few batched requests.

Read only. Every request has a time-out; what a broker refuses or does not answer is kept beside the result, by
partition, and is never taken for a lag of zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterpoise.clients.member_side import by_topic
from counterpoise.errors import MissingExtraError, OptionError, SourceError
from counterpoise.extras import pip_install
from counterpoise.model.lag import partition_lag
from counterpoise.snapshot.group import Group, Member, Topic
from counterpoise.wire.consumer_protocol import Partition
from counterpoise.wire.primitives import java_order

try:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
except ImportError:
    raise MissingExtraError(f"reading a live group needs confluent-kafka: {pip_install('live')}") from None

from counterpoise.clients.admin_requests import GRACE_S, REFUSALS, AdminRequests, cause_of, is_transient, racks_of, reason_of

__all__ = ["LiveGroup", "PartitionState", "read_live_group"]


@dataclass(frozen=True)
class PartitionState:
    """One partition as the group sees it now. Offsets are -1 if unknown; `lag` is None if it is unknown."""

    topic: str
    partition: int
    owner: str | None
    committed: int
    begin: int
    end: int
    lag: int | None
    quality: int | None


@dataclass(frozen=True)
class LiveGroup:
    """A group now."""

    # Members, topics and lag (unknown lags count as 0 there); every member counts as a subscriber of every topic that a member
    # holds, because an admin client cannot see subscriptions
    group: Group
    # state, strategy: as the coordinator says ("STABLE"; "" if no strategy is elected)
    state: str
    strategy: str
    partitions: tuple[PartitionState, ...]  # Sorted by topic, then index
    client_ids: Mapping[str, str]  # Member id -> client id
    faults: tuple[str, ...] = field(default=())  # What could not be read, in words; empty when all was answered


def read_live_group(
    config: Mapping[str, Any],  # librdkafka settings, at least ``bootstrap.servers``
    group_id: str,
    *,
    reset: str = "latest",  # The group's ``auto.offset.reset``: decides the lag if nothing is committed (see `partition_lag`)
    timeout: float = 10.0,  # Seconds for each request
    # Capacities of members by client id or member id, default 1: an admin client cannot see the capacities that members send
    capacity: Mapping[str, int] | None = None,
    more_topics: Iterable[str] = (),  # Besides those with an owner or a commit: members without partitions may subscribe to them
    admin: Any = None,  # Used instead of a new one
) -> LiveGroup:
    """Read one group.

    Raises `SourceError` if the cluster does not answer, has no such group, or refuses to describe it (with what to do);
    `OptionError` if `reset` is ``none`` and something is not committed, or `capacity` names no member of the group.
    """
    reader = _Reader(config, timeout, admin)
    described = reader.describe(group_id)
    members = [_member(each) for each in described.members]
    client_ids = {member_id: client for member_id, client, _ in members}
    capacities = _capacities(capacity or {}, client_ids, group_id)
    owner = {at: member_id for member_id, _, held in members for at in held}
    committed = reader.committed(group_id)
    if not (owner or committed or reader.uncommitted):
        reader.faults.append("committed offsets: none is visible; if the group has any, Describe on its topics is missing")
    described_topics = reader.requests.topics({*more_topics, *(topic for topic, _ in (*owner, *committed, *reader.uncommitted))})
    topics = {name: Topic(len(one.partitions), racks_of(one)) for name, one in described_topics.items()}
    wanted = [(name, index) for name in java_order(topics) for index in range(topics[name].partitions)]
    begin, end = (reader.requests.offsets(wanted, latest=latest) for latest in (False, True))
    known = [at for at in wanted if at in begin and at in end and at not in reader.uncommitted]
    found = partition_lag(
        [committed.get(at, -1) for at in known],
        [begin[at] for at in known],
        [max(end[at], begin[at]) for at in known],
        reset=reset,
        names=[f"{topic}-{index}" for topic, index in known],
    )
    lags = dict(zip(known, zip(found.lag.tolist(), found.quality.tolist(), strict=True), strict=True))
    states = tuple(
        PartitionState(*at, owner.get(at), committed.get(at, -1), begin.get(at, -1), end.get(at, -1), *lags.get(at, (None, None)))
        for at in wanted
    )
    subscribed = java_order({topic for topic, _ in owner if topic in topics})
    group = Group(
        topics,
        [
            Member(member_id, subscribed, dict(by_topic(held)), 0, capacity=capacities[member_id])
            for member_id, _, held in members
        ],
        {name: [lags.get((name, index), (0, 0))[0] for index in range(topic.partitions)] for name, topic in topics.items()},
        group_id,
    )
    return LiveGroup(group, described.state.name, described.partition_assignor or "", states, client_ids, tuple(reader.faults))


class _Reader:
    """The requests, each with a time-out; partial failures become `faults`."""

    def __init__(self, config: Mapping[str, Any], timeout: float, admin: Any) -> None:
        try:
            self._admin = admin or AdminClient({"log_level": 0, **config})
        except (KafkaException, TypeError, ValueError) as error:
            raise SourceError(f"the connection settings do not work: {reason_of(error)}") from None
        self._timeout = timeout
        self._where = str(config.get("bootstrap.servers", "the cluster"))
        self.requests = AdminRequests(self._admin, timeout, lambda what, error: self.faults.append(f"{what}: {reason_of(error)}"))
        self.faults: list[str] = []
        self.uncommitted: set[Partition] = set()
        """Partitions whose committed offset could not be read: that is not the same as none."""

    def describe(self, group_id: str) -> Any:
        future = self._admin.describe_consumer_groups([group_id], request_timeout=self._timeout)[group_id]
        none_such = f"{self._where}: group {group_id}: there is no such group; kafka-consumer-groups --list shows those there are"
        try:
            found = future.result(self._timeout + GRACE_S)
        except REFUSALS as error:
            cause = cause_of(error)
            if isinstance(cause, KafkaError) and cause.code() == KafkaError.GROUP_ID_NOT_FOUND:  # a broker from 4.0
                raise SourceError(none_such) from None
            advice = (
                "check the address, and that this principal has Describe on the group and on its topics (kafka-acls --add "
                f"--allow-principal User:NAME --operation Describe --group {group_id} --topic '*')"
            )
            words = f"{self._where}: group {group_id}: cannot be described ({reason_of(error)}); {advice}"
            raise SourceError(words, transient=is_transient(cause)) from None
        if found.state.name == "DEAD":  # what older brokers answer
            raise SourceError(none_such)
        return found

    def committed(self, group_id: str) -> dict[Partition, int]:
        asked = [ConsumerGroupTopicPartitions(group_id)]
        future = self._admin.list_consumer_group_offsets(asked, request_timeout=self._timeout)[group_id]
        try:
            found = future.result(self._timeout + GRACE_S)
        except REFUSALS as error:
            words = f"{self._where}: group {group_id}: committed offsets cannot be read: {reason_of(error)}"
            raise SourceError(words, transient=is_transient(cause_of(error))) from None
        for at in found.topic_partitions:
            if at.error is not None:
                self.uncommitted.add((at.topic, at.partition))
                self.faults.append(f"{at.topic}-{at.partition}: committed offset: {at.error.str()}")
        return {(at.topic, at.partition): at.offset for at in found.topic_partitions if at.error is None and at.offset >= 0}


def _member(described: Any) -> tuple[str, str, list[Partition]]:
    held = described.assignment.topic_partitions if described.assignment else []
    return described.member_id, described.client_id, [(at.topic, at.partition) for at in held]


def _capacities(given: Mapping[str, int], client_of: Mapping[str, str], group_id: str) -> dict[str, int]:
    """The capacity of each member; a client id counts for all its members, a member's own id before that."""
    nobody = sorted(set(given) - set(client_of) - set(client_of.values()))
    if nobody:
        known = ", ".join(sorted(set(client_of.values()))) or "none"
        raise OptionError(f"capacity: group {group_id} has no member or client {nobody[0]!r}; its clients: {known}")
    return {member_id: given.get(member_id, given.get(client, 1)) for member_id, client in client_of.items()}
