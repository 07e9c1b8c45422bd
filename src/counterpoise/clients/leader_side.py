"""What a leader does inside its host: members as the host has them, topics as the host knows them, to assignment bytes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.clients.weights import assignment_user_data, weight_of
from counterpoise.planning.lead import Lead, lead_plan
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.join import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, decode_subscription

__all__ = ["lead_group", "protocol_to_lead", "topics_known"]

log = logging.getLogger("counterpoise.clients")

_WITHOUT_USER_DATA = ("range", "roundrobin")


def lead_group(
    name: str,
    cluster: Any,
    members: Sequence[JoinMember],
    *,
    options: Mapping[str, object],
    generation: int = -1,
    lag: Callable[[Mapping[str, int]], Mapping[str, Sequence[int]] | None] = lambda topics: None,  # noqa: ARG005
) -> Lead:
    """Plan a group as its leader.

    Parameters
    ----------
    name : str
        The strategy the coordinator chose.
    cluster : ClusterMetadata
        The host's; only read.
    members : sequence of JoinMember
    options : mapping
        The strategy's own.
    generation : int
        The group's, handed out with each assignment to members whose client does not tell them; -1: unknown.
    lag : callable, optional
        Called once with partition counts by topic; gives records behind per partition by topic, or None.

    Raises
    ------
    SnapshotError
        A member's subscription cannot be read.
    """
    read = [decode_subscription(member.metadata) for member in members]
    topics = topics_known(cluster, {topic for subscription in read for topic in subscription.topics})
    protocol = protocol_to_lead(name, read)
    weights = {member.id: weight_of(given.user_data) for member, given in zip(members, read, strict=True)}
    heavier = {member: weight for member, weight in weights.items() if weight != 1}

    def user_data(withheld: int) -> bytes | None:
        return None if name in _WITHOUT_USER_DATA else assignment_user_data(generation, withheld)

    behind = lag({topic: known.partitions for topic, known in topics.items()})
    led = lead_plan(
        name, topics, members, protocol=protocol, options=options, lag=behind, capacity=heavier or None, user_data=user_data
    )
    for member in led.joined.unreadable:
        log.warning("%s: the history of member %s cannot be read; it counts as having none", name, member)
    log.info("%s (%s): led %d members, %d partitions", name, protocol, len(members), len(led.owner))
    return led


def protocol_to_lead(name: str, members: Iterable[Subscription]) -> str:
    """Eager or cooperative, from what the members show.

    Cooperative where the strategy can be and somebody holds something while joining. Where nobody does, everything is
    free (all members are new or have revoked all), so nothing needs withholding and the claims in user data count.
    `cooperative-sticky` is always led cooperatively, as Java leads it.
    """
    supported = strategy(name).protocols
    if COOPERATIVE not in supported:
        return EAGER
    if name == "cooperative-sticky" or any(member.owned for member in members):
        return COOPERATIVE
    return EAGER


def topics_known(cluster: Any, names: Iterable[str]) -> dict[str, Topic]:
    """Partition counts, and replica racks where brokers have racks; topics the host does not know are left out.

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
