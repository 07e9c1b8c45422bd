"""What the folds of classic and of modern groups share: members and owners by code, and a change of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.pipeline.history.causes import identity
from counterpoise.pipeline.history.owners import Left, Owners, without_unused_codes

__all__ = ["ProtocolFold", "assignment_columns"]

Row = Mapping[str, Any]


def assignment_columns(members: Sequence[Row], assigned: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Columns of a step that follow from its members and their ``[{topic, partitions}]``."""
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
    """State of one group between two of its records, O(members and partitions) of one generation.

    `state` has everything that later records are compared with (see `fold_state`); a fold made from it continues.
    """

    def __init__(self) -> None:
        self.incarnation = 0
        self._logical = 0
        self._ended = False
        self._forget()

    @property
    def state(self) -> dict[str, Any]:
        """Everything that the next record is compared with."""
        return dict(vars(self))

    def _forget(self) -> None:
        self._before: Sequence[Row] = []
        self._owners: Owners = {}
        self._codes: dict[str, int] = {}
        self._inherited = False

    @property
    def left(self) -> Left:
        """What a group leaves when it continues under the other protocol: members and owners of the last generation."""
        return {"members": list(self._before), "owners": self._owners, "codes": dict(self._codes)}

    def end(self, incarnation: int) -> None:
        """The group ended under the other protocol: the next record begins another incarnation."""
        self.incarnation, self._ended = incarnation, True

    def inherit(self, left: Left, generation: int | None, incarnation: int) -> None:  # noqa: ARG002
        """Continue with what the group had under the other protocol, after `generation`."""
        self.incarnation, self._inherited, self._ended = incarnation, True, False
        self._before, self._owners, self._codes = left["members"], left["owners"], left["codes"]

    def _code(self, names: Sequence[str]) -> dict[str, int]:
        """Codes of the last members, and of those with these names; others keep theirs only while they own something."""
        known = dict.fromkeys([*map(identity, self._before), *names])
        if len(self._codes) > 2 * len(known):
            self._owners, self._codes = without_unused_codes(self._owners, self._codes, known)
        for name in known:
            self._codes.setdefault(name, len(self._codes))
        return self._codes

    def _alive(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """By code: whether it is that of one of these members."""
        alive = np.zeros(len(self._codes), np.bool_)
        alive[[self._codes[name] for name in names]] = True
        return alive
