"""Ledger: who owned which partition when, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import LockedArrays, locked
from counterpoise.model.problem import Int64

__all__ = ["ABSENT", "Intervals", "Ledger"]

ABSENT = -1
"""Stands as the owner of a partition while it does not exist."""

_GAIN, _LOSS = 1, -1


@dataclass(frozen=True, eq=False)
class Intervals(LockedArrays):
    """Ownership as half-open intervals, sorted by partition, then start."""

    # partition, member, start, end (int64[I]): partition key (see `World.keys`), member number in order of first join or ABSENT,
    # milliseconds
    partition: Int64
    member: Int64
    start: Int64
    end: Int64

    def of_members(self) -> Intervals:
        """The same without the intervals in which a partition did not exist."""
        return self._where(self.member != ABSENT)

    def time_without_owner(self, horizon: int) -> int:
        """Partition-milliseconds without an owner, from a partition's first owner to the horizon, while it existed."""
        seen = self._where(self._owned_before())
        if not len(seen.partition):
            return 0
        first = _first(seen.partition)
        reach = _reach(seen, first)
        last = np.append(first[1:], len(seen.partition)) - 1
        inner = np.maximum(seen.start[1:] - reach[:-1], 0)
        inner[last[:-1]] = 0
        return int(inner.sum() + np.maximum(horizon - reach[last], 0).sum())

    def double_owned(self) -> int:
        """Partition-milliseconds with more than one owner: 0 under a safe protocol."""
        owned = self.of_members()
        if len(owned.partition) < 2:
            return 0
        reach = _reach(owned, _first(owned.partition))
        same = owned.partition[1:] == owned.partition[:-1]
        overlap = np.minimum(reach[:-1], owned.end[1:]) - owned.start[1:]
        return int(np.maximum(overlap, 0)[same].sum())

    def _where(self, chosen: npt.NDArray[np.bool_]) -> Intervals:
        return Intervals(*(locked(column[chosen]) for column in (self.partition, self.member, self.start, self.end)))

    def _owned_before(self) -> npt.NDArray[np.bool_]:
        """All but the intervals before a partition's first owner."""
        if not len(self.partition):
            return np.zeros(0, np.bool_)
        owned = np.cumsum(self.member != ABSENT)
        first = _first(self.partition)
        base = (owned - (self.member != ABSENT))[first]
        return np.asarray(owned > np.repeat(base, np.diff(np.append(first, len(owned)))))


class Ledger:
    """Gains and losses as they happen, in milliseconds; turned into intervals once, at the end."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, Int64]] = []

    def gain(self, now: int, member: int, partitions: Int64) -> None:
        """`member` starts to process the partitions."""
        if len(partitions):
            self._entries.append((now, member, _GAIN, partitions))

    def lose(self, now: int, member: int, partitions: Int64) -> None:
        """`member` stops processing the partitions; what it did not process is no change."""
        if len(partitions):
            self._entries.append((now, member, _LOSS, partitions))

    def intervals(self, horizon: int) -> Intervals:
        """All ownership so far; what is still owned ends at the horizon. Intervals without duration are left out."""
        sizes = [len(entry[3]) for entry in self._entries]
        heads = np.array([entry[:3] for entry in self._entries], np.int64).reshape(-1, 3)
        time, member, kind = np.repeat(heads, sizes, axis=0).T
        partition = np.concatenate([entry[3] for entry in self._entries]) if sizes else np.zeros(0, np.int64)
        order = np.lexsort((np.arange(len(time)), time, member, partition))
        time, member, kind, partition = time[order], member[order], kind[order], partition[order]
        gains = np.flatnonzero(kind == _GAIN)
        follows = np.minimum(gains + 1, len(kind) - 1)
        closed = (gains + 1 < len(kind)) & (partition[follows] == partition[gains]) & (member[follows] == member[gains])
        end = np.where(closed, np.minimum(time[follows], horizon), horizon)
        lasting = end > time[gains]
        gains, end = gains[lasting], end[lasting]
        by_start = np.lexsort((time[gains], partition[gains]))
        columns = (partition[gains][by_start], member[gains][by_start], time[gains][by_start], end[by_start])
        return Intervals(*map(locked, columns))


def _first(partition: Int64) -> Int64:
    """Where each partition's intervals begin."""
    return np.flatnonzero(np.concatenate(([True], partition[1:] != partition[:-1])))


def _reach(intervals: Intervals, first: Int64) -> Int64:
    """Latest end so far within each partition, int64[I]: a running maximum that starts again at each `first`."""
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(intervals.partition))))
    offset = run * (int(intervals.end.max()) + 1)
    return np.asarray(np.maximum.accumulate(intervals.end + offset) - offset)
