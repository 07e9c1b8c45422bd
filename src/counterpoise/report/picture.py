"""One group's life as a drawing: marks, ribbons and lag on one time axis, as plain numbers and words for the SVG template."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from counterpoise.report.colours import Look
from counterpoise.report.history import GroupHistory, LagSeries, Row
from counterpoise.report.limits import Limits
from counterpoise.report.ribbons import Axis, Interval, pick, runs, ticks
from counterpoise.report.shapes import LEFT, RIGHT, Band, Label, Mark, Picture, Segment, State, Strip
from counterpoise.report.steps import step_words
from counterpoise.report.words import DAY, clock, count, duration, instant, number, phrase, plural, visible

__all__ = ["draw", "draw_lag", "lane"]

_HEAD, _MARKS, _TOPIC, _LAG, _LANE = 20, 24, 19, 58, 32
_STRIPS = 4
_LETTER_WIDTH = 15
_CHARACTER = 6.2  # Width of a character of a state's name, at most, in the drawing's units
_SHAPES = {
    "join": "up",
    "leave": "down",
    "join_leave": "both",
    "subscription": "dot",
    "partition_count": "box",
    "protocol": "plus",
    **dict.fromkeys(("emptied", "deleted"), "end"),
    "cooperative_followup": "small",
}
"""Cause or kind of a step -> the shape of its mark."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What one drawing is made of."""

    history: GroupHistory
    names: list[str]
    looks: list[Look]
    axis: Axis
    share: bool
    brief: bool

    def clock(self, moment: int) -> str:
        """The time, with its date if the drawing covers more than one day."""
        return clock(moment, day=self.axis.days)


def draw(
    # history, lag: the group's steps and lag
    history: GroupHistory,
    lag: LagSeries | None,
    # names, looks: what each member of `history` is called and how it is drawn
    names: list[str],
    looks: list[Look],
    period: tuple[int, int],  # First and last instant of the audit, microseconds
    share: bool,  # Whether several members may hold one partition at once (share groups); elsewhere that is contested
    limits: Limits,
    health: list[Row],
) -> Picture:
    """The drawing of one group."""
    times = np.array([step["log_ts"] for step in history.steps], dtype=np.int64)
    start = int(times[0]) if history.skipped else min(period[0], int(times[0]))
    stop = max(period[1], int(times[-1]))
    scene = _Scene(history, names, looks, Axis(start, stop, LEFT, RIGHT), share, limits.brief)
    owned = runs(history.held, times, stop)
    drawn = pick(owned.counts(len(history.partitions)), limits.ribbons, limits.segments)
    row = 15.0 if len(drawn) <= 24 else 11.0
    top = float(_HEAD + _MARKS)
    strips, topics, bottom = _strips(scene, owned.of(drawn), drawn, top, row)
    states, note = lane(health, scene.axis, limits.segments, brief=limits.brief)
    lag_top = bottom + 14 + (_LANE if states else 0)
    area, lag_label = _lag(lag, scene.axis, lag_top, 16 if limits.brief else 1)
    below = _LAG if area else (10 if lag_label else -10)
    return Picture(
        height=lag_top + below + 4,
        ribbons_top=top,
        ribbons_bottom=bottom,
        row=row,
        axis=_axis(scene.axis),
        topics=topics,
        strips=strips,
        marks=[_mark(scene, step) for step in history.steps],
        waits=_waits(scene),
        unknown=_unknown(scene),
        lag_area=area,
        lag_top=lag_top,
        lag_label=lag_label,
        health=states,
        notes=_notes(history, len(history.partitions) - len(drawn)) + note,
    )


def draw_lag(lag: LagSeries, period: tuple[int, int], limits: Limits, health: list[Row]) -> Picture | None:
    """Health and lag alone, for a group without recorded steps; None if no lag is known."""
    axis = Axis(*period, LEFT, RIGHT)
    states, note = lane(health, axis, limits.segments, brief=limits.brief)
    top = float(_HEAD + 8) + (_LANE if states else 0)
    area, label = _lag(lag, axis, top, 1)
    if not area:
        return None
    return Picture(top + _LAG + 4, top, top, 0, _axis(axis), [], [], [], [], None, area, top, label, states, note)


def _strips(
    scene: _Scene, spans: list[Interval], drawn: list[int], top: float, row: float
) -> tuple[list[Strip], list[Label], float]:
    by_partition: dict[int, list[Interval]] = {}
    for span in spans:
        by_partition.setdefault(span.partition, []).append(span)
    strips, topics, y, topic = [], [], top, None
    for code in drawn:
        name, partition = scene.history.partitions[code]
        if name != topic:
            topics.append(Label(LEFT, y + _TOPIC - 6, visible(name)))
            y, topic = y + _TOPIC, name
        segments = [piece for span in by_partition.get(code, []) for piece in _pieces(scene, span, row - 2)]
        strips.append(Strip(y, str(partition), f"{visible(name)}-{partition}", segments))
        y += row
    return strips, topics, round(y, 1)


def _pieces(scene: _Scene, span: Interval, height: float) -> list[Segment]:
    """The rectangles of one interval: one, or one per member (at most four) if several hold the partition at once."""
    left, right = scene.axis.x(span.start), scene.axis.x(span.stop)
    width = max(round(right - left - 0.6, 1), 0.6)
    if scene.brief:
        left, width = round(left), max(round(right) - round(left) - 1, 1)
    who = ", ".join(scene.names[code] for code in span.members)
    verb = "" if len(span.members) == 1 else ("shared by " if scene.share else "CONTESTED by ")
    title = f"{verb}{who}" + ("" if scene.brief else f", {_while(scene, span)}")
    shown = span.members[:_STRIPS]
    part, lettered = height / len(shown), width >= _LETTER_WIDTH and len(shown) == 1
    places = ((round(index * part, 1), scene.looks[code]) for index, code in enumerate(shown))
    return [
        Segment(left, y, width, round(part, 1), look.slot, look.ink, look.letter if lettered else "", title) for y, look in places
    ]


def _while(scene: _Scene, span: Interval) -> str:
    """When, and in which generations."""
    first, last = (scene.history.steps[at]["generation"] for at in (span.first, span.last))
    turns = f"generation {first}" if first == last else f"generations {first} to {last}"
    return f"{scene.clock(span.start)} to {scene.clock(span.stop)} ({duration((span.stop - span.start) / 1000)}), {turns}"


def _axis(axis: Axis) -> list[Label]:
    """Ticks with the time of day, or the date too; a label that does not fit at the right end is left out."""
    marks = ticks(axis)
    days = axis.stop - axis.start > 2 * DAY
    whole = all(at % 60_000_000 == 0 for _, at in marks)
    texts = [instant(at)[5:16] if days else clock(at)[: 5 if whole else 8] for _, at in marks]
    return [Label(x, 12, text if x + 3 * len(text) <= RIGHT + 6 else "") for (x, _), text in zip(marks, texts, strict=True)]


def _mark(scene: _Scene, step: Row) -> Mark:
    shape = _SHAPES.get(step["kind"]) or _SHAPES.get(step["cause"] or "", "dot")
    words = step_words(scene.history, scene.names, step, day=scene.axis.days, brief=scene.brief)
    return Mark(scene.axis.x(step["log_ts"]), 39 if shape == "small" else 29, shape, words)


def _waits(scene: _Scene) -> list[Band]:
    """The times in which an eager group waited for its leader and no member consumed."""
    bands = []
    for step in scene.history.steps:
        wait = step["sync_latency_ms"]
        if wait and step["protocol_kind"] == "eager" and step["n_members"]:
            left, right = scene.axis.x(step["log_ts"] - wait * 1000), scene.axis.x(step["log_ts"])
            if right - left >= 1.5:
                words = f"{duration(wait)} without an assignment, until {scene.clock(step['log_ts'])}"
                bands.append(Band(left, round(right - left, 1), words))
    return bands


def _unknown(scene: _Scene) -> Band | None:
    first = scene.history.steps[0]
    left, right = scene.axis.x(scene.axis.start), scene.axis.x(first["log_ts"])
    if first["complete"] or scene.history.skipped or right - left < 1:
        return None
    words = f"not known: the audit does not have what was before {scene.clock(first['log_ts'])}"
    return Band(left, round(right - left, 1), words)


def _lag(lag: LagSeries | None, axis: Axis, top: float, step: int) -> tuple[str, str]:
    """The area under the lag, its highest value every `step` pixels, and a label; empty if nothing is known."""
    if lag is None or lag.at.size == 0:
        return "", ""
    inside = lag.at >= axis.start
    at, total = lag.at[inside], lag.total[inside]
    if at.size == 0:
        return "", ""
    peak = int(total.max())
    if peak == 0:
        return "", "records behind: none at any time"
    best: dict[int, int] = {}
    for when, value in zip(at.tolist(), total.tolist(), strict=True):
        x = round(axis.x(when) / step) * step
        best[x] = max(best.get(x, 0), value)
    base = top + _LAG
    points = [f"{x} {round(base - (_LAG - 16) * value / peak)}" for x, value in best.items()]
    first, last = next(iter(best)), next(reversed(best))
    area = f"M{first} {base:g}L{'L'.join(points)}L{last} {base:g}Z"
    known = clock(int(at[-1]), day=axis.days)
    return area, f"records behind: peak {number(peak)}, last known {number(int(total[-1]))} at {known}"


def _notes(history: GroupHistory, left_out: int) -> list[str]:
    missing = (left_out, "more partition", ": they moved least"), (history.skipped, "older step", "")
    return [f"{plural(n, what)} not drawn{why}. The table of rebalances has them all." for n, what, why in missing if n]


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
    return State(left, width, row["state"], name if width > 8 + _CHARACTER * len(name) else "", _title(row, name, axis, brief))


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
