"""Ledger: who owned which partition when, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64

__all__ = ["Intervals", "Ledger"]

_GAIN, _LOSS = 1, -1


@dataclass(frozen=True, eq=False)
class Intervals:
    """Ownership as half-open intervals, sorted by partition, then start.

    Attributes
    ----------
    partition, member, start, end : int64[I]
        Partition key (see `World.keys`), member number in order of first join, milliseconds.
    """

    partition: Int64
    member: Int64
    start: Int64
    end: Int64

    def time_without_owner(self, vanished: dict[int, int], horizon: int) -> int:
        """Partition-milliseconds without an owner, from a partition's first owner to the horizon (or its deletion)."""
        if not len(self.partition):
            return 0
        first = np.flatnonzero(np.concatenate(([True], self.partition[1:] != self.partition[:-1])))
        reach = self._reach(first)
        last = np.append(first[1:], len(self.partition)) - 1
        ends = np.array([vanished.get(key, horizon) for key in self.partition[last].tolist()], np.int64)
        inner = np.maximum(self.start[1:] - reach[:-1], 0)
        inner[last[:-1]] = 0
        return int(inner.sum() + np.maximum(ends - reach[last], 0).sum())

    def double_owned(self) -> int:
        """Partition-milliseconds with more than one owner: 0 under a safe protocol."""
        if len(self.partition) < 2:
            return 0
        first = np.flatnonzero(np.concatenate(([True], self.partition[1:] != self.partition[:-1])))
        reach = self._reach(first)
        same = self.partition[1:] == self.partition[:-1]
        overlap = np.minimum(reach[:-1], self.end[1:]) - self.start[1:]
        return int(np.maximum(overlap, 0)[same].sum())

    def _reach(self, first: Int64) -> Int64:
        """Latest end so far within each partition, int64[I]: a running maximum that starts anew at each `first`."""
        run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(self.partition))))
        offset = run * (int(self.end.max()) + 1)
        return np.asarray(np.maximum.accumulate(self.end + offset) - offset)


class Ledger:
    """Gains and losses as they happen, in milliseconds; turned into intervals once, at the end."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, Int64]] = []

    def gain(self, now: int, member: int, partitions: Int64) -> None:
        """`member` starts to process the partitions."""
        if len(partitions):
            self._entries.append((now, member, _GAIN, partitions))

    def lose(self, now: int, member: int, partitions: Int64) -> None:
        """`member` stops processing the partitions."""
        if len(partitions):
            self._entries.append((now, member, _LOSS, partitions))

    def intervals(self, horizon: int) -> Intervals:
        """All ownership so far; what is still owned ends at the horizon."""
        sizes = [len(entry[3]) for entry in self._entries]
        time = np.repeat(np.array([entry[0] for entry in self._entries], np.int64), sizes)
        member = np.repeat(np.array([entry[1] for entry in self._entries], np.int64), sizes)
        kind = np.repeat(np.array([entry[2] for entry in self._entries], np.int64), sizes)
        partition = np.concatenate([entry[3] for entry in self._entries]) if sizes else np.zeros(0, np.int64)
        order = np.lexsort((np.arange(len(time)), time, member, partition))
        time, member, kind, partition = time[order], member[order], kind[order], partition[order]
        gains = np.flatnonzero(kind == _GAIN)
        follows = np.minimum(gains + 1, len(kind) - 1)
        closed = (gains + 1 < len(kind)) & (kind[follows] == _LOSS)
        closed &= (partition[follows] == partition[gains]) & (member[follows] == member[gains])
        end = np.where(closed, time[follows], horizon)
        by_start = np.lexsort((time[gains], partition[gains]))
        return Intervals(partition[gains][by_start], member[gains][by_start], time[gains][by_start], end[by_start])
