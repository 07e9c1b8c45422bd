"""Lag plans of small groups beside an exact solver of integer programs: the bound is never too high, the plan is near it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import lcm

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from counterpoise.assignors import assignor
from counterpoise.laws.lag_bound import lag_report
from counterpoise.model.problem import Problem
from tests.strategies import problem_of, subscribers_of


def least_largest_lag(problem: Problem, *, balanced: bool) -> Fraction:
    """The smallest largest lag per capacity of any plan, or of any with a minimal sum of count**2 / capacity.

    Variables: who owns what (x), whether a member has a k-th partition (z), and the largest lag per capacity. The last one is
    continuous: the optimum is the largest lag of the plan found, exact.
    """
    members, partitions = problem.n_members, problem.n_partitions
    x, z = (
        np.arange(partitions * members).reshape(partitions, members),
        np.arange(members * partitions).reshape(members, partitions),
    )
    z += x.size
    size = x.size + z.size + 1
    rows, low, high = [], [], []

    def constrain(entries: dict[int, int], least: float, most: float) -> None:
        row = np.zeros(size)
        row[list(entries)] = list(entries.values())
        rows.append(row)
        low.append(least)
        high.append(most)

    lag, capacity = np.asarray(problem.lag), problem.capacity
    multiple = lcm(*capacity.tolist())
    upper = np.ones(size)
    upper[-1] = np.inf
    for partition in range(partitions):
        constrain(dict.fromkeys(x[partition].tolist(), 1), 1, 1)
        upper[x[partition]] = np.isin(np.arange(members), subscribers_of(problem, partition))
    for member in range(members):
        constrain({**dict.fromkeys(x[:, member].tolist(), 1), **dict.fromkeys(z[member].tolist(), -1)}, 0, 0)
        constrain({**dict(zip(x[:, member].tolist(), lag.tolist(), strict=True)), size - 1: -int(capacity[member])}, -np.inf, 0)
    if balanced:
        count = np.bincount(assignor("sticky")(problem), minlength=members)
        marginal_cost = {
            int(z[m, k]): (2 * k + 1) * multiple // int(capacity[m]) for m, k in product(range(members), range(partitions))
        }
        constrain(marginal_cost, 0, sum(int(n) ** 2 * multiple // int(c) for n, c in zip(count, capacity, strict=True)))
    goal = np.zeros(size)
    goal[-1] = 1
    whole = np.append(np.ones(size - 1), 0)
    found = milp(goal, constraints=LinearConstraint(np.array(rows), low, high), bounds=Bounds(0, upper), integrality=whole)
    assert found.success
    owned = np.round(found.x[x]).astype(np.int64)
    return max(Fraction(int(load), int(c)) for load, c in zip(lag @ owned, capacity, strict=True))


@pytest.mark.parametrize("balanced", [True, False])
def test_the_bound_is_below_the_optimum_and_plans_are_near_it(balanced: bool) -> None:
    """Sixty groups of up to four members and nine partitions, any subscriptions, half of them with capacities."""
    rng, far, tight = np.random.default_rng(60), 0, 0
    for number in range(60):
        n = int(rng.integers(2, 5))
        sets = [sorted(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()), list(range(n))]
        capacity = rng.integers(1, 4, n) if number % 2 else np.ones(n, np.int64)
        problem = problem_of([4, 5], sets, n, lag=rng.integers(1, 60, 9), capacity=capacity)
        claims = [int(rng.choice(subscribers_of(problem, p))) for p in range(9)]
        problem = problem.replace(previous_owner=np.array(claims, np.int32))
        best = least_largest_lag(problem, balanced=balanced)
        plan = assignor("lag-sticky", **({} if balanced else {"counts": 9}))(problem)
        report = lag_report(problem, plan, counts="balanced" if balanced else None)
        assert report.bound <= best <= report.largest, f"group {number}"
        assert report.largest <= best * 2, f"group {number}"
        far += report.largest > best * Fraction(11, 10) + 1
        tight += report.bound * Fraction(11, 10) >= best
    assert far <= 6, "one in ten"
    assert tight >= 30, "the bound says something of most groups"
