"""The fields of a commit that have no fixed place: its metadata and its tagged fields, for many rows at once."""

from __future__ import annotations

import numpy as np

from counterpoise.wire.columns import Bool, Int64, UInt8, gather

__all__ = ["metadata_at", "tail_at"]

_ID_TAG = b"\x01\x00\x10"
"""One tagged field: tag 0, 16 bytes."""
_ID_TAIL = len(_ID_TAG) + 16


def metadata_at(data: UInt8, at: Int64, *, compact: bool) -> tuple[Int64, Int64]:
    """Start and length of the metadata strings whose length stands at `at`; length -1: null, or left to the row-wise decoder."""
    if not compact:
        return at + 2, gather(data, ">i2", at).astype(np.int64)
    first = data[at].astype(np.int64)
    start, length = at + 1, first - 1
    wide = np.flatnonzero(first >= 0x80)
    if len(wide):
        # Two or three bytes; at least eight bytes of timestamp follow, so they are there.
        second, third = data[at[wide] + 1].astype(np.int64), data[at[wide] + 2].astype(np.int64)
        two = second < 0x80
        start[wide] += np.where(two, 1, 2)
        number = (first[wide] & 0x7F) | (second & 0x7F) << 7 | np.where(two, 0, third << 14)
        length[wide] = np.where(two | (third < 0x80), number - 1, -1)
    return start, length


def tail_at(data: UInt8, at: Int64, left: Int64) -> tuple[Bool, Int64]:
    """Tagged fields that begin at `at` and are the last `left` bytes: sound ones, and where the topic id is (-1: none)."""
    id_start = np.full(len(at), -1, np.int64)
    sound = (left == 1) & (data[at] == 0)
    one_id = np.flatnonzero(left == _ID_TAIL)
    one_id = one_id[gather(data, "V3", at[one_id]) == np.void(_ID_TAG)]
    sound[one_id] = True
    id_start[one_id] = at[one_id] + len(_ID_TAG)
    unusual = np.flatnonzero(~sound)
    if len(unusual):
        sound[unusual], id_start[unusual] = _walk_tags(data, at[unusual], at[unusual] + left[unusual])
    return sound, id_start


def _walk_tags(data: UInt8, cursor: Int64, end: Int64) -> tuple[Bool, Int64]:
    """`tail_at` for any tagged fields whose varints have one byte each (so a new one in the format costs no speed)."""
    count = data[cursor]
    sound = count < 0x80
    cursor, last, id_start = cursor + 1, np.full(len(end), -1, np.int64), np.full(len(end), -1, np.int64)
    for number in range(128):
        open_ = np.flatnonzero(sound & (number < count))
        if not len(open_):
            break
        here = cursor[open_]
        fits = here + 2 <= end[open_]
        tag, size = (data[np.where(fits, here + each, 0)].astype(np.int64) for each in (0, 1))
        fits &= (tag < 0x80) & (size < 0x80) & (tag > last[open_]) & (here + 2 + size <= end[open_])
        fits &= (tag != 0) | (size == _ID_TAIL - len(_ID_TAG))
        id_start[open_[fits & (tag == 0)]] = here[fits & (tag == 0)] + 2
        sound[open_], last[open_], cursor[open_] = fits, tag, here + 2 + size
    return sound & (cursor == end), id_start
