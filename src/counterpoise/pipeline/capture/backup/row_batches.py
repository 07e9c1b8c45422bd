"""Records read from a backup, row by row, as Arrow batches of the columns that every capture has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.capture.columns import ARROW, OFFSETS_TOPIC

__all__ = ["Row", "in_batches"]

_ROWS = 65_536
_LATEST_MS = (2**63 - 1) // 1000
Row = tuple[int, int, int, int, bytes | None, bytes | None]
"""Partition, offset, time stamp (ms), kind of time, key, value."""


def in_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The rows in batches; a time stamp beyond what microseconds in 64 bits hold becomes the nearest that they do."""
    following = iter(rows)
    while some := list(islice(following, _ROWS)):
        partition, offset, time, kind, key, value = zip(*some, strict=True)
        columns: list[Any] = [
            pa.array(key, pa.binary()),
            pa.array(value, pa.binary()),
            pa.repeat(OFFSETS_TOPIC, len(some)),
            pa.array(partition, pa.int32()),
            pa.array(offset, pa.int64()),
            pa.array(np.clip(np.array(time, np.int64), -_LATEST_MS, _LATEST_MS) * 1000).cast(ARROW.field("timestamp").type),
            pa.array(kind, pa.int32()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ARROW)
