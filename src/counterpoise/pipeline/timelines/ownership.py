"""Who owns which partition in one generation, as arrays per topic, and what changed against another generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "NOBODY",
    "Owners",
    "carried",
    "changes",
    "owners_of",
    "pending",
]

Owners: TypeAlias = dict[str, npt.NDArray[np.int32]]
"""Topic -> code of the owner per partition index, NOBODY where there is none."""
NOBODY = -1


def owners_of(pairs: Iterable[tuple[int, Sequence[Mapping[str, Any]]]]) -> Owners:
    """Owners from pairs of a member's code and its ``[{topic, partitions}]``; the later of two owners stands."""
    parts: dict[str, tuple[list[int], list[int], list[int]]] = {}
    for code, held in pairs:
        for entry in held:
            partitions = entry["partitions"]
            if len(partitions):
                indices, codes, lengths = parts.setdefault(entry["topic"], ([], [], []))
                indices.extend(partitions)
                codes.append(code)
                lengths.append(len(partitions))
    owners: Owners = {}
    for topic, (indices, codes, lengths) in parts.items():
        index = np.array(indices, np.int64)
        code_of = np.repeat(np.array(codes, np.int32), lengths)
        top = int(index.max())
        if top >= _MOST or int(index.min()) < 0:
            there = (index >= 0) & (index < _MOST)
            index, code_of = index[there], code_of[there]
            if not len(index):
                continue
            top = int(index.max())
        array = np.full(top + 1, NOBODY, np.int32)
        array[index] = code_of
        owners[topic] = array
    return owners


_MOST = 10_000_000
"""No topic has so many partitions: an index beyond is damage, and must not be allocated for."""


def changes(before: Owners, now: Owners, alive: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """(moved, kept): partitions that went from one living member to another, and those that stayed.

    `alive[code]` says whether a member of the generation before is still there; what a departed member leaves
    behind has to go somewhere and is no move.
    """
    moved = kept = 0
    for topic, array in now.items():
        old = before.get(topic)
        if old is None:
            continue
        n = min(len(old), len(array))
        both = (old[:n] != NOBODY) & (array[:n] != NOBODY)
        was, is_now = old[:n][both], array[:n][both]
        same = was == is_now
        kept += int(np.count_nonzero(same))
        moved += int(np.count_nonzero(~same & alive[was]))
    return moved, kept


def pending(claimed: Owners, now: Owners) -> int:
    """Partitions that a member claimed and did not get back: it revokes them, and the group rejoins."""
    total = 0
    for topic, claims in claimed.items():
        array = now.get(topic, np.zeros(0, np.int32))
        given = np.full(len(claims), NOBODY, np.int32)
        given[: min(len(claims), len(array))] = array[: len(claims)]
        total += int(np.count_nonzero((claims != NOBODY) & (claims != given)))
    return total


def carried(before: Owners, now: Owners) -> Owners:
    """`now`, and the owner before where nobody has the partition now (withheld until it is revoked)."""
    merged: Owners = {}
    for topic, array in now.items():
        old = before.get(topic, np.zeros(0, np.int32))
        whole = np.full(max(len(array), len(old)), NOBODY, np.int32)
        whole[: len(old)] = old
        whole[: len(array)] = np.where(array == NOBODY, whole[: len(array)], array)
        merged[topic] = whole
    return {**before, **merged}
