"""How long partitions would have stood still under each strategy: what commits show of the group as it ran, scaled.

An eager rebalance stops every partition for one round, a cooperative one those that move, for two; a broker that assigns stops
those that move, for one. What a round costs a partition is a matter of the group (its clients, its poll loop), so it is taken
from the silence that was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.pipeline.folds.replay_fold import OBSERVED, REPLAY

__all__ = ["with_standstill"]

Row = Mapping[str, Any]


def with_standstill(row: Row, lives: int = 1) -> list[dict[str, Any]] | None:
    """The `strategies` of a row of `group_report` with their `stopped_seconds`, in partition-seconds.

    Null where nothing was observed to stop for a known time, and where the group has had `lives` under both protocols: runs are
    of the present one, stops of both. The observed run has what was observed.
    """
    runs: list[Row] | None = row["strategies"]
    if runs is None:
        return None
    seconds = _seconds_of_a_round(row, runs) if lives <= 1 else None
    return [{**run, "stopped_seconds": None if seconds is None else round(seconds * _rounds(row, run), 3)} for run in runs]


def _seconds_of_a_round(row: Row, runs: list[Row]) -> float | None:
    stopped: float | None = row["stopped_partition_seconds"]
    rounds = sum(_rounds(row, run) for run in runs if (run["strategy"], run["mode"]) == (OBSERVED, REPLAY))
    return None if stopped is None or not rounds else stopped / rounds


def _rounds(row: Row, run: Row) -> int:
    """Partitions stopped times rounds. A strategy of both protocols is counted as `metrics` counts it: as the group runs it."""
    name = run["strategy"]
    declared = name == row["protocol"] and run["mode"] == REPLAY and row["protocol_kind"] != "server"
    as_it_ran = name == OBSERVED or declared
    cooperative = row["protocol_kind"] == "cooperative" if as_it_ran else COOPERATIVE in strategy(name).protocols
    return int(run["revoked"]) * (2 if cooperative else 1)
