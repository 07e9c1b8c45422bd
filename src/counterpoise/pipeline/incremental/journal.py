"""Many files changed as one: what is to be moved and deleted is written down first, then done, and done again after a crash."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from counterpoise.errors import CaptureError

__all__ = ["Journal", "files_in", "left_over"]


class Journal:
    """The folder ``OUT/.since``: staged files, the journal, and the state that the last audit left.

    Parameters
    ----------
    out : Path
        An audit's output folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.root = out / ".since"
        self.staged = self.root / "staged"
        self._file = self.root / "journal.json"

    @contextmanager
    def open(self) -> Iterator[None]:
        """Be the only one who writes here; what a crash has left is finished, or swept away if it was not yet decided.

        Raises
        ------
        CaptureError
            Another audit is writing there.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / "lock").open("w")
        except OSError as error:
            raise CaptureError(f"{self.out}: {error.strerror}; give a folder that can be written") from None
        with lock:
            if not _locked(lock):
                raise CaptureError(f"{self.out}: another audit is writing there; wait for it, or give another --out")
            self.recover()
            yield

    def recover(self) -> None:
        """Finish what was decided and not done; forget the rest."""
        if self._file.exists():
            self._apply(json.loads(self._file.read_bytes()))
        self.sweep()

    def sweep(self) -> None:
        """Forget what is staged."""
        shutil.rmtree(self.staged, ignore_errors=True)
        self.staged.mkdir(parents=True)

    def commit(self, moves: Iterable[tuple[Path, Path]], gone: Iterable[Path]) -> None:
        """Delete the files `gone` and all files in the folders `gone`, then move each staged file (or folder) to its place.

        Notes
        -----
        From the moment the journal is there it will be done, now or when `open` finds it; before, nothing has happened.
        Files of `gone` that are also the goal of a move stay. Deleted is by file: done a second time, a folder would go with what
        was moved into it the first time.
        """
        pairs = [[str(one.relative_to(self.out)), str(to.relative_to(self.out))] for one, to in moves]
        goals = {to for _, to in pairs}
        files = (str(file.relative_to(self.out)) for one in gone for file in files_in(one))
        about = {"gone": [name for name in files if name not in goals], "moves": pairs}
        scratch = self.root / "tmp-journal.json"
        with scratch.open("w", encoding="utf-8") as file:
            json.dump(about, file)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._file)
        self._apply(about)

    def _apply(self, about: Mapping[str, Any]) -> None:
        for name in about["gone"]:
            place = self.out / name
            place.unlink(missing_ok=True)
            with suppress(OSError):  # Not empty yet, or gone the first time.
                place.parent.rmdir()
        for one, to in about["moves"]:
            source, goal = self.out / one, self.out / to
            if source.exists():
                goal.parent.mkdir(parents=True, exist_ok=True)
                if goal.is_dir():
                    shutil.rmtree(goal)
                source.replace(goal)
        self._file.unlink()
        self.sweep()


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def left_over(root: Path) -> list[Path]:
    """The folders, and files, that an audit has left in ``.since`` for the next one."""
    return [*sorted(root.glob("states-*")), *sorted((root / "ends").glob("*"))]


def files_in(place: Path) -> list[Path]:
    """The file, or all files in the folder."""
    return [file for file in sorted(place.rglob("*")) if not file.is_dir()] if place.is_dir() else [place]
