"""What a leader does inside its host: it turns the host's members and topics into assignment bytes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.clients.member_side import WITHOUT_HISTORY
from counterpoise.clients.own_fields import assignment_user_data, capacity_of
from counterpoise.errors import some
from counterpoise.planning.lead import Lead, lead_plan
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.joined import JoinMember, unreadable_member
from counterpoise.wire.join_metadata import summarise

__all__ = ["GroupToLead", "Lag", "group_to_lead", "lead_group", "protocol_to_lead", "topics_known"]

log = logging.getLogger("counterpoise.clients")

Lag: TypeAlias = Callable[[Mapping[str, int], float | None], Mapping[str, Sequence[int]] | None]
"""See `lead_group`."""


@dataclass(frozen=True)
class GroupToLead:
    """What a leader receives from its host."""

    strategy: str  # The strategy that the coordinator chose
    members: tuple[JoinMember, ...]
    capacity: dict[str, int]  # By member id; members without an entry have 1
    any_owned: bool  # Whether a member owns partitions while it joins
    subscribed: frozenset[str]  # Topics to which some member subscribes
    topics: dict[str, Topic]  # Those of them that the host knows, by name
    group: str
    generation: int  # -1: unknown
    patience_s: float | None  # Seconds after which the group expels a leader that does not answer; None: unknown
    hands_out_generation: bool = False  # Whether assignments tell members their generation


def group_to_lead(
    strategy: str,
    cluster: Any,
    members: Iterable[JoinMember],
    *,
    group: str,
    generation: int,
    patience_s: float | None,
    hands_out_generation: bool = False,
) -> GroupToLead:
    """Read what members sent, and their topics from the host's ClusterMetadata. SnapshotError: a subscription cannot be read."""
    given = tuple(members)
    read = summarise([member.metadata for member in given])
    for at, error in read.errors:
        raise unreadable_member(given[at].id, error) from error
    weights = zip(given, map(capacity_of, read.user_data), strict=True)
    capacity = {member.id: weight for member, weight in weights if weight != 1}
    topics = topics_known(cluster, read.topics)
    return GroupToLead(
        strategy, given, capacity, read.any_owned, read.topics, topics, group, generation, patience_s, hands_out_generation
    )


def lead_group(
    given: GroupToLead,
    options: Mapping[str, object],  # Options of the strategy
    # Called once with partition counts by topic and `patience_s`; returns records behind per partition by topic, or None. It may
    # wait.
    lag: Lag,
) -> Lead:
    """Plan a group as its leader."""
    begin = time.perf_counter()
    name = given.strategy

    def user_data(withheld: int) -> bytes | None:
        needed = withheld or (given.hands_out_generation and name not in WITHOUT_HISTORY)
        return assignment_user_data(given.generation, withheld) if needed else None

    led = lead_plan(
        name,
        given.topics,
        given.members,
        protocol=protocol_to_lead(name, any_owned=given.any_owned),
        options=options,
        lag=lag({topic: known.partitions for topic, known in given.topics.items()}, given.patience_s),
        capacity=given.capacity or None,
        user_data=user_data,
    )
    for member in led.joined.unreadable if name not in WITHOUT_HISTORY else ():
        log.warning("%s: the history of member %s cannot be read; it counts as having none", name, member)
    if missing := led.joined.missing_topics:
        log.warning("%s: topics that this leader does not know, so they are not assigned now: %s", name, some(list(missing)))
    return replace(led, group=given.group, generation=given.generation, milliseconds=(time.perf_counter() - begin) * 1e3)


def protocol_to_lead(
    name: str,
    *,
    any_owned: bool,  # Whether a member owns partitions while it joins
) -> str:
    """Eager or cooperative.

    Cooperative if the strategy supports it and some member holds partitions while joining. If none does, everything is
    free (all members are new or have revoked all), so nothing needs withholding and the claims in user data count.
    `cooperative-sticky` is always led cooperatively, as Java leads it, and so is a strategy that supports nothing else.
    """
    supported = strategy(name).protocols
    if EAGER not in supported or name == "cooperative-sticky":
        return COOPERATIVE
    return COOPERATIVE if COOPERATIVE in supported and any_owned else EAGER


def topics_known(cluster: Any, names: Iterable[str]) -> dict[str, Topic]:
    """Partition counts, and replica racks if brokers have racks; topics the host does not know are left out.

    All three hosts keep replicas in `cluster._partitions` only; without it there are no racks.
    """
    racks = {_first(broker, ("node_id", "nodeId")): broker.rack for broker in cluster.brokers() if getattr(broker, "rack", None)}
    known: dict[str, Topic] = {}
    for name in sorted(names):
        partitions = cluster.partitions_for_topic(name)
        if partitions:
            count = max(partitions) + 1
            known[name] = Topic(count, _replica_racks(cluster, name, count, racks) if racks else None)
    return known


def _replica_racks(cluster: Any, name: str, count: int, racks: Mapping[int, str]) -> list[list[str]] | None:
    listed = getattr(cluster, "_partitions", {}).get(name)
    if not listed:
        return None
    replicas = [_first(listed.get(index), ("replica_nodes", "replicas")) or () for index in range(count)]
    return [sorted({racks[node] for node in nodes if node in racks}) for nodes in replicas]


def _first(given: Any, names: tuple[str, ...]) -> Any:
    """The first attribute that is there: the hosts' versions name them differently."""
    return next((getattr(given, name) for name in names if hasattr(given, name)), None)
