"""summary.json: sums over the tables; its size does not depend on how many records or groups there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise._version import __version__

__all__ = ["MOST_FINDINGS", "Counted", "iso", "lag_note", "nothing_note", "summarize", "transaction_note"]

MOST_FINDINGS = 200
"""So many findings at most are in the summary; the table has all."""


@dataclass(frozen=True)
class Counted:
    """What decoding counted on its way; `errors` are those of all records, `transactional` looks like commits of transactions."""

    commits: int
    tombstones: int
    damaged_commits: int
    first: datetime | None
    last: datetime | None
    errors: int
    transactional: int = 0


def summarize(
    counted: Counted, steps: DataFrame, figures: DataFrame, groups: DataFrame, found: DataFrame, rest: DataFrame
) -> dict[str, Any]:
    """The summary but for source, tables and notes."""
    kinds = {row["t"]: (row["n"], row["gone"], row["first"], row["last"]) for row in _types(rest).collect()}
    by_type = {str(kind): n for kind, (n, *_) in sorted(kinds.items(), key=lambda item: (item[0] is None, item[0] or 0))}
    classic = kinds.get(2, (0, 0, None, None))
    first = [t for t in (counted.first, *(about[2] for about in kinds.values())) if t is not None]
    last = [t for t in (counted.last, *(about[3] for about in kinds.values())) if t is not None]
    all_commits = counted.commits + counted.tombstones + counted.damaged_commits
    rest_total = sum(n for n, *_ in kinds.values())
    return {
        "counterpoise": __version__,
        "from": iso(min(first, default=None)),
        "to": iso(max(last, default=None)),
        "records": {
            "total": all_commits + rest_total,
            "commits": counted.commits,
            "commit_tombstones": counted.tombstones,
            "group_metadata": classic[0] - classic[1],
            "group_metadata_tombstones": classic[1],
            "modern": sum(n for kind, (n, *_) in kinds.items() if kind is not None and kind > 2),
            "errors": counted.errors,
            "by_type": {"1": all_commits, **by_type} if all_commits else by_type,
        },
        **_groups(groups),
        "rebalances": _rebalances(steps),
        "strategies": _strategies(figures),
        "findings": _findings(found),
    }


def lag_note(figures: DataFrame) -> list[str]:
    """What the replays by lag could not know, in words: one sentence, or none."""
    seen = figures.where("strategy = 'observed'").agg(
        fn.count("*").alias("all"),
        fn.count("lag_unknown").alias("with_lag"),
        fn.sum("lag_unknown").alias("unknown"),
        fn.sum(fn.when(fn.col("lag_unknown").isNotNull(), fn.col("n_partitions"))).alias("partitions"),
    )
    row = seen.first()
    if row is None or not row["all"]:
        return []
    without = row["all"] - row["with_lag"]
    parts = [f"left out of {without} of {row['all']} generations: no log end was sampled before them"] if without else []
    if row["unknown"]:
        parts.append(f"given 0 for {row['unknown']} of {row['partitions']} lags (partition x generation): nothing was committed")
    return [f"replays of lag and lag-sticky: {'; '.join(parts)}"] if parts else []


def nothing_note(summary: Mapping[str, Any]) -> list[str]:
    """That there was nothing to audit, in words: one sentence, or none."""
    if summary["records"]["total"]:
        return []
    return ["nothing was recorded: there are no records (or none in the chosen time), so nothing is known about any group"]


def transaction_note(commits: int, known: bool) -> list[str]:
    """What is not known about commits of transactions, in words: one sentence, or none.

    Parameters
    ----------
    commits : int
        How many look like such (see `timeline.looks_transactional`).
    known : bool
        Whether the captures say which were aborted.
    """
    if not commits:
        return []
    words = f"{commits} commits look like those of transactions: they count from their record, some moments before their marker"
    ended = (
        ""
        if known
        else "; which of them were aborted is not recorded, so all count (a read_committed capture holds none that were)"
    )
    return [words + ended]


def _types(rest: DataFrame) -> DataFrame:
    unsigned = fn.conv(fn.hex(fn.substring("key", 1, 2)), 16, 10).cast("int")
    # A key starts with a signed 16-bit number; a shorter one has no type.
    signed = fn.when(unsigned < 0x8000, unsigned).otherwise(unsigned - 0x10000)
    kind = fn.when(fn.length("key") >= 2, signed).alias("t")
    gone = fn.count(fn.when(fn.col("value").isNull(), 1)).alias("gone")
    return rest.groupBy(kind).agg(
        fn.count("*").alias("n"), gone, fn.min("timestamp").alias("first"), fn.max("timestamp").alias("last")
    )


def _groups(groups: DataFrame) -> dict[str, Any]:
    judged, share = fn.col("judged_generations"), fn.col("replay_fidelity")
    rows = groups.groupBy("group_type", "protocol", "state").agg(
        fn.count("*").alias("n"),
        fn.sum("distinct_members").alias("members"),
        fn.sum(judged).alias("judged"),
        fn.sum(fn.round(share * judged)).cast("bigint").alias("matched"),
        fn.count(fn.when(share < 1, 1)).alias("below"),
    )
    kinds = [row.asDict() for row in rows.orderBy("group_type", "protocol", "state").limit(10_000).collect()]
    total = {name: sum(row[name] or 0 for row in kinds) for name in ("n", "members", "judged", "matched", "below")}
    fidelity = {"judged": total["judged"], "matched": total["matched"], "groups_below_one": total["below"]}
    return {
        "groups": {
            "total": total["n"],
            **{
                f"by_{name}": _by(kinds, column)
                for name, column in (("type", "group_type"), ("protocol", "protocol"), ("state", "state"))
            },
        },
        "members": {"distinct": total["members"]},
        "fidelity": {**fidelity, "share": total["matched"] / total["judged"] if total["judged"] else None},
    }


def _by(rows: list[dict[str, Any]], column: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        if row[column] is not None:
            sums[row[column]] = sums.get(row[column], 0) + row["n"]
    return dict(sorted(sums.items()))


def _rebalances(steps: DataFrame) -> dict[str, Any]:
    rows = steps.groupBy("kind", "cause").agg(fn.count("*").alias("n"), fn.sum("missed_generations").alias("missed")).collect()
    by_kind: dict[str, int] = {}
    by_cause: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: (row["kind"], row["cause"] or "")):
        by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + row["n"]
        if row["kind"] == "rebalance":
            by_cause[row["cause"]] = by_cause.get(row["cause"], 0) + row["n"]
    return {
        "total": by_kind.get("rebalance", 0),
        "generations": by_kind.get("rebalance", 0) + by_kind.get("cooperative_followup", 0),
        "by_kind": by_kind,
        "by_cause": by_cause,
        "failed_generations": int(sum(row["missed"] or 0 for row in rows)),
    }


def _strategies(figures: DataFrame) -> list[dict[str, Any]]:
    sums = figures.groupBy("strategy", "mode").agg(
        fn.count("*").alias("generations"),
        fn.sum("moved").alias("moved"),
        fn.sum("revoked").alias("revoked"),
        fn.sum(fn.col("balanced").cast("bigint")).alias("balanced"),
        fn.max("max_member_lag").alias("lag_peak"),
        fn.avg("makespan_ratio").alias("makespan_ratio"),
    )
    return [row.asDict() for row in sums.orderBy("mode", "strategy").limit(1000).collect()]


def _findings(found: DataFrame) -> dict[str, Any]:
    rows = found.groupBy("severity", "kind").count().collect()
    by_severity: dict[str, int] = {}
    by_kind: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: (row["severity"], row["kind"])):
        by_severity[row["severity"]] = by_severity.get(row["severity"], 0) + row["count"]
        by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + row["count"]
    top = []
    for row in found.orderBy("rank", "cluster").limit(MOST_FINDINGS).collect():
        one = row.asDict()
        one["at"] = iso(one["at"])
        weight = {"critical": 1e6, "warning": 1e3, "notice": 1.0}[one["severity"]]
        one["weight"] = one["score"] / weight - 1
        top.append(one)
    return {"total": sum(by_kind.values()), "by_severity": by_severity, "by_kind": by_kind, "top": top}


def iso(moment: datetime | None) -> str | None:
    """A time as the summary writes it: UTC, milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
