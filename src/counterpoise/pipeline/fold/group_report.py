"""Rows of `group_report` from the figures of groups, with advice; and their sums for the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.findings.advice import advice, fidelity_note
from counterpoise.pipeline.predicted_stops import with_stopped_seconds
from counterpoise.pipeline.records.place import micros
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.anonymous import anonymous

__all__ = ["ReportTotals", "report_rows"]

_COUNTS = ("matched", "ties", "worse", "n_protocols")
_GROUP_FIGURES = pa.schema([*TABLES["group_report"], *(pa.field(name, pa.int32()) for name in _COUNTS)])
"""Columns of `group_report`, and numbers of compared generations: `matched`: the plan is the recorded assignment; `ties`: another
one, with equal balance and as many moves; `worse`: the recorded one is less balanced or moves more. `n_protocols`: above 1 after
a migration or a change of strategy."""
_HOUR = 3600
_DAY = 86400
_KIND = ("group_type", "protocol", "state")
_TOTALLED = ["distinct_members", "compared_generations", "replay_fidelity", "complete", "polled"]
_TOTALLED += [*_KIND, "stopped_partition_seconds", "stopped_unsampled_seconds"]


def report_rows(groups: Iterable[Mapping[str, Any]], cluster: str, end: int, salt: str | None = None) -> pa.RecordBatch:
    """Rows of table `group_report` from results of `Bucket.finish`.

    `end` is the end of the recording of the cluster, in microseconds. Names are hashed with `salt` before sentences are made from
    them.
    """
    rows = []
    for group in groups:
        row = {**group, "cluster": cluster}
        if not group.get("group_type"):
            row |= _without_type(group)
        if group.get("state") == "deleted" and not group.get("commits_gone", True) and _since_deletion(group):
            row["state"] = "commits_only"
        row["rebalances_per_day"] = _per_day(group.get("rebalances"), group.get("first_ts"), end)
        rows.append(row)
    return _with_advice(anonymous(pa.RecordBatch.from_pylist(rows, schema=_GROUP_FIGURES), salt))


def _with_advice(groups: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `_GROUP_FIGURES` as rows of table `group_report`, with advice and the reason for a low fidelity."""
    rows = []
    for row in groups.to_pylist():
        matched, ties, worse, n_protocols = (row.pop(name) or 0 for name in _COUNTS)
        note = fidelity_note(row["compared_generations"] or 0, matched, ties, worse, row["leader_libraries"] or [])
        row["strategies"] = with_stopped_seconds(row, n_protocols)
        rows.append({**row, "fidelity_note": note, **advice(row)})
    return pa.RecordBatch.from_pylist(rows, schema=TABLES["group_report"])


def _without_type(part: Mapping[str, Any]) -> dict[str, Any]:
    """Type and state of a group without recorded members; a group with commits and a tombstone only never had members."""
    if part.get("first_ts") is not None and not part.get("commits"):
        return {"group_type": "classic"}
    return {"group_type": "simple", "state": "deleted" if part.get("commits_gone") else "commits_only", "complete": None}


def _since_deletion(group: Mapping[str, Any]) -> bool:
    """Whether a deleted group has a newer commit: somebody commits under its name, without members."""
    last = group.get("last_commit")
    return last is not None and last > micros(group["last_ts"])


def _per_day(rebalances: int | None, first: datetime | None, until: int) -> float | None:
    """Rebalances per day since the first step; None if that is less than an hour ago, or unknown.

    Commits may be much older: compaction keeps the newest one of each partition.
    """
    if rebalances is None or first is None:
        return None
    seconds = (until - micros(first)) / 1e6
    return rebalances * _DAY / seconds if seconds >= _HOUR else None


class ReportTotals:
    """Sums over rows of table `group_report`, for the summary."""

    def __init__(self) -> None:
        self._stopped: Counter[tuple[str, str]] = Counter()
        self._stopped_ms = 0
        self._kinds: dict[tuple[str | None, ...], Counter[str]] = {}

    def add(self, report: pa.RecordBatch) -> None:
        """Add rows of table `group_report`."""
        for run in report.column("strategies").flatten().to_pylist():
            if run["stopped_seconds"] is not None:
                self._stopped[run["strategy"], run["mode"]] += int(run["stopped_seconds"] * 1000 + 0.5)
        for row in report.select(_TOTALLED).to_pylist():
            compared, share = row["compared_generations"] or 0, row["replay_fidelity"]
            self._kinds.setdefault(tuple(row[name] for name in _KIND), Counter()).update(
                n=1,
                members=row["distinct_members"] or 0,
                compared=compared,
                matched=0 if share is None else int(share * compared + 0.5),
                fidelity_below_one=int(share is not None and share < 1),
                cut=int(row["complete"] is False and not row["polled"]),
                polled=int(bool(row["polled"])),
                unsampled=int(bool(row["stopped_unsampled_seconds"])),
            )
            self._stopped_ms += int((row["stopped_partition_seconds"] or 0) * 1000 + 0.5)

    @property
    def manifest(self) -> dict[str, Any]:
        """`stopped`: partition-milliseconds by strategy and mode. `stopped_ms`: the observed ones of all groups.

        `groups`: by type, protocol and state, the number of groups (`n`) and members, of compared and of matching generations, of
        groups in which some generation did not match, of groups whose older history is missing (`cut`), that were polled, and
        that have stops without samples.
        """
        groups: list[dict[str, Any]] = [{**dict(zip(_KIND, kind, strict=True)), **counts} for kind, counts in self._kinds.items()]
        return {"groups": groups, "stopped": [[*key, ms] for key, ms in self._stopped.items()], "stopped_ms": self._stopped_ms}
