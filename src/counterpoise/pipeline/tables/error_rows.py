"""Files of `decode_errors` by day, as a task writes them: why each record cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from functools import partial
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.records.errors import ERROR_COLUMNS, error_rows
from counterpoise.pipeline.source.anonymous import anonymous
from counterpoise.pipeline.stored.tables import NO_DAY
from counterpoise.pipeline.tables.one_file import OneFile
from counterpoise.wire.offsets_topic import decode_record

__all__ = ["ErrorRows"]

_ROWS = 512


class ErrorRows:
    """Rows of the table, written some hundreds at a time; a record without a time has no day.

    Parameters
    ----------
    name : callable
        As for `ByDay`.
    salt : str, optional
        With it bytes and reasons, which may hold names, are left out.
    """

    def __init__(self, name: Callable[[str], str], salt: str | None = None) -> None:
        self._name, self._salt = name, salt
        self._days: dict[str, OneFile] = {}
        self._held: list[dict[str, Any]] = []
        self._rows = 0

    def __enter__(self) -> ErrorRows:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._flush()
        for one in self._days.values():
            one.__exit__(*error)

    @property
    def manifest(self) -> dict[str, Any]:
        """The files by day, and how many rows they have; complete when this is closed."""
        return {"days": {day: one.file for day, one in self._days.items()}, "rows": self._rows}

    def add(self, raws: Iterable[Mapping[str, Any]]) -> None:
        """Raw records, decoded once more for what is wrong with them."""
        for raw in raws:
            self.write(error_rows(raw, decode_record(raw["key"], raw["value"])))

    def write(self, rows: Iterable[dict[str, Any]]) -> bool:
        """Rows of the table; whether there were any."""
        before = len(self._held)
        self._held += rows
        some = len(self._held) > before
        if len(self._held) >= _ROWS:
            self._flush()
        return some

    def _flush(self) -> None:
        days: dict[str, list[dict[str, Any]]] = {}
        for row in self._held:
            at = row["log_ts"]
            days.setdefault(NO_DAY if at is None else at.astimezone(UTC).date().isoformat(), []).append(row)
        for day, rows in days.items():
            out = self._days.setdefault(day, OneFile(partial(self._name, day), ERROR_COLUMNS))
            out.write(anonymous(pa.RecordBatch.from_pylist(rows, ERROR_COLUMNS), self._salt))
        self._rows += len(self._held)
        self._held = []
