"""The table of groups: its columns, a row per group, and what the page's filters offer and look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.pipeline.fold.health_state import STATES
from counterpoise.pipeline.wording import SEVERITIES
from counterpoise.report.findings import status
from counterpoise.report.history import LagNow, Row
from counterpoise.report.overview import running
from counterpoise.report.ribbons import Ints
from counterpoise.report.words import UNKNOWN, count, duration, number, percent, phrase, rounded, slug, visible

__all__ = ["COLUMNS", "SPARK_BINS", "Cell", "GroupRow", "choices", "group_rows"]

SPARK_BINS, _HEIGHT = 45, 22
_WORST_FIRST = STATES[::-1]

COLUMNS = (
    ("findings", "Findings", "findings of the group, and the severity of the worst"),
    ("stopped", "Stopped, partition\u2011s", "partition-seconds in which nobody committed because of a rebalance"),
    ("lag", "Lag", "records behind at the last sample; \u2248: not exact everywhere"),
    ("time_lag", "Time lag, s", "time since the committed offset was the log end, of the partition with the largest one"),
    ("members", "Members", "members now, of the most there were"),
    ("partitions", "Partitions", "partitions assigned now"),
    ("rebalances", "Rebalances", "rebalances, and generations that failed"),
    ("moved", "Moved", "partitions that went from one living member to another"),
    ("wait", "Longest wait", "from the end of a join to the leader's assignment, at most"),
    ("fidelity", "Fidelity", "share of generations that a replay of the group's own strategy reproduces"),
)
"""Name in the address and in CSV, title and meaning of the columns of numbers."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A number: as text, as what it is sorted by and written to CSV as (None: the text; empty: unknown), and a remark."""

    text: str
    value: str | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in the table."""

    name: str
    anchor: str
    complete: bool
    cells: dict[str, Cell]  # Column -> its cell
    worst: str  # Severity of the worst finding, or empty
    health_order: int  # What the column of health is sorted by: 0 is the worst state
    spark: str  # Rebalances over time as an SVG path
    # What filters look at, in words: type, state, health, strategy, libraries, owner, actions ("|" between several), and the
    # kinds of findings as ``kind:status:rank``
    data: dict[str, str]


def group_rows(
    groups: list[Row],
    findings: Mapping[str, list[Row]],
    rhythm: Mapping[str, tuple[Ints, Ints]],
    lags: Mapping[str, LagNow],
    actions: Mapping[str, list[str]],
) -> list[GroupRow]:
    """The table of groups, in the given order, by their findings, ranks of actions, `Audit.rhythm` and `Audit.lags_now`."""
    rows = []
    for group in groups:
        name = str(group["group_id"])
        found = findings.get(name, [])
        states = [status(row) for row in found]
        n_open = len(found) - states.count("accepted")
        rows.append(
            GroupRow(
                visible(name) or "(empty name)",
                slug(name),
                group["complete"] is not False,  # of a group that only commits nothing is known
                _cells(group, n_open, lags[name].seconds if name in lags else None),
                next((s for s in SEVERITIES if s in states), ""),
                _WORST_FIRST.index(group["health"] or "unknown"),
                _spark(rhythm[name][0]) if name in rhythm else "",
                {
                    "type": phrase(group["group_type"]),
                    "state": phrase(group["state"]),
                    "health": phrase(group["health"]),
                    "strategy": visible(running(group) or UNKNOWN),
                    "libraries": "|".join(map(visible, group["libraries"] or ())),
                    "owner": next((visible(row["owner"]) for row in found if row["owner"]), ""),
                    "actions": "|".join(actions.get(name, ())),
                    "kinds": " ".join(f"{row['kind']}:{state}:{row['rank']}" for row, state in zip(found, states, strict=True)),
                },
            )
        )
    return rows


def _cells(group: Row, found: int, time_lag: float | None) -> dict[str, Cell]:
    """The cells of the columns of numbers."""

    def cell(value: Any, text: str, remark: str = "") -> Cell:
        plain = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        return Cell(text, None if plain == text else plain, remark)

    latency, lag, fidelity, stopped = (
        group[name] for name in ("sync_latency_ms_max", "lag_now", "replay_fidelity", "stopped_partition_seconds")
    )
    now, peak, failed = group["members_now"], group["members_peak"], group["failed_generations"]
    return {
        "findings": Cell(count(found) if found else "none", str(found)),
        "stopped": cell(stopped, rounded(stopped)),
        "lag": cell(lag, number(lag) if lag is None or group["lag_quality"] == "exact" else f"\u2248 {number(lag)}"),
        "time_lag": cell(time_lag, rounded(time_lag)),
        "members": cell(now, count(now), f"of {count(peak)}" if peak else ""),
        "partitions": cell(group["partitions_now"], count(group["partitions_now"])),
        "rebalances": cell(group["rebalances"], count(group["rebalances"]), f"{count(failed)} failed" if failed else ""),
        "moved": cell(group["observed_moved"], count(group["observed_moved"])),
        "wait": cell(None if latency is None else latency / 1000, duration(latency)),
        "fidelity": cell(fidelity, percent(fidelity)),
    }


def _spark(bins: Ints) -> str:
    """Rebalances per time bin as one SVG path of upright bars."""
    top = max(int(bins.max()), 2)
    heights = {index: max(4, round((_HEIGHT - 2) * int(bins[index]) / top)) for index in bins.nonzero()[0].tolist()}
    return "".join(f"M{index} {_HEIGHT}v-{height}" for index, height in heights.items())


def choices(rows: Iterable[GroupRow], actions: Iterable[Row]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The filters that choose: name, title, and (value, words) of what they offer, the most frequent first."""
    tallies: dict[str, Counter[str]] = {
        name: Counter() for name in ("health", "kind", "severity", "strategy", "library", "type", "owner")
    }
    for row in rows:
        found = [one.split(":") for one in row.data["kinds"].split()]
        tallies["kind"].update({kind for kind, *_ in found})
        tallies["severity"].update({severity for _, severity, _ in found})
        for name in ("health", "strategy", "type", "owner"):
            tallies[name].update(filter(None, [row.data[name]]))
        tallies["library"].update(filter(None, row.data["libraries"].split("|")))
    made = []
    for name, tally in tallies.items():
        ranked = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
        offered = [(value, f"{phrase(value) if name == 'kind' else value} ({count(n)})") for value, n in ranked]
        made.append((name, "finding" if name == "kind" else name, offered))
    return [*made, ("action", "action", [(str(row["rank"]), f"{row['rank']}. {visible(row['title'])}") for row in actions])]
