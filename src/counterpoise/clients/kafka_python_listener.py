"""The rebalance listener for kafka-python, 2.0.2 and newer; made by `rebalance_listener`.

Version 3 calls listeners on its network thread, where the blocking API raises: the listener is a coroutine there. In
version 2 it runs in the thread that polls, and may block.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from counterpoise.clients.listener_core import ListenerCore
from counterpoise.clients.ownership import Membership
from counterpoise.errors import MissingExtraError, OptionError
from counterpoise.extras import pip_install
from counterpoise.wire.consumer_protocol import Partition

try:
    import kafka
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata, TopicPartition
except ImportError as error:
    raise MissingExtraError(f"this listener needs kafka-python ({error}): {pip_install('kafka-python')}") from error

__all__ = ["KafkaPythonListener"]

_NO_EPOCH = (-1,) if "leader_epoch" in OffsetAndMetadata._fields else ()
"""kafka-python 2.0 has no place for a leader epoch."""
_NOBODY_AWAITS = "on_lost, on_gained: nothing awaits a coroutine here; give plain functions"
_ASYNC_BASE = getattr(kafka, "AsyncConsumerRebalanceListener", None)
"""kafka-python 3 alone has it."""


class _Common(ListenerCore):
    _host_partition, _host_error = TopicPartition, KafkaError

    def commit(self) -> bool:
        """See `ListenerCore`; blocks, so it is not for callbacks of the listener on kafka-python 3."""
        offsets = self.offsets()
        if offsets and offsets != self._committed_last:
            try:
                self._consumer.commit(offsets)
            except KafkaError as error:
                return self._put_off(error, len(offsets))
            self._committed_last = offsets
        return True

    def close(self) -> None:
        """Report what is still owned as lost; call it after the consumer has been closed."""
        _run(self._lost())

    def _host_offsets(self, offsets: dict[Partition, int]) -> dict[Any, Any]:
        return {TopicPartition(*each): OffsetAndMetadata(offset, "", *_NO_EPOCH) for each, offset in offsets.items()}

    def _membership(self) -> Membership | None:
        known: Any = getattr(getattr(self._consumer, "_coordinator", None), "_generation", None)
        return Membership(known.member_id, known.generation_id) if getattr(known, "member_id", "") else None

    def _cooperates(self) -> bool:
        chosen = getattr(getattr(self._consumer, "_coordinator", None), "_rebalance_protocol", None)
        return getattr(chosen, "name", "EAGER") == "COOPERATIVE"


if _ASYNC_BASE is not None:

    class KafkaPythonListener(_Common, _ASYNC_BASE):  # type: ignore[misc, valid-type]
        """See `rebalance_listener`."""

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            """Called by the client: eager, before it joins, with everything; cooperative, with what it gives up."""
            await self._revoked(revoked)
            if getattr(self._consumer, "_closed", False):
                # Nothing is assigned any more, and `close` below could not await a callback.
                await self._lost()

        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            """Called by the client: eager, with everything; cooperative, with what is new."""
            await self._assigned(assigned)

        async def on_partitions_lost(self, lost: Iterable[Any]) -> None:  # noqa: ARG002 - all of it is lost
            """Called by the client when its membership is gone."""
            await self._lost()

        async def _commit(self, offsets: dict[Any, Any]) -> None:
            # As the client commits before it joins: `commit_async` does not try again, nor wait if the coordinator is unknown.
            await self._consumer._coordinator._commit_offsets_sync_async(offsets)  # noqa: SLF001

else:

    class KafkaPythonListener(_Common, kafka.ConsumerRebalanceListener):  # type: ignore[misc, no-redef]
        """See `rebalance_listener`."""

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            """Called by the client before it joins, with everything."""
            _run(self._revoked(revoked))

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            """Called by the client, with everything."""
            _run(self._assigned(assigned))

        async def _commit(self, offsets: dict[Any, Any]) -> None:
            self._consumer.commit(offsets)

        async def _waited(self, answer: Any) -> None:
            answer.close()
            raise OptionError(_NOBODY_AWAITS)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end what never waits; OptionError when a callback does."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise OptionError(_NOBODY_AWAITS)
