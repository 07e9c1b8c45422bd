"""Where records stand in the log: whether one is there twice is told by spans of offsets, and looked at only if need be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import CaptureError
from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.reading import raw_batches
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.pipeline.records.place import POLLED

__all__ = ["Spans", "refuse_twice"]


@dataclass
class Spans:
    """What a task sees of the offsets of one piece.

    Attributes
    ----------
    seen : dict
        Log partition -> first and last offset; while these rise from record to record.
    mixed : set of int
        Log partitions of which they do not.
    """

    seen: dict[int, tuple[int, int]] = field(default_factory=dict)
    mixed: set[int] = field(default_factory=set)

    def add(self, batch: pa.RecordBatch) -> None:
        """The next records; those without a place, or that were made from polls, count for nothing. O(n)."""
        partition, offset = _placed(batch)
        if not len(partition):
            return
        few = partition.min() >= 0 and partition.max() <= np.iinfo(np.int16).max
        # Numbers of two bytes are sorted without a comparison.
        order = np.argsort(partition.astype(np.int16) if few else partition, kind="stable")
        partition, offset = partition[order], offset[order]
        new = partition[1:] != partition[:-1]
        falls = ~new & (offset[1:] <= offset[:-1])
        starts = np.flatnonzero(np.append(True, new)[: len(partition)])
        ends = np.append(starts[1:], len(partition)) - 1
        self.mixed.update(partition[1:][falls].tolist())
        for one, first, last in zip(partition[starts].tolist(), offset[starts].tolist(), offset[ends].tolist(), strict=True):
            before = self.seen.get(one, (first, first - 1))
            if first <= before[1]:
                self.mixed.add(one)
            self.seen[one] = before[0], last

    @property
    def told(self) -> list[list[int]]:
        """Log partition, first and last offset; an empty span where they do not rise."""
        return [[one, *((0, -1) if one in self.mixed else span)] for one, span in sorted(self.seen.items())]


def _placed(batch: pa.RecordBatch) -> tuple[Any, Int64]:
    placed = pa.table(batch.select(["partition", "offset"])).drop_null()
    partition, offset = (column.to_numpy() for column in placed.columns)
    read = partition != POLLED
    return (partition, offset) if read.all() else (partition[read], offset[read])


def refuse_twice(pieces: Sequence[Piece], told: Iterable[Sequence[Sequence[int]]], folder: str | None = None) -> None:
    """See that no cluster's record is there twice.

    Parameters
    ----------
    pieces : sequence of Piece
    told : sequence
        `Spans.told` of each.
    folder : str, optional
        Of the audit alone: instead of files in it, which nobody knows, their cluster is named.

    Raises
    ------
    CaptureError
        One is.

    Notes
    -----
    Nothing is read where every log partition's spans lie one behind the other, as in a capture they do; or else the offsets of
    the others, one log partition at a time.
    """
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for piece, of_piece in zip(pieces, told, strict=True):
        for partition, first, last in of_piece:
            spans.setdefault((piece.cluster, partition), []).append((first, last))
    for (cluster, partition), listed in sorted(spans.items()):
        listed.sort()
        apart = all(before[1] < after[0] for before, after in pairwise(listed))
        if not apart or any(last < first for first, last in listed):
            _look([piece for piece in pieces if piece.cluster == cluster], partition, folder)


def _look(pieces: Sequence[Piece], partition: int, folder: str | None) -> None:
    found: list[tuple[str, Int64]] = []
    for piece in pieces:
        for batch in raw_batches(piece, ("partition", "offset")):
            of_row, offset = _placed(batch)
            file = piece.groups[0][0]
            hidden = folder is not None and file.startswith(folder)
            found.append((f"cluster {piece.cluster}" if hidden else file, offset[of_row == partition]))
    offsets = np.sort(np.concatenate([one for _, one in found]))
    again = offsets[1:][offsets[1:] == offsets[:-1]]
    if len(again):
        where = " and ".join(sorted({file for file, one in found if (one == again[0]).any()}))
        words = f"{len(again):,} records of log partition {partition} are there more than once, the first at offset {again[0]}"
        raise CaptureError(f"{where}: {words}; drop the repeats, or give overlapping recordings one by one")
