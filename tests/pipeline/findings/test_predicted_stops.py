"""Partition-seconds under each strategy: observed ones, scaled by what its client libraries stop."""

from __future__ import annotations

from typing import Any

import pytest

from counterpoise.pipeline.predicted_stops import with_stopped_seconds
from counterpoise.planning.client_libraries import expected_seconds


def run(strategy: str, revoked: int, mode: str = "closed_loop") -> dict[str, Any]:
    return {"strategy": strategy, "mode": mode, "revoked": revoked}


RUNS = [
    run("observed", 60, "replay"),
    run("range", 60, "replay"),
    run("range", 54),
    run("cooperative-sticky", 9),
    run("sticky", 60),
]


def predicted(**about: Any) -> list[float | None] | None:
    row = {"protocol": "range", "protocol_kind": "eager", "stopped_partition_seconds": 120.0, "strategies": RUNS} | about
    found = with_stopped_seconds(row)
    return None if found is None else [one["stopped_seconds"] for one in found]


def test_eager_stops_all_for_a_round_and_cooperative_what_moves_for_two() -> None:
    """120 s on 60 partitions are 1.4 times the benchmark's eager seconds: cooperative ones are scaled alike."""
    per_moved = 120.0 / expected_seconds(None, "eager", 60, 60) * expected_seconds(None, "cooperative", 60, 9)
    assert predicted() == [120.0, 120.0, 108.0, pytest.approx(per_moved, abs=0.001), 120.0]


def test_short_eager_stops_do_not_make_cooperative_ones_short() -> None:
    """6 s on 60 partitions: the members hear of a rebalance at the same time. Two rounds take as long as in the benchmark."""
    found = predicted(stopped_partition_seconds=6.0)
    assert found is not None
    assert found[3] == pytest.approx(expected_seconds(None, "cooperative", 60, 9), abs=0.001)


def test_what_a_cooperative_group_was_seen_to_stop_was_two_rounds() -> None:
    runs = [run("observed", 10, "replay"), run("cooperative-sticky", 10, "replay"), run("range", 40)]
    assert predicted(protocol="cooperative-sticky", protocol_kind="cooperative", strategies=runs) == [
        *(120.0, 120.0),
        pytest.approx(120.0 / expected_seconds(None, "cooperative", 10, 10) * expected_seconds(None, "eager", 40, 40), abs=0.001),
    ]


@pytest.mark.parametrize(
    "about", [{"stopped_partition_seconds": None}, {"strategies": [run("observed", 0, "replay"), *RUNS[2:]]}]
)
def test_without_a_stop_that_was_seen_to_end_nothing_is_estimated(about: dict[str, Any]) -> None:
    found = predicted(**about)
    assert found is not None
    assert set(found) == {None}


@pytest.mark.parametrize(
    ("libraries", "kind", "known"),
    [
        (["kafka-python"], "cooperative", False),
        (["counterpoise (kafka-python)"], "cooperative", True),
        (["kafka-python"], "eager", True),
    ],
)
def test_where_kept_partitions_stand_still_commits_do_not_show_it(libraries: list[str], kind: str, known: bool) -> None:
    runs = [run("observed", 10, "replay"), run("range", 60), run("cooperative-sticky", 10)]
    found = predicted(protocol_kind=kind, libraries=libraries, strategies=runs)
    assert found is not None
    assert [one is not None for one in found] == [known] * 3


def test_who_cannot_cooperate_stops_all_under_a_cooperative_strategy_too() -> None:
    assert predicted(libraries=["aiokafka"]) == [120.0, 120.0, 108.0, 120.0, 120.0]


def test_a_group_that_was_not_replayed_has_no_strategies() -> None:
    assert predicted(strategies=None) is None
