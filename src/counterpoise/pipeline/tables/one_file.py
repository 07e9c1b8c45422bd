"""A writer of a single file, which is created with the first row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.pipeline.storage.files import parquet_writer, storage_errors

__all__ = ["OneFile"]


class OneFile:
    """A writer of one file; `name` returns the name of a new file, `options` are those of `pyarrow.parquet.ParquetWriter`."""

    def __init__(self, name: Callable[[], str], schema: pa.Schema, **options: Any) -> None:
        self._name, self._schema, self._options = name, schema, options
        self._writer: pq.ParquetWriter | None = None
        self.file: str | None = None  # its path or URI; None: there are no rows yet

    def __enter__(self) -> OneFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None and self.file is not None:
            with storage_errors(self.file):
                self._writer.close()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write the columns of the schema as a row group."""
        if not rows.num_rows:
            return
        if self._writer is None or self.file is None:
            self.file = self._name()
            self._writer = parquet_writer(self.file, self._schema, store_schema=False, **self._options)
        with storage_errors(self.file):
            self._writer.write_table(pa.table([rows[name] for name in self._schema.names], schema=self._schema))
