"""KIP-54's new listener: it reports the partitions that an application really lost and really gained.

    listener = rebalance_listener(consumer, on_lost=close_files, on_gained=open_files)
    consumer.subscribe(["orders"], listener=listener)
    for record in consumer:
        work(record)
        listener.processed(record)
        listener.commit()  # now and then; await it on aiokafka

What was processed is committed before another member can get the partition; after a lost membership nothing is. An eager
host's "all revoked, all assigned" is reported as the difference. The callbacks may be coroutines if the host awaits its
listener (aiokafka, kafka-python 3); on kafka-python 3 they run on its network thread and must not block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from counterpoise.clients.listener_core import Callback, ListenerCore
from counterpoise.errors import OptionError

__all__ = ["rebalance_listener"]


def rebalance_listener(
    consumer: Any,
    *,
    on_lost: Callback | None = None,
    on_gained: Callback | None = None,
    start: Callable[[Any], int | None] | None = None,
) -> ListenerCore:
    """A listener for this consumer, as its client library calls it.

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
        The consumer is of another client library.
    """
    libraries = {each.__module__.partition(".")[0] for each in type(consumer).__mro__}
    if "kafka" in libraries:
        from counterpoise.clients.kafka_python_listener import KafkaPythonListener

        return KafkaPythonListener(consumer, on_lost, on_gained, start)
    if "aiokafka" in libraries:
        from counterpoise.clients.aiokafka_listener import AioKafkaListener

        return AioKafkaListener(consumer, on_lost, on_gained, start)
    raise OptionError(f"consumer: expected a kafka.KafkaConsumer or an aiokafka.AIOKafkaConsumer, not {type(consumer)!r}")
