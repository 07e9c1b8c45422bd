"""Backtest of the table `health` beside Burrow's rules, on a recording with planted trouble.

    python -m benchmarks.health [--json FILE] [--page docs/health.md] [--list]

For each rule set, and log ends sampled every 5 s (as recorded) and every 30 s (every sixth sample): which planted trouble it
found, after how many seconds, and what it said of partitions with which nothing was wrong; and the same, in short, of recordings
that were made for other tests. `--list` prints each alarm that is wrong and when each trouble was found.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.health import burrow
from benchmarks.health.elsewhere import accused_elsewhere
from benchmarks.health.ours import OURS, STATES, health_alarms
from benchmarks.health.record import DATA, SAMPLE_S
from benchmarks.health.recording import Recording, read
from benchmarks.health.scores import Found, Score, score

__all__ = ["SPACINGS", "all_scores", "computed", "in_page", "main", "tables"]

BEGIN, END = "<!-- backtest:begin -->", "<!-- backtest:end -->"
SPACINGS = (1, 6)
"""Each so-many-th sample is used."""


def all_scores(recording: Recording, every: int) -> dict[str, Score]:
    """The score of each rule set, ours first."""
    late = float(SAMPLE_S * every)
    scores = {OURS: score(health_alarms(recording, every), recording.troubles, STATES, late)}
    for rules in burrow.RULES:
        theirs = burrow.alarms(rules, recording.commits, recording.thinned(every), recording.end)
        scores[rules.name] = score(theirs, recording.troubles, burrow.STATES, late)
    return scores


def _figures(one: Score, words: Iterable[str]) -> dict[str, Any]:
    kinds = sorted({found.trouble.kind for found in one.found})
    quiet = set(words) - {found.trouble.group for found in one.found}
    return {
        "precision": round(one.precision, 3),
        "recall": round(one.recall, 3),
        "kinds": {kind: _of_kind([found for found in one.found if found.trouble.kind == kind]) for kind in kinds},
        "false_alarms": len(one.false),
        "healthy_groups": len(quiet),
        "accused": dict(sorted(Counter(alarm.place.group for alarm in one.false).items())),
        "after_s": {_key(found): _rounded(found.after) for found in one.found},
        "named_after_s": {_key(found): _rounded(found.named) for found in one.found},
    }


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _key(found: Found) -> str:
    trouble = found.trouble
    return f"{trouble.group} {'any' if trouble.partition is None else trouble.partition} {trouble.kind} {trouble.since:.0f}"


def _of_kind(found: list[Found]) -> dict[str, Any]:
    after = sorted(one.after for one in found if one.after is not None)
    return {
        "planted": len(found),
        "found": len(after),
        "named": sum(one.named is not None for one in found),
        "median_s": round(statistics.median(after)) if after else None,
        "latest_s": round(after[-1]) if after else None,
    }


def tables(figures: dict[str, Any]) -> str:
    """The figures as Markdown: per spacing of samples a table, then other recordings, then the scenarios."""
    parts = []
    for spacing, of_rules in figures["spacings"].items():
        kinds = sorted({kind for one in of_rules.values() for kind in one["kinds"]})
        head = ["rules", "precision", "recall", *(f"`{kind}`" for kind in kinds), "false alarms", "in groups"]
        rows = [head, ["---"] * len(head)]
        for name, one in of_rules.items():
            cells = [_cell(one["kinds"].get(kind)) for kind in kinds]
            numbers = (str(one["false_alarms"]), str(len(one["accused"])))
            rows.append([name, f"{one['precision']:.0%}", f"{one['recall']:.0%}", *cells, *numbers])
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        parts.append(f"Log ends sampled every {spacing} s:\n\n{table}")
    parts.append(_elsewhere(figures["elsewhere"]))
    words = "\n".join(f"- `{name}`: {text}" for name, text in figures["scenarios"].items())
    parts.append(f"The groups of the first two tables:\n\n{words}")
    return "\n\n".join(parts)


def _elsewhere(figures: dict[str, Any]) -> str:
    head = ["rules", "troubles found", "groups with a false alarm", "more, while the broker restarted"]
    rows = [head, ["---"] * len(head)]
    for name, one in figures["rules"].items():
        accused = (str(len(one[of])) for of in ("accused", "accused_at_restart"))
        rows.append([name, f"{one['found']} of {one['troubles']}", *accused])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"Recordings made for other tests ({figures['groups']} groups, {figures['partitions']} partitions):\n\n{table}"


def _cell(kind: dict[str, Any] | None) -> str:
    if kind is None:
        return ""
    if not kind["found"]:
        return f"0 of {kind['planted']}"
    name = "" if kind["named"] == kind["found"] else f" ({kind['named']} by name)"
    return f"{kind['found']} of {kind['planted']}{name}: {kind['median_s']}, {kind['latest_s']} s"


def in_page(text: str, figures: dict[str, Any]) -> str:
    """The page with these tables between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{tables(figures)}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Run the backtest and print its tables."""
    options = argparse.ArgumentParser(description="The table health beside Burrow's rules, on recordings with planted trouble.")
    options.add_argument("--json", type=Path, help="write the figures there")
    options.add_argument("--page", type=Path, help="write the tables into this page, between its two marks")
    options.add_argument("--list", action="store_true", help="print what is wrong, too")
    options.add_argument("--data", type=Path, default=DATA)
    given = options.parse_args()
    figures = computed(read(given.data), verbose=given.list)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    if given.page:
        given.page.write_text(in_page(given.page.read_text(), figures))
    sys.stdout.write(tables(figures) + "\n")


def computed(recording: Recording, *, verbose: bool = False) -> dict[str, Any]:
    """The figures of all rule sets and spacings of samples."""
    spacings = {}
    for every in SPACINGS:
        scores = all_scores(recording, every)
        spacings[str(SAMPLE_S * every)] = {name: _figures(one, recording.words) for name, one in scores.items()}
        for name, one in scores.items() if verbose else ():
            _explain(f"{name}, {SAMPLE_S * every} s", one)
    return {"scenarios": recording.words, "spacings": spacings, "elsewhere": accused_elsewhere()}


def _explain(name: str, one: Score) -> None:
    sys.stdout.write(f"{name}\n")
    for alarm in one.false:
        sys.stdout.write(f"  false: {' '.join(map(str, alarm.place))}: {alarm.kind} {alarm.since:.0f} to {alarm.until:.0f} s\n")
    for found in one.found:
        first, named = ("never" if one is None else f"after {one:.0f} s" for one in (found.after, found.named))
        sys.stdout.write(f"  {_key(found)} to {found.trouble.until:.0f}: {first}, by its name {named}\n")


if __name__ == "__main__":
    main()
