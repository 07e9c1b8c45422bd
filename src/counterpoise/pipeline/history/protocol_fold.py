"""The common base of the folds of classic and modern groups: members and owners by code, and a change of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.pipeline.history.causes import identity
from counterpoise.pipeline.history.owners import Handover, Owners, without_unused_codes

__all__ = ["ProtocolFold", "assignment_columns"]

Row = Mapping[str, Any]


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
    """The state of one group between two of its records: O(members and partitions) of one generation."""

    def __init__(self) -> None:
        self.incarnation = 0
        self._logical = 0
        self._ended = False
        self._reset()

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.to_text`; a fold that starts from it continues."""
        return dict(vars(self))

    def _reset(self) -> None:
        self._before: Sequence[Row] = []
        self._owners: Owners = {}
        self._codes: dict[str, int] = {}
        self._inherited = False

    @property
    def handover(self) -> Handover:
        """Members and owners of the last generation, for the fold of the other protocol."""
        return {"members": list(self._before), "owners": self._owners, "codes": dict(self._codes)}

    def end(self, incarnation: int) -> None:
        """The group ended under the other protocol: the next record begins a new incarnation."""
        self.incarnation, self._ended = incarnation, True

    def inherit(self, before: Handover, generation: int | None, incarnation: int) -> None:  # noqa: ARG002
        """Continue with the members and owners of the other protocol, after `generation`."""
        self.incarnation, self._inherited, self._ended = incarnation, True, False
        self._before, self._owners, self._codes = before["members"], before["owners"], before["codes"]

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
