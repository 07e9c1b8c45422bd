"""Writers of table files in tasks: one file per day; the cluster and the day are in the path and not in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.model.problem import Int64
from counterpoise.pipeline.schemas import COLUMNS
from counterpoise.pipeline.storage.files import parquet_writer, storage_errors
from counterpoise.pipeline.tables.anonymous import anonymous
from counterpoise.pipeline.tables.paths import NO_DAY
from counterpoise.pipeline.tables.transaction import NewFiles

__all__ = ["FileWriter", "TableWriter"]

_DAY_US = 86_400_000_000
_NO_TIME = np.iinfo(np.int64).min
"""The time of a row without a day."""
_ROWS, _ROW_BYTES = 256, 1 << 20
"""Added rows become a batch when there are so many, or when they have so many bytes."""
_BATCH_BYTES = 1 << 20
"""Batches become a row group when they have more bytes than this."""


class FileWriter:
    """A writer of one file, which is created with the first row; `options` are those of `pyarrow.parquet.ParquetWriter`."""

    def __init__(self, place: str, schema: pa.Schema, **options: Any) -> None:
        self._place, self._schema, self._options = place, schema, options
        self._writer: pq.ParquetWriter | None = None

    @property
    def file(self) -> str | None:
        """Its path or URI; None: there are no rows yet."""
        return None if self._writer is None else self._place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            with storage_errors(self._place):
                self._writer.close()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write the columns of the schema as a row group."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = parquet_writer(self._place, self._schema, store_schema=False, **self._options)
        with storage_errors(self._place):
            self._writer.write_table(pa.table([rows[name] for name in self._schema.names], schema=self._schema))


class TableWriter(ExitStack):
    """A buffered writer of the rows of one table and cluster: row groups of some megabytes, in one file per day.

    `time`: the column with the time (or date) by which rows are grouped, or one time for all rows, in microseconds. Names in rows
    are hashed with `salt`. `schema`: that of the files, if it is not `COLUMNS`.

    `rising`: columns of integers and times that rise slowly from row to row: delta encoding takes a third of the size, and is
    faster. `single`: columns in which hardly any value occurs twice; written without a dictionary. `spanned`: columns with
    statistics (minimum and maximum per row group), by which readers skip row groups; default: all that are not nested. They take
    a fifth of the time of writing, and those of names are useless if every row group has all groups.
    """

    def __init__(
        self,
        files: NewFiles,
        cluster: str,
        table: str,
        time: str | int = "log_ts",
        *,
        salt: str | None = None,
        schema: pa.Schema | None = None,
        rising: Sequence[str] = (),
        single: Sequence[str] = (),
        spanned: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.table, self._name, self._time, self._salt = table, partial(files.table_file, table, cluster), time, salt
        self._schema = schema = COLUMNS[table] if schema is None else schema
        often = [one for field in schema if field.name not in (*rising, *single) for one in _leaves(field.name, field.type)]
        self._options: dict[str, Any] = {"use_dictionary": often, "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED")}
        plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
        self._options["write_statistics"] = plain if spanned is None else list(spanned)
        self._columns = list(dict.fromkeys([*schema.names, *([time] if isinstance(time, str) else [])]))
        self._days: dict[int, FileWriter] = {}
        self._rows: list[Mapping[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._row_bytes = self._batch_bytes = self._written = 0

    def __exit__(self, *error: Any) -> bool | None:
        try:
            if error[0] is None:
                self._write_added()
                self._flush()
        finally:
            suppressed = super().__exit__(*error)
        return suppressed

    @property
    def manifest(self) -> dict[str, Any]:
        """The files by day, and the number of rows; complete when the writer is closed."""
        return {"days": {_date(day): one.file for day, one in self._days.items()}, "rows": self._written}

    def add(self, row: Mapping[str, Any], size: int) -> None:
        """Add a row of about `size` bytes; keys that are no columns are ignored."""
        self._rows.append(row)
        self._row_bytes += size
        if len(self._rows) >= _ROWS or self._row_bytes > _ROW_BYTES:
            self._write_added()

    def _write_added(self) -> None:
        if self._rows:
            rows, self._rows, self._row_bytes = self._rows, [], 0
            self.write(pa.RecordBatch.from_pylist(rows, schema=self._schema))

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows; other columns are ignored."""
        self._batches.append(batch.select(self._columns))
        self._batch_bytes += self._batches[-1].nbytes
        if self._batch_bytes > _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        whole = pa.Table.from_batches(self._batches).combine_chunks().to_batches() if self._batches else []
        self._batches, self._batch_bytes = [], 0
        for batch in whole:
            day, rows = self._times(batch) // _DAY_US, anonymous(batch, self._salt)
            self._written += batch.num_rows
            days = [int(day[0])] if (day == day[0]).all() else np.unique(day).tolist()
            for number in days:
                if number not in self._days:
                    writer = FileWriter(self._name(_date(number)), self._schema, **self._options)
                    self._days[number] = self.enter_context(writer)
                self._days[number].write(rows if len(days) == 1 else rows.take(pa.array(np.flatnonzero(day == number))))

    def _times(self, batch: pa.RecordBatch) -> Int64:
        if isinstance(self._time, int):
            return np.full(batch.num_rows, self._time)
        column = batch.column(self._time)
        time: Int64 = column.cast(pa.timestamp("us")).cast(pa.int64()).fill_null(_NO_TIME).to_numpy()
        return time


def _date(day: int) -> str:
    return NO_DAY if day == _NO_TIME // _DAY_US else str(np.datetime64(day, "D"))


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Paths of the Parquet leaf columns of a column."""
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    return [path]
