"""Many topic lists at once: every member's n-th entry in one vectorised step, and names to codes.

Lists of strings and lists of [string, [int32]] have no index: where an entry ends is known only when it has been
read. But a group has many members, so the n-th entries of all their lists are read together, whatever the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.wire.columns import Bool, Int32, Int64, UInt8, windows

__all__ = ["PADDING", "Entries", "TopicIndex", "padded", "scan"]

PADDING = 8
"""Bytes beyond the end that the steps here may read but never use."""

_FEW = 48
"""Below so many open lists a plain loop over one list is faster than a vectorised step over all."""

UInt64 = npt.NDArray[np.uint64]

_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)


class Entries(NamedTuple):
    """Entries of many lists, in no particular order, and where each list ended."""

    list_of: Int64  # int64[E]: which list an entry belongs to
    # name_start, name_length (int64[E]): slices of the buffer
    name_start: Int64
    name_length: Int64
    # part_start, part_count (int64[E]): where the entry's int32 partitions begin, and how many there are; 0 in lists of strings
    part_start: Int64
    part_count: Int64
    end: Int64  # int64[L]: position behind each list; -1 if the bytes hold no such list


def padded(buffers: Sequence[bytes]) -> tuple[UInt8, Int64]:
    """All buffers end to end with `PADDING` zeros behind them, and where each begins and the last one ends."""
    starts = np.zeros(len(buffers) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, buffers), np.int64, len(buffers)), out=starts[1:])
    return np.frombuffer(b"".join([*buffers, bytes(PADDING)]), np.uint8), starts


def scan(
    data: UInt8,  # uint8[]: a buffer from `padded`
    # at, limit (int64[L]): positions in it; an `at` beyond its limit is a list that does not exist
    at: Int64,
    limit: Int64,
    *,
    with_partitions: bool,  # Entries are [string, [int32]], else strings
) -> Entries:
    """Read the lists that begin at `at` (with their int32 count) and must end by `limit`.

    As many steps of O(lists still open) as the longest list has entries; a few long lists are walked one by one. A list whose
    count needs more bytes than there are is broken; entries of broken lists are left out.
    """
    int32_at, int16_at = windows(data, np.dtype(">i4")), windows(data, np.dtype(">i2"))
    exists = at + 4 <= limit
    count = np.where(exists, int32_at[np.where(exists, at, 0)], -1).astype(np.int64)
    smallest = 6 if with_partitions else 2
    end = np.where((count >= 0) & (count * smallest <= limit - at - 4), at + 4, -1)
    count[end < 0] = 0
    order = np.argsort(-count, kind="stable")
    cursor, stop, left = end[order], limit[order], count[order]
    walker = _Walker(int16_at, int32_at, with_partitions)
    step = 0
    active = int(np.count_nonzero(left > 0))
    while active > _FEW:
        good = walker.step(order[:active], cursor, stop, active)
        if not good.all():
            keep = np.concatenate((good, np.ones(len(order) - active, np.bool_)))
            end[order[~keep]] = -1
            order, cursor, stop, left = order[keep], cursor[keep], stop[keep], left[keep]
        step += 1
        active = int(np.searchsorted(-left, -step, "left"))
    end[order] = cursor
    for one in range(active):
        end[order[one]] = walker.rest(int(order[one]), int(cursor[one]), int(stop[one]), int(left[one]) - step)
    entries = walker.entries()
    if (end < 0).any():
        entries = entries[:, end[entries[0]] >= 0]
    return Entries(entries[0], entries[1], entries[2], entries[3], entries[4], end)


class _Walker:
    """Collects entries, a column of them per step."""

    def __init__(self, int16_at: npt.NDArray[np.generic], int32_at: npt.NDArray[np.generic], with_partitions: bool) -> None:
        self._int16_at, self._int32_at, self._with_partitions = int16_at, int32_at, with_partitions
        self._found: list[Int64] = []

    def step(self, lists: Int64, cursor: Int64, stop: Int64, active: int) -> Bool:
        """Read one entry of each of the first `active` lists and move their cursors; False if there is none."""
        position, limit = cursor[:active], stop[:active]
        length: Int64 = self._int16_at[position].astype(np.int64)
        behind = position + 2 + length
        tail = 4 if self._with_partitions else 0
        good = (length >= 0) & (behind + tail <= limit)
        if self._with_partitions:
            count: Int64 = self._int32_at[behind if good.all() else np.where(good, behind, 0)].astype(np.int64)
            following = behind + 4 + 4 * count
            good &= (count >= 0) & (following <= limit)
        else:
            count, following = np.zeros_like(length), behind
        self._found.append(np.stack((lists, position + 2, length, behind + tail, count)))
        cursor[:active] = following
        return good

    def rest(self, number: int, position: int, limit: int, left: int) -> int:
        """Read `left` entries of one list; where it ends, or -1."""
        found: list[tuple[int, int, int, int, int]] = []
        tail = 4 if self._with_partitions else 0
        for _ in range(left):
            length = int(self._int16_at[position]) if position + 2 <= limit else -1
            behind = position + 2 + length
            if length < 0 or behind + tail > limit:
                return -1
            count = int(self._int32_at[behind]) if tail else 0
            if count < 0 or behind + tail + 4 * count > limit:
                return -1
            found.append((number, position + 2, length, behind + tail, count))
            position = behind + tail + 4 * count
        if found:
            self._found.append(np.array(found, np.int64).T)
        return position

    def entries(self) -> Int64:
        """int64[5, E], rows as in `Entries`."""
        return np.concatenate(self._found, axis=1) if self._found else np.zeros((5, 0), np.int64)


class TopicIndex:
    """Topic names of a cluster, distinct and in code order, to be found in buffers by their bytes.

    A name is hashed by its 8-byte words and compared word by word with the one candidate of that hash, so a match is
    exact whatever the bytes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        encoded = [name.encode("utf-8", "surrogatepass") for name in self.names]
        self.length = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._n_words = (int(self.length.max(initial=0)) + 7) // 8
        # Each name behind its int16 length, as it is written, in words of eight bytes.
        width = 8 * ((int(self.length.max(initial=0)) + 9) // 8)
        prefixed = b"".join((len(raw).to_bytes(2, "big") + raw).ljust(width, b"\0") for raw in encoded)
        self.prefixed = np.frombuffer(prefixed, "<u8").reshape(len(encoded), width // 8)
        data, starts = padded(encoded)
        self._words = self._words_at(data, starts[:-1], self.length)
        self._seed_hashes()

    def __len__(self) -> int:
        return len(self.names)

    def find(self, data: UInt8, start: Int64, length: Int64) -> Int32:
        """Code of the name in each slice of a padded buffer, -1 if it is none of the names. O(slices x log names)."""
        code = np.full(len(start), -1, np.int32)
        if not len(self.names):
            return code
        possible = np.flatnonzero(length <= 8 * self._n_words)
        whole = len(possible) == len(start)
        start, length = (start, length) if whole else (start[possible], length[possible])
        words = self._words_at(data, start, length)
        place = np.searchsorted(self._hashes, self._hash(words, length))
        candidate = self._code_of_hash[np.minimum(place, len(self.names) - 1)]
        equal = self.length[candidate] == length
        for ours, theirs in zip(self._words, words, strict=True):
            equal &= ours[candidate] == theirs
        code[possible] = np.where(equal, candidate, -1)
        return code

    def _words_at(self, data: UInt8, start: Int64, length: Int64) -> list[UInt64]:
        """The slices' bytes as words, zero behind their end."""
        at = windows(data, np.dtype("<u8"))
        words: list[UInt64] = []
        for number in range(self._n_words):
            left = np.clip(length - 8 * number, 0, 8)
            position = start + 8 * number if number == 0 else np.where(left > 0, start + 8 * number, 0)
            words.append(at[position].astype(np.uint64, copy=False) & _MASKS[left])
        return words

    def _hash(self, words: list[UInt64], length: Int64) -> UInt64:
        mixed = length.astype(np.uint64) * self._multiplier
        for word in words:
            mixed = (mixed ^ word) * self._multiplier
            mixed ^= mixed >> np.uint64(29)
        return mixed

    def _seed_hashes(self) -> None:
        """Choose a multiplier that gives every name its own hash."""
        self._multiplier = np.uint64(0x9E3779B97F4A7C15)
        while True:
            hashes = self._hash(self._words, self.length)
            order = np.argsort(hashes, kind="stable")
            self._hashes, self._code_of_hash = hashes[order], order.astype(np.int32)
            if not np.any(self._hashes[1:] == self._hashes[:-1]):
                return
            self._multiplier = np.uint64((int(self._multiplier) * 0xD1342543DE82EF95 + 2) % 2**64 | 1)
