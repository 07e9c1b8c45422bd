"""The proven minimum of moves: what it counts for members that take, and for oversized partitions."""

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


def test_no_plan_needs_fewer_moves_than_the_bound_of_any_level_share_and_multipliers() -> None:
    """All balanced plans within the limit are tried. Multipliers are random, one pair per set that balanced counts keep apart."""
    rng, tight, fewer = np.random.default_rng(6), 0, 0
    for number in range(300):
        problem = group(rng)
        plans, largest = balanced_plans(problem)
        at = int(rng.integers(len(plans)))
        owner, limit = plans[at], int(largest[at] * rng.uniform(0.6, 1)) + 1
        oversized = np.flatnonzero(2 * np.asarray(problem.lag) > limit)
        if not (largest <= limit).any() or len(oversized) > problem.n_members:
            continue
        fewest, best = int((plans[largest <= limit] != owner).sum(axis=1).min()), 0.0
        stock = take_stock(problem, owner, limit, True)
        table = lag_both_ends._table(stock, owner, limit, oversized, int(rng.choice(np.asarray(problem.lag))))
        for share, _ in product(range(5), range(8)):
            lag_multiplier, count_multiplier = np.zeros(problem.n_members), np.zeros(problem.n_members)
            for members in stock.apart:
                lag_multiplier[members], count_multiplier[members] = rng.choice([0, 0.02, 0.1, 0.4]), rng.normal(0, 0.5)
            best = max(best, lag_both_ends._cheapest_in_all(table.costs(share, lag_multiplier, count_multiplier)))
            assert best <= fewest + 1e-9, f"group {number}"
        tight += best > fewest - 1 and fewest > 0
        fewer += bool(fewest and stock.drops.any())
    assert tight > 30
    assert fewer > 20


def test_a_member_that_gives_without_taking_loses_the_whole_lag_of_the_partition() -> None:
    """Member 0 is 2 over the limit. If it takes nothing it loses 30, more than any member's slack. An exchange is two moves."""
    lag = np.array([30, 31, 31, *[15, 50], *[15, 50], *[15, 50]])
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3], np.int32)
    problem = Problem(4, np.array([0, 9]), np.array([0, 4]), np.arange(4), owner, lag=lag)
    assert counted_at_both_ends(take_stock(problem, owner, 90, True), owner, 90) == 2
    assert counted_at_both_ends(take_stock(problem, owner, 95, True), owner, 95) == 0


def test_light_partitions_that_the_owner_of_an_oversized_one_takes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the 80 loses 13 if it gives two of 8 for two of 1. Another owner of it would give and take all its others."""
    monkeypatch.setattr(lag_both_ends, "_LEVELS", (0.4,))
    lag = np.array([80, 8, 8, 8, *[1, 22, 22, 22] * 3])
    owner = np.repeat(np.arange(4), 4).astype(np.int32)
    problem = Problem(4, np.array([0, 16]), np.array([0, 4]), np.arange(4), owner, lag=lag)
    assert counted_at_both_ends(take_stock(problem, owner, 91, True), owner, 91) == 4
    assert least_moves(problem, owner, 91, fixed=True) == 4
