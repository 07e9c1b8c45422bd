"""Ownership over time as one SVG file: a panel per strategy, a ribbon per partition, a colour per member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from counterpoise.pipeline.wording import times
from counterpoise.report.colours import HUES, Look, looks
from counterpoise.report.ribbons import Axis, ticks
from counterpoise.report.shapes import LEFT, RIGHT, WIDTH
from counterpoise.simulation.outcome import Outcome, Ownership
from counterpoise.snapshot.json_text import visible

__all__ = ["MOST_RIBBONS", "draw_outcomes"]

MOST_RIBBONS = 24
"""Partitions drawn per strategy: those that change hands most under any of them, the same in every panel."""

_ROW, _HEAD, _FOOT = 11, 46, 18
_STYLE = """
svg{background:#fff;font:11px system-ui,sans-serif}text{fill:#1b1f24}.t,.p,.n{fill:#59626c;font-size:10px}.p{text-anchor:end}
.b{font-weight:650;font-size:13px}.tick{stroke:#e2e3df}
.none{stroke:#b3261e;stroke-width:1.5;stroke-dasharray:2 3}.o{fill:#fff;opacity:.55}
.m0{fill:#4477aa}.m1{fill:#d5bd3d}.m2{fill:#ee6677}.m3{fill:#228833}.m4{fill:#66ccee}.m5{fill:#aa3377}
@media(prefers-color-scheme:dark){svg{background:#181c20}text{fill:#e7e9eb}.t,.p,.n{fill:#9ba5af}.tick{stroke:#2b3138}}
"""
_SHAPES = (
    '<rect class="o" width="2" height="6"/>',
    '<circle class="o" cx="3" cy="3" r="1.4"/>',
    '<path class="o" d="M0 0h6v1.4H0zM0 0v6h1.4V0z"/>',
)
_PATTERNS = "".join(
    f'<pattern id="o{at}" width="6" height="6" patternUnits="userSpaceOnUse">{shape}</pattern>'
    for at, shape in enumerate(_SHAPES, 1)
)


def draw_outcomes(title: str, outcomes: Mapping[str, Outcome]) -> str:
    """The SVG text.

    A red dotted line is time without an owner, a thin line above the ribbons a round of the group. Names are escaped.
    """
    changes = Counter((piece.topic, piece.partition) for outcome in outcomes.values() for piece in outcome.ownership)
    drawn = sorted(sorted(changes, key=lambda key: (-changes[key], key))[:MOST_RIBBONS])
    left_out = len(changes) - len(drawn)
    members = looks(piece.member for outcome in outcomes.values() for piece in outcome.ownership)
    end = max([outcome.duration for outcome in outcomes.values()], default=0.0)
    axis = Axis(0, max(round(end * 1e6), 1), LEFT, RIGHT)
    panel = _HEAD + _ROW * len(drawn) + _FOOT
    body = [
        part for at, outcome in enumerate(outcomes.values()) for part in _panel(outcome, drawn, members, axis, 26 + at * panel)
    ]
    height = 26 + panel * len(outcomes) + 14
    note = f"{times(left_out, 'more partitions')} not drawn: moved less often. " if left_out else ""
    foot = f"{note}Red dots: no owner. Grey strokes: rounds of the group. Hover for names and times."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
        f"<title>{escape(visible(title))}</title><style>{_STYLE}</style><defs>{_PATTERNS}</defs>"
        f'<text class="b" x="{LEFT}" y="18">{escape(visible(title))}</text>{"".join(body)}'
        f'<text class="n" x="{LEFT}" y="{height - 6}">{foot}</text></svg>\n'
    )


def _panel(outcome: Outcome, drawn: Sequence[tuple[str, int]], members: Mapping[str, Look], axis: Axis, top: float) -> list[str]:
    first, bottom = top + _HEAD, top + _HEAD + _ROW * len(drawn)
    stopped = f"{outcome.stopped_partition_seconds:,.1f} stopped partition-seconds"
    figures = f"{outcome.rounds} rounds, {outcome.moved} moved, {outcome.revoked} revoked, {stopped}"
    parts = [
        f'<text class="b" x="{LEFT}" y="{top + 18}">{escape(outcome.strategy)}</text>',
        f'<text class="n" x="{RIGHT}" y="{top + 18}" text-anchor="end">{figures}</text>',
    ]
    for x, at in ticks(axis):
        parts.append(
            f'<path class="tick" d="M{x} {top + 36}V{bottom}"/><text class="t" x="{x}" y="{top + 32}">{_clock(at / 1e6)}</text>'
        )
    strokes = "".join(f"M{axis.x(entry.at * 1000)} {top + 37}v6" for entry in outcome.history)
    parts.append(f'<path d="{strokes}" stroke="#59626c" stroke-width=".7"/>' if strokes else "")
    row_of = {key: first + at * _ROW for at, key in enumerate(drawn)}
    pieces = [piece for piece in outcome.ownership if (piece.topic, piece.partition) in row_of]
    begins = {(piece.topic, piece.partition): piece.start for piece in reversed(pieces)}
    for (topic, partition), y in row_of.items():
        start = axis.x(round(begins.get((topic, partition), 0.0) * 1e6))
        parts.append(
            f'<text class="p" x="{LEFT - 6}" y="{y + 8.5}"><title>{escape(visible(topic))}</title>{partition}</text>'
            f'<path class="none" d="M{start} {y + 4.5}H{axis.x(round(outcome.duration * 1e6))}"/>'
        )
    parts += [_ribbon(piece, members[piece.member], axis, row_of[piece.topic, piece.partition]) for piece in pieces]
    return parts


def _ribbon(piece: Ownership, look: Look, axis: Axis, y: float) -> str:
    left, right = axis.x(round(piece.start * 1e6)), axis.x(round(piece.end * 1e6))
    place = f'x="{left}" y="{y}" width="{max(round(right - left, 1), 0.2)}" height="{_ROW - 2}"'
    title = f"{piece.topic}-{piece.partition}: {piece.member}, {_clock(piece.start)} to {_clock(piece.end)}"
    over = "" if look.slot < HUES else f'<rect fill="url(#o{look.slot // HUES})" {place}/>'
    return f'<g><title>{escape(visible(title))}</title><rect class="m{look.slot % HUES}" {place}/>{over}</g>'


def _clock(seconds: float) -> str:
    """Time since the start: 0:07, 12:30, 3:00:00."""
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
