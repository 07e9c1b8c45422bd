"""Predicted stops under each strategy, in partition-seconds: seconds of a benchmark, scaled by the observed stops.

The time of a stop depends on the client library: `planning.client_libraries` has what a benchmark measured per partition that
moves and per partition that stays. It also depends on the group (poll loop, heartbeats), so these seconds are scaled by the
observed stops. For a change of the protocol the scale is at least 1: a group whose eager rebalances are short, because its
members learn of them at the same time, does not have shorter cooperative ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.pipeline.history.replay_fold import OBSERVED, REPLAY
from counterpoise.planning.client_libraries import COUNTERPOISE, expected_seconds, stops_kept_partitions

__all__ = ["runs_of", "seconds_of", "with_stopped_seconds"]

Row = Mapping[str, Any]
Runs = Mapping[tuple[str, str], Row]
"""The `strategies` of a row of `group_report`, by strategy and mode."""


def with_stopped_seconds(row: Row, n_protocols: int = 1) -> list[dict[str, Any]] | None:
    """The `strategies` of a row of `group_report` with their `stopped_seconds`, in partition-seconds.

    They are null in three cases:

    - No stop of known length was observed.
    - Partitions that stay also stop while a cooperative member joins. Commits do not show these stops.
    - The group had several protocols (`n_protocols` > 1). The runs are those of the present one, the stops those of all.

    The observed run has the observed seconds.
    """
    if row["strategies"] is None:
        return None
    runs = runs_of(row)
    unknown = n_protocols > 1 or stops_kept_partitions(row.get("libraries"), row["protocol_kind"] or EAGER)
    stopped: float | None = None if unknown else row["stopped_partition_seconds"]
    expected = _expected(row, runs)
    expected_here = expected.get((OBSERVED, REPLAY))
    if stopped is None or not expected_here:
        return [{**run, "stopped_seconds": None} for run in runs.values()]
    scale, observed = stopped / expected_here, row["protocol_kind"] or EAGER
    scales = {key: scale if _kind(row, run) == observed else max(scale, 1.0) for key, run in runs.items()}
    return [{**run, "stopped_seconds": round(scales[key] * expected[key], 3)} for key, run in runs.items()]


def runs_of(row: Row) -> Runs:
    """The runs of a group; none if nothing was replayed."""
    return {(run["strategy"], run["mode"]): run for run in row["strategies"] or ()}


def seconds_of(row: Row) -> tuple[dict[tuple[str, str], float], bool]:
    """Stopped partition-seconds per strategy and mode, and whether they are scaled by observed stops.

    If not, all are those of the benchmark, and only their ratios mean something.
    """
    runs = runs_of(row)
    known = {key: run.get("stopped_seconds") for key, run in runs.items()}
    if known.get((OBSERVED, REPLAY)) is not None:
        return {key: seconds for key, seconds in known.items() if seconds is not None}, True
    return _expected(row, runs), False


def _expected(row: Row, runs: Runs) -> dict[tuple[str, str], float]:
    held = _held(row, list(runs.values()))
    return {key: _seconds(row, run, held) for key, run in runs.items()}


def _held(row: Row, runs: list[Row]) -> int:
    """Partitions held by members that join again, summed over rebalances: what an eager strategy stops."""
    eager = [run for run in runs if run["strategy"] != OBSERVED and COOPERATIVE not in strategy(run["strategy"]).protocols]
    if row["protocol_kind"] == EAGER:
        eager += [run for run in runs if run["strategy"] == OBSERVED]
    if eager:
        return max(int(run["revoked"]) for run in eager)
    return (row.get("partitions_now") or 0) * max((int(run["generations"]) for run in runs), default=0)


def _kind(row: Row, run: Row) -> str:
    """The protocol of a run. A strategy of both protocols is counted as `metrics` counts it: as the group runs it."""
    if _as_observed(row, run):
        return str(row["protocol_kind"] or EAGER)
    return COOPERATIVE if COOPERATIVE in strategy(run["strategy"]).protocols else EAGER


def _as_observed(row: Row, run: Row) -> bool:
    name = run["strategy"]
    return bool(name == OBSERVED or (name == row["protocol"] and run["mode"] == REPLAY and row["protocol_kind"] != "server"))


def _seconds(row: Row, run: Row, held: int) -> float:
    """The seconds of a run by the benchmark."""
    revoked, libraries, kind = int(run["revoked"]), row.get("libraries"), _kind(row, run)
    if not _as_observed(row, run):
        # In kafka-python the cooperative strategy that is advised is ours.
        libraries = [COUNTERPOISE.get(library, library) for library in libraries or ()]
    return expected_seconds(libraries, kind, revoked if kind == EAGER else max(held, revoked), revoked)
