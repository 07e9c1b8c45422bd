"""How long partitions would have stood still under each strategy: what commits show of the group as it ran, scaled.

How much a strategy stops depends on the client library: `planning.client_libraries` has what a benchmark measured per partition
that moves and per partition that stays. How long a rebalance takes is a matter of the group too (its poll loop, its heartbeats),
so these seconds are scaled by what was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.pipeline.folds.replay_fold import CLOSED_LOOP, OBSERVED, REPLAY
from counterpoise.planning.client_libraries import COUNTERPOISE, expected_seconds, keeps_standing

__all__ = ["seconds_of", "with_standstill"]

Row = Mapping[str, Any]


def with_standstill(row: Row, lives: int = 1) -> list[dict[str, Any]] | None:
    """The `strategies` of a row of `group_report` with their `stopped_seconds`, in partition-seconds.

    Null where nothing was observed to stop for a known time; where partitions that stay stand still while their cooperative
    members join, because commits of an owner that stays show no stop; and where the group has had `lives` under both protocols:
    runs are of the present one, stops of both. The observed run has what was observed.
    """
    runs: list[Row] | None = row["strategies"]
    if runs is None:
        return None
    unseen = lives > 1 or keeps_standing(row.get("libraries"), row["protocol_kind"] or EAGER)
    stopped: float | None = None if unseen else row["stopped_partition_seconds"]
    expected = _expected(row, runs)
    as_seen = expected.get((OBSERVED, REPLAY))
    scale = None if stopped is None or not as_seen else stopped / as_seen
    return [
        {**run, "stopped_seconds": None if scale is None else round(scale * expected[run["strategy"], run["mode"]], 3)}
        for run in runs
    ]


def seconds_of(row: Row) -> tuple[dict[tuple[str, str], float], bool]:
    """Partition-seconds stopped by strategy and mode, and whether commits showed those of the observed run.

    Where they did not, all are what the benchmark makes expect: they compare, and no more.
    """
    runs = row["strategies"] or ()
    known = {(run["strategy"], run["mode"]): run.get("stopped_seconds") for run in runs}
    if known.get((OBSERVED, REPLAY)) is not None:
        return {key: seconds for key, seconds in known.items() if seconds is not None}, True
    return _expected(row, runs), False


def _expected(row: Row, runs: list[Row] | tuple[()]) -> dict[tuple[str, str], float]:
    held = _held(row, runs)
    return {(run["strategy"], run["mode"]): _seconds(row, run, held) for run in runs}


def _held(row: Row, runs: list[Row] | tuple[()]) -> int:
    """Partitions held by members that join again, summed over rebalances: what an eager strategy stops."""
    eager = [run for run in runs if run["strategy"] != OBSERVED and COOPERATIVE not in strategy(run["strategy"]).protocols]
    if row["protocol_kind"] == EAGER:
        eager += [run for run in runs if run["strategy"] == OBSERVED]
    if eager:
        return max(int(run["revoked"]) for run in eager if run["mode"] in (CLOSED_LOOP, REPLAY))
    return (row.get("partitions_now") or 0) * max((int(run["generations"]) for run in runs), default=0)


def _seconds(row: Row, run: Row, held: int) -> float:
    """What the benchmark makes expect. A strategy of both protocols is counted as `metrics` counts it: as the group runs it."""
    name, revoked, libraries = run["strategy"], int(run["revoked"]), row.get("libraries")
    declared = name == row["protocol"] and run["mode"] == REPLAY and row["protocol_kind"] != "server"
    if name == OBSERVED or declared:
        kind = row["protocol_kind"] or EAGER
    else:
        kind = COOPERATIVE if COOPERATIVE in strategy(name).protocols else EAGER
        # In kafka-python the cooperative strategy that is advised is ours.
        libraries = [COUNTERPOISE.get(library, library) for library in libraries or ()]
    return expected_seconds(libraries, kind, revoked if kind == EAGER else max(held, revoked), revoked)
