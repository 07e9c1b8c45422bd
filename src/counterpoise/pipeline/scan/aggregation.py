"""Aggregates of commits: one row for all commits of a partition in the same cell (no sample or group record between them)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, run_starts
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.solver.decode import ascending

__all__ = ["AGGREGATE_COLUMNS", "AggregateBuffer", "Aggregates", "aggregate_table", "aggregated", "aggregates_of"]

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
    low = int(cell.min())
    both = rows.key.astype(np.int64) * (int(cell.max()) - low + 1) + (cell - low)
    order = ascending(both)
    starts = run_starts(both[order])
    later = rows.offset[order]
    falls = later[1:] < later[:-1]
    falls[starts[1:] - 1] = False
    if falls.any():
        order = np.lexsort((rows.offset, both))
    newest = order[np.concatenate((starts[1:], [len(order)])) - 1]
    whole = rows.take(newest)
    if len(starts) < len(order):
        whole = replace(whole, **{name: one.reduceat(getattr(rows, name)[order], starts) for name, one in _FUNCTIONS.items()})
    return whole, cell[newest]


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
    """Rows and their cells, grouped by key and cell."""

    def __init__(self) -> None:
        self._parts: list[tuple[Aggregates, Int64]] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows, _ in self._parts)

    @property
    def full(self) -> bool:
        """Whether it has many rows after they are grouped once more; then the caller shall `take` them."""
        if len(self) <= _HELD:
            return False
        self._parts = [self._grouped()]
        return len(self) > _HELD // 2

    def add(self, rows: Aggregates, cell: Int64) -> None:
        """Add rows."""
        self._parts.append(aggregated(rows, cell))

    def take(self) -> Aggregates:
        """Remove and return all rows."""
        rows, _ = self._grouped()
        self._parts = []
        return rows

    def _grouped(self) -> tuple[Aggregates, Int64]:
        if len(self._parts) == 1:
            return self._parts[0]
        rows, cells = zip(*self._parts, strict=True)
        return aggregated(Aggregates.joined(rows), np.concatenate(cells))
