"""ListenerCore: the common part of the rebalance listeners of both clients: owned partitions, callbacks, and when to commit."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from counterpoise.clients.ownership import Membership, Ownership
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["Callback", "ListenerCore"]

log = logging.getLogger("counterpoise.clients")

Callback: TypeAlias = Callable[[list[Any]], Any]
"""Called with sorted TopicPartitions, never with none."""

_LOST = ("CommitFailedError", "IllegalGenerationError", "UnknownMemberIdError", "FencedInstanceIdError")
"""Errors by which a coordinator says that the member no longer owns what it commits."""


class ListenerCore:
    """Base of the listeners of both clients.

    A client's subclass says how to commit, who the member is now, and whether the client cooperates.
    """

    _host_partition: Any
    """The client's TopicPartition."""
    _host_error: type[Exception]
    """The base of the client's errors."""

    def __init__(
        self, consumer: Any, on_lost: Callback | None, on_gained: Callback | None, start: Callable[[Any], int | None] | None
    ) -> None:
        self._consumer = consumer
        self._on_lost = on_lost
        self._on_gained = on_gained
        self._start = start
        self._ownership = Ownership()
        self._committed_last: dict[Any, Any] = {}

    @property
    def owned(self) -> frozenset[Any]:
        """The partitions that may be processed now."""
        return self._ownership.owned

    def processed(self, record: Any) -> None:
        """A record is done: its offset may be committed. Ignored when its partition is gone."""
        self._ownership.processed((record.topic, record.partition), record.offset)

    def offsets(self) -> dict[Any, Any]:
        """What has been processed, as the client's `commit` takes it; prefer `commit`, which handles its errors."""
        return self._host_offsets(self._ownership.to_commit())

    def commit(self) -> Any:
        """Commit what has been processed and is owned; for commits between rebalances (await it on aiokafka).

        Returns
        -------
        bool
            True: the group has the offsets. False: not now, and the caller need not do anything. While a rebalance is in
            progress, what was processed is committed when it is revoked, or by the next call. After a lost membership nothing is
            committed. After an error that may pass (a timeout, a broker that is away) the next call commits.

        Raises
        ------
        KafkaError
            The client's own, for an error that stays: an authorization that is missing, for example.
        """
        raise NotImplementedError

    def close(self) -> Any:
        """Report what is still owned as lost; call it (await it on aiokafka) after the consumer has been closed."""
        raise NotImplementedError

    async def _revoked(self, partitions: Iterable[Any]) -> None:
        now = self._membership()
        if now is None or now.generation < 0 or self._ownership.belongs_to_another(now):
            return await self._lost()
        offsets = self._host_offsets(self._ownership.to_commit(partitions))
        if offsets and not await self._committed(offsets):
            return await self._lost()
        return await self._call(self._on_lost, self._ownership.revoked(partitions, cooperative=self._cooperates()))

    async def _lost(self) -> None:
        await self._call(self._on_lost, self._ownership.lost())

    async def _assigned(self, partitions: Iterable[Any]) -> None:
        now = list(partitions)
        self._committed_last = {}  # the group may have lost these offsets meanwhile, with a topic
        held = self._consumer.assignment() if self._cooperates() else None
        lost, gained = self._ownership.assigned(now, self._membership(), held=held)
        failed: Exception | None = None
        for step in (
            partial(self._call, self._on_lost, lost),
            *(partial(self._begin, each) for each in sorted({*now, *gained})),
            partial(self._call, self._on_gained, gained),
        ):
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - raised below: the client has assigned these partitions all the same
                failed = failed or error
        if failed is not None:
            raise failed

    async def _begin(self, partition: Any) -> None:
        offset = None if self._start is None else self._start(partition)
        if offset is not None:
            self._consumer.seek(partition, offset)

    async def _committed(self, offsets: dict[Any, Any]) -> bool:
        """Commit; False when the coordinator says that this member no longer owns them."""
        try:
            await self._commit(offsets)
        except self._host_error as error:
            if type(error).__name__ in _LOST:
                log.warning("the membership was lost before %d partitions could be committed: %s", len(offsets), error)
                return False
            log.warning("%d partitions could not be committed before they were revoked: %s", len(offsets), error)
        return True

    def _put_off(self, error: Exception, count: int) -> bool:
        """False if a later commit makes up for this one; otherwise raises the error."""
        causes = (error, error.__cause__, *error.args)
        if any(type(each).__name__ == "RebalanceInProgressError" for each in causes):
            log.debug("a rebalance is in progress: %d partitions are committed when they are revoked, or later", count)
        elif type(error).__name__ in _LOST:
            log.warning("the membership was lost: %d partitions are not committed: %s", count, error)
        elif getattr(error, "retriable", False) or type(error).__name__ == "KafkaTimeoutError":
            log.warning("%d partitions could not be committed now, the next commit has them: %s", count, error)
        else:
            raise error
        return False

    async def _call(self, callback: Callback | None, partitions: Iterable[Partition]) -> None:
        listed = [self._host_partition(*each) for each in sorted(partitions)]
        if callback is not None and listed:
            answer = callback(listed)
            if inspect.isawaitable(answer):
                await self._waited(answer)

    async def _waited(self, answer: Any) -> None:
        await answer

    def _host_offsets(self, offsets: dict[Partition, int]) -> dict[Any, Any]:
        raise NotImplementedError

    async def _commit(self, offsets: dict[Any, Any]) -> None:
        raise NotImplementedError

    def _membership(self) -> Membership | None:
        raise NotImplementedError

    def _cooperates(self) -> bool:
        raise NotImplementedError
