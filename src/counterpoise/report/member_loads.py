"""Partitions and lag per member, as the bars of a group's section show them."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.report.colours import Look
from counterpoise.report.history import GroupHistory, LagSeries
from counterpoise.report.words import instant, number, plural, visible
from counterpoise.snapshot.names import index_runs

__all__ = ["Load", "loads_of", "more_loads"]

_TOPICS, _RUNS = 6, 12
"""Of what a member holds: topics, and runs of partitions of each, that are written out."""


@dataclass(frozen=True, slots=True)
class Load:
    """One member's share: partitions now and records behind."""

    name: str
    member: str
    look: Look
    partitions: int
    share: float
    lag: str
    holds: str


def loads_of(history: GroupHistory, lag: LagSeries | None, names: list[str], member_looks: list[Look]) -> tuple[list[Load], str]:
    """Partitions and lag per member after the last step that had members, the largest first."""
    last = next((index for index in reversed(range(len(history.steps))) if history.present[index].size), None)
    if last is None or not history.partitions:
        return [], ""
    here = history.held.step == last
    owned: dict[int, list[int]] = {code: [] for code in history.present[last].tolist()}
    for code, partition in sorted(zip(history.held.member[here].tolist(), history.held.partition[here].tolist(), strict=True)):
        owned[code].append(partition)
    most = max((len(parts) for parts in owned.values()), default=0)
    behind = lag.owners if lag and last == len(history.steps) - 1 else {}
    loads = [
        Load(
            names[code],
            visible(history.members[code][0]),
            member_looks[code],
            len(parts),
            round(100 * len(parts) / max(most, 1), 1),
            number(behind.get(history.members[code][0]), ""),
            _holds(history, parts),
        )
        for code, parts in owned.items()
    ]
    step = history.steps[last]
    ended = "" if last == len(history.steps) - 1 else ", the last one with members"
    return sorted(loads, key=lambda load: (-load.partitions, load.name, load.member)), (
        f"after generation {step['generation']}{ended}, {instant(step['log_ts'])} UTC"
    )


def _holds(history: GroupHistory, partitions: list[int]) -> str:
    """``orders 0-5, 7; payments 1``: runs of partition numbers by topic."""
    by_topic: dict[str, list[int]] = {}
    for code in partitions:
        topic, number_ = history.partitions[code]
        by_topic.setdefault(topic, []).append(number_)
    shown = [f"{visible(topic)} {_runs(sorted(set(numbers)))}" for topic, numbers in list(by_topic.items())[:_TOPICS]]
    if len(by_topic) > _TOPICS:
        shown.append(plural(len(by_topic) - _TOPICS, "more topic"))
    return "; ".join(shown) or "nothing"


def _runs(numbers: list[int]) -> str:
    found = index_runs(numbers)
    return ", ".join(found[:_RUNS]) + (f" and {plural(len(found) - _RUNS, 'more run')}" if len(found) > _RUNS else "")


def more_loads(loads: list[Load], most: int) -> str:
    """What is said of the members beyond the first `most`; empty when there are none."""
    rest = [load.partitions for load in loads[most:]]
    return (
        f"{plural(len(rest), 'more member')} not drawn, with {min(rest)} to {plural(max(rest), 'partition')} each" if rest else ""
    )
