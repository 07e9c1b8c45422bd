"""What a record costs in audits of rising size, as SVG: a bar per size, a piece of it per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["STAGES", "bars", "scale_chart"]

STAGES = ("scan", "fold", "findings", "other")
"""What is told apart; all other stages together are the last one."""
COLOURS = ("#3b6fb6", "#2d8659", "#c2702e", "#c5ccd3")
WIDTH, LEFT, RIGHT, TOP, BOTTOM, BAR = 760, 130, 90, 64, 34, 30
HEAD = 'role="img" aria-labelledby="t d" font-family="Helvetica, Arial, sans-serif"'


def bars(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[float]]]:
    """For each run its size in words and, by `STAGES`, microseconds of CPU time per record, of the JVM and its workers."""
    found = []
    for run in runs:
        costs = dict.fromkeys(STAGES, 0.0)
        for stage in run["stages"]:
            seconds = stage["java"] + stage["worker"]
            costs[stage["stage"] if stage["stage"] in STAGES else STAGES[-1]] += 1e6 * seconds / run["records"]
        found.append((f"{run['records'] / 1e6:.3g} million", list(costs.values())))
    return found


def scale_chart(runs: Sequence[Mapping[str, Any]], title: str, description: str) -> str:
    """The chart as text."""
    rows = bars(runs)
    highest = max(sum(costs) for _, costs in rows)
    height = TOP + len(rows) * (BAR + 14) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" {HEAD}>',
        f'  <title id="t">{escape(title)}</title>',
        f'  <desc id="d">{escape(description)}</desc>',
        f'  <rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for at, (name, colour) in enumerate(zip(STAGES, COLOURS, strict=True)):
        mark = 24 + at * 120
        parts += [f'  <rect x="{mark}" y="20" width="14" height="14" fill="{colour}"/>', _text(mark + 20, 32, name, "start")]
    for at, (name, costs) in enumerate(rows):
        top, x = TOP + at * (BAR + 14), float(LEFT)
        parts.append(_text(LEFT - 10, top + 20, name, "end"))
        for cost, colour in zip(costs, COLOURS, strict=True):
            width = (WIDTH - LEFT - RIGHT) * cost / highest
            parts.append(f'  <rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            x += width
        parts.append(_text(x + 8, top + 20, f"{sum(costs):.1f} us", "start"))
    parts.append(_text(LEFT, height - 12, "microseconds of CPU time per record, a cold JVM and Python workers", "start"))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'  <text x="{x:.1f}" y="{y:.1f}" font-size="13" fill="#1f2933" text-anchor="{anchor}">{escape(words)}</text>'
