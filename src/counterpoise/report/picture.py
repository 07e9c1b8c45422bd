"""One group's life as a drawing: marks, ribbons and lag on one time axis, as plain numbers and words for the SVG template."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from counterpoise.report.colours import Look
from counterpoise.report.limits import Limits
from counterpoise.report.load import GroupHistory, LagSeries, Row
from counterpoise.report.ribbons import Axis, Interval, intervals, pick, ticks
from counterpoise.report.words import clock, count, duration, instant, number, phrase, plural, visible

__all__ = ["Band", "Label", "Mark", "Picture", "Segment", "Strip", "draw", "step_words"]

WIDTH, LEFT, RIGHT = 1000, 44, 992
_HEAD, _MARKS, _TOPIC, _LAG = 20, 22, 19, 58
_STRIPS = 4
_LETTER_WIDTH = 15
_DAY = 86_400_000_000
_SHAPES = {"join": "up", "leave": "down", "join_leave": "both", "subscription": "dot", "partition_count": "box", "protocol": "plus"}


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of ribbon: its place, the fill's slot, a letter where there is room, and the words that a pointer brings up."""

    x: float
    y: float
    width: float
    height: float
    slot: int
    ink: str
    letter: str
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One partition's row."""

    y: float
    label: str
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Label:
    """A text at a place."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A step in the group's life on the line above the ribbons."""

    x: float
    shape: str
    title: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time over the whole height."""

    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything the SVG template needs; heights are measured from the top."""

    height: float
    ribbons_top: float
    ribbons_bottom: float
    row: float
    axis: list[Label]
    topics: list[Label]
    strips: list[Strip]
    marks: list[Mark]
    waits: list[Band]
    unknown: Band | None
    lag_area: str
    lag_top: float
    lag_label: str
    notes: list[str] = field(default_factory=list)
    width: int = WIDTH
    left: int = LEFT
    right: int = RIGHT


@dataclass(frozen=True, slots=True)
class _Scene:
    """What one drawing is made of."""

    history: GroupHistory
    names: list[str]
    looks: list[Look]
    axis: Axis
    share: bool


def draw(
    history: GroupHistory, lag: LagSeries | None, names: list[str], looks: list[Look], period: tuple[int, int], share: bool, limits: Limits
) -> Picture:
    """The drawing of one group.

    Parameters
    ----------
    history, lag
        The group's steps and lag.
    names, looks
        What each member of `history` is called and how it is drawn.
    period
        First and last instant of the audit, microseconds.
    share
        Whether several members may hold one partition at once (share groups); elsewhere that is contested.
    """
    times = np.array([step["log_ts"] for step in history.steps], dtype=np.int64)
    start = int(times[0]) if history.skipped else min(period[0], int(times[0]))
    stop = max(period[1], int(times[-1]))
    scene = _Scene(history, names, looks, Axis(start, stop, LEFT, RIGHT), share)
    spans = intervals(history.held, times, stop)
    chosen = pick(spans, len(history.partitions), limits.ribbons, limits.segments)
    row = 15.0 if len(chosen.drawn) <= 24 else 11.0
    top = float(_HEAD + _MARKS)
    strips, topics, bottom = _strips(scene, spans, chosen.drawn, top, row)
    lag_top = bottom + 14
    area, lag_label = _lag(lag, scene.axis, lag_top)
    return Picture(
        height=lag_top + _LAG + 4 if area else bottom + 4,
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
        notes=_notes(history, chosen.left_out),
    )


def _strips(
    scene: _Scene, spans: list[Interval], drawn: tuple[int, ...], top: float, row: float
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
        segments = [piece for span in by_partition.get(code, []) for piece in _pieces(scene, span, y, row - 2)]
        strips.append(Strip(y, str(partition), segments))
        y += row
    return strips, topics, round(y, 1)


def _pieces(scene: _Scene, span: Interval, y: float, height: float) -> list[Segment]:
    """The rectangles of one interval: one, or one per member (at most four) where several hold the partition at once."""
    left, right = scene.axis.x(span.start), scene.axis.x(span.stop)
    width = max(round(right - left - 0.6, 1), 0.6)
    topic, partition = scene.history.partitions[span.partition]
    steps = scene.history.steps
    first, last = steps[span.first]["generation"], steps[span.last]["generation"]
    while_ = f"{clock(span.start)} to {clock(span.stop)} ({duration((span.stop - span.start) / 1000)})"
    turns = f"generation {first}" if first == last else f"generations {first} to {last}"
    who = ", ".join(scene.names[code] for code in span.members)
    verb = "" if len(span.members) == 1 else ("shared by " if scene.share else "CONTESTED by ")
    title = f"{visible(topic)}-{partition}: {verb}{who}, {while_}, {turns}"
    shown = span.members[:_STRIPS]
    part = height / len(shown)
    return [
        Segment(
            left,
            round(y + index * part, 1),
            width,
            round(part, 1),
            scene.looks[code].slot,
            scene.looks[code].ink,
            scene.looks[code].letter if width >= _LETTER_WIDTH and len(shown) == 1 else "",
            title,
        )
        for index, code in enumerate(shown)
    ]


def _axis(axis: Axis) -> list[Label]:
    days = axis.stop - axis.start > 2 * _DAY
    whole = all(at % 60_000_000 == 0 for _, at in ticks(axis))
    return [Label(x, 12, instant(at)[5:16] if days else clock(at)[: 5 if whole else 8]) for x, at in ticks(axis)]


def _mark(scene: _Scene, step: Row) -> Mark:
    if step["kind"] in ("emptied", "deleted"):
        shape = "end"
    elif step["kind"] == "cooperative_followup":
        shape = "small"
    else:
        shape = _SHAPES.get(step["cause"] or "", "dot")
    return Mark(scene.axis.x(step["log_ts"]), shape, step_words(scene.history, scene.names, step))


def step_words(history: GroupHistory, names: list[str], step: Row) -> str:
    """One step in one sentence."""
    name_of = {member: names[code] for code, (member, _) in enumerate(history.members)}
    parts = [f"{clock(step['log_ts'])} generation {step['generation']}: {phrase(step['kind'])}"]
    if step["cause"] and step["cause"] != "unknown":
        parts.append(phrase(step["cause"]))
    for verb in ("joined", "left"):
        if step[verb]:
            parts.append(f"{verb}: " + ", ".join(name_of.get(member, visible(member)) for member in step[verb][:6]) + (" ..." if len(step[verb]) > 6 else ""))
    parts.append(f"{plural(step['n_members'] or 0, 'member')}, {plural(step['n_partitions'] or 0, 'partition')}")
    if step["n_moved"] is not None:
        parts.append(f"{count(step['n_moved'])} moved")
    wait = step["sync_latency_ms"] if step["sync_latency_ms"] is not None else step["settle_ms"]
    if wait is not None:
        parts.append(f"settled after {duration(wait)}")
    if step["missed_generations"]:
        parts.append(f"{plural(step['missed_generations'], 'generation')} before it failed")
    return "; ".join(parts)


def _waits(scene: _Scene) -> list[Band]:
    """Where an eager group waited for its leader: nobody consumed then."""
    bands = []
    for step in scene.history.steps:
        wait = step["sync_latency_ms"]
        if wait and step["protocol_kind"] == "eager" and step["n_members"]:
            left, right = scene.axis.x(step["log_ts"] - wait * 1000), scene.axis.x(step["log_ts"])
            if right - left >= 1.5:
                bands.append(Band(left, round(right - left, 1), f"{duration(wait)} without an assignment, until {clock(step['log_ts'])}"))
    return bands


def _unknown(scene: _Scene) -> Band | None:
    first = scene.history.steps[0]
    left, right = scene.axis.x(scene.axis.start), scene.axis.x(first["log_ts"])
    if first["complete"] or scene.history.skipped or right - left < 1:
        return None
    return Band(left, round(right - left, 1), f"not known: the log no longer holds what was before {clock(first['log_ts'])}")


def _lag(lag: LagSeries | None, axis: Axis, top: float) -> tuple[str, str]:
    """The area under the lag, its highest value per pixel, and a label; empty where nothing is known."""
    if lag is None or lag.at.size == 0:
        return "", ""
    inside = lag.at >= axis.start
    at, total = lag.at[inside], lag.total[inside]
    if at.size == 0:
        return "", ""
    peak = int(total.max())
    best: dict[float, int] = {}
    for when, value in zip(at.tolist(), total.tolist(), strict=True):
        x = float(round(axis.x(when)))
        best[x] = max(best.get(x, 0), value)
    base = top + _LAG
    points = [f"{x:g} {round(base - (_LAG - 16) * value / max(peak, 1), 1):g}" for x, value in best.items()]
    first, last = next(iter(best)), next(reversed(best))
    area = f"M{first:g} {base:g}L{'L'.join(points)}L{last:g} {base:g}Z"
    return area, f"records behind: peak {number(peak)}, last known {number(int(total[-1]))} at {clock(int(at[-1]))}"


def _notes(history: GroupHistory, left_out: int) -> list[str]:
    notes = []
    if left_out:
        notes.append(f"{plural(left_out, 'more partition')} not drawn: those that changed hands least. The table `rebalances` has them all.")
    if history.skipped:
        notes.append(f"{plural(history.skipped, 'older step')} not drawn. The table `rebalances` has them all.")
    return notes
