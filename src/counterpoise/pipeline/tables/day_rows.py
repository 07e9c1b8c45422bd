"""A buffered writer of one table by day: adds rows or batches, writes row groups of some megabytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.tables.by_day import NO_TIME, ByDay

__all__ = ["DayRows"]

_HELD = 1 << 20
_ROWS, _BYTES = 256, 1 << 20


class DayRows:
    """A buffered writer of one table; rows are grouped by the day of `time`.

    `time`: the name of the time column, or one time for all rows (microseconds). Other parameters: see `ByDay`.
    """

    def __init__(
        self, name: Callable[[str], str], schema: pa.Schema, time: str | int = "log_ts", *, salt: str | None = None
    ) -> None:
        self._days = ByDay(name, schema, salt=salt)
        self._schema, self._time = schema, time
        self._rows: list[Mapping[str, Any]] = []
        self._weight = 0
        self._parts: list[pa.RecordBatch] = []
        self._held = 0

    def __enter__(self) -> DayRows:
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.take_batch()
            self._flush()
        self._days.__exit__()

    @property
    def manifest(self) -> dict[str, Any]:
        """The files by day, and the number of rows; complete when the writer is closed."""
        return self._days.manifest

    def add(self, row: Mapping[str, Any], size: int) -> pa.RecordBatch | None:
        """Add a row of about `size` bytes; keys that are no columns are ignored. Returns the batch that it completes, if any."""
        self._rows.append(row)
        self._weight += size
        return self.take_batch() if len(self._rows) >= _ROWS or self._weight > _BYTES else None

    def take_batch(self) -> pa.RecordBatch | None:
        """Complete and return the batch of buffered rows; None if there are none."""
        if not self._rows:
            return None
        batch = pa.RecordBatch.from_pylist(self._rows, schema=self._schema)
        self._rows, self._weight = [], 0
        self.write(batch)
        return batch

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows."""
        self._parts.append(batch)
        self._held += batch.nbytes
        if self._held > _HELD:
            self._flush()

    def _flush(self) -> None:
        if self._parts:
            whole = pa.Table.from_batches(self._parts, self._schema).combine_chunks()
            self._parts, self._held = [], 0
            for batch in whole.to_batches():
                self._days.write(batch, self._times(batch))

    def _times(self, batch: pa.RecordBatch) -> Int64:
        if isinstance(self._time, int):
            return np.full(batch.num_rows, self._time)
        found: Int64 = batch.column(self._time).cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        return found
