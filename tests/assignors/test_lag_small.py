"""Small groups that subscribe alike are dealt by lag in plain Python: to the partition what arrays deal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors import lag_small, lag_sticky
from counterpoise.assignors.lag_small import plan_small
from counterpoise.model.problem import Problem
from counterpoise.solver.lag.small import SmallDesk
from tests.assignors.test_lag_alike import alike
from tests.strategies import problem_of, random_problem


def by_arrays(problem: Problem, share: Fraction, gain: int) -> list[int]:
    """What the steps on arrays give."""
    assert problem.lag is not None
    owner: list[int] = lag_sticky._Planner(problem, problem.lag, share, gain, 2**62, "balanced").plan().owner.tolist()
    return owner


@pytest.mark.parametrize("seed", range(20))
def test_small_groups_are_dealt_as_large_ones(seed: int) -> None:
    """Ties, zeros, heavy tails, claims of any kind; with a tolerance, a least gain, or neither."""
    rng, small = np.random.default_rng(seed), 0
    for _ in range(60):
        problem = alike(rng)
        assert problem.lag is not None
        share, gain = Fraction(int(rng.integers(0, 6)), 10), int(rng.choice([0, 5]))
        owner = plan_small(problem, problem.lag, share, gain)
        if owner is not None:
            small += 1
            assert owner.dtype == np.int32
            assert owner.tolist() == by_arrays(problem, share, gain)
    assert small > 30


def test_where_the_limit_is_out_of_reach_the_same_attempts_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little tolerance, few partitions each: a first attempt, one near it, one that keeps nothing, within the limit or not."""
    rng, ends = np.random.default_rng(8), set()
    better = lag_small._better

    def told(desk: SmallDesk, *others: Any) -> SmallDesk:
        found = better(desk, *others)
        ends.add("first" if found is desk else "over" if found.excess() else "within")
        return found

    monkeypatch.setattr(lag_small, "_better", told)
    for _ in range(500):
        members, share = int(rng.integers(4, 20)), Fraction(int(rng.integers(0, 3)), 50)
        size = int(rng.integers(members, 7 * members))
        claims = rng.permutation(size) % members
        lag = rng.lognormal(3, 1, size).astype(np.int64) + 1
        problem = problem_of([size], [list(range(members))], members, claims, lag=lag)
        owner = plan_small(problem, lag, share, 0)
        assert (owner is None) == (size > 100)
        assert owner is None or owner.tolist() == by_arrays(problem, share, 0)
    assert ends == {"first", "over", "within"}


@pytest.mark.parametrize("seed", range(6))
def test_any_group_gets_one_plan_whichever_way_it_goes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unequal subscriptions, weights and sizes fall through to the arrays."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        problem = random_problem(rng)
        lag = rng.integers(0, int(rng.choice([2, 1000])), problem.n_partitions)
        problem = problem.replace(lag=lag)
        quick = lag_sticky.balance_lag(problem)
        with monkeypatch.context() as patched:
            patched.setattr(lag_sticky, "plan_small", lambda *_: None)
            assert quick.tolist() == lag_sticky.balance_lag(problem).tolist()


def test_only_small_groups_that_are_alike_go_this_way() -> None:
    """A weight, an empty topic, another subscription, lags that floats do not hold, too many partitions."""
    both = [[0, 1], [0, 1]]

    def planned(problem: Problem) -> bool:
        assert problem.lag is not None
        return plan_small(problem, problem.lag, Fraction(1, 10), 0) is not None

    assert planned(problem_of([2, 3], both, 2, lag=[1, 2, 3, 4, 5]))
    assert not planned(problem_of([2, 3], both, 2, lag=[1, 2, 3, 4, 5], capacity=[2, 2]))
    assert not planned(problem_of([5, 0], both, 2, lag=[1, 2, 3, 4, 5]))
    assert not planned(problem_of([2, 3], [[0, 1], [0]], 2, lag=[1, 2, 3, 4, 5]))
    assert not planned(problem_of([2, 3], both, 2, lag=[2**52, 2, 3, 4, 5]))
    assert not planned(problem_of([101], [[0, 1]], 2, lag=[1] * 101))


def test_a_cap_on_moves_goes_by_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists know no cap."""
    monkeypatch.setattr(lag_sticky, "plan_small", None)
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[9, 9, 0, 0])
    assert lag_sticky.balance_lag(problem, max_moves=0).tolist() == [0, 0, 1, 1]
