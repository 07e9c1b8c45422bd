"""What the minimum of moves says of takers and of giants, by itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks import lag_both_ends
from benchmarks.lag_both_ends import counted_at_both_ends
from benchmarks.lag_minimum import least_moves
from benchmarks.lag_stock import take_stock

from counterpoise.model.problem import Int32, Int64, Problem
from tests.strategies import problem_of, subscribers_of


def group(rng: np.random.Generator) -> Problem:
    """Two topics, four to seven partitions, a few of them heavy."""
    n, sizes = int(rng.integers(2, 5)), [int(rng.integers(1, 4)), int(rng.integers(2, 4))]
    some = sorted(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist())
    lag = np.where(rng.random(sum(sizes)) < 0.4, rng.integers(20, 50, sum(sizes)), rng.integers(0, 8, sum(sizes)))
    return problem_of(sizes, [some, list(range(n))], n, lag=lag)


def balanced_plans(problem: Problem) -> tuple[Int32, Int64]:
    """Every one of them, and the largest lag of a member in each."""
    plans = np.array(list(product(*(subscribers_of(problem, p) for p in range(problem.n_partitions)))), np.int32)
    owned = plans[:, :, None] == np.arange(problem.n_members)
    spread = (owned.sum(axis=1) ** 2).sum(axis=1)
    largest = (owned * np.asarray(problem.lag)[:, None]).sum(axis=1).max(axis=1)
    return plans[spread == spread.min()], largest[spread == spread.min()]


def test_no_plan_needs_fewer_moves_than_any_weight_share_and_prices_say() -> None:
    """Every balanced plan within the limit, tried; prices as they come, the same for all whom counts do not keep apart."""
    rng, tight, fewer = np.random.default_rng(6), 0, 0
    for number in range(300):
        problem = group(rng)
        plans, largest = balanced_plans(problem)
        at = int(rng.integers(len(plans)))
        owner, limit = plans[at], int(largest[at] * rng.uniform(0.6, 1)) + 1
        giants = np.flatnonzero(2 * np.asarray(problem.lag) > limit)
        if not (largest <= limit).any() or len(giants) > problem.n_members:
            continue
        fewest, best = int((plans[largest <= limit] != owner).sum(axis=1).min()), 0.0
        stock = take_stock(problem, owner, limit, True)
        table = lag_both_ends._table(stock, owner, limit, giants, int(rng.choice(np.asarray(problem.lag))))
        for share, _ in product(range(5), range(8)):
            lag_price, count_price = np.zeros(problem.n_members), np.zeros(problem.n_members)
            for members in stock.apart:
                lag_price[members], count_price[members] = rng.choice([0, 0.02, 0.1, 0.4]), rng.normal(0, 0.5)
            best = max(best, lag_both_ends._cheapest_in_all(table.costs(share, lag_price, count_price)))
            assert best <= fewest + 1e-9, f"group {number}"
        tight += best > fewest - 1 and fewest > 0
        fewer += bool(fewest and stock.drops.any())
    assert tight > 30
    assert fewer > 20


def test_who_gives_without_taking_loses_all_that_the_partition_weighs() -> None:
    """The first is 2 over its limit and loses 30 if it takes nothing: more than anybody has room for. An exchange takes two."""
    lag = np.array([30, 31, 31, *[15, 50], *[15, 50], *[15, 50]])
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3], np.int32)
    problem = Problem(4, np.array([0, 9]), np.array([0, 4]), np.arange(4), owner, lag=lag)
    assert counted_at_both_ends(take_stock(problem, owner, 90, True), owner, 90) == 2
    assert counted_at_both_ends(take_stock(problem, owner, 95, True), owner, 95) == 0


def test_whoever_keeps_a_giant_takes_light_partitions_that_others_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the 80 is rid of 13 by two of 8 for two of 1. Who takes the 80 instead gives all else and takes as much."""
    monkeypatch.setattr(lag_both_ends, "_LEVELS", (0.4,))
    lag = np.array([80, 8, 8, 8, *[1, 22, 22, 22] * 3])
    owner = np.repeat(np.arange(4), 4).astype(np.int32)
    problem = Problem(4, np.array([0, 16]), np.array([0, 4]), np.arange(4), owner, lag=lag)
    assert counted_at_both_ends(take_stock(problem, owner, 91, True), owner, 91) == 4
    assert least_moves(problem, owner, 91, fixed=True) == 4
