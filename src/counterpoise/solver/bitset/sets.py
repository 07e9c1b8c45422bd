"""Sets of members as the bits of one Python integer: a few thousand members cost a tenth of a microsecond an operation."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

ByCount: TypeAlias = dict[int, int]
"""From a count above 0 to the set of members that have it."""

__all__ = [
    "ByCount",
    "add_to",
    "bits_of",
    "bits_of_rows",
    "each_bit",
    "everybody",
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
    step = table.shape[1] // 8
    if not step:
        return [0] * len(table)
    rows = np.packbits(table, bitorder="little").view(f"S{step}").tolist()  # zeros at the end are cut off: they say nothing
    return [int.from_bytes(row, "little") for row in rows]


def members_of(sets: list[int], n_members: int) -> Int64:
    """The members of each set, ascending, one set after the other."""
    step = width(n_members) // 8
    packed = b"".join([members.to_bytes(step, "little") for members in sets])
    found: Int64 = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little").view(np.bool_).nonzero()[0]
    found -= found // (8 * step) * (8 * step)  # a remainder takes several times as long
    return found


def lowest(bits: int, n: int) -> int:
    """The n lowest of the bits, or all if there are fewer; a binary search finds the cut."""
    if n == 1:
        return bits & -bits
    if bits.bit_count() <= n:
        return bits
    low, high = 0, bits.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (bits & ((1 << middle) - 1)).bit_count() < n:
            low = middle + 1
        else:
            high = middle
    return bits & ((1 << low) - 1)


def each_bit(bits: int) -> list[int]:
    """The positions of the bits, ascending."""
    found = []
    while bits:
        last = bits & -bits
        found.append(last.bit_length() - 1)
        bits ^= last
    return found


def bits_of(column: npt.NDArray[np.bool_]) -> int:
    """The members at the true entries."""
    return int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little")


def everybody(levels: ByCount) -> int:
    """All members at any level."""
    every = 0
    for members in levels.values():
        every |= members
    return every


def step_down(levels: ByCount, level: int, members: int) -> None:
    """Count one less for some members of a level."""
    rest = levels[level] ^ members
    if rest:
        levels[level] = rest
    else:
        del levels[level]
    if level > 1:
        levels[level - 1] = levels.get(level - 1, 0) | members


def take_most(levels: ByCount, members: int, n: int) -> int:
    """Up to n of the members, those at the highest levels first; each goes one level down."""
    taken = []
    chosen = 0
    for level in sorted(levels, reverse=True):
        here = lowest(members & levels[level], n)
        if here:
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
