"""Who owns which partition in one generation, as arrays per topic, and what changed against another generation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

__all__ = ["NOBODY", "Left", "Owners", "carried", "changes", "left_by", "owners_of", "pending", "without_unused_codes"]

Owners: TypeAlias = dict[str, npt.NDArray[np.int32]]
"""Topic -> code of the owner per partition index, NOBODY where there is none."""
NOBODY = -1


class Left(TypedDict):
    """What a group has when its protocol changes: members, owners, and the code of each member's identity."""

    members: list[Mapping[str, Any]]
    owners: Owners
    codes: dict[str, int]


def left_by(members: Iterable[Mapping[str, Any]]) -> Left:
    """`Left` with members and no owners."""
    return {"members": list(members), "owners": {}, "codes": {}}


def owners_of(pairs: Iterable[tuple[int, Sequence[Mapping[str, Any]]]]) -> Owners:
    """Owners from pairs of a member's code and its ``[{topic, partitions}]``; the later of two owners wins."""
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
        array = _laid_out(held_by)
        if array is not None:
            owners[topic] = array
    return owners


def _laid_out(held_by: list[tuple[int, Sequence[int]]]) -> npt.NDArray[np.int32] | None:
    """The same for one topic of any size."""
    index = np.array([one for _, partitions in held_by for one in partitions], np.int64)
    code = np.repeat(np.array([code for code, _ in held_by], np.int32), [len(partitions) for _, partitions in held_by])
    there = (index >= 0) & (index < _MOST)
    if not there.any():
        return None
    array = np.full(int(index[there].max()) + 1, NOBODY, np.int32)
    array[index[there]] = code[there]
    return array


_FEW = 256
"""Below this a list is filled sooner than an array."""
_MOST = 10_000_000
"""No topic has so many partitions: an index beyond is damage, and must not be allocated for."""


def without_unused_codes(owners: Owners, codes: Mapping[str, int], keep: Collection[str]) -> tuple[Owners, dict[str, int]]:
    """Owners and codes by name without the names that own nothing and are not in `keep`; codes are consecutive again."""
    owning = np.zeros(len(codes) + 1, np.bool_)  # the last place is for NOBODY
    for array in owners.values():
        owning[array] = True
    kept = [name for name, code in codes.items() if owning[code] or name in keep]
    new = np.full(len(codes) + 1, NOBODY, np.int32)
    new[[codes[name] for name in kept]] = np.arange(len(kept))
    return {topic: new[array] for topic, array in owners.items()}, {name: at for at, name in enumerate(kept)}


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
        if n <= _FEW:
            for was_one, one in zip(old.tolist(), array.tolist(), strict=False):
                if was_one == one:
                    kept += one != NOBODY
                elif was_one != NOBODY and one != NOBODY:
                    moved += bool(alive[was_one])
            continue
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
