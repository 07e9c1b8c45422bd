"""Commits summed up: one row for all commits of a partition between which nobody looks, and sums of such rows alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.decode import ascending

__all__ = ["NEVER", "SLOT_US", "Alike", "Marks", "Sums", "joined", "mark_counts", "slots_of", "summed"]

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


def joined(parts: Iterable[Sums]) -> Sums:
    """All rows of all parts."""
    several = list(parts)
    return Sums(*(np.concatenate([getattr(part, field.name) for part in several]) for field in fields(Sums)))


@dataclass(frozen=True)
class Alike:
    """Rows of sums in an order in which those that agree in key and cell come one after the other.

    Attributes
    ----------
    order : int64
    starts : int64
        Where in it each run of such rows begins.
    newest : int64
        The row of each run that has the highest log offset.
    """

    order: Int64
    starts: Int64
    newest: Int64

    @classmethod
    def of(cls, key: Int32, cell: Int64, offset: Int64) -> Alike:
        """One sort of a number per row; offsets that do not rise as they come cost another one."""
        low = int(cell.min())
        both = key.astype(np.int64) * (int(cell.max()) - low + 1) + (cell - low)
        order = ascending(both)
        sorted_both = both[order]
        starts = np.flatnonzero(np.concatenate(([True], sorted_both[1:] != sorted_both[:-1])))
        later = offset[order]
        falls = later[1:] < later[:-1]
        falls[starts[1:] - 1] = False
        if falls.any():
            order = np.lexsort((offset, both))
        return cls(order, starts, order[np.concatenate((starts[1:], [len(order)])) - 1])

    def summed(self, name: str, column: npt.NDArray[Any]) -> Any:
        """A column of `Sums` with a row for each run."""
        over = _OVER.get(name)
        if over is None or len(self.starts) == len(self.order):
            return column[self.newest]
        return over.reduceat(column[self.order], self.starts)


_OVER = {
    "max_ts": np.maximum,
    "live": np.add,
    "dead": np.add,
    "live_ts": np.minimum,
    "live_offset": np.minimum,
    "live_until": np.maximum,
}
"""How several rows become one; the other columns are those of the newest."""


def summed(rows: Sums, cell: Int64) -> tuple[Sums, Int64]:
    """Rows that agree in `key` and `cell` as one, in the order of both; and the cell of each."""
    if not len(rows):
        return rows, cell
    alike = Alike.of(rows.key, cell, rows.offset)
    return Sums(*(alike.summed(field.name, getattr(rows, field.name)) for field in fields(Sums))), cell[alike.newest]


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
