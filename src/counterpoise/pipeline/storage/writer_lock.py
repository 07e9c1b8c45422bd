"""One writer at a time in a folder: a file lock on a disk, a protocol of small objects elsewhere.

Object stores cannot lock. A writer there puts an object with a name of its own into a folder and lists the folder afterwards: it
is the writer if it sees no other live object. Of two that try at once the one that puts later sees the other, so both may be
refused, and never both accepted. The holder replaces its object every 15 s by one with a new name. An object of more than a
minute, by the clock of the store, belongs to a writer that died: the next one deletes it. A holder whose last object is gone when
it puts the next one has been taken for dead and stops.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from counterpoise.errors import CaptureError
from counterpoise.pipeline.storage.files import absolute, delete, file_infos, is_local, join, storage_errors, write_bytes

__all__ = ["DEAD_S", "WriterLock"]

DEAD_S = 60.0
"""A holder that was not heard of for so long is dead."""
_REFRESH_S = 15.0
_LOCAL_WAIT_S, _STORE_WAIT_S = 0.05, 0.5


class WriterLock:
    """The right to write into a folder.

    Parameters
    ----------
    folder : str
        Path or URI of a folder for the lock alone; made if it is not there.
    refused : str
        The error's text if somebody else has it.

    Attributes
    ----------
    file : file, optional
        On a disk, while it is held: a process that inherits it keeps others out as well.
    """

    def __init__(self, folder: str, refused: str) -> None:
        self._folder, self._refused = absolute(folder), refused
        self._name, self._number = uuid4().hex, 0
        self._guard = threading.Lock()
        self._done = threading.Event()
        self.file: IO[str] | None = None

    @contextmanager
    def held(self, patience: float = 0.0) -> Iterator[None]:
        """`acquire`, and in the end `release`."""
        self.acquire(patience)
        try:
            yield
        finally:
            self.release()

    def acquire(self, patience: float = 0.0) -> None:
        """Become the writer.

        Parameters
        ----------
        patience : float
            Seconds to wait for another one to end.

        Raises
        ------
        CaptureError
            Somebody else is the writer, or the folder cannot be written.
        """
        until = time.monotonic() + patience
        while not self._acquired():
            if time.monotonic() >= until:
                raise CaptureError(self._refused)
            # Not in step with another one that waits: their objects would refuse each other for ever.
            time.sleep(_LOCAL_WAIT_S if is_local(self._folder) else _STORE_WAIT_S * (1 + int(self._name[:4], 16) / 2**16))
        self._done.clear()
        if self.file is None:
            threading.Thread(target=self._refresh, daemon=True).start()

    def check(self) -> None:
        """Make sure that this is still the writer, before something is written that another one builds on.

        Raises
        ------
        CaptureError
            This writer was taken for dead; it must not write any more.
        """
        with self._guard:
            if self.file is None and (self._done.is_set() or not self._renewed()):
                raise CaptureError(f"{self._refused}; this one was not heard of for a minute")

    def release(self) -> None:
        """Let the next one in."""
        self._done.set()
        with self._guard, suppress(CaptureError):
            if self.file is not None:
                self.file.close()
                self.file = None
            else:
                delete(self._object)

    @property
    def _object(self) -> str:
        return join(self._folder, f"{self._name}-{self._number:06d}")

    def _acquired(self) -> bool:
        if is_local(self._folder):
            return self._locked()
        write_bytes(self._object, b"")
        alone = False
        try:
            alone = self._alone()
        finally:
            if not alone:
                delete(self._object)
        return alone

    def _locked(self) -> bool:
        with storage_errors(self._folder):
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            file = (Path(self._folder) / "lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self.file = file
        return True

    def _alone(self) -> bool:
        """Whether nobody else is alive; objects of dead writers are deleted. Called when one's own object was put."""
        found = {name: info.mtime_ns for name, info in file_infos(self._folder).items() if not info.base_name.startswith(".")}
        mine = join(self._folder, self._name)
        others = {name: at for name, at in found.items() if not name.startswith(mine)}
        oldest = found.get(self._object, 0) - DEAD_S * 1e9
        if self._object not in found or any(at > oldest for at in others.values()):
            return False
        for dead in others:
            delete(dead)
        return not others or self._alone()

    def _renewed(self) -> bool:
        """Put the next object; False if somebody else took over: who does so deletes the last one.

        Objects of others do not matter. They see this one, or the last one, and are refused.
        """
        last = self._object
        self._number += 1
        write_bytes(self._object, b"")
        held = {last, self._object} <= file_infos(self._folder).keys()
        delete(last)
        if not held:
            delete(self._object)
            self._done.set()
        return held

    def _refresh(self) -> None:
        while not self._done.wait(_REFRESH_S):
            with suppress(CaptureError), self._guard:  # Unreachable for a moment: tried again, and `check` says so.
                if self._done.is_set() or not self._renewed():
                    return
