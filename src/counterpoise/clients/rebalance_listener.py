"""KIP-54's new listener: an application hears of the partitions it really lost and really gained.

    listener = rebalance_listener(consumer, on_lost=close_files, on_gained=open_files)
    consumer.subscribe(["orders"], listener=listener)
    for record in consumer:
        work(record)
        listener.processed(record)

What was processed is committed before a partition can reach anybody else; after a lost membership nothing is. An eager
host's "all revoked, all assigned" is reported as the difference. The callbacks may be coroutines where the host awaits
its listener (aiokafka, kafka-python 3); on kafka-python 3 they run on its network thread and must not block.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from counterpoise.clients.ownership import Membership, Ownership, Partition
from counterpoise.errors import OptionError

__all__ = ["ListenerCore", "rebalance_listener"]

log = logging.getLogger("counterpoise.clients")

Callback = Callable[[list[Any]], Any]
"""Called with sorted TopicPartitions, never with none."""


def rebalance_listener(
    consumer: Any,
    *,
    on_lost: Callback | None = None,
    on_gained: Callback | None = None,
    start: Callable[[Any], int | None] | None = None,
) -> ListenerCore:
    """A listener for this consumer, of the kind its client wants.

    Parameters
    ----------
    consumer : kafka.KafkaConsumer or aiokafka.AIOKafkaConsumer
    on_lost, on_gained : callable, optional
        Called with a sorted list of TopicPartitions. Lost comes before gained. What was lost may be processed by
        others already (after a lost membership) or will be soon.
    start : callable, optional
        For offsets kept outside Kafka: the offset to begin a partition at, or None for the committed one. Called for
        everything assigned, also for what an eager rebalance kept, as the client has forgotten its position.

    Raises
    ------
    OptionError
        The consumer is of no client known here.
    """
    library = type(consumer).__module__.partition(".")[0]
    if library == "kafka":
        from counterpoise.clients.kafka_python_listener import KafkaPythonListener

        return KafkaPythonListener(consumer, on_lost, on_gained, start)
    if library == "aiokafka":
        from counterpoise.clients.aiokafka_listener import AioKafkaListener

        return AioKafkaListener(consumer, on_lost, on_gained, start)
    raise OptionError(f"consumer: a kafka.KafkaConsumer or an aiokafka.AIOKafkaConsumer is wanted, not {type(consumer)!r}")


class ListenerCore:
    """What the listeners of both clients share: the ledger, the callbacks, and when to commit.

    A client's subclass says how to commit, who the member is now, and whether the client cooperates.
    """

    def __init__(
        self,
        consumer: Any,
        on_lost: Callback | None,
        on_gained: Callback | None,
        start: Callable[[Any], int | None] | None,
    ) -> None:
        self._consumer = consumer
        self._on_lost = on_lost
        self._on_gained = on_gained
        self._start = start
        self._ownership = Ownership()

    @property
    def owned(self) -> frozenset[Any]:
        """The partitions that may be processed now."""
        return self._ownership.owned

    def processed(self, record: Any) -> None:
        """A record is done: its offset may be committed. Ignored when its partition is gone."""
        self._ownership.processed((record.topic, record.partition), record.offset)

    def offsets(self) -> dict[Any, Any]:
        """What has been processed, as the client's `commit` takes it: `consumer.commit(listener.offsets())`."""
        return self._host_offsets(self._ownership.to_commit())

    def close(self) -> Any:
        """Report what is still owned as lost; call it (await it on aiokafka) after the consumer has been closed."""
        raise NotImplementedError

    async def _revoked(self, partitions: Iterable[Any]) -> None:
        if self._forgotten():
            return await self._lost()
        offsets = self._host_offsets(self._ownership.to_commit(partitions))
        if offsets and not await self._committed(offsets):
            return await self._lost()
        await self._tell(self._on_lost, self._ownership.revoked(partitions, cooperative=self._cooperates()))
        return None

    async def _lost(self) -> None:
        await self._tell(self._on_lost, self._ownership.lost())

    async def _assigned(self, partitions: Iterable[Any]) -> None:
        now = list(partitions)
        lost, gained = self._ownership.assigned(now, self._membership(), cooperative=self._cooperates())
        await self._tell(self._on_lost, lost)
        if self._start is not None:
            for each in sorted(now):
                offset = self._start(each)
                if offset is not None:
                    self._consumer.seek(each, offset)
        await self._tell(self._on_gained, gained)

    async def _committed(self, offsets: dict[Any, Any]) -> bool:
        """Commit; False when the coordinator says that this member no longer owns them."""
        try:
            await self._commit(offsets)
        except self._errors() as error:
            if type(error).__name__ in (
                "CommitFailedError",
                "IllegalGenerationError",
                "UnknownMemberIdError",
                "FencedInstanceIdError",
            ):
                log.warning("the membership was lost before %d partitions could be committed: %s", len(offsets), error)
                return False
            log.warning("%d partitions could not be committed before they were revoked: %s", len(offsets), error)
        return True

    async def _tell(self, callback: Callback | None, partitions: Iterable[Partition]) -> None:
        listed = self._host_partitions(sorted(partitions))
        if callback is not None and listed:
            answer = callback(listed)
            if inspect.isawaitable(answer):
                await self._waited(answer)

    async def _waited(self, answer: Any) -> None:
        await answer

    def _host_partitions(self, partitions: Iterable[Partition]) -> list[Any]:
        raise NotImplementedError

    def _host_offsets(self, offsets: dict[Partition, int]) -> dict[Any, Any]:
        raise NotImplementedError

    def _errors(self) -> type[Exception]:
        raise NotImplementedError

    async def _commit(self, offsets: dict[Any, Any]) -> None:
        raise NotImplementedError

    def _membership(self) -> Membership | None:
        raise NotImplementedError

    def _forgotten(self) -> bool:
        """Whether the client knows already that its membership is gone."""
        raise NotImplementedError

    def _cooperates(self) -> bool:
        raise NotImplementedError
