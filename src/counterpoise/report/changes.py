"""Did a change help? A group before and after each change of its configuration or size, as its section shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from counterpoise.report.history import Row
from counterpoise.report.words import UNKNOWN, clock, duration, long, number, percent, phrase, rounded, visible

__all__ = ["FIGURES", "change_words"]

FIGURES = (
    ("rebalances", "Rebalances"),
    ("moved", "Moved"),
    ("stopped_seconds", "Stopped, partition-s"),
    ("lag_mean", "Mean lag"),
)
"""Figures of an era, and their titles."""


def change_words(rows: Iterable[Row], period: tuple[int, int]) -> list[Row]:
    """Rows of the table `changes` in words, the newest first. Rates are per day if both periods last an hour or more."""
    return [
        {
            "at": clock(row["at"], day=long(period)),
            "what": _arrow(visible(row["state_before"] or UNKNOWN), visible(row["state_after"] or UNKNOWN)),
            "lasted": _pair(row, "seconds", lambda value: duration(None if value is None else value * 1000)),
            "figures": [_figure(row, name) for name, _ in FIGURES],
            "verdict": phrase(row["verdict"]),
            "certainty": percent(row["certainty"]),
        }
        for row in sorted(rows, key=lambda row: (-row["at"], row["kind"]))
    ]


def _figure(row: Row, name: str) -> str:
    words = (lambda value: number(value if value is None else round(value))) if name == "lag_mean" else rounded
    daily = f"{name}_per_day"
    if all(row[era].get(daily) is not None for era in ("before", "after")):
        return f"{_pair(row, daily, words)} a day"
    return _pair(row, name, words)


def _pair(row: Row, name: str, words: Callable[[float | None], str]) -> str:
    return _arrow(words(row["before"][name]), words(row["after"][name]))


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} \N{RIGHTWARDS ARROW} {after}"
