"""Sets of members as the bits of one Python integer: a few thousand members cost a tenth of a microsecond an operation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

Levels: TypeAlias = dict[int, int]
"""From a count above 0 to the set of members that have it."""

__all__ = [
    "Levels",
    "add_to",
    "bits_of_rows",
    "each_bit",
    "everybody",
    "levels_of",
    "lowest",
    "members_of",
    "step_down",
    "take_from",
    "take_most",
    "width",
]


def width(n_members: int) -> int:
    """Columns of a table with one per member, rounded up to whole bytes."""
    return (n_members + 7) // 8 * 8


def bits_of_rows(table: npt.NDArray[np.bool_]) -> list[int]:
    """One set per row of a table whose rows are whole bytes wide."""
    packed, step = np.packbits(table, bitorder="little").tobytes(), table.shape[1] // 8
    return [int.from_bytes(packed[at : at + step], "little") for at in range(0, len(packed), step)]


def members_of(sets: Iterable[int], n_members: int) -> Int64:
    """The members of each set, ascending, one set after the other."""
    step = width(n_members) // 8
    packed = b"".join([bits.to_bytes(step, "little") for bits in sets])
    found = np.flatnonzero(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little").view(np.bool_))
    return np.asarray(found % max(8 * step, 1), np.int64)


def lowest(bits: int, n: int) -> int:
    """The n lowest of the bits, or all where there are no more; O(log) by halving."""
    if n == 1:
        return bits & -bits
    count = bits.bit_count()
    if count <= n:
        return bits
    low, high = n, bits.bit_length()
    while True:
        middle = (low + high) // 2
        part = bits & ((1 << middle) - 1)
        count = part.bit_count()
        if count == n:
            return part
        if count < n:
            low = middle + 1
        else:
            high = middle


def each_bit(bits: int) -> list[int]:
    """The positions of the bits, ascending."""
    found = []
    while bits:
        last = bits & -bits
        found.append(last.bit_length() - 1)
        bits ^= last
    return found


def levels_of(count: Int64) -> Levels:
    """The members by their count."""
    values = np.flatnonzero(np.bincount(count))
    values = values[values > 0]
    columns = np.zeros((len(values), width(len(count))), np.bool_)
    columns[:, : len(count)] = count == values[:, None]
    return dict(zip(values.tolist(), bits_of_rows(columns), strict=True))


def everybody(levels: Levels) -> int:
    """All members at any level."""
    every = 0
    for members in levels.values():
        every |= members
    return every


def step_down(levels: Levels, level: int, members: int) -> None:
    """Count one less for some members of a level."""
    levels[level] ^= members
    if not levels[level]:
        del levels[level]
    if level > 1:
        levels[level - 1] = levels.get(level - 1, 0) | members


def take_most(levels: Levels, members: int, n: int) -> int:
    """Up to n of the members, those at the highest levels first; each goes one level down."""
    taken = []
    chosen = 0
    for level in sorted(levels, reverse=True):
        here = members & levels[level]
        if here:
            here = lowest(here, n)
            taken.append((level, here))
            chosen |= here
            n -= here.bit_count()
            if not n:
                break
    for level, here in reversed(taken):  # from below, so that nobody goes down twice
        step_down(levels, level, here)
    return chosen


def add_to(layers: list[int], members: int) -> None:
    """One unit more for each of the members; layer j holds those with more than j units."""
    if not layers or not members & ~layers[-1]:
        layers.append(members)
        return
    for at, layer in enumerate(layers):
        layers[at], members = layer | members, layer & members
        if not members:
            return
    layers.append(members)


def take_from(layers: list[int], members: int) -> None:
    """One unit less for each of the members, who have some."""
    for at in range(len(layers) - 1, -1, -1):
        here = layers[at] & members
        layers[at] ^= here
        members ^= here
    while layers and not layers[-1]:
        layers.pop()
