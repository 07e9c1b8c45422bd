"""Files that an audit leaves for the next one: rows with a mark (their bucket), read back mark by mark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.direct.files.marked_file import Marked
from counterpoise.pipeline.direct.tasks import scratch

__all__ = ["Kept", "KeptFile", "StatesFile", "kept_rows", "kept_states"]

Kept = Mapping[str, Marked]
"""By kind, the files that the last audit left."""


class _Marked:
    """A file made when there is a row, with a mark for each of its parts."""

    def __init__(self, folder: str, kind: str, schema: pa.Schema) -> None:
        self._folder, self._kind, self._schema = folder, kind, schema
        self._writer: Any = None
        self._file: str | None = None
        self._marks: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    @property
    def told(self) -> list[list[object]]:
        """The file, if there is one, with its marks."""
        return [] if self._file is None else [[self._file, self._marks]]


class KeptFile(_Marked):
    """Arrow's own format, not compressed: every audit reads and writes all of it, in small parts."""

    def write(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark."""
        for batch in rows.cast(self._schema).combine_chunks().to_batches():
            if self._writer is None:
                self._file = str(scratch(self._folder, self._kind).with_suffix(".arrow"))
                self._writer = pa.ipc.new_file(self._file, self._schema)
            self._writer.write_batch(batch)
            self._marks.append(mark)


class StatesFile(_Marked):
    """Parquet, a row group per mark: Spark reads it too, where a stream begins."""

    def write(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark."""
        if len(rows):
            if self._writer is None:
                self._file = str(scratch(self._folder, self._kind))
                self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd", store_schema=False)
            self._writer.write_table(rows.cast(self._schema), row_group_size=len(rows))
            self._marks.append(mark)


def kept_rows(kept: Kept, kind: str, schema: pa.Schema, mark: int) -> pa.Table:
    """All rows of a kind with a mark."""
    places = [(file, at) for file, marks in kept.get(kind, ()) for at, one in enumerate(marks) if one == mark]
    return pa.Table.from_batches([_opened(file).get_batch(at) for file, at in places], schema)


@lru_cache(maxsize=64)
def _opened(file: str) -> Any:
    """Files have names of their own, and are never written again."""
    return pa.ipc.open_file(pa.memory_map(file))


def kept_states(kept: Kept, kind: str, schema: pa.Schema, mark: int) -> pa.Table:
    """The same from files of `StatesFile`."""
    parts = [schema.empty_table()]
    for file, marks in kept.get(kind, ()):
        mine = [at for at, one in enumerate(marks) if one == mark]
        if mine:
            with pq.ParquetFile(file) as opened:
                parts.append(opened.read_row_groups(mine, use_threads=False).cast(schema))
    return pa.concat_tables(parts)
