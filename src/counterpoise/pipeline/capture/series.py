"""A growing Parquet folder that readers always see whole: one file per append, merged and dropped by generations.

An append is one rename of one finished file; what else must be remembered (positions) lies in that file's footer, so data and
positions become visible together or not at all. Merging and retention make a new generation of the folder - hard links to the
files that stay - and swing one symbolic link. Killed at any point, what is visible is a whole state; the rest is swept away.

File names are ``FIRST-LAST-LEVEL.parquet``: the range of appends in it, and how often it was merged.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.errors import CaptureError

__all__ = ["MERGE_AT", "Piece", "Series"]

MERGE_AT = 16
"""So many files of one level become one of the next: every record is written a handful of times at most."""
LARGE_BYTES = 128 * 2**20
LONG_SPAN_S = 86_400
"""Files of this size, or with records of more than this span, are left as they are (retention drops whole files)."""
GRACE_S = 3_600
"""So long a replaced generation stays, for readers that have listed it."""
_STATE = b"counterpoise.state"


@dataclass(frozen=True, order=True)
class Piece:
    """One file of the series, by its name."""

    first: int
    last: int
    level: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.first:012d}-{self.last:012d}-{self.level}.parquet"

    @classmethod
    def of(cls, file: Path) -> Piece:
        """The inverse of `name`."""
        first, last, level = file.stem.split("-")
        return cls(int(first), int(last), int(level))


class Series:
    """One table that grows.

    Parameters
    ----------
    link : Path
        What readers open, e.g. ``DIR/consumer_offsets.parquet``: a symbolic link, there from the first append on.
    store : Path
        Folder for the generations, on the same file system.
    schema : pyarrow.Schema
    time_column : str
        By which retention and spans go.

    Raises
    ------
    CaptureError
        `link` is there and is not ours.
    """

    def __init__(self, link: Path, store: Path, schema: pa.Schema, time_column: str) -> None:
        self._link, self._store, self._schema, self._time = link, store, schema, time_column
        self._kind = link.stem
        if link.exists() and not link.is_symlink():
            raise CaptureError(f"{link}: was not written by `counterpoise capture --out`; give an empty folder")
        self._generation = int(link.readlink().name.rpartition("-")[2]) if link.is_symlink() else 0
        self._clean(GRACE_S)
        self.pieces: list[Piece] = sorted(Piece.of(file) for file in self.folder.glob("*.parquet")) if link.is_symlink() else []
        self.state: dict[str, Any] = self._state_of(self.pieces[-1]) if self.pieces else {}

    @property
    def folder(self) -> Path:
        """Where the visible files are."""
        return self._path(self._generation)

    def append(self, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        """Write one file; data and `state` become visible together.

        Raises
        ------
        OSError
            Nothing was appended (disk full, for one); the same append may be tried again.
        """
        number = self.pieces[-1].last + 1 if self.pieces else 1
        piece = Piece(number, number, 0)
        scratch = self._scratch(piece)
        try:
            self._write(scratch, batches, state)
            if not self._link.is_symlink():
                self.folder.mkdir(exist_ok=True)
                scratch.rename(self.folder / piece.name)
                self._swing(self._generation)
            else:
                scratch.rename(self.folder / piece.name)
                _sync(self.folder)
        except OSError:
            scratch.unlink(missing_ok=True)
            raise
        self.pieces.append(piece)
        self.state = dict(state)

    def merge(self) -> int:
        """Merge what has become many small files; the number of files that were merged (0: nothing to do)."""
        for level in sorted({piece.level for piece in self.pieces}):
            many = [piece for piece in self.pieces if piece.level == level and not self._closed(piece)]
            if len(many) >= MERGE_AT:
                merged = Piece(many[0].first, many[-1].last, level + 1)
                self._replace([p for p in self.pieces if p not in many], (many, merged))
                return len(many)
        return 0

    def drop_before(self, moment: float) -> int:
        """Drop files whose records are all older than `moment` (s since 1970); the newest file stays. How many went."""
        old = [piece for piece in self.pieces[:-1] if self._times(piece)[1] < moment]
        if old:
            self._replace([piece for piece in self.pieces if piece not in old], None)
        return len(old)

    def free(self) -> None:
        """Give back the space of replaced generations at once."""
        self._clean(0)

    def _closed(self, piece: Piece) -> bool:
        first, last = self._times(piece)
        return (self.folder / piece.name).stat().st_size >= LARGE_BYTES or last - first >= LONG_SPAN_S

    def _times(self, piece: Piece) -> tuple[float, float]:
        about = pq.read_metadata(self.folder / piece.name)
        column = self._schema.get_field_index(self._time)
        groups = [about.row_group(at).column(column).statistics for at in range(about.num_row_groups)]
        told = [each for each in groups if each is not None and each.has_min_max]
        if not told:
            return 0.0, 0.0
        return min(each.min for each in told).timestamp(), max(each.max for each in told).timestamp()

    def _replace(self, stay: Sequence[Piece], merging: tuple[Sequence[Piece], Piece] | None) -> None:
        fresh = self._path(self._generation + 1)
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            fresh.mkdir()
            pieces = list(stay)
            for piece in stay:
                os.link(self.folder / piece.name, fresh / piece.name)
            if merging is not None:
                many, merged = merging
                self._concat([self.folder / piece.name for piece in many], fresh / merged.name, self._state_of(many[-1]))
                pieces.append(merged)
            _sync(fresh)
            old = self.folder
            self._swing(self._generation + 1)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        self._generation += 1
        self.pieces = sorted(pieces)
        os.utime(old)
        self._clean(GRACE_S)

    def _concat(self, files: Sequence[Path], to: Path, state: Mapping[str, Any]) -> None:
        def batches() -> Any:
            for file in files:
                with pq.ParquetFile(file) as opened:
                    yield from opened.iter_batches(65_536)

        self._write(to, batches(), state)

    def _write(self, file: Path, batches: Any, state: Mapping[str, Any]) -> None:
        schema = self._schema.with_metadata({_STATE: json.dumps(state).encode()})
        with file.open("wb") as out:
            with pq.ParquetWriter(out, schema, compression="zstd") as writer:
                pending: list[pa.RecordBatch] = []
                for batch in batches:
                    pending.append(batch)
                    if sum(map(len, pending)) >= 500_000:
                        writer.write_table(pa.Table.from_batches(pending).cast(schema))
                        pending = []
                if pending:
                    writer.write_table(pa.Table.from_batches(pending).cast(schema))
            out.flush()
            os.fsync(out.fileno())

    def _state_of(self, piece: Piece) -> dict[str, Any]:
        found = (pq.read_metadata(self.folder / piece.name).metadata or {}).get(_STATE)
        if found is None:
            raise CaptureError(f"{self.folder / piece.name}: holds no positions; it was not written by `counterpoise capture`")
        state: dict[str, Any] = json.loads(found)
        return state

    def _swing(self, generation: int) -> None:
        scratch = self._store / f"tmp-{self._kind}-link"
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(Path(self._store.name) / self._path(generation).name)
        scratch.replace(self._link)
        _sync(self._link.parent)

    def _path(self, generation: int) -> Path:
        return self._store / f"{self._kind}-{generation:08d}"

    def _scratch(self, piece: Piece) -> Path:
        return self._store / f"tmp-{self._kind}-{piece.name}"

    def _clean(self, grace: float) -> None:
        for left in self._store.glob(f"tmp-{self._kind}-*"):
            left.unlink()
        for folder in self._store.glob(f"{self._kind}-*"):
            number = int(folder.name.rpartition("-")[2])
            unseen = number > self._generation or not self._link.is_symlink()
            if unseen or (number < self._generation and folder.stat().st_mtime <= time.time() - grace):
                shutil.rmtree(folder, ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
