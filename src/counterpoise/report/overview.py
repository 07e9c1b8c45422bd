"""The fleet at a glance: figures, shares and the table of groups, as the overview template shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counterpoise.report.history import Row
from counterpoise.report.ribbons import Ints
from counterpoise.report.words import UNKNOWN, count, duration, instant, number, percent, phrase, plural, slug, visible

__all__ = [
    "Bar",
    "Figure",
    "GroupRow",
    "StrategyRow",
    "bars",
    "figures",
    "first_groups",
    "group_rows",
    "headline",
    "importance",
    "period_of",
    "running",
    "span_words",
    "strategy_rows",
]

SEVERITIES = ("critical", "warning", "notice")
SPARK_WIDTH, SPARK_HEIGHT, SPARK_BINS = 120, 22, 60


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its name and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named count with its share of the longest, in per cent."""

    name: str
    value: str
    width: float


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in the table."""

    name: str
    anchor: str
    kind: str
    strategy: str
    state: str
    complete: bool
    cells: list[tuple[str, float | int, str]]
    worst: str
    n_findings: int
    spark: str
    detailed: bool


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """A strategy's figures with bars."""

    name: str
    mode: str
    moved: Bar
    revoked: Bar
    stopped: str
    spread: str
    topic_spread: str
    balanced: str
    lag_peak: str
    lag_over: str
    mark: str


def figures(summary: Row) -> list[Figure]:
    """The tiles of the overview."""
    groups, steps, records, faith = summary["groups"], summary["rebalances"], summary["records"], summary["fidelity"]
    severity = [f"{count(n)} {name}" for name in SEVERITIES if (n := summary["findings"]["by_severity"].get(name))]
    severity += [f"{count(summary['findings']['accepted'])} accepted"] if summary["findings"]["accepted"] else []
    fidelity = (
        f"{count(faith['matched'])} of {count(faith['compared'])} generations reproduced"
        if faith["compared"]
        else "nothing to compare"
    )
    return [
        Figure(
            "groups",
            count(groups["total"]),
            ", ".join(f"{count(n)} {visible(kind)}" for kind, n in sorted(groups["by_type"].items())),
        ),
        Figure(
            "rebalances",
            count(steps["total"]),
            f"{plural(steps['generations'], 'generation')}, {count(steps['failed_generations'])} failed",
        ),
        Figure("members", count(summary["members"]["distinct"]), "distinct member ids"),
        Figure("findings", count(summary["findings"]["total"]), ", ".join(severity) or "nothing found"),
        Figure("replay fidelity", percent(faith["share"]) if faith["compared"] else UNKNOWN, fidelity),
        Figure(
            "records", number(records["total"]), f"{number(records['commits'])} commits, {count(records['errors'])} unreadable"
        ),
    ]


def headline(summary: Row, period: tuple[int, int]) -> str:
    """The verdict: the whole audit in one sentence."""
    actions = summary["actions"]
    critical = sum(action["severity"] == "critical" for action in actions)
    stopped = sum(run["stopped_seconds"] or 0 for run in summary["strategies"] if run["strategy"] == "observed")
    saved = sum(action["saved_seconds"] for action in actions)
    outcome = (
        plural(len(actions), "action") + (f", {critical} of them critical," if critical else "") if actions else "nothing to do"
    )
    if round(saved):
        outcome += f" would save {count(round(saved))} of {count(round(stopped))} stopped partition-seconds"
    lasted = duration((period[1] - period[0]) / 1000).replace(" ", "\u00a0")
    return (
        f"{plural(summary['groups']['total'], 'group')} made {plural(summary['rebalances']['total'], 'rebalance')} "
        f"in {lasted}: {outcome.removesuffix(',')}."
    )


def first_groups(summary: Row, action: Row, most: int) -> list[str]:
    """The names of the first groups of an action, and the number of the others."""
    several = len(summary.get("clusters", ())) > 1
    names = [visible(f"{one['cluster']}/{one['group_id']}" if several else one["group_id"]) for one in action["groups"][:most]]
    more = action["n_groups"] - len(names)
    return [*names, *([f"and {count(more)} more"] if more else [])]


def bars(counts: dict[str, int]) -> list[Bar]:
    """Counts as bars, the longest first."""
    top = max(counts.values(), default=0)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Bar(phrase(name), count(n), round(100 * n / max(top, 1), 1)) for name, n in ranked if n]


def importance(groups: list[Row], findings: list[Row]) -> list[Row]:
    """Groups by their most important finding, then by rebalances, then by name: the order of the sections."""
    best: dict[str, int] = {}
    for row in findings:
        best.setdefault(row["group_id"], int(row["rank"]))
    return sorted(groups, key=lambda g: (best.get(g["group_id"], 1 << 30), -(g["rebalances"] or 0), str(g["group_id"])))


def group_rows(
    groups: list[Row], findings: list[Row], rhythm: dict[str, tuple[Ints, Ints]], detailed: set[str]
) -> list[GroupRow]:
    """The table of groups, in the given order."""
    by_group: dict[str, list[str]] = {}
    for row in findings:
        if row["accepted_until"] is None:
            by_group.setdefault(row["group_id"], []).append(row["severity"])
    rows = []
    for group in groups:
        name = str(group["group_id"])
        severities = by_group.get(name, [])
        rows.append(
            GroupRow(
                visible(name) or "(empty name)",
                slug(name, "g"),
                phrase(group["group_type"]),
                visible(running(group) or UNKNOWN),
                phrase(group["state"]),
                group["complete"] is not False,  # of a group that only commits nothing is known
                _cells(group),
                next((s for s in SEVERITIES if s in severities), ""),
                len(severities),
                _spark(rhythm[name][0]) if name in rhythm else "",
                name in detailed,
            )
        )
    return rows


def _cells(group: Row) -> list[tuple[str, float | int, str]]:
    """(text, value to sort by, remark) of the table's number columns."""

    def cell(value: Any, text: str, remark: str = "") -> tuple[str, float | int, str]:
        return text, -1 if value is None else value, remark

    latency, lag, faith = group["sync_latency_ms_max"], group["lag_now"], group["replay_fidelity"]
    now, peak, failed = group["members_now"], group["members_peak"], group["failed_generations"]
    return [
        cell(now, count(now), f"of {count(peak)}" if peak else ""),
        cell(group["partitions_now"], count(group["partitions_now"])),
        cell(group["rebalances"], count(group["rebalances"]), f"{count(failed)} failed" if failed else ""),
        cell(group["observed_moved"], count(group["observed_moved"])),
        cell(latency, duration(latency)),
        cell(lag, number(lag) if lag is None or group["lag_quality"] == "exact" else f"\u2248 {number(lag)}"),
        cell(faith, percent(faith)),
    ]


def _spark(bins: Ints) -> str:
    """Rebalances per time bin as one SVG path of upright bars."""
    top, step = max(int(bins.max()), 1), SPARK_WIDTH / bins.size
    parts = []
    for index in bins.nonzero()[0].tolist():
        height = max(4, round((SPARK_HEIGHT - 2) * int(bins[index]) / max(top, 2)))
        parts.append(f"M{round(index * step + step / 2, 1):g} {SPARK_HEIGHT}v-{height}")
    return "".join(parts)


def running(group: Row) -> str:
    """The strategy a group runs, or the assignor of its broker; nothing if there is none."""
    if group["protocol_kind"] == "server":
        return f"{group['protocol']} (broker)" if group["protocol"] else "(broker)"
    return group["protocol"] or ""


def strategy_rows(rows: list[Row], observed: Row | None, suggested: str | None, declared: str | None) -> list[StrategyRow]:
    """Strategies beside what was observed; bars are relative to the largest of the list.

    `rows` are structs of `group_report.strategies` or of the summary's `strategies`; the latter have no spreads. If no
    row has a lag, the columns about lag are empty, and the table leaves them out; the same holds for the time stopped.
    """
    listed = list(rows)
    if observed is not None and all(row["strategy"] != "observed" for row in listed):
        listed.insert(0, observed)
    listed.sort(key=lambda row: (row["strategy"] != "observed", row["mode"] != "replay", row["strategy"]))
    with_lag = any(row.get("lag_peak") is not None for row in listed)
    with_stops = any(row.get("stopped_seconds") is not None for row in listed)
    most = {key: max((row[key] or 0 for row in listed), default=0) for key in ("moved", "revoked")}

    def bar(row: Row, key: str) -> Bar:
        value = row[key]
        return Bar(key, count(value), round(100 * (value or 0) / max(most[key], 1), 1))

    return [
        StrategyRow(
            visible(row["strategy"]),
            "" if row["strategy"] == "observed" else phrase(row["mode"]),
            bar(row, "moved"),
            bar(row, "revoked"),
            _stopped(row.get("stopped_seconds")) if with_stops else "",
            count(row.get("spread_peak")),
            count(row.get("topic_spread_peak")),
            f"{count(row['balanced'])} of {count(row['generations'])}" if row["balanced"] is not None else UNKNOWN,
            number(row.get("lag_peak")) if with_lag else "",
            _over(row.get("makespan_ratio")) if with_lag else "",
            "suggested" if row["strategy"] == suggested else ("runs now" if row["strategy"] == declared else ""),
        )
        for row in listed
    ]


def _stopped(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds * 1000)


def _over(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else "\N{MULTIPLICATION SIGN}\N{THIN SPACE}" + f"{ratio:.2f}"


def period_of(summary: Row, groups: list[Row]) -> tuple[int, int]:
    """First and last instant of the audit in microseconds, from the summary's ISO times or else from the groups."""
    from datetime import datetime

    known = [summary.get("from"), summary.get("to")]
    if all(known):
        start, stop = (round(datetime.fromisoformat(str(text)).timestamp() * 1e6) for text in known)
        return start, stop
    instants = [g[key] for g in groups for key in ("first_ts", "last_ts") if g[key] is not None]
    return (min(instants), max(instants)) if instants else (0, 0)


def span_words(period: tuple[int, int]) -> str:
    """The audit's period in words."""
    return "no records" if period == (0, 0) else f"{instant(period[0])} to {instant(period[1])} UTC"
