"""The short way of `lag-sticky` for groups that subscribe alike gives what the long one gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from counterpoise.assignors import lag_alike, lag_sticky
from counterpoise.assignors.lag_alike import all_alike, plan_alike
from counterpoise.model.problem import UNOWNED, Problem
from tests.strategies import problem_of


def alike(rng: np.random.Generator) -> Problem:
    """Claims of any kind or near balance, lags of any shape."""
    members, counts = int(rng.integers(1, 30)), rng.integers(1, 25, int(rng.integers(1, 4))).tolist()
    size = sum(counts)
    lag = (
        rng.integers(0, int(rng.choice([2, 10, 10**6])), size)
        if rng.random() < 0.6
        else rng.lognormal(3, 2, size).astype(np.int64)
    )
    lag[rng.random(size) < 0.3 * rng.integers(0, 2)] = 0
    lag[0] += 1
    near = np.minimum(rng.permutation(size) % max(1, members - int(rng.integers(0, 3))), members - 1)
    claims = [np.full(size, UNOWNED), rng.integers(-2, members + 1, size), near, near][int(rng.integers(0, 4))]
    return problem_of(counts, [list(range(members))] * len(counts), members, claims, lag=lag)


@pytest.mark.parametrize("seed", range(12))
def test_the_short_way_gives_what_the_long_one_does(seed: int) -> None:
    """With and without a cap on moves, a tolerance, a least gain; nothing is said where the first attempt misses."""
    rng, met = np.random.default_rng(seed), 0
    for _ in range(25):
        problem = alike(rng)
        assert problem.lag is not None
        share, gain = Fraction(int(rng.integers(0, 6)), 10), int(rng.choice([0, 5]))
        budget = 2**62 if rng.random() < 0.7 else int(rng.integers(0, 5))
        desk = plan_alike(problem, problem.lag, share, gain, budget)
        if desk is not None:
            met += 1
            long = lag_sticky._Planner(problem, problem.lag, share, gain, budget, "balanced").plan()
            assert desk.owner.tolist() == long.owner.tolist()
    assert met > 15


def test_groups_that_are_not_alike_go_the_long_way() -> None:
    """Another subscription, a capacity, an empty topic."""
    both = [[0, 1], [0, 1]]
    assert all_alike(problem_of([2, 3], both, 2))
    assert not all_alike(problem_of([2, 3], [[0, 1], [0]], 2))
    assert not all_alike(problem_of([2, 3], both, 2, capacity=[2, 2]))
    assert not all_alike(problem_of([2, 0], both, 2))


def test_a_group_that_is_alike_goes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bound is searched for and no target solved."""
    monkeypatch.setattr(lag_sticky, "_Planner", None)
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[5, 5, 5, 5])
    assert lag_sticky.balance_lag(problem).tolist() == [0, 0, 1, 1]


def test_where_the_first_attempt_misses_the_limits_the_others_are_made() -> None:
    """No move is allowed, so lag stays where it is: nothing is finished by the short way."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[9, 9, 0, 0])
    assert problem.lag is not None
    assert plan_alike(problem, problem.lag, Fraction(1, 10), 0, 0) is None
    assert lag_alike._crowding(problem.lag, 2, 2) == 9
