"""A leader on aiokafka plans, and waits for lag, in a thread next to the event loop; its heartbeats continue.

aiokafka calls `assign` in its event loop, and it stops a member's heartbeats while the member joins. A plan that takes long
would stop every task of the program, and a leader that takes longer than its session would be expelled. aiokafka has no
public hook for it: `lead_beside_loop` therefore wraps one method of one consumer's coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from counterpoise.clients.host_assignor import HostAssignor, PerConsumer

if TYPE_CHECKING:
    from counterpoise.clients.leader_side import GroupToLead
    from counterpoise.planning.lead import Lead

__all__ = ["CollectingAssignor", "lead_beside_loop"]

T = TypeVar("T")

_MOST_PLANS = 3
"""A leader plans at most this often in one rebalance. Partitions created after the last plan have no owner until the next one."""


class CollectingAssignor(HostAssignor):
    """An assignor whose `assign` only collects what is needed to plan while `collected` is a list."""

    collected: list[GroupToLead] | None = None

    @PerConsumer
    def assign(self, cluster: Any, members: Any) -> dict[str, bytes]:
        """As for `HostAssignor`; while it collects, the result is empty."""
        if self.collected is not None:
            self.collected.append(self._to_lead(cluster, members))
            return {}
        return super().assign(cluster, members)  # type: ignore[no-any-return]


def lead_beside_loop(coordinator: Any, assignor: CollectingAssignor) -> None:
    """Let this consumer's coordinator plan with this assignor in a thread. A second call changes nothing."""
    leader = coordinator._perform_assignment  # noqa: SLF001
    if not isinstance(leader, _Leader):
        leader = coordinator._perform_assignment = _Leader(coordinator)  # noqa: SLF001
    leader.assignors[assignor.name] = assignor


class _Leader:
    """`GroupCoordinator._perform_assignment` of one consumer; O(1) in addition to the plan."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._host_perform = coordinator._perform_assignment  # noqa: SLF001
        # Not a thread of the event loop: while the application keeps all of them busy, the whole group would wait for its plan.
        self._thread = ThreadPoolExecutor(1, "counterpoise-plan")
        self.assignors: dict[str, CollectingAssignor] = {}

    async def __call__(self, response: Any) -> Any:
        assignor = self.assignors.get(response.group_protocol)
        if assignor is None:
            return await self._host_perform(response)
        # The first call imports the leader's half, which takes some tenths of a second: not in the event loop.
        topics_known = (await self._beside_loop(import_module, "counterpoise.clients.leader_side")).topics_known
        for left in reversed(range(_MOST_PLANS)):
            given = await self._collect(assignor, response)
            lead = await self._plan(assignor, given)
            # The host ignores new metadata between assign and SyncGroup: partitions created while the plan was made would
            # have no owner until the next rebalance.
            known_now = topics_known(self._coordinator._cluster, given.subscribed)  # noqa: SLF001
            if not left or _counts(given.topics) == _counts(known_now):
                break
        return assignor.hand_out(lead)

    async def _collect(self, assignor: CollectingAssignor, response: Any) -> GroupToLead:
        """The host's own method, up to the call of `assign`: it waits for the metadata of the group's topics."""
        found: list[GroupToLead] = []
        assignor.collected = found
        try:
            await self._host_perform(response)
        finally:
            assignor.collected = None
        assert found, "the host did not call assign"
        return found[-1]

    async def _plan(self, assignor: CollectingAssignor, given: GroupToLead) -> Lead:
        self._coordinator._start_heartbeat_task()  # noqa: SLF001
        try:
            return await self._beside_loop(assignor.plan, given)
        finally:
            await self._coordinator._stop_heartbeat_task()  # noqa: SLF001

    async def _beside_loop(self, call: Callable[..., T], argument: object) -> T:
        """Like `asyncio.to_thread`, in this leader's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, copy_context().run, call, argument)


def _counts(topics: Any) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}
