"""A writer of one table: one file per day; the cluster and the day are in the path and not in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.source.anonymous import anonymous
from counterpoise.pipeline.stored.tables import NO_DAY
from counterpoise.pipeline.tables.one_file import OneFile

__all__ = ["NO_TIME", "ByDay"]

_DAY_US = 86_400_000_000
NO_TIME = np.iinfo(np.int64).min
"""The time of a row without a day."""


class ByDay:
    """Files of one table, one per day; `name` returns the name of a new file for a day. Names in rows are hashed with `salt`.

    `rising`: columns of integers and times that rise slowly from row to row: delta encoding takes a third of the size, and is
    faster. `single`: columns in which hardly any value occurs twice; written without a dictionary. `spanned`: columns with
    statistics (minimum and maximum per row group), by which readers skip row groups; default: all that are not nested. They take
    a fifth of the time of writing, and those of names are useless if every row group has all groups.
    """

    def __init__(
        self,
        name: Callable[[str], str],
        schema: pa.Schema,
        rising: Sequence[str] = (),
        single: Sequence[str] = (),
        spanned: Sequence[str] | None = None,
        salt: str | None = None,
    ) -> None:
        self._name, self._schema, self._salt = name, schema, salt
        self._writers: dict[int, OneFile] = {}
        often = [one for field in schema if field.name not in (*rising, *single) for one in _leaves(field.name, field.type)]
        self._options: dict[str, Any] = {"use_dictionary": often, "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED")}
        plain = [field.name for field in schema if not pa.types.is_nested(field.type)]
        self._options["write_statistics"] = plain if spanned is None else list(spanned)
        self.rows = 0
        self.first: int | None = None
        self.last: int | None = None

    def __enter__(self) -> ByDay:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self._writers.values():
            writer.__exit__(*error)

    @property
    def files(self) -> dict[str, str]:
        """Day -> its file."""
        return {_date(day): one.file for day, one in self._writers.items() if one.file is not None}

    @property
    def manifest(self) -> dict[str, Any]:
        """The files by day, and the number of rows; complete when the writer is closed."""
        return {"days": self.files, "rows": self.rows}

    def write(self, rows: pa.RecordBatch, time: Int64) -> None:
        """Write rows by the time of each, in microseconds."""
        if not rows.num_rows:
            return
        rows = anonymous(rows, self._salt)
        low, high = int(time.min()), int(time.max())
        self.rows += rows.num_rows
        self.first = low if self.first is None else min(low, self.first)
        self.last = high if self.last is None else max(high, self.last)
        if low // _DAY_US == high // _DAY_US:
            self._write(low // _DAY_US, rows)
            return
        day = time // _DAY_US
        for number in sorted(set(day.tolist())):
            self._write(number, rows.take(pa.array(np.flatnonzero(day == number))))

    def _write(self, day: int, rows: pa.RecordBatch) -> None:
        if day not in self._writers:
            self._writers[day] = OneFile(partial(self._name, _date(day)), self._schema, **self._options)
        self._writers[day].write(rows)


def _date(day: int) -> str:
    return NO_DAY if day == NO_TIME // _DAY_US else str(np.datetime64(day, "D"))


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Paths of the Parquet leaf columns of a column."""
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    return [path]
