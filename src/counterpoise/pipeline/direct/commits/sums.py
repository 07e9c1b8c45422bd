"""Commits summed up: one row for all commits of a partition between which nobody looks, and sums of such rows alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.decode import ascending

__all__ = ["NEVER", "SLOT_US", "Marks", "Sums", "columns_of", "joined", "mark_counts", "slots_of", "summed"]

SLOT_US = 300_000_000
"""Commits are summed up over five minutes at most, as in `lag` and `stops`."""
NEVER = np.iinfo(np.int64).max
"""The first time of no commit; the last one is its negative."""
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sums:
    """Columns of equal length, a row per partition of a group and cell; a commit by itself is such a row too.

    Attributes
    ----------
    key : int32
        Which partition of which group.
    ts, offset, committed, deleted, topic_id
        Of the newest commit, the one with the highest log offset: `committed` -1 where it deletes, `topic_id` a code, -1 = none.
    max_ts : int64
        The latest time, in microseconds as all times here.
    live, dead : int64
        How many commits, how many deletions.
    live_ts, live_offset, live_until : int64
        The first time, the lowest log offset and the last time of commits that do not delete.
    """

    key: Int32
    ts: Int64
    offset: Int64
    committed: Int64
    deleted: Bool
    topic_id: Int32
    max_ts: Int64
    live: Int64
    dead: Int64
    live_ts: Int64
    live_offset: Int64
    live_until: Int64

    def take(self, rows: Any) -> Sums:
        """Some of the rows."""
        return Sums(*(getattr(self, field.name)[rows] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.key)


def columns_of(rows: Sums) -> list[npt.NDArray[Any]]:
    """The columns in order."""
    return [getattr(rows, field.name) for field in fields(rows)]


def joined(parts: Iterable[Sums]) -> Sums:
    """All rows of all parts."""
    several = list(parts)
    return Sums(*(np.concatenate([getattr(part, field.name) for part in several]) for field in fields(Sums)))


def summed(rows: Sums, cell: Int64) -> tuple[Sums, Int64]:
    """Rows that agree in `key` and `cell` as one, in the order of both; and the cell of each.

    Notes
    -----
    One sort of a number per row; offsets that do not rise as they come cost another one.
    """
    if not len(rows):
        return rows, cell
    low = int(cell.min())
    span = int(cell.max()) - low + 1
    both = rows.key.astype(np.int64) * span + (cell - low)
    order = ascending(both)
    sorted_both = both[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_both[1:] != sorted_both[:-1])))
    offset = rows.offset[order]
    falls = offset[1:] < offset[:-1]
    falls[starts[1:] - 1] = False
    if falls.any():
        order = np.lexsort((rows.offset, both))
    newest = order[np.concatenate((starts[1:], [len(order)])) - 1]
    single = len(starts) == len(order)
    return (rows.take(newest) if single else _reduced(rows, order, starts, newest)), cell[newest]


def _reduced(rows: Sums, order: Int64, starts: Int64, newest: Int64) -> Sums:
    def over(how: np.ufunc, column: npt.NDArray[Any]) -> Any:
        return how.reduceat(column[order], starts)

    return Sums(
        rows.key[newest],
        rows.ts[newest],
        rows.offset[newest],
        rows.committed[newest],
        rows.deleted[newest],
        rows.topic_id[newest],
        over(np.maximum, rows.max_ts),
        over(np.add, rows.live),
        over(np.add, rows.dead),
        over(np.minimum, rows.live_ts),
        over(np.minimum, rows.live_offset),
        over(np.maximum, rows.live_until),
    )


@dataclass(frozen=True)
class Marks:
    """Instants of groups, each a time and a log offset, sorted by group, time and offset.

    Attributes
    ----------
    times : int64
        All different times, ascending.
    place : int64
        Of every mark: group code and place of its time among `times`, as one number.
    offset : int64
    """

    times: Int64
    place: Int64
    offset: Int64

    @classmethod
    def of(cls, group: Int64, time: Int64, offset: Int64) -> Marks:
        """Marks in any order."""
        times = np.sort(time)
        times = times[np.concatenate(([True], times[1:] != times[:-1]))] if len(times) else times
        place = group * (len(times) + 1) + np.searchsorted(times, time)
        order = np.lexsort((offset, place))
        return cls(times, place[order], offset[order])


def mark_counts(marks: Marks, group: Int64, time: Int64, offset: Int64) -> Int64:
    """For each row a number that rises by one with every mark of its group before it (by time, then by log offset)."""
    if not len(marks.place):
        return np.zeros(len(time), np.int64)
    at = np.searchsorted(marks.times, time)
    wanted = group * (len(marks.times) + 1) + at
    found: Int64 = np.searchsorted(marks.place, wanted)
    inside = np.minimum(found, len(marks.place) - 1)
    # A mark of the group at that very instant: the log offset decides.
    tied = (marks.place[inside] == wanted) & (marks.times[np.minimum(at, len(marks.times) - 1)] == time) & (found == inside)
    for row in np.flatnonzero(tied).tolist():
        end = int(np.searchsorted(marks.place, wanted[row], "right"))
        found[row] += np.searchsorted(marks.offset[found[row] : end], offset[row])
    return found


def slots_of(time: Int64, samples: Int64, width: float | None) -> Int64:
    """For each time a number that rises with every sample before it, every slot of `width` and every one of `SLOT_US`."""
    number: Int64 = time // SLOT_US
    if width is not None:
        number = number + np.searchsorted(samples, time) + np.floor(time / width).astype(np.int64)
    return number
