"""Members of one KIP-848 group that left and came back under their own id: the same process, by the records of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["CURRENT", "MEMBER", "Departure", "Departures"]

MEMBER, CURRENT = 5, 8
"""Record types of KIP-848 that tell who is a member, and at which epoch it is."""
_AWAY = -2
"""The epoch of a static member that left and may come back within its session: its record stays until that is over."""
_ENDED = ("deleted", "migrated")
"""Steps at which all members leave together."""
_NOBODY_LEFT = "emptied"
"""A step that hands out nothing: the next one has the stops."""
_Place = tuple[int, int]
Departure = tuple[int | None, int, str, int]
"""Generation and time of the step that followed, member, and when it left; times in microseconds."""


class Departures:
    """Who left when, and which step followed.

    Parameters
    ----------
    state : mapping, optional
        What `state` gave, from text and back (`fold_state`).
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._here: set[str] = set(saved.get("here", ()))
        self._away: dict[str, int] = dict(saved.get("away", {}))
        self._gone = [_gone(*one) for one in saved.get("gone", ())]
        self._left: list[tuple[Departure, _Place]] = [(_left(*one), _pair(*place)) for one, place in saved.get("left", ())]
        self._back: dict[str, _Place] = {member: _pair(*place) for member, place in saved.get("back", {}).items()}

    @property
    def state(self) -> dict[str, Any]:
        """All that is known, for `fold_state.to_text`."""
        return {
            "here": sorted(self._here),
            "away": self._away,
            "gone": list(self._gone),
            "left": list(self._left),
            "back": dict(self._back),
        }

    def feed(self, row: Mapping[str, Any], at: int) -> None:
        """A row of `modern_group_records`, in the order of the log, and its time in microseconds."""
        member, kind = row["member_id"], row["record_type"]
        if kind == CURRENT and not row["deleted"]:
            if row["epoch"] == _AWAY:
                self._away[member] = at
            else:
                self._away.pop(member, None)
        elif kind == MEMBER and row["deleted"] and member in self._here:
            self._here.discard(member)
            self._gone.append((_place(row), self._away.get(member, at), member))
        elif kind == MEMBER and not row["deleted"] and member not in self._here:
            self._here.add(member)
            self._back[member] = _place(row)

    def step(self, step: Mapping[str, Any], at: int) -> None:
        """A step of the group, and its time in microseconds; records behind it may have been fed already."""
        if step["kind"] == _NOBODY_LEFT:
            return
        place = _place(step)
        followed = [one for one in self._gone if one[0] < place]
        self._gone = [one for one in self._gone if one[0] >= place]
        if step["kind"] not in _ENDED:
            self._left += [((step["generation"], at, member, left_at), since) for since, left_at, member in followed]

    def left(self) -> Iterator[Departure]:
        """All that left."""
        for departure, _ in self._left:
            yield departure

    def returned(self) -> Iterator[Departure]:
        """Those after which the same member came back."""
        for departure, place in self._left:
            back = self._back.get(departure[2])
            if back is not None and back > place:
                yield departure


def _place(row: Mapping[str, Any]) -> _Place:
    return row["log_partition"], row["log_offset"]


def _pair(partition: int, offset: int) -> _Place:
    return partition, offset


def _gone(place: _Place, at: int, member: str) -> tuple[_Place, int, str]:
    return _pair(*place), at, member


def _left(generation: int | None, at: int, member: str, left_at: int) -> Departure:
    return generation, at, member, left_at
