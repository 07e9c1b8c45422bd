"""Repairs three faults in how kafka-python 3 joins a group, for one consumer at a time.

- A join that completes between two polls is dropped: the next poll sends another JoinGroup, and the whole group
  rebalances once more.
- Under the cooperative protocol (KIP-429) a member keeps its partitions while it joins, but `KafkaConsumer.poll` returns
  no records until the join is complete, up to a heartbeat interval later. Java's consumer fetches meanwhile.
- A member that the group expels while it joins keeps its partitions and their positions, and `on_partitions_lost` is not
  called. It reads again what others have processed, and commits offsets lower than theirs.

kafka-python 3.0 has no public hook for these. `mend_joining` therefore wraps three methods of one consumer's coordinator.
Another reason for long cooperative rebalances, the late second round, is removed in `HostAssignor._follow_up`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import cache
from typing import Any

from counterpoise.clients.listener_core import ListenerCore

__all__ = ["mend_joining"]

log = logging.getLogger("counterpoise.clients")

_BEGIN_MS = 100
"""How long the poll that starts a join may wait: it includes the commit before the join."""
_PENDING_MS = 10
"""How long a later poll waits for a pending join before it fetches: nothing else bounds the polls per second."""
_USED = (
    *("config", "commit_offsets_async", "join_group_async", "need_rejoin"),
    *("poll", "poll_heartbeat", "rejoining", "state"),
    *("_do_join_and_sync_async", "_enable_heartbeat", "_generation", "_join_task", "_lock", "_manager"),
    *("_net", "_on_join_prepare_async", "_rebalance_protocol", "_subscription"),
)


def mend_joining(coordinator: Any) -> None:
    """Repair how this kafka-python 3 consumer joins its group; a second call changes nothing.

    Every finished join is completed. A consumer that is expelled while it joins loses its partitions before it joins again.

    Records arrive during a join while the consumer owns partitions, runs the cooperative protocol, and commits automatically
    or through `rebalance_listener`: `KafkaConsumer.commit` raises RebalanceInProgressError during a join, and a consumer that
    calls it after each poll must not get it more often than without counterpoise.

    If the coordinator lacks an attribute that this needs (another release of kafka-python), the consumer stays as it is and a
    warning is logged.
    """
    if isinstance(getattr(coordinator, "poll", None), _Poll):
        return
    missing = [name for name in _USED if not hasattr(coordinator, name)]
    if missing:
        _warn(", ".join(missing))
        return
    host_join = coordinator.join_group_async

    async def join_group_async(timeout_ms: float | None = None) -> bool:
        task = coordinator._join_task  # noqa: SLF001
        # A join that succeeded is final if its member was not expelled since, and so is one that cannot succeed. The host repeats
        # the others.
        if task is not None and task.is_done:
            error = task.exception
            is_final = not coordinator._generation.is_lost() if error is None else _is_final(error)  # noqa: SLF001
            if is_final:
                coordinator._join_task = _FinishedJoin(task)  # noqa: SLF001
        return bool(await host_join(timeout_ms=timeout_ms))

    host_attempt = coordinator._do_join_and_sync_async  # noqa: SLF001

    async def join_and_sync() -> Any:
        known = coordinator._generation  # noqa: SLF001
        if known.is_lost() and coordinator._subscription.assigned_partitions():  # noqa: SLF001
            # Expelled since the host prepared this join.
            if coordinator._rebalance_protocol.name == "COOPERATIVE":  # noqa: SLF001
                # To prepare it again calls `on_partitions_lost`.
                await coordinator._on_join_prepare_async(known.generation_id, known.member_id)  # noqa: SLF001
            else:  # all partitions were reported as revoked when the join was prepared
                coordinator._subscription.assign_from_subscribed([])  # noqa: SLF001
        return await host_attempt()

    coordinator.join_group_async = join_group_async
    coordinator._do_join_and_sync_async = join_and_sync  # noqa: SLF001
    coordinator.poll = _Poll(coordinator)


@cache
def _warn(missing: str) -> None:
    log.warning(
        "this release of kafka-python returns no records during a rebalance (no %s): "
        "set heartbeat_interval_ms=300 to keep it short",
        missing,
    )


def _is_final(error: Exception) -> bool:
    """Whether this is an error of Kafka that the host raises to the application, instead of joining again."""
    from kafka import errors

    repeated = (
        *(errors.RetriableError, errors.UnknownMemberIdError, errors.RebalanceInProgressError),
        *(errors.IllegalGenerationError, errors.MemberIdRequiredError),
    )
    return isinstance(error, errors.KafkaError) and not isinstance(error, repeated)


class _FinishedJoin:
    """The task of a completed join as a future: the host awaits a task that is not done, and repeats a join whose task is."""

    is_done = False

    def __init__(self, task: Any) -> None:
        self.add_callback, self.add_errback = task.add_callback, task.add_errback
        self._task = task

    def __await__(self) -> Any:
        return self._task.__await__()


class _Poll:
    """`ConsumerCoordinator.poll` of one consumer, except that it does not wait for a pending join."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._host_poll = coordinator.poll
        self._watched: Any = None
        self._member_id: str | None = coordinator._generation.member_id  # noqa: SLF001

    def __call__(self, timeout_ms: float | None = None) -> bool:
        """Whether the consumer may fetch. Errors of the host's method are raised unchanged."""
        coordinator = self._coordinator
        if not self._keeps_partitions():
            self._member_id = None
            return bool(self._host_poll(timeout_ms=timeout_ms))
        if self._pending():
            coordinator._net.run(self._wait)  # noqa: SLF001
            if self._pending():
                coordinator.poll_heartbeat()
                self._watch(coordinator._join_task)  # noqa: SLF001
                return True
        if not coordinator.need_rejoin():
            self._member_id = coordinator._generation.member_id  # noqa: SLF001
            return bool(self._host_poll(timeout_ms=timeout_ms))
        subscription = coordinator._subscription  # noqa: SLF001
        consumed = subscription.all_consumed_offsets()
        if not coordinator.rejoining:
            # This poll commits and gives up partitions of other topics. The join may give them another owner.
            topics = subscription.subscription or ()
            consumed = {each: offset for each, offset in consumed.items() if each.topic in topics}
        joined = self._host_poll(timeout_ms=_BEGIN_MS if timeout_ms is None else min(timeout_ms, _BEGIN_MS))
        if joined:
            member_id = coordinator._generation.member_id  # noqa: SLF001
            # A member that joined under a new id may be behind the commits of those who owned its partitions meanwhile.
            if member_id == self._member_id and coordinator.config["enable_auto_commit"]:
                self._commit_revoked(consumed)
            self._member_id = member_id
        return bool(joined) or self._pending()

    def _keeps_partitions(self) -> bool:
        """Whether the consumer owns partitions through a join, and its application can cope with records during it."""
        coordinator, subscription = self._coordinator, self._coordinator._subscription  # noqa: SLF001
        return bool(
            coordinator._rebalance_protocol.name == "COOPERATIVE"  # noqa: SLF001
            and (coordinator.config["enable_auto_commit"] or isinstance(subscription.rebalance_listener, ListenerCore))
            and not coordinator._generation.is_lost()  # noqa: SLF001
            and subscription.assigned_partitions()
        )

    def _pending(self) -> bool:
        task = self._coordinator._join_task  # noqa: SLF001
        return not (task is None or task.is_done or isinstance(task, _FinishedJoin))

    def _watch(self, task: Any) -> None:
        """Heartbeats from the moment the join completes: the application may work on its records for longer than a session."""
        if task is not self._watched:
            self._watched = task
            task.add_callback(self._joined)

    def _joined(self, _: Any) -> None:
        from kafka.coordinator.base import MemberState

        with self._coordinator._lock:  # noqa: SLF001
            if self._coordinator.state is MemberState.REBALANCING:
                self._coordinator.state = MemberState.STABLE
                self._coordinator._enable_heartbeat()  # noqa: SLF001

    async def _wait(self) -> None:
        from kafka.errors import KafkaError

        with suppress(KafkaError):  # also a failed join: `join_group_async` raises the error, or joins again
            await self._coordinator._manager.wait_for(self._coordinator._join_task, _PENDING_MS)  # noqa: SLF001

    def _commit_revoked(self, consumed: dict[Any, Any]) -> None:
        """Commit what was received during the join of partitions that it revoked: their next owner starts there.

        The coordinator handles this commit before the member joins again, and so before it has a next owner.
        """
        kept = self._coordinator._subscription.assigned_partitions()  # noqa: SLF001
        revoked = {each: offset for each, offset in consumed.items() if each not in kept}
        if revoked:
            self._coordinator.commit_offsets_async(revoked)
