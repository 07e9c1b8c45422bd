"""The rebalance listener for aiokafka; made by `rebalance_listener`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from counterpoise.clients.listener_core import ListenerCore, log
from counterpoise.clients.ownership import Membership
from counterpoise.errors import MissingExtraError
from counterpoise.extras import pip_install
from counterpoise.wire.consumer_protocol import Partition

try:
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.consumer.subscription_state import Assignment
    from aiokafka.errors import IllegalStateError, KafkaError, KafkaTimeoutError
    from aiokafka.structs import OffsetAndMetadata, TopicPartition
except ImportError as error:
    raise MissingExtraError(f"this listener needs aiokafka ({error}): {pip_install('aiokafka')}") from error

__all__ = ["AioKafkaListener"]

_TRY_S, _TRIES = 5.0, 6
"""A commit takes at most half a minute. After each try topics that are gone by then are left out."""


class AioKafkaListener(ListenerCore, ConsumerRebalanceListener):  # type: ignore[misc]
    """See `rebalance_listener`. aiokafka reports no lost membership: it shows in the coordinator's generation."""

    _host_partition, _host_error = TopicPartition, KafkaError

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # aiokafka sends a commit that had to wait with the generation of the moment: one begun before a rebalance and sent
        # after it would set back the new owner of the partition. So a revocation waits for the commit under way.
        self._committing = asyncio.Lock()

    async def commit(self) -> bool:
        """See `ListenerCore`."""
        async with self._committing:
            offsets = self.offsets()
            if offsets and offsets != self._committed_last:
                try:
                    await self._commit_with_retries(self._consumer.commit, offsets)
                except IllegalStateError:
                    # The subscription has changed under way; what it took away is revoked.
                    return False
                except KafkaError as error:
                    return self._put_off(error, len(offsets))
                self._committed_last = offsets
            return True

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Called by the client before it joins again."""
        await self._revoked(revoked)

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Called by the client with everything it now has."""
        await self._assigned(assigned)

    async def close(self) -> None:
        """Report what is still owned as lost; call it after the consumer has stopped."""
        await self._lost()

    def _host_offsets(self, offsets: dict[Partition, int]) -> dict[Any, Any]:
        return {TopicPartition(*each): offset for each, offset in offsets.items()}

    async def _commit(self, offsets: dict[Any, Any]) -> None:
        async with self._committing:
            try:
                await self._commit_with_retries(self._consumer.commit, offsets)
            except IllegalStateError:
                # The subscription has changed, and `commit` knows only the new one, to which nothing is assigned yet.
                before = {each: OffsetAndMetadata(offset, "") for each, offset in offsets.items()}
                known = partial(self._consumer._coordinator.commit_offsets, Assignment(list(before)))  # noqa: SLF001
                await self._commit_with_retries(known, before)

    def _membership(self) -> Membership | None:
        coordinator = getattr(self._consumer, "_coordinator", None)
        generation, member = getattr(coordinator, "generation", None), getattr(coordinator, "member_id", None)
        return Membership(member, generation) if isinstance(generation, int) and member else None

    def _cooperates(self) -> bool:
        return False

    async def _commit_with_retries(self, commit: Callable[[dict[Any, Any]], Awaitable[None]], offsets: dict[Any, Any]) -> None:
        """Commit, in half a minute at most; topics that have been deleted are left out. aiokafka itself never stops trying.

        Raises `KafkaTimeoutError` if the group has not taken the offsets in time.
        """
        for _ in range(_TRIES):
            try:
                async with asyncio.timeout(_TRY_S):
                    return await commit(offsets)
            except TimeoutError:
                # Of a topic that is no longer subscribed the client knows nothing: it may be there.
                client = self._consumer._client  # noqa: SLF001
                gone = {topic for topic in client._topics if not client.cluster.partitions_for_topic(topic)}  # noqa: SLF001
                there = {each: offset for each, offset in offsets.items() if each.topic not in gone}
                if len(there) < len(offsets):
                    log.warning("%d partitions are not committed: their topics are gone", len(offsets) - len(there))
                if not (offsets := there):
                    return None
        raise KafkaTimeoutError(f"no commit within {_TRY_S * _TRIES:.0f} s")
