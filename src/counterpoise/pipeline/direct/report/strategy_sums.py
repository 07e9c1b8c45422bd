"""What `group_report` and the summary say of strategies: sums of `metrics` for the groups of one bucket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.folds.replay_fold import OBSERVED, REPLAY

__all__ = ["SLIM", "StrategySums", "added", "mean_of", "strategies_of_groups"]

SLIM = (
    *("group_id", "incarnation", "generation", "log_offset", "strategy", "mode", "declared", "leader_library", "n_partitions"),
    *("spread", "kip54_score", "max_topic_spread", "moved", "min_moves", "revoked", "max_member_lag", "makespan_ratio"),
    *("lag_unknown", "unassigned", "balanced", "matches_observed", "log_ts", "protocol_kind", "n_skewed_topics", "skewed_topics"),
)
"""The columns of `metrics` that are summed up."""
_MILLION = 1_000_000
_RUN = [
    ("moved", "sum"),
    ("revoked", "sum"),
    ("spread", "max"),
    ("max_topic_spread", "max"),
    ("balanced", "sum"),
    ("generation", "count_all"),
    ("max_member_lag", "max"),
    ("millionths", "sum"),
    ("millionths", "count"),
]


def _summed(rows: pa.Table, by: Sequence[str]) -> list[dict[str, Any]]:
    """Sums over rows of `SLIM` by strategy, mode and more; ratios in whole millionths, so that their order does not matter."""
    ratio = rows["makespan_ratio"]
    whole = pc.cast(pc.floor(pc.add(pc.multiply(ratio, float(_MILLION)), 0.5)), pa.int64())
    table = rows.append_column("millionths", whole)
    figures = [(name, how) if how != "count_all" else ([], how) for name, how in _RUN]
    found: list[dict[str, Any]] = table.group_by(list(by), use_threads=False).aggregate(figures).to_pylist()
    return found


def mean_of(millionths: int | None, known: int) -> float | None:
    """The mean of so many ratios."""
    return millionths / _MILLION / known if millionths is not None and known else None


def strategies_of_groups(rows: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Per group: sums of every strategy, observed figures and fidelity, from rows with `SLIM` in the order of the log."""
    rows = rows.append_column("by_broker", pc.equal(rows["protocol_kind"], "server"))
    of: dict[str, dict[bool, list[dict[str, Any]]]] = {}
    for row in _summed(rows, ("group_id", "by_broker", "strategy", "mode")):
        of.setdefault(row["group_id"], {}).setdefault(row["by_broker"], []).append(row)
    judged = rows.filter(pc.or_(pc.equal(rows["strategy"], OBSERVED), pc.and_(rows["declared"], pc.equal(rows["mode"], REPLAY))))
    told: dict[str, list[dict[str, Any]]] = {}
    for row in judged.to_pylist():
        told.setdefault(row["group_id"], []).append(row)
    for group, lives in of.items():
        mine = told.get(group, [])
        seen = [row for row in mine if row["strategy"] == OBSERVED]
        ours = [row for row in mine if row["declared"] and row["mode"] == REPLAY]
        now = max(seen, key=lambda row: row["log_offset"])["by_broker"]
        figures = _latest([row for row in seen if row["by_broker"] == now])
        yield group, {"strategies": _runs(lives[now]), "lives": len(lives), **figures, **_fidelity(seen, ours)}


def _runs(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "strategy": row["strategy"],
            "mode": row["mode"],
            "moved": row["moved_sum"],
            "revoked": row["revoked_sum"],
            "spread_peak": row["spread_max"],
            "topic_spread_peak": row["max_topic_spread_max"],
            "balanced": row["balanced_sum"],
            "generations": row["count_all"],
            "lag_peak": row["max_member_lag_max"],
            "makespan_ratio": mean_of(row["millionths_sum"], row["millionths_count"]),
        }
        for row in sorted(rows, key=lambda row: (row["strategy"], row["mode"]))
    ]


def _latest(seen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Observed spread now and at its worst, moves, and moves that a plan at least as balanced did not need."""
    if not seen:
        return {}
    last = max(seen, key=lambda row: row["log_offset"])
    excess = [max(row["moved"] - row["min_moves"], 0) if row["min_moves"] is not None else 0 for row in seen]
    worst = min(range(len(seen)), key=lambda at: (-excess[at], seen[at]["log_offset"]))
    return {
        "spread_now": last["spread"],
        "spread_peak": max(row["spread"] for row in seen),
        "topic_spread_now": last["max_topic_spread"],
        "n_skewed_topics": last["n_skewed_topics"],
        "skewed_topics": last["skewed_topics"],
        "observed_moved": sum(row["moved"] for row in seen),
        "observed_revoked": sum(row["revoked"] for row in seen),
        "needless_moves": sum(excess),
        "needless_generation": seen[worst]["generation"],
        "needless_ts": seen[worst]["log_ts"],
    }


def _fidelity(seen: Iterable[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """In how many generations the declared strategy reproduces the record, and what the others are."""
    by_place = {_place(row): row for row in seen}
    n, matched = Counter[str](), Counter[str]()
    ties = worse = 0
    for row in ours:
        other, library = by_place.get(_place(row)), row["leader_library"] or "unknown"
        if other is None:
            continue
        n[library] += 1
        matched[library] += bool(row["matches_observed"])
        if not row["matches_observed"]:
            one, two = [(found["kip54_score"], found["moved"]) for found in (other, row)]
            ties, worse = ties + (one == two), worse + (one > two)
    judged = sum(n.values())
    if not judged:
        return {}
    return {
        "judged_generations": judged,
        "matched": sum(matched.values()),
        "ties": ties,
        "worse": worse,
        "replay_fidelity": sum(matched.values()) / judged,
        "fidelity_by_library": [(library, matched[library] / n[library]) for library in sorted(n)],
    }


def _place(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return row["incarnation"], row["generation"], row["log_offset"]


class StrategySums:
    """Sums over all groups of a task, for the summary: by strategy and mode; and what is known of lag."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], list[Any]] = {}
        self._lag = np.zeros(4, np.int64)

    def add(self, rows: pa.Table) -> None:
        """Rows with `SLIM`."""
        for row in _summed(rows, ("strategy", "mode")):
            names = ("count_all", "moved_sum", "revoked_sum", "balanced_sum", "max_member_lag_max", "millionths_sum")
            found = [row[name] or 0 for name in (*names, "millionths_count")]
            found[4] = row["max_member_lag_max"]
            before = self._runs.setdefault((row["strategy"], row["mode"]), [0, 0, 0, 0, None, 0, 0])
            self._runs[row["strategy"], row["mode"]] = added(before, found)
        seen = rows.filter(pc.equal(rows["strategy"], OBSERVED))
        unknown = seen["lag_unknown"]
        asked = pc.sum(pc.if_else(unknown.is_valid(), seen["n_partitions"], 0)).as_py()
        self._lag += [len(seen), len(seen) - unknown.null_count, pc.sum(unknown).as_py() or 0, asked or 0]

    @property
    def told(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"runs": [[*key, *found] for key, found in self._runs.items()], "with_lag": self._lag.tolist()}


def added(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    """Sums of two parts; the fifth figure is the larger one of those that are known."""
    peak = max((figure for figure in (one[4], other[4]) if figure is not None), default=None)
    return [peak if at == 4 else left + right for at, (left, right) in enumerate(zip(one, other, strict=True))]
