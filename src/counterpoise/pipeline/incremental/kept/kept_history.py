"""What `group_report` says about a group's past, put away between two audits and gone on with."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from counterpoise.pipeline.folds.history import History

__all__ = ["KeptHistory"]

_OF_STEP = (
    *("log_partition", "log_ts", "kind", "generation", "group_type", "protocol_type", "protocol", "protocol_kind", "complete"),
    *("n_members", "n_static", "n_idle", "n_partitions", "n_withheld", "joined", "assignment"),
)
"""What a later step, or the summary, may ask of a step that was added."""


class KeptHistory(History):
    """A `History` that can begin with the state of an earlier one.

    Parameters
    ----------
    state : mapping, optional
        What `state` gave, from text and back (`fold_state`).
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        if not state:
            return
        self._kinds, self._causes, self._counts = (Counter(state[name]) for name in ("kinds", "causes", "counts"))
        self._members, self._leaders = set(state["members"]), set(state["leaders"])
        self._gone, self._clients, self._latency = state["gone"], state["clients"], state["latency"]
        self._recent = deque((at, tuple(names)) for at, names in state["recent"])
        (most, slowest, leader, when), (size, start, seconds, clients) = state["slowest"], state["storm"]
        self._slowest, self._storm = (most, slowest, leader, when), (size, start, seconds, tuple(clients))
        self._peaks, self._first, self._last = state["peaks"], state["first"], state["last"]
        self._failed = (state["failed"][0], state["failed"][1])
        self._restarted, self._leavers = Counter(state["restarted"]), Counter(state["leavers"])
        self._described = state["last"] if state["is_described"] else state["described"]

    @property
    def state(self) -> dict[str, Any]:
        """All that was counted, for `fold_state.to_text`; empty before the first step."""
        if self._last is None or self._first is None:
            return {}
        same = self._described is self._last
        return {
            "kinds": self._kinds,
            "causes": self._causes,
            "counts": self._counts,
            "members": sorted(self._members),
            "leaders": sorted(self._leaders),
            "gone": self._gone,
            "clients": self._clients,
            "latency": self._latency,
            "recent": list(self._recent),
            "slowest": self._slowest,
            "storm": self._storm,
            "peaks": self._peaks,
            "failed": self._failed,
            "restarted": self._restarted,
            "leavers": self._leavers,
            "first": {name: self._first[name] for name in ("log_ts", "complete")},
            "last": _slim(self._last),
            "is_described": same,
            "described": None if same or self._described is None else _slim(self._described),
        }


def _slim(step: Mapping[str, Any]) -> dict[str, Any]:
    return {name: step[name] for name in _OF_STEP}
