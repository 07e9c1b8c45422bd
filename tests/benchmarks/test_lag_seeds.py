"""Drift by seed: each cell of the table is a run of its own, from its seed alone."""

from __future__ import annotations

import pytest
from benchmarks import lag


def test_a_run_is_drawn_from_its_seed_and_moves_no_less_than_the_minimum() -> None:
    """Two rebalances of two seeds."""
    one, other = (lag.drift_of(seed, 205, "four sets", 0.02, 2) for seed in (2, 4))
    assert one[0] >= one[1] > 0
    assert other[0] >= other[1] > 0
    assert one != other


def test_the_table_has_a_row_for_each_kind_of_group_and_a_column_for_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves, minimum and ratio; where nothing need move the ratio is that to one. A plan above its tolerance is named."""
    asked: list[tuple[object, ...]] = []

    def drift_of(*run: object) -> tuple[int, int, float]:
        asked.append(run)
        return (1200, 1000, 0.02) if run[0] == 7 else (0, 0, 0.13)

    monkeypatch.setattr(lag, "drift_of", drift_of)
    rows = list(lag.drift_by_seed([7, 8], 50))
    assert rows[0] == "| partitions, subscriptions, tolerance, counts | seed 7 | seed 8 |"
    assert rows[2] == "| 2,000, equal, 2%, balanced | 1,200 to 1,000: 1.20 | 0 to 0: 0.00, a plan 13% above the bound |"
    assert len(rows) == 2 + 24
    assert len(set(asked)) == 48
    assert asked[0] == (7, 200, "equal", 0.02, 50, False)
