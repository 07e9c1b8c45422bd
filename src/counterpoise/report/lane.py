"""The lane of a group's health in its drawing: its states over time, from the table `health`."""

from __future__ import annotations

from collections.abc import Iterable

from counterpoise.report.history import Row
from counterpoise.report.ribbons import Axis
from counterpoise.report.shapes import State
from counterpoise.report.words import clock, count, duration, phrase, plural

__all__ = ["lane"]

_LETTER = 6.2
"""Width of a letter of a state's name, at most, in the drawing's units."""


def lane(rows: Iterable[Row], axis: Axis, most: int, *, brief: bool) -> tuple[list[State], list[str]]:
    """The states of one group in order, the `most` longest, and a note if some are left out; `brief`: less is said of each."""
    inside = [row for row in rows if row["until"] > axis.start]
    kept = sorted(inside, key=lambda row: (row["since"] - row["until"], row["since"]))[:most]
    note = [f"Of {count(len(inside))} states of health the {count(most)} longest are drawn."] if len(inside) > most else []
    return [_state(row, axis, brief) for row in sorted(kept, key=lambda row: (row["since"], row["until"]))], note


def _state(row: Row, axis: Axis, brief: bool) -> State:
    left, right = axis.x(row["since"]), axis.x(row["until"])
    width = max(round(right - left - 0.6, 1), 1.0)
    name = phrase(row["state"])
    if brief:
        left, width = round(left), max(round(width), 1)
    return State(left, width, row["state"], name if width > 8 + _LETTER * len(name) else "", _title(row, name, axis, brief))


def _title(row: Row, name: str, axis: Axis, brief: bool) -> str:
    since, until = (clock(row[key], day=axis.days) for key in ("since", "until"))
    if brief:
        return name if row["state"] == "ok" else f"{name}, {since} to {until}"
    lasted = duration((row["until"] - row["since"]) / 1000)
    parts = [f"{name}, {since} to {until} ({lasted}){', still' if row['open'] else ''}"]
    if row["state"] != "ok":
        parts.append(f"seen at {clock(row['detected'], day=axis.days)}, {plural(row['partitions'], 'partition')}")
    if row["lag_begin"] is not None and row["lag_end"] is not None:
        parts.append(f"{count(row['lag_begin'])} behind, then {count(row['lag_end'])}")
    return "; ".join(parts)
