"""One look at all groups of a cluster through the admin interface, for clusters that hide the offsets topic."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException

from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import TIMEOUT_S, Cluster, Place

__all__ = ["Committed", "Look", "SeenGroup", "SeenMember", "look", "nothing_visible"]

BATCH = 500
"""Groups per question; each coordinator answers for its own."""
SETTLED = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)
Committed = tuple[int, int, str]
"""Offset, leader epoch (-1: unknown), metadata."""


@dataclass(frozen=True)
class SeenMember:
    """A member as the coordinator describes it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assigned: tuple[Place, ...]


@dataclass(frozen=True)
class SeenGroup:
    """A group as its coordinator describes it.

    Attributes
    ----------
    modern : bool
        Whether the broker assigns (KIP-848).
    settled : bool
        Whether it was not just rebalancing: only then are its members' assignments told.
    assignor : str
    members : tuple of SeenMember
        By id.
    commits : dict
        Place -> what is committed; None where it could not be read.
    """

    group_id: str
    modern: bool
    settled: bool
    assignor: str
    members: tuple[SeenMember, ...]
    commits: dict[Place, Committed] | None = None


@dataclass
class Look:
    """All groups at one moment.

    Attributes
    ----------
    groups : list of SeenGroup
        Those that could be described.
    names : set of str
        Of all groups that are there; None where a broker did not list its own.
    faults : list of str
        What could not be read.
    """

    groups: list[SeenGroup] = field(default_factory=list)
    names: set[str] | None = None
    faults: list[str] = field(default_factory=list)


def look(cluster: Cluster) -> Look:
    """Ask for the list of groups, their members and their commits.

    Raises
    ------
    SourceError
        The list cannot be had. A group that cannot be described is a fault of the answer.
    """
    found = Look()
    listed = cluster.asked(lambda: cluster.admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S + 5), "groups")
    found.faults += [f"groups of one broker: {cluster.settings.hidden(error)}" for error in listed.errors]
    names = sorted(each.group_id for each in listed.valid)
    found.names = set(names) if not listed.errors else None
    for first in range(0, len(names), BATCH):
        part = names[first : first + BATCH]
        described = cluster.asked(partial(cluster.admin.describe_consumer_groups, part, request_timeout=TIMEOUT_S), "groups")
        commits = {name: _commits(cluster, name) for name in part}
        for name in part:
            about = _answer(cluster, described[name], name, found, "describe it")
            if about is None or about.state is ConsumerGroupState.DEAD:
                continue
            offsets = _answer(cluster, commits[name], name, found, "read its commits")
            found.groups.append(_group(about, None if offsets is None else offsets.topic_partitions))
    return found


def _commits(cluster: Cluster, name: str) -> Future[Any]:
    asked = [ConsumerGroupTopicPartitions(name)]
    futures: dict[str, Future[Any]] = cluster.asked(
        lambda: cluster.admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S), name
    )
    return futures[name]


def _answer(cluster: Cluster, future: Future[Any], name: str, found: Look, what: str) -> Any:
    try:
        return future.result(TIMEOUT_S + 5)
    except (KafkaException, FutureTimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        found.faults.append(f"group {name}: cannot {what} ({cluster.settings.hidden(why)})")
        return None


def _group(about: Any, offsets: Iterable[Any] | None) -> SeenGroup:
    modern = about.type is ConsumerGroupType.CONSUMER
    commits = None
    if offsets is not None:
        known = [each for each in offsets if each.error is None and each.offset >= 0]
        commits = {
            (each.topic, each.partition): (
                each.offset,
                -1 if each.leader_epoch is None else each.leader_epoch,
                each.metadata or "",
            )
            for each in known
        }
    members = sorted((_member(each, modern) for each in about.members), key=lambda member: member.member_id)
    # A group under KIP-848 has a target at any time, also while members are on their way to it.
    settled = modern or about.state in SETTLED
    return SeenGroup(about.group_id, modern, settled, about.partition_assignor or "", tuple(members), commits)


def _member(member: Any, modern: bool) -> SeenMember:
    held = member.target_assignment if modern and member.target_assignment is not None else member.assignment
    places = () if held is None else held.topic_partitions
    assigned = tuple(sorted((each.topic, each.partition) for each in places))
    return SeenMember(member.member_id, member.client_id, member.host, member.group_instance_id, assigned)


def nothing_visible(cluster: Cluster) -> SourceError:
    """The error for a cluster that shows no group: a broker leaves out, without a word, groups that may not be described."""
    where = cluster.settings["bootstrap.servers"]
    return SourceError(
        f"{where} shows no group: there is none, or this principal may describe none. It needs Describe on the groups and on "
        "their topics (kafka-acls --add --allow-principal User:NAME --operation Describe --group '*' --topic '*')"
    )
