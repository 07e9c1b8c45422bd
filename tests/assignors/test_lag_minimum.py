"""What the minimum of moves says of takers and of giants, by itself."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks import lag_both_ends
from benchmarks.lag_both_ends import _prices, counted_at_both_ends
from benchmarks.lag_minimum import least_moves
from benchmarks.lag_stock import Stock, take_stock

from counterpoise.model.problem import Int64, Problem


def stock_of(excess: Int64) -> Stock:
    """Members of one set with balanced counts that are all the same."""
    n, none = len(excess), np.zeros(0, np.int64)
    never = np.zeros(n, np.bool_)
    everybody = [np.arange(n)]
    return Stock(none, excess, [], [], [], np.zeros(n, np.int64), never, none.astype(np.int32), never[None, :], everybody)


def test_no_price_asks_for_more_takers_than_have_room_for_all_excess_together() -> None:
    rng = np.random.default_rng(6)
    paid = 0
    for _ in range(500):
        excess = rng.integers(-60, 30, int(rng.integers(2, 12)))
        excess[0] = 1 - excess[1:].clip(max=0).sum() * rng.random()
        price, worth = _prices(stock_of(excess), 0)
        lost = int(np.maximum(excess, 0).sum())
        rooms = np.sort(np.maximum(-excess, 0))[::-1].cumsum()
        fewest = int(np.searchsorted(rooms, lost)) + 1
        if fewest <= len(excess):
            assert float((price * np.maximum(excess, 0)).sum()) - worth <= fewest + 1e-9
            paid += worth > 0
    assert paid > 20


def test_whoever_keeps_a_giant_takes_light_partitions_that_others_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the 80 is rid of 13 by two of 8 for two of 1. Who takes the 80 instead gives all else and takes as much."""
    monkeypatch.setattr(lag_both_ends, "_LEVELS", (0.4,))
    lag = np.array([80, 8, 8, 8, *[1, 22, 22, 22] * 3])
    owner = np.repeat(np.arange(4), 4).astype(np.int32)
    problem = Problem(4, np.array([0, 16]), np.array([0, 4]), np.arange(4), owner, lag=lag)
    assert counted_at_both_ends(take_stock(problem, owner, 91, True), owner, 91) == 4
    assert least_moves(problem, owner, 91, fixed=True) == 4
