"""A growing table of Parquet files: one per append; files are merged, and dropped by retention. Readers see whole files only.

An append makes one complete file visible; its footer also has the state (positions), so data and state become visible together.
`disk_series` and `object_series` implement how a file becomes visible, and how one file replaces many. After a kill at any time
the visible files are consistent.

File names are ``FIRST-LAST-LEVEL.parquet``: the range of appends in the file, and how often it was merged.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError
from counterpoise.pipeline.source.parquet_rows import time_span
from counterpoise.pipeline.storage.files import capture_errors, file_infos, in_row_groups, join, parquet_file, parquet_footers

__all__ = ["FILE_NAME", "GRACE_S", "MERGE_AT", "STATE_KEY", "Series", "SeriesFile"]

MERGE_AT = 16
"""Number of files of one level that are merged into one of the next level: every record is written a few times only."""
LARGE_BYTES = 128 * 2**20
LONG_SPAN_S = 86_400 / MERGE_AT
"""Files of this size, or with records over this time, are not merged. Retention drops whole files, so a merged file should
have the records of a day at most (it has more if there were pauses)."""
GRACE_S = 3_600
"""Replaced files are deleted after this time, because readers may have listed them."""
FILE_NAME = re.compile(r"(?:^|/)(\d{12})-(\d{12})-(\d+)\.parquet$")
"""Matches the name of a file, also at the end of a path."""
STATE_KEY = b"counterpoise.state"
_ROWS = 65_536
_ROW_GROUP = 500_000


@dataclass(frozen=True)
class SeriesFile:
    """One file of a growing table, by its name."""

    first: int
    last: int
    level: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.first:012d}-{self.last:012d}-{self.level}.parquet"

    @classmethod
    def of(cls, file: str) -> SeriesFile:
        """Reads the name of a file, or a path. Raises `CaptureError` if the name has another form."""
        numbers = FILE_NAME.search(file)
        if numbers is None:
            raise CaptureError(f"{file}: was not written by `counterpoise capture --out`; move it away, or give an empty folder")
        return cls(*map(int, numbers.groups()))

    def covers(self, other: SeriesFile) -> bool:
        """Whether it replaces another file."""
        return self.first <= other.first and other.last <= self.last and other.level < self.level


class Series(ABC):
    """A growing table; retention goes by `time_column`."""

    def __init__(self, schema: pa.Schema, time_column: str) -> None:
        self._schema, self._time = schema, time_column
        self._spans: dict[SeriesFile, tuple[float, float, int]] = {}
        self._unlisted = True
        self._clean(GRACE_S)
        self._list()

    def _list(self) -> None:
        """List the files, at the start and if a change has failed since: it may have taken effect all the same."""
        if self._unlisted:
            self.pieces: list[SeriesFile] = self._listed()  # the visible files, in order
            self.state: dict[str, Any] = self._state_of(self.pieces[-1]) if self.pieces else {}  # that of the last append
            self._unlisted = False

    @property
    @abstractmethod
    def folder(self) -> str:
        """The folder of the visible files."""

    @abstractmethod
    def _listed(self) -> list[SeriesFile]:
        """The visible files, in order."""

    @abstractmethod
    def _add(self, piece: SeriesFile, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        """Make a new file visible."""

    @abstractmethod
    def _replace(self, many: Sequence[SeriesFile], merged: SeriesFile, batches: Iterable[pa.RecordBatch] | None) -> None:
        """Replace files by one with these rows, or by none."""

    @abstractmethod
    def _clean(self, grace: float) -> None:
        """Delete files that were replaced more than `grace` seconds ago, and files of a killed writer."""

    def append(self, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        """Write one file; data and `state` become visible together.

        After an OSError or a `StorageError`, for example because the disk is full, the caller may try again with the same
        `state`. If that is not empty and equals that of the last append, nothing is appended: the failed attempt has written
        the file.
        """
        self._list()
        if state and state == self.state:
            return
        number = self.pieces[-1].last + 1 if self.pieces else 1
        piece = SeriesFile(number, number, 0)
        self._add(piece, batches, state)
        self.pieces.append(piece)
        self.state = dict(state)

    def merge(self) -> int:
        """Replace `MERGE_AT` or more consecutive small files of one level by one file of the next level.

        Returns how many files were replaced; 0: there are not enough.
        """
        self._list()
        # A recording runs for months: forget the files that earlier calls replaced.
        self._spans = {piece: self._spans[piece] for piece in self.pieces if piece in self._spans}
        for level in sorted({piece.level for piece in self.pieces}):
            # A file in between would lie in the range of the merged one, as if it were replaced, too.
            for small, run in groupby(self.pieces, lambda piece: piece.level == level and not self._closed(piece)):  # noqa: B023
                many = list(run)
                if small and len(many) >= MERGE_AT:
                    self._replace(many, SeriesFile(many[0].first, many[-1].last, level + 1), self.batches(None, many))
                    return len(many)
        return 0

    def before(self, moment: float) -> list[SeriesFile]:
        """The first files, if their records are all before `moment` (s since 1970), never the newest file."""
        self._list()
        old = list(takewhile(lambda piece: self._times(piece)[1] < moment, self.pieces[:-1]))
        return old if any(self._times(piece)[1] for piece in old) else []  # Files without rows replace dropped ones.

    def drop_before(self, moment: float) -> int:
        """Drop the files that `before` finds; returns their number."""
        if old := self.before(moment):
            self._replace(old, SeriesFile(old[0].first, old[-1].last, max(piece.level for piece in old) + 1), None)
        return len(old)

    def free(self) -> None:
        """Delete replaced files at once."""
        self._clean(0)

    def batches(self, columns: Sequence[str] | None, pieces: Sequence[SeriesFile] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all files, or of `pieces`, in order."""
        for piece in self.pieces if pieces is None else pieces:
            with capture_errors(self._place(piece)), parquet_file(self._place(piece)) as opened:
                yield from opened.iter_batches(_ROWS, columns=columns)

    def _place(self, piece: SeriesFile) -> str:
        return join(self.folder, piece.name)

    def _closed(self, piece: SeriesFile) -> bool:
        first, last = self._times(piece)
        return last - first >= LONG_SPAN_S or self._spans[piece][2] >= LARGE_BYTES

    def _times(self, piece: SeriesFile) -> tuple[float, float]:
        """The first and the last time in a file, 0 without rows; cached, because a file does not change."""
        if piece not in self._spans:
            place = self._place(piece)
            (about,) = parquet_footers([place])
            file = file_infos(place)[place]
            written = file.mtime_ns // 1000, file.mtime_ns // 1000  # for records without a valid timestamp
            spans = [time_span(about.row_group(at), self._time) or written for at in range(about.num_row_groups)]
            first, last = min((span[0] for span in spans), default=0), max((span[1] for span in spans), default=0)
            self._spans[piece] = first / 1e6, last / 1e6, file.size
        return self._spans[piece][:2]

    def _state_of(self, piece: SeriesFile) -> dict[str, Any]:
        (about,) = parquet_footers([self._place(piece)])
        text = (about.metadata or {}).get(STATE_KEY)
        if text is None:
            raise CaptureError(f"{self._place(piece)}: holds no positions; it was not written by `counterpoise capture`")
        state: dict[str, Any] = json.loads(text)
        return state

    def _write(self, out: Any, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        """Write a Parquet file to an open file."""
        schema = self._schema.with_metadata({STATE_KEY: json.dumps(state).encode()})
        with pq.ParquetWriter(out, schema, compression="zstd", write_page_checksum=True) as writer:
            for table in in_row_groups(batches, _ROW_GROUP, len):
                writer.write_table(table.cast(schema))
