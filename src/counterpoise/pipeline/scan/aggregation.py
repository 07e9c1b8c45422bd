"""Aggregates of commits: one row for all commits of a partition in the same cell (no sample or group record between them)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.arrays import Bool, Columns, run_starts
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.solver.decode import ascending

__all__ = ["AGGREGATE_COLUMNS", "NEVER", "AggregateBuffer", "Aggregates", "aggregate_table", "aggregated", "aggregates_of"]

NEVER = np.iinfo(np.int64).max
"""The first time of no commit; the last one is its negative."""
_HELD = 50_000
"""A task aggregates its rows when it holds more than this; if more than half are left, it sends them to the shuffle."""


@dataclass(frozen=True)
class Aggregates(Columns):
    """Aggregates of commits: one row per key and cell."""

    key: Int32  # Code of the group, topic and partition
    # Columns of the newest commit, the one with the highest log offset. `committed` is -1 for a tombstone; `topic_id` is a
    # code, -1 = none. All times here are in microseconds.
    ts: Int64
    offset: Int64
    committed: Int64
    deleted: Bool
    topic_id: Int32
    max_ts: Int64  # The latest time
    # Number of commits and of tombstones
    live: Int64
    dead: Int64
    # The first time, the lowest log offset and the last time of commits that are no tombstones
    live_ts: Int64
    live_offset: Int64
    live_until: Int64

    @classmethod
    def of_commits(cls, key: Int32, time: Int64, offset: Int64, committed: Int64, deleted: Bool, topic_id: Int32) -> Aggregates:
        """One row per commit; `committed` is -1 for a tombstone."""
        live = (~deleted).astype(np.int64)
        has_tombstones = bool(deleted.any())
        return cls(
            key=key,
            ts=time,
            offset=offset,
            committed=committed,
            deleted=deleted,
            topic_id=topic_id,
            max_ts=time,
            live=live,
            dead=1 - live,
            live_ts=np.where(deleted, NEVER, time) if has_tombstones else time,
            live_offset=np.where(deleted, NEVER, offset) if has_tombstones else offset,
            live_until=np.where(deleted, -NEVER, time) if has_tombstones else time,
        )


_FIELDS = tuple(field.name for field in fields(Aggregates))
_NUMBERS = ("ts", "offset", "committed", "max_ts", "live", "dead", "live_ts", "live_offset", "live_until")
AGGREGATE_COLUMNS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("deleted", pa.bool_()),
        *((name, pa.int64()) for name in _NUMBERS),
    ]
)


@dataclass(frozen=True)
class _SortedRuns:
    """Rows of aggregates sorted by key and cell; a run has the rows of one key and cell."""

    order: Int64  # The sorted rows
    starts: Int64  # The place in `order` at which each run begins
    newest: Int64  # The row of each run with the highest log offset

    @classmethod
    def of(cls, key: Int32, cell: Int64, offset: Int64) -> _SortedRuns:
        """Sort by one number per row; sort again if offsets fall within a run."""
        low = int(cell.min())
        both = key.astype(np.int64) * (int(cell.max()) - low + 1) + (cell - low)
        order = ascending(both)
        starts = run_starts(both[order])
        later = offset[order]
        falls = later[1:] < later[:-1]
        falls[starts[1:] - 1] = False
        if falls.any():
            order = np.lexsort((offset, both))
        return cls(order, starts, order[np.concatenate((starts[1:], [len(order)])) - 1])

    def aggregated(self, name: str, column: npt.NDArray[Any]) -> Any:
        """A column of `Aggregates` with one row per run."""
        function = _FUNCTIONS.get(name)
        if function is None or len(self.starts) == len(self.order):
            return column[self.newest]
        return function.reduceat(column[self.order], self.starts)


_FUNCTIONS = {
    "max_ts": np.maximum,
    "live": np.add,
    "dead": np.add,
    "live_ts": np.minimum,
    "live_offset": np.minimum,
    "live_until": np.maximum,
}
"""Aggregate function by column; the other columns are those of the newest row."""


def aggregated(rows: Aggregates, cell: Int64) -> tuple[Aggregates, Int64]:
    """Group rows by `key` and `cell`: one row for each, sorted by both; and the cell of each."""
    if not len(rows):
        return rows, cell
    runs = _SortedRuns.of(rows.key, cell, rows.offset)
    return Aggregates(*(runs.aggregated(name, getattr(rows, name)) for name in _FIELDS)), cell[runs.newest]


def aggregate_table(rows: Aggregates, keys: KeyDictionary, groups: pa.Array, topics: pa.Array, ids: pa.Array) -> pa.Table:
    """Rows as `AGGREGATE_COLUMNS`, with names instead of codes; the last of `ids` is null."""
    columns = [
        groups.take(pa.array(keys.group[rows.key])),
        topics.take(pa.array(keys.topic[rows.key])),
        pa.array(keys.columns.partition[rows.key]),
        ids.take(pa.array(np.where(rows.topic_id < 0, len(ids) - 1, rows.topic_id))),
        pa.array(rows.deleted),
        *(pa.array(getattr(rows, name)) for name in _NUMBERS),
    ]
    return pa.Table.from_arrays(columns, schema=AGGREGATE_COLUMNS)


def aggregates_of(table: pa.Table, key: Int32, topic_id: Int32) -> Aggregates:
    """The inverse of `aggregate_table`, with codes of the caller for keys and topic ids."""
    numbers = {name: table[name].to_numpy() for name in _NUMBERS}
    return Aggregates(key=key, topic_id=topic_id, deleted=table["deleted"].to_numpy(zero_copy_only=False), **numbers)


class AggregateBuffer:
    """Rows and their cells in arrays that are allocated once, so that they do not fragment the heap."""

    def __init__(self) -> None:
        kinds: dict[str, type] = {"key": np.int32, "topic_id": np.int32, "deleted": np.bool_}
        self._columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(2 * _HELD, kinds.get(name, np.int64)) for name in (*_FIELDS, "cell")
        }
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def full(self) -> bool:
        """Whether more than half of the buffer is in use after aggregation; then the caller shall `take` the rows."""
        if self._rows <= _HELD:
            return False
        self._aggregate()
        return self._rows > _HELD // 2

    def add(self, rows: Aggregates, cell: Int64) -> None:
        """Add rows, grouped by key and cell."""
        if not len(rows):
            return
        rows, cell = aggregated(rows, cell)
        first, self._rows = self._rows, self._rows + len(rows)
        if self._rows > len(self._columns["cell"]):
            self._columns = {name: np.resize(one, self._rows + _HELD) for name, one in self._columns.items()}
        for name in _FIELDS:
            self._columns[name][first : self._rows] = getattr(rows, name)
        self._columns["cell"][first : self._rows] = cell

    def take(self) -> Aggregates:
        """Remove and return all rows, grouped by key and cell; the arrays are valid until rows are added."""
        self._aggregate()
        rows, self._rows = self._rows, 0
        return Aggregates(*(self._columns[name][:rows] for name in _FIELDS))

    def _aggregate(self) -> None:
        runs = _SortedRuns.of(*(self._columns[name][: self._rows] for name in ("key", "cell", "offset")))
        for name, column in self._columns.items():
            column[: len(runs.newest)] = runs.aggregated(name, column[: self._rows])
        self._rows = len(runs.newest)
