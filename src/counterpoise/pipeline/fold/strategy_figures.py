"""Figures of `group_report` and the summary on strategies: sums and extremes over rows of `metrics`, updated by each chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.history.replay_fold import OBSERVED, REPLAY
from counterpoise.pipeline.records.place import moment_of

__all__ = ["METRICS_COLUMNS", "StrategyFigures", "add_metrics", "run_figures", "sum_runs", "totals"]

METRICS_COLUMNS = (
    *("group_id", "incarnation", "generation", "log_offset", "strategy", "mode", "declared", "leader_library", "n_partitions"),
    *("spread", "kip54_score", "max_topic_spread", "moved", "min_moves", "revoked", "max_member_lag", "makespan_ratio"),
    *("lag_unknown", "balanced", "matches_observed", "log_ts", "protocol_kind", "n_skewed_topics", "skewed_topics"),
    "protocol",
)
"""The columns of `metrics` that the figures need, and the protocol of the generation."""
_MILLION = 1_000_000
_SUMS, _PEAKS = (
    ("moved", "revoked", "balanced", "generations", "millionths", "known"),
    ("spread_peak", "topic_spread_peak", "lag_peak"),
)
_RUN = [
    *((name, "sum") for name in ("moved", "revoked", "balanced")),
    ("generation", "count"),
    *(("millionths", how) for how in ("sum", "count")),
    *((name, "max") for name in ("spread", "max_topic_spread", "max_member_lag")),
]
_NO_RUN: list[int | None] = [0] * len(_SUMS) + [None] * len(_PEAKS)
_NOW = ("spread", "max_topic_spread", "n_skewed_topics", "skewed_topics", "log_offset")
Run = list[Any]
"""Sums and peaks of one strategy and mode, in the order of `_RUN`; an unknown peak is None."""


class StrategyFigures:
    """One group's figures, separate for each protocol and for the broker. Its attributes are its state."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str, str], Run] = {}
        self._observed: dict[str, dict[str, Any]] = {}
        self._compared: Counter[str] = Counter()
        self._matched: Counter[str] = Counter()
        self._ties = self._worse = 0
        # Observed plans, those with sampled lag, and of these the unknown lags and the partitions
        self.with_lag: Counter[str] = Counter()

    def add_observed(self, row: Mapping[str, Any], declared: Mapping[str, Any] | None) -> None:
        """Add the observed row of a generation, and the replay of the declared strategy."""
        seen = self._observed.setdefault(
            row["assigned_by"], {"spread_peak": 0, "moved": 0, "revoked": 0, "needless": 0, "worst": None, "now": None}
        )
        excess = max(row["moved"] - row["min_moves"], 0) if row["min_moves"] is not None else 0
        seen["spread_peak"] = max(seen["spread_peak"], row["spread"])
        for name, more in (("moved", row["moved"]), ("revoked", row["revoked"]), ("needless", excess)):
            seen[name] += more
        worst = seen["worst"]
        if worst is None or (-excess, row["log_offset"]) < (worst[0], worst[1]):
            seen["worst"] = [-excess, row["log_offset"], row["generation"], moment_of(row["log_ts"])]
        if seen["now"] is None or row["log_offset"] >= seen["now"]["log_offset"]:
            seen["now"] = {name: row[name] for name in _NOW}
        self.with_lag.update(plans=1)
        if row["lag_unknown"] is not None:
            self.with_lag.update(sampled=1, unknown=row["lag_unknown"], partitions=row["n_partitions"])
        if declared is not None:
            library = declared["leader_library"] or "unknown"
            self._compared[library] += 1
            self._matched[library] += bool(declared["matches_observed"])
            if not declared["matches_observed"]:
                one, two = [(figures["kip54_score"], figures["moved"]) for figures in (row, declared)]
                self._ties, self._worse = self._ties + (one == two), self._worse + (one > two)

    @property
    def figures(self) -> dict[str, Any]:
        """Columns for `group_report.report_rows`; empty if there was no generation."""
        if not self.runs:
            return {}
        kinds, observed = {key[0] for key in self.runs}, self._observed
        now = max(observed, key=lambda one: observed[one]["now"]["log_offset"]) if observed else next(iter(kinds))
        runs = {key[1:]: run for key, run in self.runs.items() if key[0] == now}
        strategies = [run_figures(*key, run) for key, run in sorted(runs.items())]
        figures: dict[str, Any] = {"strategies": strategies, "n_protocols": len(kinds)}
        if now in observed:
            seen, last = observed[now], observed[now]["now"]
            figures |= {
                "spread_now": last["spread"],
                "spread_peak": seen["spread_peak"],
                "topic_spread_now": last["max_topic_spread"],
                "n_skewed_topics": last["n_skewed_topics"],
                "skewed_topics": last["skewed_topics"],
                "observed_moved": seen["moved"],
                "observed_revoked": seen["revoked"],
                "needless_moves": seen["needless"],
                "needless_generation": seen["worst"][2],
                "needless_ts": seen["worst"][3],
            }
        compared = sum(self._compared.values())
        if compared:
            figures |= {
                "compared_generations": compared,
                "matched": sum(self._matched.values()),
                "ties": self._ties,
                "worse": self._worse,
                "replay_fidelity": sum(self._matched.values()) / compared,
                "fidelity_by_library": [(name, self._matched[name] / self._compared[name]) for name in sorted(self._compared)],
            }
        return figures


def add_metrics(by_group: Mapping[str, StrategyFigures], rows: pa.Table) -> None:
    """Add rows with `METRICS_COLUMNS`, all of each generation, to the figures of their groups."""
    # KIP-848 members may request different assignors, of which the broker uses one: its figures are kept together.
    by_broker = pc.equal(rows["protocol_kind"], "server")
    rows = rows.append_column("assigned_by", pc.if_else(by_broker, "the broker", pc.fill_null(rows["protocol"], "")))
    # Ratios in whole millionths, so that their order does not matter.
    whole = pc.cast(pc.floor(pc.add(pc.multiply(rows["makespan_ratio"], float(_MILLION)), 0.5)), pa.int64())
    table = rows.append_column("millionths", whole)
    grouped = table.group_by(["group_id", "assigned_by", "strategy", "mode"], use_threads=False).aggregate(_RUN)
    figures = zip(*(grouped[f"{name}_{how}"].to_pylist() for name, how in _RUN), strict=True)
    keys = zip(*(grouped[name].to_pylist() for name in ("group_id", "assigned_by", "strategy", "mode")), strict=True)
    for (group, assigned_by, strategy, mode), run in zip(keys, figures, strict=True):
        runs, key = by_group[group].runs, (assigned_by, strategy, mode)
        runs[key] = sum_runs(runs.get(key, _NO_RUN), run)
    is_declared = pc.and_(rows["declared"], pc.equal(rows["mode"], REPLAY))
    rows = rows.set_column(rows.schema.get_field_index("log_ts"), "log_ts", rows["log_ts"].cast(pa.int64()))  # faster to read
    compared = rows.filter(pc.or_(pc.equal(rows["strategy"], OBSERVED), is_declared)).to_pylist()
    declared = {_place(row): row for row in compared if row["strategy"] != OBSERVED}
    for row in compared:
        if row["strategy"] == OBSERVED:
            by_group[row["group_id"]].add_observed(row, declared.get(_place(row)))


def _place(row: Mapping[str, Any]) -> tuple[str, int, int, int]:
    return row["group_id"], row["incarnation"], row["generation"], row["log_offset"]


def sum_runs(one: Sequence[Any], other: Sequence[Any]) -> Run:
    """Two runs as one: sums are added, and the larger peak is kept."""
    sums = [(left or 0) + (right or 0) for left, right in zip(one[: len(_SUMS)], other[: len(_SUMS)], strict=True)]
    peaks = zip(one[len(_SUMS) :], other[len(_SUMS) :], strict=True)
    return [*sums, *(max((known for known in pair if known is not None), default=None) for pair in peaks)]


def run_figures(strategy: str, mode: str, run: Run) -> dict[str, Any]:
    """A run as `strategies` of `group_report` has it; its ratio is the mean over the generations for which it is known."""
    about = dict(zip((*_SUMS, *_PEAKS), run, strict=True))
    millionths, known = about.pop("millionths"), about.pop("known")
    mean = millionths / _MILLION / known if millionths is not None and known else None
    return {"strategy": strategy, "mode": mode, **about, "makespan_ratio": mean}


def totals(figures: Iterable[StrategyFigures]) -> dict[str, Any]:
    """Sums over groups, for the summary: `runs` by strategy and mode, and `with_lag`."""
    runs: dict[tuple[str, str], Run] = {}
    with_lag: Counter[str] = Counter()
    for one in figures:
        for (_, strategy, mode), run in one.runs.items():
            runs[strategy, mode] = sum_runs(runs.get((strategy, mode), _NO_RUN), run)
        with_lag.update(one.with_lag)
    return {"runs": [[*key, run] for key, run in runs.items()], "with_lag": with_lag}
