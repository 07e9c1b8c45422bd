"""The fleet at a glance: verdict, figures, shares and strategies, as the overview template shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from counterpoise.pipeline.wording import SEVERITIES
from counterpoise.report.history import Row
from counterpoise.report.words import UNKNOWN, count, duration, instant, number, percent, phrase, plural, rounded, visible

__all__ = [
    "Bar",
    "Figure",
    "bars",
    "figures",
    "first_groups",
    "group_name",
    "headline",
    "importance",
    "period_of",
    "running",
    "span_words",
    "strategy_rows",
]


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
    types = ", ".join(f"{count(n)} {visible(kind)}" for kind, n in sorted(groups["by_type"].items()))
    generations = f"{plural(steps['generations'], 'generation')}, {count(steps['failed_generations'])} failed"
    read = f"{number(records['commits'])} commits, {count(records['errors'])} unreadable"
    return [
        Figure("groups", count(groups["total"]), types),
        Figure("rebalances", count(steps["total"]), generations),
        Figure("members", count(summary["members"]["distinct"]), "distinct member ids"),
        Figure("findings", count(summary["findings"]["total"]), ", ".join(severity) or "nothing found"),
        Figure("replay fidelity", percent(faith["share"]) if faith["compared"] else UNKNOWN, fidelity),
        Figure("records", number(records["total"]), read),
    ]


def headline(summary: Row, period: tuple[int, int]) -> str:
    """The verdict: the whole audit in one sentence."""
    actions = summary["actions"]
    critical = sum(action["severity"] == "critical" for action in actions)
    saved = sum(action["saved_seconds"] for action in actions)
    found = summary["findings"]["total"]
    outcome = f"{plural(found, 'finding')}, no action" if found else "nothing to do"
    if actions:
        outcome = plural(len(actions), "action") + (f", {critical} of them critical," if critical else "")
    if round(saved):
        outcome += (
            f" would save {count(round(saved))} of {count(round(summary['stopped_partition_seconds']))} stopped partition-seconds"
        )
    lasted = duration((period[1] - period[0]) / 1000).replace(" ", "\u00a0")
    return (
        f"{plural(summary['groups']['total'], 'group')} made {plural(summary['rebalances']['total'], 'rebalance')} "
        f"in {lasted}: {outcome.removesuffix(',')}."
    )


def group_name(summary: Row, row: Row) -> str:
    """The group of a row; with its cluster, if the audit has several."""
    return f"{row['cluster']}/{row['group_id']}" if len(summary["clusters"]) > 1 else str(row["group_id"])


def first_groups(summary: Row, row: Row, most: int) -> str:
    """The names of the first groups of an action, or of a block of its configuration, and the number of the others."""
    names = [visible(group_name(summary, one)) for one in row["groups"][:most]]
    more = row["n_groups"] - len(names)
    return ", ".join([*names, *([f"and {count(more)} more"] if more else [])])


def bars(counts: dict[str, int], words: Callable[[object], str] = phrase) -> list[Bar]:
    """Counts as bars, the longest first; `words`: how a name is written."""
    top = max(counts.values(), default=0)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Bar(words(name), count(n), round(100 * n / max(top, 1), 1)) for name, n in ranked if n]


def importance(groups: list[Row], findings: list[Row]) -> list[Row]:
    """Groups by their most important finding, then by rebalances, then by name: the order of the sections."""
    best: dict[str, int] = {}
    for row in findings:
        best.setdefault(row["group_id"], int(row["rank"]))
    return sorted(groups, key=lambda g: (best.get(g["group_id"], 1 << 30), -(g["rebalances"] or 0), str(g["group_id"])))


def running(group: Row) -> str:
    """The strategy a group runs, or the assignor of its broker; nothing if there is none."""
    if group["protocol_kind"] == "server":
        return f"{group['protocol']} (broker)" if group["protocol"] else "(broker)"
    return group["protocol"] or ""


def strategy_rows(rows: list[Row], suggested: str | None, declared: str | None) -> list[Row]:
    """Strategies beside what was observed; bars are relative to the largest of the list.

    `rows` are structs of `group_report.strategies` or of the summary's `strategies`; the latter have no spreads. If no
    row has a lag, the columns about lag are empty, and the table leaves them out; the same holds for the time stopped.
    """
    listed = sorted(rows, key=lambda row: (row["strategy"] != "observed", row["mode"] != "replay", row["strategy"]))
    with_lag = any(row.get("lag_peak") is not None for row in listed)
    with_stops = any(row.get("stopped_seconds") is not None for row in listed)
    most = {key: max((row[key] or 0 for row in listed), default=0) for key in ("moved", "revoked")}

    def bar(row: Row, key: str) -> Bar:
        value = row[key]
        return Bar(key, count(value), round(100 * (value or 0) / max(most[key], 1), 1))

    return [
        {
            "name": visible(row["strategy"]),
            "mode": "" if row["strategy"] == "observed" else phrase(row["mode"]),
            "moved": bar(row, "moved"),
            "revoked": bar(row, "revoked"),
            "stopped": _stopped(row) if with_stops else "",
            "spread": count(row.get("spread_peak")),
            "topic_spread": count(row.get("topic_spread_peak")),
            "balanced": f"{count(row['balanced'])} of {count(row['generations'])}" if row["balanced"] is not None else UNKNOWN,
            "lag_peak": number(row.get("lag_peak")) if with_lag else "",
            "lag_over": _over(row.get("makespan_ratio")) if with_lag else "",
            "mark": "suggested" if row["strategy"] == suggested else ("runs now" if row["strategy"] == declared else ""),
        }
        for row in listed
    ]


def _stopped(row: Row) -> str:
    """Partition-seconds; those of strategies are predicted."""
    seconds = row.get("stopped_seconds")
    return rounded(seconds) if seconds is None or row["strategy"] == "observed" else f"\u2248 {rounded(seconds)}"


def _over(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else "\N{MULTIPLICATION SIGN}\N{THIN SPACE}" + f"{ratio:.2f}"


def period_of(summary: Row) -> tuple[int, int]:
    """First and last instant of the audit in microseconds; 0 if there are no records.

    With `--from` the audit also reads older records, compacted, of the groups that were there: its period begins at that time,
    or with the last record, if that is older.
    """
    known = [summary.get("from"), summary.get("to")]
    known.append(summary.get("since") or known[0])
    start, stop, since = (round(datetime.fromisoformat(str(text)).timestamp() * 1e6) if all(known) else 0 for text in known)
    return min(max(start, since), stop), stop


def span_words(period: tuple[int, int]) -> str:
    """The audit's period in words."""
    return "no records" if period == (0, 0) else f"{instant(period[0])} to {instant(period[1])} UTC"
