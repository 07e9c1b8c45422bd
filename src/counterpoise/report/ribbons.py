"""Who owned which partition over time: ownership records in, intervals and their places on the page out. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.pipeline.arrays import first_of_runs, run_starts
from counterpoise.report.words import long

__all__ = ["Axis", "Holdings", "Interval", "Ints", "Runs", "pick", "runs", "ticks"]

Ints = NDArray[np.int64]

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_TICK_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30)),
)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who held what after which step; three arrays of equal length, one entry per (step, partition, member)."""

    # step, partition, member (int64[N]): codes, each from 0. Order and repetitions do not matter.
    step: Ints
    partition: Ints
    member: Ints


@dataclass(frozen=True, slots=True)
class Interval:
    """A partition stays with the same members from `start` until `stop` (microseconds), steps `first` to `last`."""

    partition: int
    members: tuple[int, ...]
    start: int
    stop: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Runs:
    """All intervals as arrays, by partition and time; only those that are drawn become `Interval`s."""

    # partition, owners, start, stop, first, last (int64[R]): as in `Interval`; `owners` is a member code, or a code above all
    # members that `sets` resolves
    partition: Ints
    owners: Ints
    start: Ints
    stop: Ints
    first: Ints
    last: Ints
    sets: dict[int, tuple[int, ...]]  # Code -> the members of a partition that had several

    def counts(self, partitions: int) -> Ints:
        """Intervals per partition, int64[partitions]."""
        return np.bincount(self.partition, minlength=partitions).astype(np.int64)

    def of(self, partitions: Sequence[int]) -> list[Interval]:
        """The intervals of these partitions, by partition and time."""
        chosen = np.isin(self.partition, np.asarray(partitions, dtype=np.int64))
        columns = (self.partition, self.owners, self.start, self.stop, self.first, self.last)
        rows = zip(*(column[chosen].tolist() for column in columns), strict=True)
        return [Interval(p, self.sets.get(c, (c,)), t0, t1, a, b) for p, c, t0, t1, a, b in rows]


def runs(
    held: Holdings,  # Ownership after each step
    times: Ints,  # int64[steps]: when each step took effect, ascending
    end: int,  # When the last step stops being known
) -> Runs:
    """Longest intervals of unchanged ownership, by partition and time; if a partition has none, it had no owner.

    Intervals without duration (a step at the same instant as the next) are left out. Time and memory O(N log N).
    """
    if held.step.size == 0:
        none = np.zeros(0, np.int64)
        return Runs(none, none, none, none, none, none, {})
    order = np.lexsort((held.member, held.step, held.partition))
    partition, step, member = held.partition[order], held.step[order], held.member[order]
    cell = run_starts(partition, step)
    owners, sets = _owner_codes(member, cell, np.append(cell[1:], partition.size))
    partition, step = partition[cell], step[cell]
    follows = np.append(False, step[1:] == step[:-1] + 1)
    begin = np.flatnonzero(first_of_runs(partition, owners) | ~follows)
    final = np.append(begin[1:], step.size) - 1
    until = np.append(times, max(end, int(times[-1])))
    start, stop = times[step[begin]], until[step[final] + 1]
    lasting = stop > start
    begin, final = begin[lasting], final[lasting]
    return Runs(partition[begin], owners[begin], start[lasting], stop[lasting], step[begin], step[final], sets)


def _owner_codes(member: Ints, start: Ints, stop: Ints) -> tuple[Ints, dict[int, tuple[int, ...]]]:
    """One code per cell: the member itself, or a code above all members for a set of several (share groups, contested)."""
    code = member[start].copy()
    sets: dict[tuple[int, ...], int] = {}
    beyond = int(member.max()) + 1
    for cell in np.flatnonzero(stop - start > 1).tolist():
        owners = tuple(sorted(set(member[start[cell] : stop[cell]].tolist())))
        code[cell] = owners[0] if len(owners) == 1 else sets.setdefault(owners, beyond + len(sets))
    return code, {value: owners for owners, value in sets.items()}


def pick(counts: Ints, rows: int, segments: int) -> list[int]:
    """The partitions with the most intervals, as many as fit `rows` and `segments`, ascending; at least one if there is one."""
    order = np.argsort(-counts, kind="stable")
    fits = (np.cumsum(counts[order]) <= segments) & (np.arange(counts.size) < rows)
    fits[:1] = True
    drawn: list[int] = np.sort(order[fits]).tolist()
    return drawn


@dataclass(frozen=True, slots=True)
class Axis:
    """Time to x, linear; `left` and `right` in the picture's units."""

    start: int
    stop: int
    left: float
    right: float

    def x(self, at: int) -> float:
        """The place of an instant, kept inside the picture, to a tenth of a unit."""
        length = max(self.stop - self.start, 1)
        share = min(max((at - self.start) / length, 0.0), 1.0)
        return round(self.left + share * (self.right - self.left), 1)

    @property
    def days(self) -> bool:
        """Whether a time on it needs its date."""
        return long((self.start, self.stop))


def ticks(axis: Axis, most: int = 9) -> list[tuple[float, int]]:
    """Round instants (UTC) along the axis as (x, microseconds): the finest step of a fixed list that needs at most `most`."""
    length = max(axis.stop - axis.start, 1) / 1e6
    step = next((s for s in _TICK_SECONDS if length / s <= most), int(-(-length // (most * 2592000)) * 2592000))
    first = -(-axis.start // (step * 1_000_000)) * step * 1_000_000
    return [(axis.x(at), at) for at in range(first, axis.stop + 1, step * 1_000_000)]
