"""The common base of the folds of classic and modern groups: owners of partitions, moves, and a change of the protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED
from counterpoise.pipeline.history.causes import Difference, identity

__all__ = [
    "Owners",
    "ProtocolFold",
    "assignment_columns",
    "count_moves",
    "count_revoked",
    "fitted",
    "owners_of",
    "with_withheld",
    "without_unused_codes",
]

Row = Mapping[str, Any]
Owners: TypeAlias = dict[str, npt.NDArray[np.int32]]
"""Topic -> code of the owner per partition index, UNOWNED: none."""


def owners_of(pairs: Iterable[tuple[int, Sequence[Row]]]) -> Owners:
    """Owners from pairs of a member's code and its ``[{topic, partitions}]``; the last owner of a partition wins.

    Indices far beyond the number of partitions in `pairs` are skipped, as damaged: memory is bounded by that number.
    """
    parts: dict[str, list[tuple[int, Sequence[int]]]] = {}
    for code, held in pairs:
        for entry in held:
            partitions = entry["partitions"]
            if len(partitions):
                parts.setdefault(entry["topic"], []).append((code, partitions))
    owners: Owners = {}
    for topic, held_by in parts.items():
        index = np.array([one for _, partitions in held_by for one in partitions], np.int64)
        owner = np.array([code for code, partitions in held_by for _ in partitions], np.int32)
        valid = (index >= 0) & (index < _MAX_UNASSIGNED // len(parts) + 10 * len(index))
        index, owner = index[valid], owner[valid]
        if len(index):
            owners[topic] = np.full(int(index.max()) + 1, UNOWNED, np.int32)
            owners[topic][index] = owner
    return owners


_MAX_UNASSIGNED = 100_000
"""An index is damaged if it is beyond ten times the topic's assigned partitions plus this number, shared by the topics."""


def without_unused_codes(owners: Owners, codes: Mapping[str, int], keep: Collection[str]) -> tuple[Owners, dict[str, int]]:
    """Owners and codes by name, without names that own nothing and are not in `keep`; the new codes are consecutive."""
    owning = np.zeros(len(codes) + 1, np.bool_)  # the last place is for UNOWNED
    for array in owners.values():
        owning[array] = True
    kept = [name for name, code in codes.items() if owning[code] or name in keep]
    new = np.full(len(codes) + 1, UNOWNED, np.int32)
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
        both = (old[:n] != UNOWNED) & (array[:n] != UNOWNED)
        was, is_now = old[:n][both], array[:n][both]
        same = was == is_now
        kept += int(np.count_nonzero(same))
        moved += int(np.count_nonzero(~same & present[was]))
    return moved, kept


def count_revoked(claimed: Owners, now: Owners) -> int:
    """The number of claimed partitions that the claimant does not keep: it revokes them, and the group rejoins."""
    total = 0
    for topic, claims in claimed.items():
        given = fitted(now.get(topic, ()), len(claims))
        total += int(np.count_nonzero((claims != UNOWNED) & (claims != given)))
    return total


def with_withheld(before: Owners, now: Owners) -> Owners:
    """`now`, with the previous owner of partitions that have no owner (withheld until they are revoked)."""
    merged: Owners = {}
    for topic, array in now.items():
        old = before.get(topic, ())
        size = max(len(array), len(old))
        given = fitted(array, size)
        merged[topic] = np.where(given == UNOWNED, fitted(old, size), given)
    return {**before, **merged}


def fitted(owners: Sequence[int] | npt.NDArray[np.int32], size: int) -> npt.NDArray[np.int32]:
    """The owners of the first `size` partitions."""
    fitted = np.full(size, UNOWNED, np.int32)
    fitted[: len(owners)] = owners[:size]
    return fitted


def assignment_columns(members: Sequence[Row], assigned: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Columns of a step by its members and their ``[{topic, partitions}]``."""
    counts = [sum(len(entry["partitions"]) for entry in entries) for entries in assigned]
    return {
        "n_members": len(members),
        "n_static": sum(member["group_instance_id"] is not None for member in members),
        "n_idle": counts.count(0),
        "n_partitions": sum(counts),
        "assignment": [
            {"member_id": member["member_id"], "client_id": member["client_id"], "assigned": entries}
            for member, entries in zip(members, assigned, strict=True)
        ],
    }


class ProtocolFold:
    """The state of one group between two of its records: O(members and partitions) of one generation.

    Its attributes are its state; a fold that starts from it continues.
    """

    def __init__(self) -> None:
        self.incarnation = 0
        self._logical = 0
        self._ended = False
        self._reset()

    def _reset(self) -> None:
        self._before: Sequence[Row] = []
        self._owners: Owners = {}
        self._codes: dict[str, int] = {}
        self._inherited = False

    @property
    def handover(self) -> dict[str, Any]:
        """Members, owners and codes of the last generation, for `inherit` of the other protocol's fold."""
        return {name: vars(self)[name] for name in ("_before", "_owners", "_codes")}

    def end(self, incarnation: int) -> None:
        """The group ended under the other protocol: the next record begins a new incarnation."""
        self.incarnation, self._ended = incarnation, True

    def inherit(self, before: Mapping[str, Any], generation: int | None, incarnation: int) -> None:  # noqa: ARG002
        """Continue with the members and owners of the other protocol, after `generation`."""
        self.incarnation, self._inherited, self._ended = incarnation, True, False
        vars(self).update(before)

    def _columns(self, group_type: str, kind: str, why: Difference) -> dict[str, Any]:
        """Columns that every step has; without an assignment."""
        about = {"incarnation": self.incarnation, "group_type": group_type, "kind": kind, **vars(why), "assignment": []}
        return about | dict.fromkeys(("n_members", "n_static", "n_idle", "n_partitions"), 0)

    def _update_codes(self, names: Sequence[str]) -> dict[str, int]:
        """Codes of the previous members and of these names; drops codes of other members that own nothing."""
        known = dict.fromkeys([*map(identity, self._before), *names])
        if len(self._codes) > 2 * len(known):
            self._owners, self._codes = without_unused_codes(self._owners, self._codes, known)
        for name in known:
            self._codes.setdefault(name, len(self._codes))
        return self._codes

    def _present(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Whether each code is that of one of these members."""
        present = np.zeros(len(self._codes), np.bool_)
        present[[self._codes[name] for name in names]] = True
        return present
