"""Files from one task to another: rows with a mark (their bucket), read back mark by mark; quick to open, however many parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import pyarrow as pa

from counterpoise.pipeline.direct.tasks import scratch

__all__ = ["Marked", "MarkedFile", "marked_batches", "marked_parts"]

Marked = Sequence[tuple[str, Sequence[int]]]
"""Files, and the mark of each of their parts."""


class MarkedFile:
    """A file made when there is a row.

    Parameters
    ----------
    folder, kind : str
        Where, and of what.
    schema : pyarrow.Schema
    compression : str, optional
        As Arrow's own format has it: "lz4" or "zstd"; default: none.

    Attributes
    ----------
    file : str, optional
        Its name, if there are rows.
    marks : list of int
        Of each of its parts.
    """

    def __init__(self, folder: str, kind: str, schema: pa.Schema, compression: str | None = None) -> None:
        self._folder, self._kind, self._schema = folder, kind, schema
        self._options = None if compression is None else pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        self._writer: Any = None
        self.file: str | None = None
        self.marks: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.Table, mark: int) -> None:
        """Rows with their mark."""
        for batch in rows.combine_chunks().to_batches():
            if self._writer is None:
                self.file = str(scratch(self._folder, self._kind).with_suffix(".arrow"))
                self._writer = pa.ipc.new_file(self.file, self._schema, options=self._options)
            self._writer.write_batch(batch)
            self.marks.append(mark)


def marked_batches(files: Marked, mark: int | range, columns: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """All rows with a mark, or with one of several, in the order of the files, as they were written; all columns, or some."""
    wanted = range(mark, mark + 1) if isinstance(mark, int) else mark
    for file, marks in files:
        mine = [at for at, one in enumerate(marks) if one in wanted]
        if mine:
            yield from marked_parts(file, mine, columns)


def marked_parts(file: str, parts: Iterable[int], columns: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """Some parts of a file, as they were written; all columns, or some."""
    # Parts are small: threads that share out the columns of one cost three times what they do.
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    with pa.OSFile(file) as opened:
        reader = pa.ipc.open_file(opened, options=options)
        for at in parts:
            yield reader.get_batch(at)
