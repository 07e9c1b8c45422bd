"""Assignors for aiokafka (0.12 and newer): `partition_assignment_strategy=[StickyAssignor]`.

Classes or instances. aiokafka is eager: it revokes everything before it joins. `sticky` keeps its history in the user
data; `cooperative-sticky` is for joining groups whose other members (Java, librdkafka, kafka-python 3) cooperate: such
a member is safe there, but starts from nothing in every rebalance.
What aiokafka does not hand to assignors is read from its calling coordinator (see `calling_host`).
"""

from __future__ import annotations

from typing import Any

from counterpoise.clients import constructors
from counterpoise.clients.calling_host import calling_object, calling_variable
from counterpoise.clients.host_assignor import HostAssignor
from counterpoise.clients.weights import generation_handed_out
from counterpoise.errors import MissingExtraError, SnapshotError
from counterpoise.snapshot.join import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, TopicPartitions, encode_subscription

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
except ImportError as error:
    raise MissingExtraError("these assignors need aiokafka: pip install 'counterpoise[aiokafka]'") from error

__all__ = [
    "ConstrainedCooperativeStickyAssignor",
    "CooperativeStickyAssignor",
    "LagAssignor",
    "LagStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]


class _AioKafkaAssignor(HostAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """What all assignors for aiokafka share."""

    name, host = "abstract", "aiokafka"

    @classmethod
    def _coordinator(cls) -> Any:
        found = calling_object((GroupCoordinator, CoordinatorGroupRebalance))
        return found._coordinator if isinstance(found, CoordinatorGroupRebalance) else found  # noqa: SLF001

    def _joining(self) -> None:
        self._warn_if_history_is_lost()

    def _held(self) -> tuple[TopicPartitions, ...] | None:
        return None

    def _joined(self, members: Any) -> list[JoinMember]:
        response = calling_variable("_perform_assignment", "response")
        # (id, metadata), or (id, instance id, metadata) from version 5 of the response on.
        raw = [(each[0], each[1] if len(each) == 3 else None, bytes(each[-1])) for each in getattr(response, "members", ())]
        if {each[0] for each in raw} == set(members):
            return [JoinMember(member, metadata, instance) for member, instance, metadata in raw]
        return [_cut_down(self.name, self._member.cooperates, each, members[each]) for each in members]

    def _group_generation(self) -> int:
        return int(getattr(self._coordinator(), "generation", -1))

    def _patience_s(self) -> float | None:
        coordinator = self._coordinator()
        told = [getattr(coordinator, name, None) for name in ("_session_timeout_ms", "_rebalance_timeout_ms")]
        known = [timeout for timeout in told if timeout]
        return min(known) / 1000 if known else None

    def _assigned_generation(self, assignment: Any) -> int:
        told = calling_variable("_on_join_complete", "generation")
        return told if isinstance(told, int) else generation_handed_out(assignment.user_data)


def _cut_down(name: str, cooperates: bool, member: str, metadata: Any) -> JoinMember:
    """A member of which only version 0 is left; safe where claims are in user data."""
    if cooperates and metadata.version >= 1:
        raise SnapshotError(
            f"member {member!r}: this aiokafka hides what it owns, so leading {name!r} could give a partition two owners; "
            "use the strategy 'sticky'"
        )
    return JoinMember(member, encode_subscription(Subscription(tuple(metadata.subscription), metadata.user_data, version=0)))


class RangeAssignor(constructors.Range, _AioKafkaAssignor):
    """`range`: exactly Kafka's, static members first, racks included."""


class RoundRobinAssignor(constructors.RoundRobin, _AioKafkaAssignor):
    """`roundrobin`: exactly Kafka's."""


class StickyAssignor(constructors.Sticky, _AioKafkaAssignor):
    """`sticky`: optimal balance, then as few moves as such balance allows."""


class CooperativeStickyAssignor(constructors.CooperativeSticky, _AioKafkaAssignor):
    """`cooperative-sticky`: for groups whose other members cooperate; this member claims nothing when it joins."""


class ConstrainedCooperativeStickyAssignor(constructors.ConstrainedCooperativeSticky, _AioKafkaAssignor):
    """`constrained-cooperative-sticky`: KAFKA-9987 and KAFKA-12464; counterpoise members only."""


class LagAssignor(constructors.Lag, _AioKafkaAssignor):
    """`lag`: the rule of KAFKA-5337; needs a source of lag, see `counterpoise.clients.lag_source`."""


class LagStickyAssignor(constructors.LagSticky, _AioKafkaAssignor):
    """`lag-sticky`: balanced counts, then lag near a proven bound, then few moves; needs a source of lag."""
