"""Rows of a large bucket dealt over parts of its partitions, on disk: what is read back and laid out at once is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.marked_file import MarkedFile, marked_batches

__all__ = ["AT_ONCE", "PARTS", "Dealt", "part_of"]

AT_ONCE = 100_000
"""So many rows of who held what, or of sums of commits, are laid out at once (some 300 bytes each while that is done)."""
PARTS = 256
"""Partitions are dealt over so many parts, some of which are read back together."""


def part_of(group: Int64, groups: Sequence[str], topic: Int64, topics: Sequence[str], partition: Int64) -> Int64:
    """The part of each row's partition, by its names: the same wherever it comes from. Names are codes into the lists."""
    of_group, of_topic = (np.array([*(crc32(name.encode()) for name in names), 0], np.int64) for names in (groups, topics))
    found: Int64 = (of_group[group] + of_topic[topic] + partition) % PARTS
    return found


class Dealt:
    """A file of rows by part, deleted when they have been used.

    Attributes
    ----------
    rows : int64[PARTS]
        How many there are of each part.
    """

    def __init__(self, folder: str, kind: str, schema: pa.Schema) -> None:
        self._out, self._schema = MarkedFile(folder, kind, schema), schema
        self._open = True
        self.rows = np.zeros(PARTS, np.int64)

    def add(self, rows: pa.Table, part: Int64) -> None:
        """Rows and the part of each; those of one part stay in the order in which they came."""
        counts = np.bincount(part, minlength=PARTS)
        in_order = rows.take(pa.array(np.argsort(part, kind="stable"))).combine_chunks()
        self.rows = self.rows + counts
        starts = np.cumsum(counts) - counts
        for one in np.flatnonzero(counts).tolist():
            self._out.write(in_order.slice(int(starts[one]), int(counts[one])), one)

    def read(self, parts: range) -> pa.Table:
        """The rows of some parts."""
        self._close()
        return pa.Table.from_batches(self._batches(parts), self._schema).combine_chunks()

    def _batches(self, parts: range) -> Iterator[pa.RecordBatch]:
        if self._out.file is not None:
            yield from marked_batches([(self._out.file, self._out.marks)], parts)

    def _close(self) -> None:
        if self._open:
            self._out.__exit__()
            self._open = False

    def delete(self) -> None:
        """Nobody needs them any more."""
        self._close()
        if self._out.file is not None:
            Path(self._out.file).unlink()
