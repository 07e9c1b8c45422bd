"""Records out of order, or twice, found from spans of offsets; and the times at which chunks may begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.arrays import first_of_runs, last_of_runs

__all__ = ["Flush", "OffsetSpans", "chunk_starts", "overlapping"]


@dataclass
class OffsetSpans:
    """Spans of the offsets that a task has read since its last flush, which yields all blocks in its memory."""

    seen: dict[int, tuple[int, int]] = field(default_factory=dict)  # Log partition -> first and last offset
    mixed: set[int] = field(default_factory=set)  # Log partitions whose offsets do not rise from record to record

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next records, in O(n). Records without a place in the log are ignored."""
        placed = pa.table(batch.select(["partition", "offset"])).drop_null()
        partition, offset = (column.to_numpy() for column in placed.columns)
        if not len(partition):
            return
        few = partition.min() >= 0 and partition.max() <= np.iinfo(np.int16).max
        # Numbers of two bytes are sorted without a comparison.
        order = np.argsort(partition.astype(np.int16) if few else partition, kind="stable")
        partition, offset = partition[order], offset[order]
        new = first_of_runs(partition)
        falls = ~new[1:] & (offset[1:] <= offset[:-1])
        starts, ends = np.flatnonzero(new), np.flatnonzero(last_of_runs(partition))
        self.mixed.update(partition[1:][falls].tolist())
        for one, first, last in zip(partition[starts].tolist(), offset[starts].tolist(), offset[ends].tolist(), strict=True):
            before = self.seen.get(one, (first, first - 1))
            if first <= before[1]:
                self.mixed.add(one)
            self.seen[one] = before[0], last

    @property
    def listed(self) -> list[list[int]]:
        """Log partition, first and last offset; an empty span if they do not rise."""
        return [[one, *((0, -1) if one in self.mixed else span)] for one, span in sorted(self.seen.items())]


Flush = tuple[int, Sequence[Sequence[int]]]
"""The earliest time of the records of a flush, and its spans: log partition, first and last offset."""


def overlapping(flushes: Iterable[Flush]) -> list[int]:
    """Log partitions that may have duplicate records, or whose records are not in the order of their offsets."""
    spans_of: dict[int, list[tuple[int, int]]] = {}
    for _, spans in flushes:
        for partition, first, last in spans:
            spans_of.setdefault(partition, []).append((first, last))
    partitions = []
    for partition, listed in sorted(spans_of.items()):
        listed.sort()
        if any(last < first for first, last in listed) or any(one[1] >= other[0] for one, other in pairwise(listed)):
            partitions.append(partition)
    return partitions


def chunk_starts(flushes: Iterable[Flush]) -> list[int]:
    """The times of flushes at which a chunk may begin, ascending: in every log partition, earlier flushes have lower offsets."""
    ordered = sorted(flushes, key=lambda flush: flush[0])
    first_after: list[dict[int, int]] = [{}]
    for _, spans in reversed(ordered):
        after = dict(first_after[-1])
        for partition, first, _ in spans:
            after[partition] = min(first, after.get(partition, first))
        first_after.append(after)
    starts, last = [], dict[int, int]()
    for at, (time, spans) in enumerate(ordered):
        after = first_after[len(ordered) - at]
        if at and time > ordered[at - 1][0] and all(end < after.get(partition, end + 1) for partition, end in last.items()):
            starts.append(time)
        for partition, _, end in spans:
            last[partition] = max(end, last.get(partition, end))
    return starts
