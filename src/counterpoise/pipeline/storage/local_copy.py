"""Local copies of files on an object store, to map them into memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import IO

from counterpoise.pipeline.storage.files import filesystem_of, storage_errors

__all__ = ["LocalCopy", "local_copy"]

_CHUNK = 1 << 20
_COPIES: dict[str, LocalCopy] = {}
_MOST_COPIES = 8


class LocalCopy:
    """An unnamed copy of a file; it is there as long as somebody has this object."""

    def __init__(self, file: IO[bytes]) -> None:
        descriptor = os.dup(file.fileno())
        self.path = f"/dev/fd/{descriptor}"
        weakref.finalize(self, os.close, descriptor)


def local_copy(uri: str) -> LocalCopy:
    """A copy of a file on an object store, to map it into memory.

    A process keeps its last copies, so the file must not change. A copy disappears if the worker is killed.
    """
    if uri not in _COPIES:
        store, path = filesystem_of(uri)
        with storage_errors(uri), store.open_input_stream(path) as content, tempfile.TemporaryFile() as scratch:
            shutil.copyfileobj(content, scratch, _CHUNK)
            scratch.flush()
            _COPIES[uri] = LocalCopy(scratch)
        if len(_COPIES) > _MOST_COPIES:
            del _COPIES[next(iter(_COPIES))]
    return _COPIES[uri]
