"""Line charts as SVG, panels one below the other over the same hours: what the docs show, made by plain code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

__all__ = ["COLOURS", "Panel", "line_chart"]

COLOURS = ("#7b8794", "#3b6fb6", "#c2702e", "#2d8659")
DASHES = ("2 3", "7 3", "9 3 2 3", "")
HEAD = 'role="img" aria-labelledby="t d" font-family="Helvetica, Arial, sans-serif"'
WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP = 760, 72, 24, 64, 190, 62


@dataclass(frozen=True)
class Panel:
    """One set of axes: its title, and a line per name, all over the same points in time."""

    title: str
    lines: Mapping[str, Sequence[float]]


def line_chart(title: str, description: str, hours: Sequence[float], panels: Sequence[Panel], marks: Mapping[float, str]) -> str:
    """The chart as text; `marks` are events, by hour."""
    height = TOP + len(panels) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" {HEAD}>',
        f'  <title id="t">{escape(title)}</title>',
        f'  <desc id="d">{escape(description)}</desc>',
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *_legend(list(panels[0].lines)),
    ]
    for at, panel in enumerate(panels):
        parts += _panel(panel, hours, TOP + at * (HEIGHT + GAP), marks)
    return "\n".join([*parts, "</svg>", ""])


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for at, name in enumerate(names):
        x = LEFT + at * 165
        parts.append(f'  <path d="M{x} 24h30" {_stroke(at)}/>')
        parts.append(_text(x + 38, 28, name, "start", 13))
    return parts


def _panel(panel: Panel, hours: Sequence[float], top: float, marks: Mapping[float, str]) -> list[str]:
    bottom, right = top + HEIGHT, WIDTH - RIGHT
    step = _round_step(max(max(line) for line in panel.lines.values()) / 4)
    highest = step * -(-max(max(line) for line in panel.lines.values()) // step)

    def x(hour: float) -> float:
        return LEFT + (right - LEFT) * (hour - hours[0]) / (hours[-1] - hours[0])

    def y(value: float) -> float:
        return bottom - HEIGHT * value / highest

    parts = [_text(LEFT, top - 10, panel.title, "start", 13, bold=True)]
    for tick in range(int(highest / step) + 1):
        level = y(tick * step)
        parts.append(f'  <path d="M{LEFT} {level:.1f}H{right}" stroke="#e4e7eb"/>')
        parts.append(_text(LEFT - 8, level + 4, f"{tick * step:,.0f}", "end", 11))
    every_three = range(int(hours[0]), int(hours[-1]) + 1, 3)
    parts += [_text(x(hour), bottom + 16, f"{hour % 24:02d}:00", "middle", 11) for hour in every_three]
    for hour, word in marks.items():
        parts.append(f'  <path d="M{x(hour):.1f} {top}V{bottom}" stroke="#9aa5b1" stroke-dasharray="1 3"/>')
        parts.append(_text(x(hour) + 4, bottom + 32, word, "middle", 11))
    for at, line in enumerate(panel.lines.values()):
        points = _thinned([(round(x(hour), 1), round(y(value), 1)) for hour, value in zip(hours, line, strict=True)])
        way = "L".join(f"{a} {b}" for a, b in points)
        parts.append(f'  <path d="M{way}" {_stroke(at)}/>')
    return parts


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points between two of the same height."""
    middle = [b for (a, b), c in zip(pairwise(points), points[2:], strict=False) if not a[1] == b[1] == c[1]]
    return [points[0], *middle, points[-1]]


def _round_step(wanted: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is not below `wanted`."""
    power = 1.0
    while power * 10 < wanted:
        power *= 10
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= wanted)


def _stroke(at: int) -> str:
    return f'fill="none" stroke="{COLOURS[at]}" stroke-width="1.8" stroke-dasharray="{DASHES[at]}"'


def _text(x: float, y: float, words: str, anchor: str, size: int, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'  <text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="#1f2933" text-anchor="{anchor}"{weight}>{escape(words)}</text>'
    )
