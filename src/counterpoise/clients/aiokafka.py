"""Assignors for aiokafka (0.12 and newer): `partition_assignment_strategy=[StickyAssignor]`.

Classes or instances. aiokafka is eager: it revokes everything before it joins. `sticky` keeps its history in the user
data; `cooperative-sticky` is for joining groups whose other members (Java, librdkafka, kafka-python 3) cooperate: such
a member is safe there, but starts from nothing in every rebalance.
What aiokafka does not pass to assignors is read from the calling coordinator (see `calling_host`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterpoise.clients import constructors
from counterpoise.clients.aiokafka_leader import CollectingAssignor, lead_beside_loop
from counterpoise.clients.calling_host import Needed, calling_object, calling_variable, check_host
from counterpoise.errors import MissingExtraError
from counterpoise.extras import pip_install

try:
    import aiokafka
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
except ImportError as error:
    raise MissingExtraError(f"these assignors need aiokafka ({error}): {pip_install('aiokafka')}") from error

if TYPE_CHECKING:
    from counterpoise.snapshot.joined import JoinMember

__all__ = [
    "ConstrainedCooperativeStickyAssignor",
    "CooperativeStickyAssignor",
    "LagAssignor",
    "LagStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]


class _AioKafkaAssignor(CollectingAssignor, AbstractPartitionAssignor):  # type: ignore[misc]
    """What all assignors for aiokafka share."""

    name, host, hands_out_generation = "abstract", "aiokafka", True

    @classmethod
    def _check_host(cls) -> None:
        needed = [
            Needed(GroupCoordinator, "__init__", ("generation", "member_id", "group_id", "_heartbeat_task")),
            Needed(GroupCoordinator, "_perform_assignment", ("self", "response")),
            Needed(GroupCoordinator, "_on_join_complete", ("self", "generation")),
            Needed(GroupCoordinator, "_start_heartbeat_task"),
            Needed(GroupCoordinator, "_stop_heartbeat_task"),
            Needed(CoordinatorGroupRebalance, "_on_join_leader", ("self", "_perform_assignment")),
            Needed(CoordinatorGroupRebalance, "perform_group_join", ("self", "metadata")),
        ]
        check_host(f"aiokafka {aiokafka.__version__}", "aiokafka 0.12 to 0.14", needed)

    @classmethod
    def _coordinator(cls) -> Any:
        found = calling_object((GroupCoordinator, CoordinatorGroupRebalance))
        return found._coordinator if isinstance(found, CoordinatorGroupRebalance) else found  # noqa: SLF001

    def _joining(self) -> None:
        self._warn_if_history_is_lost()
        coordinator = self._coordinator()
        if coordinator is not None:
            lead_beside_loop(coordinator, self)

    def _joined(self, members: Any) -> list[JoinMember]:
        return self._from_raw(calling_variable("_perform_assignment", "response").members, members)

    def _group_generation(self) -> int:
        return int(self._coordinator().generation)

    def _patience_s(self) -> float | None:
        coordinator = self._coordinator()
        names = ("_session_timeout_ms", "_rebalance_timeout_ms")
        known = [timeout for name in names if (timeout := getattr(coordinator, name, None))]
        return min(known) / 1000 if known else None


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
