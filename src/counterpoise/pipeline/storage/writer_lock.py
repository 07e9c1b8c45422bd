"""A lock for one writer per folder: a file lock on a disk, a protocol of small objects on a store.

Object stores cannot lock. A writer puts an object with a unique name into a folder and lists the folder: it has the lock if there
is no other live object. If two writers try at once, the one that puts later sees the other object, so both may be refused, but
never both accepted. The holder replaces its object every 15 s by one with a new name. An object older than a minute, by the clock
of the store, belongs to a dead writer, and the next writer deletes it. A holder whose last object was deleted when it puts the
next one has lost the lock and stops.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EAGAIN
from pathlib import Path
from typing import IO
from uuid import uuid4

from counterpoise.errors import CaptureError
from counterpoise.pipeline.storage.files import absolute, delete, file_infos, is_local, join, storage_errors, write_bytes

__all__ = ["DEAD_S", "WriterLock"]

DEAD_S = 60.0
"""A holder whose object is older than this is dead."""
_REFRESH_S = 15.0


class WriterLock:
    """The lock ``lock`` in a folder: a file, created if missing; on an object store a folder of lock objects."""

    def __init__(self, folder: str, refused: str) -> None:
        self._place, self._refused = join(absolute(folder), "lock"), refused
        self._name, self._number = uuid4().hex, 0
        self._guard = threading.Lock()
        self._done = threading.Event()
        self._file: IO[str] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the context, have the lock."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Acquire the lock.

        Raises `CaptureError` if another writer has the lock (with the message `refused`), if the folder cannot be written, or if
        its file system has no locks.
        """
        if not self._acquired():
            # An OSError as the cause says that starting again may help: on a store the lock of a dead writer expires.
            raise CaptureError(self._refused) from None if is_local(self._place) else BlockingIOError(self._refused)
        self._done.clear()
        if self._file is None:
            threading.Thread(target=self._refresh, daemon=True).start()

    def check(self) -> None:
        """Check that this writer still has the lock, before a write on which other writers depend.

        Raises `CaptureError` if another writer took the lock; this one must not write any more.
        """
        with self._guard:
            if self._file is None and (self._done.is_set() or not self._renewed()):
                late = f"{self._refused}; this one did not renew its lock for a minute"
                raise CaptureError(late) from BlockingIOError(late)

    def release(self) -> None:
        """Release the lock."""
        self._done.set()
        with self._guard, suppress(CaptureError):
            if self._file is not None:
                self._file.close()
                self._file = None
            else:  # also an object whose PUT seemed to fail because the answer was lost
                for name in file_infos(self._place):
                    if name.startswith(join(self._place, self._name)):
                        delete(name)

    @property
    def _object(self) -> str:
        return join(self._place, f"{self._name}-{self._number:06d}")

    def _acquired(self) -> bool:
        if is_local(self._place):
            return self._locked()
        alone = False
        try:
            write_bytes(self._object, b"")
            alone = self._alone()
        finally:
            if not alone:
                delete(self._object)
        return alone

    def _locked(self) -> bool:
        place = Path(self._place)
        with storage_errors(str(place.parent)):
            place.parent.mkdir(parents=True, exist_ok=True)
            file = place.open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.close()
                if error.errno in (EAGAIN, EACCES):  # NFS reports a held lock as the latter
                    return False
                reason = error.strerror or error
                raise CaptureError(f"{place.parent}: no lock ({reason}); give a folder whose file system has locks") from None
        self._file = file
        return True

    def _alone(self) -> bool:
        """Whether there is no other live object; deletes objects of dead writers. Called after the own object was put."""
        objects = {name: info.mtime_ns for name, info in file_infos(self._place).items() if not info.base_name.startswith(".")}
        mine = join(self._place, self._name)
        others = {name: at for name, at in objects.items() if not name.startswith(mine)}
        oldest = objects.get(self._object, 0) - DEAD_S * 1e9
        if self._object not in objects or any(at > oldest for at in others.values()):
            return False
        for dead in others:
            delete(dead)
        return not others or self._alone()

    def _renewed(self) -> bool:
        """Put the next object; False if another writer took over, which deletes the last one.

        Other writers' objects are ignored: those writers see one of ours and give up.
        """
        last, following = self._object, join(self._place, f"{self._name}-{self._number + 1:06d}")
        write_bytes(following, b"")
        held = {last, following} <= file_infos(self._place).keys()
        self._number += 1  # Not before: after a failed request the next call renews the same object.
        if not held:
            self._done.set()
            delete(following)
        delete(last)
        return held

    def _refresh(self) -> None:
        while not self._done.wait(_REFRESH_S):
            with suppress(CaptureError), self._guard:  # If the store is unreachable, try again; `check` raises.
                if self._done.is_set() or not self._renewed():
                    return
