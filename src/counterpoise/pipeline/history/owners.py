"""Owners of partitions in one generation as arrays per topic, and the moves between two generations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

__all__ = [
    "NOBODY",
    "Handover",
    "Owners",
    "count_moves",
    "count_revoked",
    "handover_of",
    "owners_of",
    "with_withheld",
    "without_unused_codes",
]

Owners: TypeAlias = dict[str, npt.NDArray[np.int32]]
"""Topic -> code of the owner per partition index, NOBODY: none."""
NOBODY = -1


class Handover(TypedDict):
    """The state of a group when its protocol changes: members, owners, and the code of each member's identity."""

    members: list[Mapping[str, Any]]
    owners: Owners
    codes: dict[str, int]


def handover_of(members: Iterable[Mapping[str, Any]]) -> Handover:
    """A handover with members and without owners."""
    return {"members": list(members), "owners": {}, "codes": {}}


def owners_of(pairs: Iterable[tuple[int, Sequence[Mapping[str, Any]]]]) -> Owners:
    """Owners from pairs of a member's code and its ``[{topic, partitions}]``; the last owner of a partition wins."""
    parts: dict[str, list[tuple[int, Sequence[int]]]] = {}
    for code, held in pairs:
        for entry in held:
            partitions = entry["partitions"]
            if len(partitions):
                parts.setdefault(entry["topic"], []).append((code, partitions))
    owners: Owners = {}
    for topic, held_by in parts.items():
        top = max(max(partitions) for _, partitions in held_by)
        if top < _FEW and min(min(partitions) for _, partitions in held_by) >= 0:
            few = [NOBODY] * (top + 1)
            for code, partitions in held_by:
                for index in partitions:
                    few[index] = code
            owners[topic] = np.array(few, np.int32)
            continue
        array = _large_topic(held_by)
        if array is not None:
            owners[topic] = array
    return owners


def _large_topic(held_by: list[tuple[int, Sequence[int]]]) -> npt.NDArray[np.int32] | None:
    """The owners of one topic of any size; None: it has no valid partition."""
    index = np.array([one for _, partitions in held_by for one in partitions], np.int64)
    code = np.repeat(np.array([code for code, _ in held_by], np.int32), [len(partitions) for _, partitions in held_by])
    valid = (index >= 0) & (index < _MOST)
    if not valid.any():
        return None
    array = np.full(int(index[valid].max()) + 1, NOBODY, np.int32)
    array[index[valid]] = code[valid]
    return array


_FEW = 256
"""For fewer partitions a list is faster than an array."""
_MOST = 10_000_000
"""No topic has so many partitions: a larger index is damage, and no memory must be allocated for it."""


def without_unused_codes(owners: Owners, codes: Mapping[str, int], keep: Collection[str]) -> tuple[Owners, dict[str, int]]:
    """Owners and codes by name, without names that own nothing and are not in `keep`; the new codes are consecutive."""
    owning = np.zeros(len(codes) + 1, np.bool_)  # the last place is for NOBODY
    for array in owners.values():
        owning[array] = True
    kept = [name for name, code in codes.items() if owning[code] or name in keep]
    new = np.full(len(codes) + 1, NOBODY, np.int32)
    new[[codes[name] for name in kept]] = np.arange(len(kept))
    return {topic: new[array] for topic, array in owners.items()}, {name: at for at, name in enumerate(kept)}


def count_moves(before: Owners, now: Owners, present: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """(moved, kept): the number of partitions that moved from one present member to another, and of those that stayed.

    `present[code]` says whether a member of the previous generation is still in the group; partitions of a member that left do
    not count as moved.
    """
    moved = kept = 0
    for topic, array in now.items():
        old = before.get(topic)
        if old is None:
            continue
        n = min(len(old), len(array))
        if n <= _FEW:
            for was_one, one in zip(old.tolist(), array.tolist(), strict=False):
                if was_one == one:
                    kept += one != NOBODY
                elif was_one != NOBODY and one != NOBODY:
                    moved += bool(present[was_one])
            continue
        both = (old[:n] != NOBODY) & (array[:n] != NOBODY)
        was, is_now = old[:n][both], array[:n][both]
        same = was == is_now
        kept += int(np.count_nonzero(same))
        moved += int(np.count_nonzero(~same & present[was]))
    return moved, kept


def count_revoked(claimed: Owners, now: Owners) -> int:
    """The number of claimed partitions that the claimant does not keep: it revokes them, and the group rejoins."""
    total = 0
    for topic, claims in claimed.items():
        array = now.get(topic, np.zeros(0, np.int32))
        given = np.full(len(claims), NOBODY, np.int32)
        given[: min(len(claims), len(array))] = array[: len(claims)]
        total += int(np.count_nonzero((claims != NOBODY) & (claims != given)))
    return total


def with_withheld(before: Owners, now: Owners) -> Owners:
    """`now`, with the previous owner of partitions that have no owner (withheld until they are revoked)."""
    merged: Owners = {}
    for topic, array in now.items():
        old = before.get(topic, np.zeros(0, np.int32))
        whole = np.full(max(len(array), len(old)), NOBODY, np.int32)
        whole[: len(old)] = old
        whole[: len(array)] = np.where(array == NOBODY, whole[: len(array)], array)
        merged[topic] = whole
    return {**before, **merged}
