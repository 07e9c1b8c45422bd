"""How long partitions would have stood still under each strategy: what commits show of the group as it ran, scaled.

How much a strategy stops depends on the client library: `planning.client_libraries` has what a benchmark measured per partition
that moves and per partition that stays. How long a rebalance takes is a matter of the group too (its poll loop, its heartbeats),
so these seconds are scaled by what was observed. A change of the protocol is predicted with at least the benchmark's seconds: a
group whose eager rebalances are short, because its members hear of them at the same time, does not have shorter cooperative ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE, EAGER
from counterpoise.pipeline.history.replay_fold import CLOSED_LOOP, OBSERVED, REPLAY
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
        {**run, "stopped_seconds": None if scale is None else round(_scale(row, run, scale) * expected[_key(run)], 3)}
        for run in runs
    ]


def _key(run: Row) -> tuple[str, str]:
    return run["strategy"], run["mode"]


def _scale(row: Row, run: Row, observed: float) -> float:
    return observed if _kind(row, run) == (row["protocol_kind"] or EAGER) else max(observed, 1.0)


def seconds_of(row: Row) -> tuple[dict[tuple[str, str], float], bool]:
    """Partition-seconds stopped by strategy and mode, and whether commits showed those of the observed run.

    Where they did not, all are what the benchmark makes expect: they compare, and no more.
    """
    runs = row["strategies"] or ()
    known = {_key(run): run.get("stopped_seconds") for run in runs}
    if known.get((OBSERVED, REPLAY)) is not None:
        return {key: seconds for key, seconds in known.items() if seconds is not None}, True
    return _expected(row, runs), False


def _expected(row: Row, runs: list[Row] | tuple[()]) -> dict[tuple[str, str], float]:
    held = _held(row, runs)
    return {_key(run): _seconds(row, run, held) for run in runs}


def _held(row: Row, runs: list[Row] | tuple[()]) -> int:
    """Partitions held by members that join again, summed over rebalances: what an eager strategy stops."""
    eager = [run for run in runs if run["strategy"] != OBSERVED and COOPERATIVE not in strategy(run["strategy"]).protocols]
    if row["protocol_kind"] == EAGER:
        eager += [run for run in runs if run["strategy"] == OBSERVED]
    if eager:
        return max(int(run["revoked"]) for run in eager if run["mode"] in (CLOSED_LOOP, REPLAY))
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
    """What the benchmark makes expect."""
    revoked, libraries, kind = int(run["revoked"]), row.get("libraries"), _kind(row, run)
    if not _as_observed(row, run):
        # In kafka-python the cooperative strategy that is advised is ours.
        libraries = [COUNTERPOISE.get(library, library) for library in libraries or ()]
    return expected_seconds(libraries, kind, revoked if kind == EAGER else max(held, revoked), revoked)
