"""Groups in parts by the CRC-32 of their name, so that no task holds all of them; small parts are done several at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

from counterpoise.pipeline.direct.files.marked_file import Marked

__all__ = ["BUCKETS", "bucket_of", "buckets_at_once", "together"]

BUCKETS = 256
"""So many that those of a capture of 20 million records are small, and so few that it costs little to write each apart."""
_LEAST_PARTS = 8


def bucket_of(group: bytes) -> int:
    """Where a group belongs, by its name; Spark knows CRC-32 too."""
    return crc32(group) % BUCKETS


def buckets_at_once(files: Iterable[str], most_bytes: int, tasks: int) -> int:
    """How many buckets, one after the other, to do together: a power of two.

    Parameters
    ----------
    files : iterable of str
        All that is read back of them.
    most_bytes : int
        So much of it about what is done together may have.
    tasks : int
        None of so many tasks is to be without work.
    """
    size = sum(Path(file).stat().st_size for file in files)
    most = min(BUCKETS * most_bytes // max(size, 1), BUCKETS // max(_LEAST_PARTS, 2 * tasks))
    return 1 << max(most.bit_length() - 1, 0)


def together(files: Marked, at_once: int) -> list[tuple[str, tuple[int, ...]]]:
    """The files with marks for several buckets in the place of marks for each."""
    return [(file, tuple(bucket // at_once for bucket in buckets)) for file, buckets in files]
