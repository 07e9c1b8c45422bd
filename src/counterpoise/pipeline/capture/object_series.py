"""A growing table on an object store: every file appears by one PUT under its final name, and nothing is renamed.

The name of a merged file has the range of the files that it replaces (`visible`), so readers that list the folder read each
record once. Replaced files are deleted an hour later. Files that retention drops are replaced by a file without rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from counterpoise.errors import StorageError
from counterpoise.pipeline.capture.series import FILE_NAME, GRACE_S, Series, SeriesFile
from counterpoise.pipeline.storage.files import absolute, delete, file_infos, join, upload

__all__ = ["ObjectSeries", "visible"]


def visible(names: Iterable[str]) -> list[str]:
    """The files of a folder without those that a merged file replaces; other files are all returned. O(n log n)."""
    listed = list(names)
    pieces = {SeriesFile.of(name): name for name in listed if FILE_NAME.search(name)}
    covered = set(pieces) - set(_uncovered(pieces))
    return sorted(set(listed) - {pieces[piece] for piece in covered})


def _uncovered(pieces: Iterable[SeriesFile]) -> list[SeriesFile]:
    """The pieces that no other one covers: ranges are disjoint or nested, the larger one has the higher level."""
    uncovered: list[SeriesFile] = []
    for piece in sorted(pieces, key=lambda one: (one.first, -one.last, -one.level)):
        if not uncovered or not uncovered[-1].covers(piece):
            uncovered.append(piece)
    return uncovered


class ObjectSeries(Series):
    """One table that grows on an object store.

    `folder` is the URI for readers, e.g. ``s3://bucket/history/consumer_offsets.parquet``. `check` is called before each PUT, and
    raises an error if another writer took over.
    """

    def __init__(self, folder: str, schema: pa.Schema, time_column: str, check: Callable[[], None]) -> None:
        self._folder, self._check = absolute(folder), check
        super().__init__(schema, time_column)

    @property
    def folder(self) -> str:
        """The folder."""
        return self._folder

    def _listed(self) -> list[SeriesFile]:
        return _uncovered(map(SeriesFile.of, file_infos(self._folder)))

    def _add(self, piece: SeriesFile, batches: Iterable[pa.RecordBatch], state: Mapping[str, Any]) -> None:
        # Written to the disk first: an interrupted upload could become visible.
        with tempfile.TemporaryFile() as scratch:
            self._write(scratch, batches, state)
            scratch.seek(0)
            self._check()
            try:
                upload(self._place(piece), scratch)
            except StorageError:  # The file may be there, and only the answer lost: it must not be replaced by a longer one.
                self._unlisted = True
                if self._place(piece) not in file_infos(self._folder):
                    raise

    def _replace(self, many: Sequence[SeriesFile], merged: SeriesFile, batches: Iterable[pa.RecordBatch] | None) -> None:
        self._add(merged, batches or (), self._state_of(many[-1]))
        self.pieces = _uncovered([*self.pieces, merged])
        self._clean(GRACE_S)

    def _clean(self, grace: float) -> None:
        infos = {SeriesFile.of(name): info for name, info in file_infos(self._folder).items()}
        counted = _uncovered(infos)
        for piece in set(infos) - set(counted):
            since = next(infos[one].mtime_ns for one in counted if one.covers(piece)) / 1e9
            if since <= time.time() - grace:
                delete(join(self._folder, piece.name))
