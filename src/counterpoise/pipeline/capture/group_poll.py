"""A poll of all groups of a cluster through the admin interface, for clusters that hide the offsets topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaError, KafkaException

from counterpoise.clients.admin_requests import GRACE_S, AdminRequests, cause_of, reason_of
from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, TIMEOUT_S, Cluster
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["Committed", "GroupPoll", "SeenGroup", "SeenMember", "is_hidden", "nothing_visible", "poll_groups", "unconfirmed"]

BATCH = 500
"""Groups per request; librdkafka splits it by coordinator."""
Committed = tuple[int, int, str]
"""Offset, leader epoch (-1: unknown), metadata."""


@dataclass(frozen=True)
class SeenMember:
    """A member as the coordinator describes it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assigned: tuple[Partition, ...]


@dataclass(frozen=True)
class SeenGroup:
    """A group as its coordinator describes it."""

    group_id: str
    modern: bool  # Whether it is a consumer group of KIP-848: the broker assigns
    stable: bool  # Whether the group was not rebalancing: only then the assignments of its members are known
    assignor: str
    members: tuple[SeenMember, ...]  # Sorted by id
    # By topic and partition; a value of None: this commit could not be read. None instead of a mapping: the request failed
    commits: Mapping[Partition, Committed | None] | None = None


@dataclass
class GroupPoll:
    """All groups at one time."""

    groups: list[SeenGroup] = field(default_factory=list)  # The groups that could be described
    names: set[str] | None = None  # The names of all groups; None: a broker did not list its groups
    faults: list[str] = field(default_factory=list)  # One sentence per failed request


def poll_groups(cluster: Cluster) -> GroupPoll:
    """Request the list of groups, their members and their commits.

    Raises `SourceError` if the list is not available. A group that cannot be described is a fault of the result.
    """
    poll = GroupPoll()

    def failed(what: str, error: Exception) -> None:
        poll.faults.append(f"{what} ({cluster.settings.redacted(reason_of(error))})")

    requests = AdminRequests(cluster.admin, TIMEOUT_S, failed)
    listed = cluster.request(
        lambda: cluster.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + GRACE_S), "groups"
    )
    poll.faults += [f"groups of one broker: {cluster.settings.redacted(error)}" for error in listed.errors]
    names = sorted(each.group_id for each in listed.valid if each.group_id)
    poll.names = set(names) if not listed.errors else None
    if len(names) < len(listed.valid):
        poll.faults.append("the group with an empty name: librdkafka cannot ask for it")
    for first in range(0, len(names), BATCH):
        part = names[first : first + BATCH]
        described = cluster.request(partial(cluster.admin.describe_consumer_groups, part, request_timeout=TIMEOUT_S), "groups")
        read = partial(cluster.admin.list_consumer_group_offsets, request_timeout=TIMEOUT_S)
        commits = {name: cluster.request(partial(read, [ConsumerGroupTopicPartitions(name)]), name)[name] for name in part}
        for name in part:
            about = requests.answer(described[name], f"group {name}: cannot describe it")
            if about is None or about.state is ConsumerGroupState.DEAD:
                continue
            offsets = requests.answer(commits[name], f"group {name}: cannot read its commits")
            listed = None if offsets is None else offsets.topic_partitions
            unread = [each for each in listed or () if each.error is not None]
            if unread:
                where = f"{len(unread)} partition(s), first {unread[0].topic} {unread[0].partition}"
                failed(f"group {name}: cannot read commits of {where}", KafkaException(unread[0].error))
            poll.groups.append(_group(about, listed))
    return poll


def unconfirmed(cluster: Cluster, names: set[str], poll: GroupPoll) -> set[str]:
    """The groups of `names`, which no broker lists, whose deletion no coordinator confirms. Each adds a fault to `poll`.

    A group is not listed either while its partition of the offsets topic has no leader, or if it may not be described any more.
    """
    topics = cluster.request(partial(cluster.admin.list_topics, OFFSETS_TOPIC, timeout=TIMEOUT_S), "topics").topics
    partitions = topics[OFFSETS_TOPIC].partitions if OFFSETS_TOPIC in topics else {}
    if without_leader := sorted(index for index, one in partitions.items() if one.leader < 0):
        # The groups are not described: librdkafka aborts the process if a coordinator comes back while it is waited for.
        poll.faults.append(f"{OFFSETS_TOPIC}: partition {without_leader[0]} has no leader, so its groups are not listed")
        return names
    there = set[str]()

    def failed(name: str, error: Exception) -> None:
        cause = cause_of(error)
        if not isinstance(cause, KafkaError) or cause.code() != KafkaError.GROUP_ID_NOT_FOUND:
            there.add(name)
            reason = cluster.settings.redacted(reason_of(error))
            poll.faults.append(f"group {name}: no broker lists it, and whether it is deleted is unknown ({reason})")

    requests = AdminRequests(cluster.admin, TIMEOUT_S, failed)
    ask = partial(cluster.admin.describe_consumer_groups, sorted(names), request_timeout=TIMEOUT_S)
    for name, answer in cluster.request(ask, "groups").items():
        about = requests.answer(answer, name)
        if about is not None and about.state is not ConsumerGroupState.DEAD:
            there.add(name)
    return there


def is_hidden(cluster: Cluster, poll: GroupPoll, topic: str) -> bool:
    """Whether a topic may exist although this principal cannot describe it, so that brokers leave its commits out.

    Asks the cluster, and adds a fault to `poll` if so.
    """
    failed = list[Exception]()
    requests = AdminRequests(cluster.admin, TIMEOUT_S, lambda _, error: failed.append(error))
    cluster.request(partial(requests.topics, [topic]), f"topic {topic}")
    cause = cause_of(failed[0]) if failed else None
    if cause is None or (isinstance(cause, KafkaError) and cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
        return False
    reason = cluster.settings.redacted(reason_of(failed[0]))
    poll.faults.append(f"topic {topic}: its commits are not shown, and whether they are deleted is unknown ({reason})")
    return True


def _group(about: Any, offsets: Iterable[Any] | None) -> SeenGroup:
    modern = about.type is ConsumerGroupType.CONSUMER
    commits: dict[Partition, Committed | None] = {}
    for each in offsets or ():
        if each.error is not None or each.offset >= 0:
            known = each.offset, -1 if each.leader_epoch is None else each.leader_epoch, each.metadata or ""
            commits[each.topic, each.partition] = known if each.error is None else None
    members = sorted((_member(each, modern) for each in about.members), key=lambda member: member.member_id)
    # A KIP-848 group has a target at any time, also before its members have reached it.
    stable = modern or about.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)
    return SeenGroup(
        about.group_id, modern, stable, about.partition_assignor or "", tuple(members), None if offsets is None else commits
    )


def _member(member: Any, modern: bool) -> SeenMember:
    held = member.target_assignment if modern and member.target_assignment is not None else member.assignment
    partitions = () if held is None else held.topic_partitions
    assigned = tuple(sorted((each.topic, each.partition) for each in partitions))
    return SeenMember(member.member_id, member.client_id, member.host, member.group_instance_id, assigned)


def nothing_visible(cluster: Cluster) -> SourceError:
    """The error for a cluster without visible groups: a broker silently omits groups that the principal may not describe."""
    where = cluster.settings["bootstrap.servers"]
    return SourceError(
        f"{where} shows no group: there is none, or this principal may describe none. It needs Describe on the groups and on "
        "their topics (kafka-acls --add --allow-principal User:NAME --operation Describe --group '*' --topic '*')"
    )
