"""summary.json: sums over the tables; its size does not depend on the number of records or groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from counterpoise._version import __version__
from counterpoise.pipeline.capture.columns import ENDS_FILE
from counterpoise.pipeline.findings.finding import weight_of
from counterpoise.pipeline.fold.strategy_figures import run_figures, sum_runs
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.wording import iso

__all__ = ["MOST_FINDINGS", "MOST_GROUPS", "count_records", "data_notes", "lag_note", "sum_records", "summarize"]

MOST_FINDINGS = 200
"""Maximal number of findings in the summary; the table has all."""

MOST_GROUPS = 20
"""Maximal number of groups of an action in the summary; the table has all."""

TaskManifest: TypeAlias = Mapping[str, Any]


def count_records(scanned: Iterable[TaskManifest], folded: Sequence[TaskManifest]) -> tuple[dict[str, Any], int]:
    """``from, to, sampled_from, sampled_to, records`` of the summary, by the manifests of tasks.

    And the number of commits that look transactional.
    """
    sums, kinds, deleted, times = Counter[str](), Counter[int | None](), Counter[int | None](), list[int]()
    for one in scanned:
        sums.update({name: one[name] for name in ("errors", "tombstones", "decoded", "transactional")})
        sums["error_rows"] += one["tables"]["decode_errors"]["rows"]
        times += one["times"] or ()
        for kind, n, gone in one["kinds"]:  # None: the key is too short to have a type
            kinds[kind] += n
            deleted[kind] += gone
    sums["error_rows"] += sum(one["tables"]["decode_errors"]["rows"] for one in folded)
    by_type = {str(kind): kinds[kind] for kind in sorted(kinds, key=lambda kind: (kind is None, kind or 0))}
    commits = sums["decoded"] + sums["errors"]
    records = {
        "total": commits + kinds.total(),
        "commits": sums["decoded"] - sums["tombstones"],
        "commit_tombstones": sums["tombstones"],
        "group_metadata": kinds[2] - deleted[2],
        "group_metadata_tombstones": deleted[2],
        "modern": sum(n for kind, n in kinds.items() if kind is not None and kind > 2),
        "errors": sums["error_rows"],
        "by_type": {"1": commits, **by_type} if commits else by_type,
    }
    sampled = [time for one in folded for time in one["lag_times"] or ()]
    begin, end, first, last = (moment_of(pick(of)) if of else None for of in (times, sampled) for pick in (min, max))
    spans = {"from": iso(begin), "to": iso(end), "sampled_from": iso(first), "sampled_to": iso(last)}
    return {**spans, "records": records}, sums["transactional"]


def sum_records(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Sum the counts of records in two summaries; counts may be nested."""
    sums: dict[str, Any] = {}
    for name in [*one, *(name for name in other if name not in one)]:
        left, right = one.get(name, 0), other.get(name, 0)
        sums[name] = sum_records(left or {}, right or {}) if isinstance(left or right, Mapping) else left + right
    return sums


def summarize(counted: Mapping[str, Any], folded: Sequence[TaskManifest], found: Mapping[str, Any]) -> dict[str, Any]:
    """The summary without source, tables and notes; `counted` as by `count_records`, `found` as by `rank_all`."""
    groups = [row for one in folded for row in one["groups"]]
    return {
        "counterpoise": __version__,
        **counted,
        **_of_groups(groups),
        "rebalances": _rebalances(row for one in folded for row in one["steps"]),
        "stopped_partition_seconds": sum(one["stopped_ms"] for one in folded) / 1000,
        "strategies": _strategies(folded),
        "actions": found["actions"],
        "findings": _findings(found),
        "data_quality": _quality(groups),
    }


def data_notes(records: int, transactional: int, aborted_known: bool, disagreeing: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each thing that the records and samples do not show.

    `transactional`: commits that look so (a value of version 4 or later without a topic id). `aborted_known`: the captures list
    aborted records. `disagreeing`: cluster -> the number of its samples that differ from others of the same log and time.
    """
    for name, n in disagreeing.items():
        if n:
            words = f"{ENDS_FILE}: {n:,} samples are there more than once and differ; the largest log end counts"
            yield f"{name}: {words}" if len(disagreeing) > 1 else words
    if not records:
        yield "nothing was recorded: there are no records (or none in the chosen time), so nothing is known about any group"
    if transactional:
        ended = "which of them were aborted is not recorded, so all count (a read_committed capture has no aborted ones)"
        words = "commits look like those of transactions: they count from their record, some moments before their marker"
        yield f"{transactional:,} {words}" if aborted_known else f"{transactional:,} {words}; {ended}"


def lag_note(folded: Sequence[TaskManifest]) -> list[str]:
    """One sentence on unknown lag in replays, or none; `folded` are manifests of fold tasks."""
    sums: Counter[str] = Counter()
    for one in folded:
        sums.update(one["with_lag"])
    parts, without = list[str](), sums["plans"] - sums["sampled"]
    if without:
        parts.append(f"left out of {without:,} of {sums['plans']:,} generations: no log end was sampled before them")
    if sums["unknown"]:
        words = f"given 0 for {sums['unknown']:,} of {sums['partitions']:,} lags (partition x generation)"
        parts.append(f"{words}: nothing was committed")
    return [f"replays of lag and lag-sticky: {'; '.join(parts)}"] if parts else []


def _of_groups(kinds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total = {name: sum(row[name] for row in kinds) for name in ("n", "members", "compared", "matched", "fidelity_below_one")}
    fidelity = {"compared": total["compared"], "matched": total["matched"], "groups_below_one": total["fidelity_below_one"]}
    by = {"by_type": _by(kinds, "group_type"), "by_protocol": _by(kinds, "protocol"), "by_state": _by(kinds, "state")}
    return {
        "groups": {"total": total["n"], **by},
        "members": {"distinct": total["members"]},
        "fidelity": {**fidelity, "share": total["matched"] / total["compared"] if total["compared"] else None},
    }


_QUALITY = {
    "low_fidelity": (
        "fidelity_below_one",
        "their library assigns differently from their strategy as it is here: predictions are less certain",
    ),
    "incomplete_history": (
        "cut",
        "compaction removed older generations (record continuously: counterpoise capture --follow), or --from left them out",
    ),
    "polled": ("polled", "two rebalances between two polls count as one or none; poll more often: capture --poll-every"),
    "stops_without_samples": (
        "unsampled",
        "part of their stops is in time without samples of log ends, when the broker or the capture was away: it is left out",
    ),
}
"""Kind of a note on data quality -> its count in `ReportTotals.manifest`, and its text."""


def _quality(kinds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Notes on what the recording lacks, with the number of groups that exist."""
    living = [row for row in kinds if row["state"] != "deleted"]
    counts = {kind: sum(row[column] for row in living) for kind, (column, _) in _QUALITY.items()}
    return [{"kind": kind, "n_groups": n, "note": _QUALITY[kind][1]} for kind, n in counts.items() if n]


def _by(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, int]:
    sums = Counter[str]()
    for row in rows:
        if row[column] is not None:
            sums[row[column]] += row["n"]
    return dict(sorted(sums.items()))


def _rebalances(steps: Iterable[Sequence[Any]]) -> dict[str, Any]:
    by_kind, by_cause, failed = Counter[str](), Counter[str](), 0
    for kind, cause, n, missed in steps:
        by_kind[kind] += n
        failed += missed
        if kind == "rebalance" and cause is not None:
            by_cause[cause] += n
    return {
        "total": by_kind["rebalance"],
        "generations": by_kind["rebalance"] + by_kind["cooperative_followup"],
        "by_kind": dict(sorted(by_kind.items())),
        "by_cause": dict(sorted(by_cause.items())),
        "failed_generations": failed,
    }


def _findings(found: Mapping[str, Any]) -> dict[str, Any]:
    by_severity, by_kind = Counter[str](), Counter[str]()
    for (severity, kind), n in sorted(found["kinds"].items()):
        by_severity[severity] += n
        by_kind[kind] += n
    top = [{**row, "weight": weight_of(row["severity"], row["score"])} for row in found["top"]]
    by = {"by_severity": dict(by_severity), "by_kind": dict(by_kind)}
    return {"total": by_kind.total(), "accepted": found["accepted"], **by, "top": top}


def _strategies(folded: Iterable[TaskManifest]) -> list[dict[str, Any]]:
    """Sums by strategy and mode; the stopped seconds are those of groups for which they are known, null without any."""
    runs: dict[tuple[str, str], list[Any]] = {}
    stopped = Counter[tuple[str, str]]()
    for one in folded:
        for strategy, mode, run in one["runs"]:
            known = runs.get((strategy, mode))
            runs[strategy, mode] = run if known is None else sum_runs(known, run)
        for strategy, mode, ms in one["stopped"]:
            stopped[strategy, mode] += ms
    return [_run(*key, runs[key], stopped.get(key)) for key in sorted(runs, key=lambda key: (key[1], key[0]))]


_OF_RUN = ("strategy", "mode", "generations", "moved", "revoked", "balanced", "lag_peak", "makespan_ratio")


def _run(strategy: str, mode: str, run: list[Any], stopped_ms: int | None) -> dict[str, Any]:
    figures = run_figures(strategy, mode, run)
    return {name: figures[name] for name in _OF_RUN} | {"stopped_seconds": None if stopped_ms is None else stopped_ms / 1000}
