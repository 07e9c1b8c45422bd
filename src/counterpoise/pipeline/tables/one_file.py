"""A file of rows in a task's manifest, made when there is a row."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["OneFile", "new_file"]


def new_file(folder: str, kind: str) -> Path:
    """The name of a new file: another attempt at the same task writes another one, and only one of them is in a manifest."""
    place = Path(folder) / kind
    place.mkdir(parents=True, exist_ok=True)
    return place / f"part-{uuid4().hex}.parquet"


class OneFile:
    """A file in a folder for one kind of rows.

    Attributes
    ----------
    file : str, optional
        Its name, if there are rows.
    """

    def __init__(self, folder: str, kind: str, schema: pa.Schema) -> None:
        self._folder, self._kind, self._schema = folder, kind, schema
        self._writer: pq.ParquetWriter | None = None
        self.file: str | None = None

    def __enter__(self) -> OneFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.RecordBatch | pa.Table, **more: str) -> None:
        """Rows as a row group; `more` are columns with one value in all of them."""
        if not rows.num_rows:
            return
        if self._writer is None:
            place = new_file(self._folder, self._kind)
            self.file, self._writer = str(place), pq.ParquetWriter(place, self._schema, store_schema=False)
        columns = {name: pa.array([value]).take(pa.array([0] * rows.num_rows)) for name, value in more.items()}
        for name in self._schema.names:
            columns.setdefault(name, rows[name] if name not in more else None)
        whole = pa.table([columns[name] for name in self._schema.names], schema=self._schema)
        self._writer.write_table(whole)
