"""The files of a capture: their names, and the Arrow schemas of the two tables; and the name of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

__all__ = [
    "ABORTED_FILE", "ABOUT_FILE", "ARROW", "ENDS_FILE", "OFFSETS_TOPIC", "RECORDS_FILE", "SAMPLES", "TOPICS_FILE",
    "Row", "in_batches",
]  # fmt: skip

OFFSETS_TOPIC = "__consumer_offsets"
RECORDS_FILE, ENDS_FILE = "consumer_offsets.parquet", "log_offsets.parquet"
TOPICS_FILE, ABORTED_FILE, ABOUT_FILE = "topics.json", "aborted_offsets.json", "capture.json"
_UTC = pa.timestamp("us", "UTC")
ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _UTC),
        ("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's Kafka source."""
SAMPLES = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("log_start", pa.int64()), ("log_end", pa.int64()), ("sampled_at", _UTC)]
)
"""The columns of `ENDS_FILE`."""
_ROWS = 65_536
_LATEST_MS = (2**63 - 1) // 1000
Row = tuple[int, int, int, int, bytes | None, bytes | None]
"""Partition, offset, timestamp (ms), timestamp type, key, value."""


def in_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Records of the offsets topic in batches; a timestamp that does not fit microseconds in 64 bits is clipped."""
    following = iter(rows)
    while listed := list(islice(following, _ROWS)):
        partition, offset, time, kind, key, value = zip(*listed, strict=True)
        times = np.clip(np.array(time, np.int64), -_LATEST_MS, _LATEST_MS) * 1000
        columns = (key, value, [OFFSETS_TOPIC] * len(listed), partition, offset, times, kind)
        yield pa.RecordBatch.from_arrays([pa.array(one, to.type) for one, to in zip(columns, ARROW, strict=True)], schema=ARROW)
