"""Binary columns as NumPy sees them: fixed-width fields, slices and UTF-8, for all rows in one step.

The arrays are those of an Arrow binary array (offsets, data, validity), taken as views: nothing is copied and Arrow
itself is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "BinaryColumn",
    "Bool",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "distinct_slices",
    "gather",
    "not_utf8",
    "pack_slices",
    "windows",
]

Bool: TypeAlias = npt.NDArray[np.bool_]
UInt8: TypeAlias = npt.NDArray[np.uint8]
Int16: TypeAlias = npt.NDArray[np.int16]
Int32: TypeAlias = npt.NDArray[np.int32]
Int64: TypeAlias = npt.NDArray[np.int64]


_AT_ONCE = 1 << 16
"""Slices that exist as bytes at a time."""


@dataclass(frozen=True, eq=False)
class BinaryColumn:
    """n byte strings end to end."""

    # int32[n+1] or int64[n+1]: row i is ``data[offsets[i]:offsets[i+1]]``; need not begin at 0. Trusted: never falling, within
    # `data`.
    offsets: Int32 | Int64
    data: UInt8  # uint8[]: contiguous
    valid: Bool | None = None  # bool[n]: False if the row is null. None: no row is

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def spans(self, row: Int64) -> tuple[Int64, Int64]:
        """Start and length of the rows' bytes, int64."""
        start, end = self.offsets[row], self.offsets[row + 1]
        return start.astype(np.int64), (end - start).astype(np.int64)

    def row(self, index: int) -> bytes | None:
        """One row as bytes; None = null."""
        if self.valid is not None and not self.valid[index]:
            return None
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


def gather(data: UInt8, dtype: str, position: Int64) -> npt.NDArray[np.generic]:
    """The big-endian field of type `dtype` that begins at each byte position, in native order.

    The field must lie within `data` at every position. O(rows), no copy of `data`.
    """
    wanted = np.dtype(dtype)
    taken = windows(data, wanted)[position]
    return taken if wanted.kind == "V" else taken.astype(wanted.newbyteorder("="), copy=False)


def pack_slices(
    data: UInt8,  # uint8[]
    # start, length (int64[n]): slice i is ``data[start[i]:start[i]+length[i]]``; must lie within `data`
    start: Int64,
    length: Int64,
) -> tuple[Int32 | Int64, UInt8]:
    """Slices of `data` end to end: (offsets, data) of an Arrow binary or string array.

    Returns `offsets` int32[n+1], or int64[n+1] from 2 GiB on; `packed` uint8[offsets[-1]].

    O(bytes), one pass per distinct length: a slice of known length moves as one element.
    """
    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    packed = np.empty(int(offsets[-1]), np.uint8)
    for size, rows in _by_length(length):
        width = np.dtype(f"V{size}")
        windows(packed, width)[offsets[:-1][rows]] = windows(data, width)[start[rows]]
    fits = int(offsets[-1]) <= np.iinfo(np.int32).max
    return (offsets.astype(np.int32) if fits else offsets), packed


def distinct_slices(data: UInt8, start: Int64, length: Int64) -> set[bytes]:
    """The distinct slices of `data`, as in `pack_slices`; O(bytes), one pass per distinct length."""
    found = {b""} if len(length) and not length.all() else set()
    for size, rows in _by_length(length):
        places = start[rows]
        for part in range(0, len(places), _AT_ONCE):
            found.update(gather(data, f"V{size}", places[part : part + _AT_ONCE]).tolist())
    return found


def not_utf8(data: UInt8, start: Int64, length: Int64) -> Bool:
    """Which slices are not valid UTF-8, bool[n]; O(bytes), and a step for each slice that is not ASCII."""
    bad = np.zeros(len(start), np.bool_)
    filled = np.flatnonzero(length)
    if not len(filled):
        return bad
    offsets, packed = pack_slices(data, start[filled], length[filled])
    if not len(packed) or int(packed.max()) < 0x80:
        return bad
    beyond_ascii = np.flatnonzero(np.maximum.reduceat(packed, offsets[:-1]) >= 0x80)
    texts = (packed[offsets[at] : offsets[at + 1]].tobytes() for at in beyond_ascii.tolist())
    bad[filled[beyond_ascii]] = [not _is_utf8(text) for text in texts]
    return bad


def windows(data: UInt8, dtype: np.dtype[np.void] | np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """`data` as overlapping elements of `dtype`, one beginning at every byte; writes go through."""
    if len(data) < dtype.itemsize:
        data = np.concatenate((data, np.zeros(dtype.itemsize, np.uint8)))
    return np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data.data, 0, (1,))


def _by_length(length: Int64) -> list[tuple[int, Int64 | slice]]:
    """(length, rows of that length) for every length above 0."""
    if not len(length):
        return []
    shortest, longest = int(length.min()), int(length.max())
    if shortest == longest:
        return [(longest, slice(None))] if longest else []
    order = np.argsort(length, kind="stable")
    ordered = length[order]
    bounds = np.flatnonzero(np.diff(ordered)) + 1
    groups = np.split(order, bounds)
    return [(size, rows) for rows in groups if (size := int(length[rows[0]]))]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
