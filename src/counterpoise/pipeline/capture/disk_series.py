"""A growing table on a local disk, behind a symbolic link. A reader resolves the link once, then reads that folder.

An append is one rename of one finished file. Merging and retention create a new generation of the folder, with hard links to the
files that stay, and replace the link. Files of a killed writer are deleted by the next one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from counterpoise.errors import CaptureError
from counterpoise.pipeline.capture.series import GRACE_S, Series, SeriesFile

__all__ = ["DiskSeries"]

_LAST = attrgetter("last")
"""The order of files: by their last append. Ranges that version 0.9.0 wrote may overlap; also then the newest comes last."""


class DiskSeries(Series):
    """One table that grows on a disk.

    `link` is the path for readers, e.g. ``DIR/consumer_offsets.parquet``: a symbolic link, created by the first append. `store`
    is the folder for the generations, on the same file system. Raises `CaptureError` if `link` exists and is no link of a
    capture, or its generation is missing.
    """

    def __init__(self, link: Path, store: Path, schema: pa.Schema, time_column: str) -> None:
        self._link, self._store, self._kind = link, store, link.stem
        if os.path.lexists(link) and link.resolve().parent != store.resolve():
            raise CaptureError(f"{link}: was not written by `counterpoise capture --out`; give an empty folder")
        if link.is_symlink() and not link.exists():
            advice = f"link it to the newest {self._kind}-* in {store}, or give an empty folder"
            raise CaptureError(f"{link}: links to {link.readlink()}, which is missing; {advice}")
        super().__init__(schema, time_column)

    @property
    def folder(self) -> str:
        """The newest generation."""
        return str(self._path(max(self._generation, 0)))

    @property
    def _generation(self) -> int:
        """The number of the newest generation, read from the link because an error may come after a change; -1: no link."""
        try:
            return int(self._link.readlink().name.rpartition("-")[2])
        except FileNotFoundError:
            return -1

    def _listed(self) -> list[SeriesFile]:
        files = Path(self.folder).iterdir() if self._generation >= 0 else ()
        return sorted((SeriesFile.of(str(file)) for file in files if file.suffix == ".parquet"), key=_LAST)

    def _add(self, piece: SeriesFile, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        scratch = self._store / f"tmp-{self._kind}-{piece.name}"
        try:
            self._finish(scratch, batches, state)
            Path(self.folder).mkdir(exist_ok=True)
            scratch.rename(self._place(piece))
            _sync(Path(self.folder))
            if self._generation < 0:
                self._replace_link(0)
        except OSError:
            self._unlisted = True  # The file may be in its place already.
            scratch.unlink(missing_ok=True)
            raise

    def _replace(self, many: Sequence[SeriesFile], merged: SeriesFile, batches: Iterable[pa.RecordBatch] | None) -> None:
        fresh, old = self._path(self._generation + 1), Path(self.folder)
        shutil.rmtree(fresh, ignore_errors=True)
        stay = [piece for piece in self.pieces if piece not in many]
        try:
            fresh.mkdir()
            for piece in stay:
                os.link(self._place(piece), fresh / piece.name)
            if batches is not None:
                self._finish(fresh / merged.name, batches, self._state_of(many[-1]))
            _sync(fresh)
            os.utime(old)
            self._replace_link(self._generation + 1)
        except OSError:
            self._unlisted = True
            if Path(self.folder) != fresh:  # Else the error came after the link was replaced.
                shutil.rmtree(fresh, ignore_errors=True)
            raise
        self.pieces = sorted([*stay, *([] if batches is None else [merged])], key=_LAST)
        self._clean(GRACE_S)

    def _finish(self, file: Path, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        with file.open("wb") as out:
            self._write(out, batches, state)
            out.flush()
            os.fsync(out.fileno())

    def _replace_link(self, generation: int) -> None:
        scratch = self._store / f"tmp-{self._kind}-link"
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(Path(self._store.name) / self._path(generation).name)
        scratch.replace(self._link)
        _sync(self._link.parent)

    def _path(self, generation: int) -> Path:
        return self._store / f"{self._kind}-{generation:08d}"

    def _clean(self, grace: float) -> None:
        for left in self._store.glob(f"tmp-{self._kind}-*"):
            left.unlink()
        newest = self._generation
        for folder in self._store.glob(f"{self._kind}-*"):
            number = int(folder.name.rpartition("-")[2])
            if number > newest or (number < newest and folder.stat().st_mtime <= time.time() - grace):
                shutil.rmtree(folder, ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
