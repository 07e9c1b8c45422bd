"""The place of a record in the log: partition, offset and time. Records without a place are counted, but not audited."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["LATEST_MS", "PLACE", "POLLED", "micros", "moment_of", "no_place_reason", "place_of", "without_place"]

PLACE = ("partition", "offset", "timestamp")
"""Columns of Spark's Kafka source. They are never null there, but may be in files from other writers."""

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are damage, and a datetime cannot hold them."""
POLLED = -1
"""Partition of records that `counterpoise capture` made from polls: changes between two polls are unknown."""


def without_place(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Rows of a raw batch in which a column of `PLACE` is null, ascending; O(1) if no column has nulls."""
    columns = [batch.column(name) for name in PLACE]
    holes = [column.is_null().to_numpy(zero_copy_only=False) for column in columns if column.null_count]
    return np.flatnonzero(np.logical_or.reduce(holes)) if holes else np.zeros(0, np.int64)


def no_place_reason(raw: Mapping[str, Any]) -> str:
    """The reason why a raw record has no place in the log, as a sentence; empty if it has one."""
    missing = [name for name in PLACE if raw[name] is None]
    stamp = " (or a time outside the years 1 to 9999)" if "timestamp" in missing else ""
    return f"null {', '.join(missing)}{stamp}: the record has no place in the log" if missing else ""


def place_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The place of a raw record in columns of the tables."""
    return {"log_partition": raw["partition"], "log_offset": raw["offset"], "log_ts": raw["timestamp"]}


_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    """A time in microseconds since 1970, as Arrow keeps it."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(us: int) -> datetime:
    """The inverse of `micros`."""
    return _EPOCH + us * _MICROSECOND
