"""Files that an audit leaves for the next one: rows with a mark (their bucket, or several of these), read back mark by mark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterpoise.pipeline.direct.files.buckets import bucket_of
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile
from counterpoise.pipeline.direct.groups.held import coded
from counterpoise.pipeline.direct.tasks import scratch

__all__ = ["GatheredFile", "Kept", "KeptFile", "StatesFile", "but_of", "kept_parts", "kept_rows", "kept_states"]

_PART = 2 << 20


@dataclass(frozen=True)
class Kept:
    """The files that the last audit left.

    Attributes
    ----------
    files : mapping
        By kind; every row of them has a `group_id`.
    was, now : int
        For how many buckets of groups one after the other a mark stands: in the files, and in what is asked for.
    """

    files: Mapping[str, Marked]
    was: int = 1
    now: int = 1

    @property
    def marks(self) -> set[int]:
        """All that there is something of, as it is asked for."""
        told = {one for files in self.files.values() for _, marks in files for one in marks}
        return {at // self.now for one in told for at in range(one * self.was, (one + 1) * self.was, min(self.was, self.now))}

    def places(self, kind: str, mark: int) -> Iterator[tuple[str, list[int]]]:
        """Files, and which of their parts may have rows with a mark."""
        first, after = mark * self.now, (mark + 1) * self.now
        for file, marks in self.files.get(kind, ()):
            mine = [at for at, one in enumerate(marks) if one * self.was < after and (one + 1) * self.was > first]
            if mine:
                yield file, mine

    def only(self, rows: pa.Table, mark: int) -> pa.Table:
        """Those of some rows that are asked for: a part may have more."""
        if self.was <= self.now:
            return rows
        group, names = coded(rows["group_id"])
        mine = [bucket_of(name.encode()) // self.now == mark for name in names]
        return rows.filter(pa.array(np.array([*mine, False], np.bool_)[group]))


class KeptFile(MarkedFile):
    """Arrow's own format, compressed: every audit reads and writes all of it, in small parts."""

    def __init__(self, folder: str, kind: str, schema: pa.Schema) -> None:
        # A seventh of the size, for some 3 ms of a processor more per megabyte, written and read back.
        super().__init__(folder, kind, schema, "zstd")

    @property
    def told(self) -> list[list[object]]:
        """The file, if there is one, with its marks."""
        return [] if self.file is None else [[self.file, self.marks]]

    def write(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark."""
        super().write(rows.cast(self._schema), mark)


class GatheredFile(KeptFile):
    """The same, for rows that come a few at a time: parts of a mark have some megabytes, and what is left over is less.

    Rows of one mark come together; `settle` when there are no more of it.
    """

    def __init__(self, folder: str, kind: str, schema: pa.Schema) -> None:
        super().__init__(folder, kind, schema)
        self._gathered: list[pa.Table] = []
        self._bytes = 0

    def gather(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark, which are written later."""
        self._gathered.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > _PART:
            self.settle(mark)

    def settle(self, mark: int) -> None:
        """Write what is left over."""
        if self._gathered:
            self.write(pa.concat_tables(self._gathered), mark)
        self._gathered, self._bytes = [], 0


class StatesFile(KeptFile):
    """The same in Parquet, a row group per mark: Spark reads it too, where a stream begins."""

    def write(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark."""
        if len(rows):
            if self._writer is None:
                self.file = str(scratch(self._folder, self._kind))
                self._writer = pq.ParquetWriter(self.file, self._schema, compression="zstd", store_schema=False)
            self._writer.write_table(rows.cast(self._schema), row_group_size=len(rows))
            self.marks.append(mark)


def kept_rows(kept: Kept, kind: str, schema: pa.Schema, mark: int) -> pa.Table:
    """All rows of a kind with a mark."""
    return pa.concat_tables([schema.empty_table(), *kept_parts(kept, kind, schema, mark)])


def kept_parts(kept: Kept, kind: str, schema: pa.Schema, mark: int) -> Iterator[pa.Table]:
    """The same, part by part as they were written."""
    for file, mine in kept.places(kind, mark):
        for at in mine:
            yield kept.only(pa.Table.from_batches([_opened(file).get_batch(at)], schema), mark)


def but_of(rows: pa.Table, groups: Collection[str]) -> pa.Table:
    """Rows but for those of some groups."""
    return rows.filter(pc.invert(pc.is_in(rows["group_id"], pa.array(sorted(groups), pa.string())))) if groups else rows


@lru_cache(maxsize=64)
def _opened(file: str) -> Any:
    """Files have names of their own, and are never written again."""
    return pa.ipc.open_file(pa.memory_map(file))


def kept_states(kept: Kept, kind: str, schema: pa.Schema, mark: int) -> pa.Table:
    """The same from files of `StatesFile`."""
    parts = [schema.empty_table()]
    for file, mine in kept.places(kind, mark):
        with pq.ParquetFile(file) as opened:
            parts.append(opened.read_row_groups(mine, use_threads=False).cast(schema))
    return kept.only(pa.concat_tables(parts), mark)
