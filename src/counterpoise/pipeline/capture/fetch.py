"""Records of a topic as Arrow batches, read by librdkafka; progress is by position, because markers are gaps in the offsets.

Control records (and aborted ones, with read_committed) are never delivered. A range is complete when a record at or after its end
has arrived, or librdkafka reports the end of the partition.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from counterpoise.clients.admin_requests import AWAY, NOT_NOW
from counterpoise.errors import SourceError
from counterpoise.pipeline.capture.cluster import connect, source_error
from counterpoise.pipeline.capture.columns import ARROW
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.wire.consumer_protocol import Partition

__all__ = ["PATIENCE_S", "TRANSIENT", "open_consumer", "read_range", "split_events", "to_batch"]

BATCH = 10_000
PATIENCE_S = 120.0
"""A bounded read fails after this time without a record; a new leader takes over within seconds."""


def open_consumer(settings: Settings) -> Consumer:
    """A consumer for `assign`: it joins no group and commits nothing. Raises `SourceError` if librdkafka refuses the settings."""
    own = {
        "group.id": f"counterpoise-capture-{uuid.uuid4()}",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "200",
        # With its default of 1 s librdkafka pauses for a second whenever 100,000 records wait: nine tenths of a bulk read.
        "fetch.queue.backoff.ms": "5",
        **settings,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    return connect(Consumer, settings, own)


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as one batch with the schema `ARROW`: one C call per value and no Python code per record."""
    count = len(messages)
    times = np.fromiter(chain.from_iterable(map(Message.timestamp, messages)), np.int64, 2 * count).reshape(-1, 2)
    columns = [
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
        pa.array(list(map(Message.topic, messages)), pa.string()),
        pa.array(np.fromiter(map(Message.partition, messages), np.int32, count)),
        pa.array(np.fromiter(map(Message.offset, messages), np.int64, count)),
        pa.array(times[:, 1] * 1000).cast(ARROW.field("timestamp").type),
        pa.array((times[:, 0] - 1).astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def split_events(consumed: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split messages into records and events (ends of partitions and errors)."""
    if not any(map(Message.error, consumed)):  # an error is always true, whatever its code
        return list(consumed), []
    records, events = [], []
    for each in consumed:
        error = each.error()
        if error is None:
            records.append(each)
        elif error.code() not in _IGNORED:
            events.append(each)
    return records, events


def read_range(
    settings: Settings, partition: Partition, start: int, end: int, *, lenient: bool = False
) -> Iterator[pa.RecordBatch]:
    """All visible records of one partition with ``start <= offset < end``.

    `end` must be at most the last stable offset (read committed) or the end of the log. If `start` is no longer in the log, a
    `lenient` reader begins at the first offset of the log.

    Raises `SourceError` if offsets are no longer in the log, no record arrived for two minutes, or the cluster refuses.
    """
    if start >= end:
        return
    with closing(open_consumer(settings)) as consumer:
        consumer.assign([TopicPartition(*partition, start)])
        given_up = time.monotonic() + PATIENCE_S
        while True:
            records, events = split_events(consumer.consume(BATCH, 0.1))
            if records:
                given_up = time.monotonic() + PATIENCE_S
                if wanted := [each for each in records if each.offset() < end]:
                    yield to_batch(wanted)
                if records[-1].offset() >= end - 1:
                    return
            if _at_end(consumer, events, partition, end, settings, lenient):
                return
            if time.monotonic() > given_up:
                raise SourceError(
                    f"{partition[0]} partition {partition[1]}: no record for {PATIENCE_S:.0f} s; offset {end} not reached. "
                    "Is the partition's leader up?",
                    transient=True,
                )


def _at_end(consumer: Any, events: Sequence[Any], partition: Partition, end: int, settings: Settings, lenient: bool) -> bool:
    for event in events:
        error: Any = event.error()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if event.offset() >= end:
                return True
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            try:
                first, last = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=30)
            except KafkaException as refused:
                raise source_error(refused.args[0], partition[0], settings) from None
            if not lenient:
                raise SourceError(
                    f"{partition[0]} partition {partition[1]}: offsets before {end} are gone (the log has {first} to {last}); "
                    "failOnDataLoss=false reads those that are there"
                )
            if first >= end or last < end:
                return True
            consumer.assign([TopicPartition(*partition, first)])
        elif not error.retriable() and error.code() not in TRANSIENT:
            raise source_error(error, partition[0], settings)
    return False


_IGNORED = (KafkaError.GROUP_AUTHORIZATION_FAILED,)
"""librdkafka looks up the coordinator of its group.id even if it joins no group: no right to that group is needed."""
TRANSIENT = (*AWAY, *NOT_NOW, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001
"""Errors, with or without an answer of a broker, after which readers wait and try again."""
