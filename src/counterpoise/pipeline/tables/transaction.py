"""Transactions on an audit's output folder: one manifest, put last, makes new files visible and removes others.

Tasks write files under unique names that no reader knows. `TableTransaction.publish` puts a manifest that names all valid files:
before it nothing is visible, after it everything. Files that no manifest names are of a failed run, and the next writer deletes
them. On an object store a file has its final name from the start. Elsewhere its name is hidden until it is published, so that
engines that read folders without the manifest (Spark, DuckDB) see half a change only during the renames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from counterpoise.errors import CaptureError, InvariantError
from counterpoise.pipeline.storage.files import (
    absolute,
    beside,
    delete,
    is_local,
    is_object_store,
    join,
    list_files,
    move,
    read_if_exists,
    write_bytes,
)
from counterpoise.pipeline.storage.writer_lock import WriterLock
from counterpoise.pipeline.tables.manifest import FOLDER, Manifest, load_manifest, manifest_numbers
from counterpoise.pipeline.tables.paths import day_folder

__all__ = ["NewFiles", "TableTransaction"]

_STATE = ".state"
_HIDDEN = ".new-"
_OURS = re.compile(rf"/(?:{re.escape(_HIDDEN)})?part-\d{{10}}-[0-9a-f]{{32}}\.[a-z]+$")


@dataclass(frozen=True)
class NewFiles:
    """Names of new files of one transaction; tasks receive it by pickle."""

    out: str  # The output folder, absolute
    number: int  # The number of the transaction
    writer: str = "00000000"  # Eight hexadecimal digits that identify the writer
    hidden: bool = False  # The names are hidden from readers that do not use the manifest
    state: str | None = None  # The folder of state files; default: in `out`

    def table_file(self, table: str, cluster: str, day: str) -> str:
        """A new file of a table's partition; each attempt of a task gets another name."""
        return join(self.out, "tables", table, day_folder(cluster, day), self.file_name("parquet"))

    def state_file(self, kind: str, suffix: str = "parquet") -> str:
        """A new file of the state for the next audit."""
        return join(self.state or join(self.out, _STATE), kind, self.file_name(suffix))

    def file_name(self, suffix: str = "parquet") -> str:
        """The name of a new file without its folder."""
        return f"{_HIDDEN if self.hidden else ''}part-{self.number:010d}-{self.writer}{uuid4().hex[8:]}.{suffix}"


class TableTransaction:
    """The writer of an output folder, a local path or a URI.

    `private`: names in `out` are hashed, but state files have plain names, so they are in a folder beside `out`. Raises
    `OptionError` if `private` is set and `out` is a whole bucket of an object store: no folder can be beside it.
    """

    def __init__(self, out: str, *, private: bool = False) -> None:
        self.out = absolute(out)
        self.state = beside(out, "state") if private else join(self.out, _STATE)
        wait = "wait for it" if is_local(self.out) else "wait for it (a minute if it was killed)"
        refused = f"{out}: another audit is writing there; {wait}, or give another --out"
        self.lock = WriterLock(join(self.out, FOLDER), refused)
        self.manifest = Manifest(self.out)  # the valid one, while the transaction is open
        self._unanswered = False
        self._writer = uuid4().hex[:8]

    @property
    def new_files(self) -> NewFiles:
        """Names for the files of the next `publish`."""
        number = self.manifest.number + 1
        return NewFiles(self.out, number, self._writer, hidden=not is_object_store(self.out), state=self.state)

    @property
    def state_files(self) -> frozenset[str]:
        """Names of the state files in the manifest; `place_of` returns their paths."""
        return frozenset(name for name in self.manifest.files if name.startswith(f"{_STATE}/"))

    def place_of(self, name: str) -> str:
        """The path or URI of a file of the manifest."""
        return join(self.state, name.removeprefix(f"{_STATE}/")) if name.startswith(f"{_STATE}/") else join(self.out, name)

    def name_of(self, uri: str) -> str:
        """The name of a file in the manifest, before or after it is published."""
        return self._below(self._final(uri))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Within the context, be the only writer. A transaction of a killed writer is completed if published, else deleted.

        On an object store the valid manifest is put again first, under another number. Raises `CaptureError` if another writer
        has the folder, or it cannot be written.
        """
        with self.lock.held():
            manifest = load_manifest(self.out)
            if manifest is None:
                # Put first, to distinguish files of a failed first run from those of an earlier version.
                manifest = Manifest(self.out, 0, self._files_of_earlier_version())
                self._put(manifest)
            elif not is_local(self.out):
                # A PUT of a writer that lost the lock may arrive later: its number, the next one, must not be the highest then.
                manifest = replace(manifest, number=manifest.number + 2)
                self._put(manifest)
                self.lock.check()
            self.manifest, self._unanswered = manifest, False
            self._write_small_files()
            existing = self._delete_unnamed(_OURS)
            # A user deletes the folder of a day to audit it again.
            self.manifest = replace(manifest, files=manifest.files & existing)
            try:
                yield
            finally:
                self.discard()

    def discard(self) -> None:
        """Delete the new files that were not published."""
        if self._unanswered:
            if is_object_store(self.out):
                return  # The manifest may be there, or still arrive; the next writer deletes what no manifest names.
            self.manifest = load_manifest(self.out) or self.manifest
        # Only the files of this writer: another one may be the writer now.
        self._delete_unnamed(re.compile(rf"-{self._writer}[0-9a-f]{{24}}\.[a-z]+$"))

    def publish(self, added: Iterable[str], removed: Iterable[str], small_files: Mapping[str, bytes]) -> None:
        """Add and remove files in one step.

        `added` are files that are written and closed, with names of `new_files`; `removed` are files of the manifest, as paths or
        URIs. `small_files`: name below the folder -> its new text (UTF-8), such as ``summary.json``; other small files stay
        unchanged.

        One request per file that is deleted or renamed, and per small file; one for the manifest, which holds all names. Raises
        `CaptureError` if another writer took over; then this change is lost, or that writer continues from it.
        """
        old = self.manifest
        dropped = {self.name_of(uri) for uri in removed}
        if not dropped <= old.files:
            raise InvariantError(f"{min(dropped - old.files)}: to be removed, but not in the manifest")
        names = [(uri, self._final(uri)) for uri in added]
        texts = {name: text.decode() for name, text in small_files.items()}
        files = (old.files - dropped) | {self.name_of(uri) for uri, _ in names}
        new = Manifest(self.out, old.number + 1, frozenset(files), frozenset(dropped), {**old.small_files, **texts})
        self.lock.check()
        if manifest_numbers(self.out)[-1:] != [old.number]:
            raise CaptureError(f"{self.out}: another audit has written there meanwhile; run this one again")
        for uri, final in names:
            if uri != final:
                move(uri, final)
        self._unanswered = True  # Until the request has returned: it may fail, or be interrupted, after it took effect.
        self._put(new)
        self.lock.check()  # The request may have lasted longer than the lock: then the files to delete may be the new owner's.
        self.manifest, self._unanswered = new, False
        for name, text in small_files.items():
            write_bytes(join(self.out, name), text)
        for name in sorted(dropped):
            self._delete(self.place_of(name))

    def _put(self, manifest: Manifest) -> None:
        """Put a manifest, and delete all but the last two."""
        write_bytes(manifest.place, manifest.to_bytes())
        for number in manifest_numbers(self.out)[:-2]:  # A reader may have listed the last but one.
            delete(replace(manifest, number=number).place)

    def _delete_unnamed(self, pattern: re.Pattern[str]) -> set[str]:
        """Delete files that match and are not in the manifest, and those that it removed; returns the names of all files."""
        files = [*list_files(join(self.out, "tables"), ".parquet"), *list_files(self.state)]
        names = {self._below(uri): uri for uri in files}
        for name, uri in names.items():
            if name not in self.manifest.files and (name in self.manifest.removed or pattern.search(uri)):
                self._delete(uri)
        return set(names)

    def _write_small_files(self) -> None:
        """Write the small files of the manifest that differ."""
        for name, text in self.manifest.small_files.items():
            place = join(self.out, name)
            if read_if_exists(place) != text.encode():
                write_bytes(place, text.encode())

    def _files_of_earlier_version(self) -> frozenset[str]:
        """Files of an audit by an earlier version, which wrote none to an object store."""
        if is_object_store(self.out):
            return frozenset()
        names = (self._below(uri) for uri in list_files(join(self.out, "tables"), ".parquet"))
        return frozenset(name for name in names if not any(part.startswith(".") for part in name.split("/")))

    def _delete(self, uri: str) -> None:
        delete(uri)
        if is_local(uri):
            with suppress(OSError):  # Not empty yet.
                Path(uri).parent.rmdir()

    def _below(self, uri: str) -> str:
        place = absolute(uri)
        if place.startswith(f"{self.state}/"):
            return f"{_STATE}/{place.removeprefix(self.state)[1:]}"
        return place.removeprefix(f"{self.out}/")

    @staticmethod
    def _final(uri: str) -> str:
        folder, _, name = uri.rpartition("/")
        return f"{folder}/{name.removeprefix(_HIDDEN)}"
