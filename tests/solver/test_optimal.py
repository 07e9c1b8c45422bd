"""Every plan of the engine is optimal: held against SciPy's optimal assignments and integer programs, and against brute force."""

from __future__ import annotations

import os

import numpy as np
import pytest

from counterpoise.laws import certify
from counterpoise.model.problem import Problem
from counterpoise.solver.engine import History, solve
from tests.solver.build import random_problem
from tests.solver.oracle import brute_force, least_spread, optimum, score, spread

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
CASES = 20_000 if LONG else 320
GROUPS = 100_000 if LONG else 800
"""Of each size in the first test, about 2 ms each."""
BATCHES = 8 if LONG else 2
HISTORIES: tuple[History, ...] = ("prefer", "ignore", "pin")


def seeds(batch, cases=CASES):
    return range(batch, cases, BATCHES)


@pytest.mark.parametrize("size", [5, 12])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_balance_and_kept_count_equal_the_oracles(batch, size):
    """Coverage, balance and the number of kept partitions are those of an optimal assignment of single partitions."""
    for seed in seeds(batch, GROUPS):
        problem = random_problem(np.random.default_rng([seed, size]), size)
        owner = solve(problem)
        assert score(problem, owner)[:3] == score(problem, optimum(problem, (1, 0)))[:3], f"seed {seed}, size {size}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_capacities_are_balanced_exactly(batch):
    """With weights the sum of load**2 / capacity is minimal, and stickiness maximal at that."""
    for seed in seeds(batch):
        problem = random_problem(np.random.default_rng([seed, 7]), 6, capacities=True)
        owner = solve(problem)
        assert score(problem, owner)[:3] == score(problem, optimum(problem, (1, 0)))[:3], f"seed {seed}"


def test_brute_force_agrees_on_tiny_problems():
    """Every valid plan of a tiny group was tried: none is better."""
    for seed in range(CASES // 4):
        problem = random_problem(np.random.default_rng([seed, 3]), 3, capacities=seed % 2 == 0)
        if problem.n_partitions > 6:
            continue
        _, cost, kept, _ = score(problem, solve(problem))
        assert (cost, -kept) == brute_force(problem), f"seed {seed}"


def test_a_chain_of_a_thousand_members_is_proven_optimal():
    """Each member shares one topic with the next: the longest augmenting paths."""
    rng = np.random.default_rng(23)
    sizes, pairs = rng.integers(5, 12, 999), np.sort(np.stack([np.arange(999), np.arange(1, 1000)], axis=1), axis=1)
    problem = Problem(1000, np.append(0, np.cumsum(sizes)), np.arange(1000) * 2, pairs.ravel())
    fresh, lost = solve(problem), rng.random(problem.n_partitions) < 0.3
    problem = problem.replace(previous_owner=np.where(lost, rng.integers(-1, 1000, problem.n_partitions), fresh))
    certificate = certify(problem, solve(problem))
    assert (certificate.balanced, certificate.sticky) == (True, True)


def test_planning_again_with_the_plan_changes_nothing():
    for seed in range(CASES // 4):
        problem = random_problem(np.random.default_rng([seed, 11]), 9, capacities=seed % 3 == 0)
        owner = solve(problem)
        again = solve(problem.replace(previous_owner=owner))
        assert again.tolist() == owner.tolist(), f"seed {seed}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_racks_after_stickiness(batch):
    """Among plans with optimal balance and stickiness none matches more racks."""
    for seed in seeds(batch):
        problem = random_problem(np.random.default_rng([seed, 5]), 7, racks=True, capacities=seed % 5 == 0)
        best = score(problem, optimum(problem, (1000, 1)))
        assert score(problem, solve(problem)) == best, f"seed {seed}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_racks_before_stickiness(batch):
    """Balance, then rack matches, then stickiness."""
    for seed in seeds(batch):
        problem = random_problem(np.random.default_rng([seed, 6]), 7, racks=True)
        best = score(problem, optimum(problem, (1, 1000)))
        assert score(problem, solve(problem, racks="before")) == best, f"seed {seed}"


def test_racks_ignored():
    """`racks="ignore"` gives what a group without racks gets."""
    for seed in range(CASES // 8):
        problem = random_problem(np.random.default_rng([seed, 8]), 7, racks=True)
        assert solve(problem, racks="ignore").tolist() == solve(problem.replace(racks=None)).tolist(), f"seed {seed}"


@pytest.mark.parametrize("racks", [False, True])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_sticky_first_moves_no_valid_claim_and_balances_the_rest(batch, racks):
    for seed in seeds(batch):
        problem = random_problem(np.random.default_rng([seed, 9]), 7, capacities=seed % 3 == 0, racks=racks)
        owner = solve(problem, history="pin")
        best = score(problem, optimum(problem, (1, 0), fixed=True))
        assert score(problem, owner)[:3] == best[:3], f"seed {seed}"
        if racks:
            matches = score(problem, optimum(problem, (1000, 1), fixed=True))[3]
            assert score(problem, owner)[3] == matches, f"seed {seed}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_fair_forgets_history_and_is_balanced(batch):
    for seed in seeds(batch):
        problem = random_problem(np.random.default_rng([seed, 10]), 9, capacities=seed % 3 == 0)
        owner = solve(problem, history="ignore")
        fresh = problem.replace(previous_owner=np.full(problem.n_partitions, -1))
        assert owner.tolist() == solve(fresh).tolist(), f"seed {seed}"
        assert score(fresh, owner)[1] == score(fresh, optimum(fresh, (1, 0)))[1], f"seed {seed}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_exact_evenness_is_the_least_sum_of_squares_among_optimal_plans(batch):
    """Balance, stickiness and racks stay optimal; topics are as even as they allow, under every kind of history."""
    for seed in range(batch, CASES // 2, BATCHES):
        rng = np.random.default_rng([seed, 12])
        problem = random_problem(rng, 6, racks=seed % 2 == 0, capacities=seed % 5 == 0)
        history: History = HISTORIES[seed % 3]
        known = problem.replace(previous_owner=np.full(problem.n_partitions, -1)) if history == "ignore" else problem
        before = seed % 4 == 0 and history == "prefer"
        weights = (1, 100) if before else (100, 1)
        best = score(known, optimum(known, weights, fixed=history == "pin"))
        least = least_spread(known, weights, fixed=history == "pin")
        owner = solve(problem, history=history, racks="before" if before else "after", evenness="exact")
        assert (*score(known, owner), spread(known, owner)) == (*best, least), f"seed {seed}"
