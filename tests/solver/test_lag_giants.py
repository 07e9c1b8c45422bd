"""Giants dealt anew: who should own the heaviest partitions, and what a rebalance takes then."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.model.problem import Problem
from counterpoise.solver.lag.moves import giants
from counterpoise.solver.lag.moves.fewer import moves_of
from tests.solver.test_lag_fewer import moves, planned
from tests.strategies import problem_of

TO_100 = Fraction(5, 95)
"""No plan stays below 95, the heaviest partition and the five lightest ones: with this tolerance 100 is the limit."""


def two_giants(**more: object) -> Problem:
    """The owner of the 90 is 10 over its limit: to be rid of 6, 5 and 4 for three of 1 takes six moves.

    With the 80 instead it is at its limit, and who gives that for the 90 must be rid of 5: of 11 for 6 of somebody else.
    """
    lag = [90, 6, 5, 4, 3, 2, 80, 11, 1, 1, 1, 1, *[40, 25, 12, 6, 1, 1] * 23]
    return problem_of([150], [list(range(25))], 25, np.repeat(np.arange(25), 6), lag=lag, **more)


def test_the_owners_of_two_giants_exchange_them_where_that_takes_fewer_moves() -> None:
    problem = two_giants()
    before = planned(problem, TO_100)
    assert (int(before.limit[0]), moves_of(before)) == (100, 6)
    ((home, dealt),) = giants.with_giants_dealt_anew(before)
    assert (moves_of(home), moves_of(dealt), int(dealt.load.max())) == (2, 4, 100)
    assert dealt.owner[[0, 6]].tolist() == [1, 0]
    owner = assignor("lag-sticky", tolerance=float(TO_100) - 1e-9)(problem)
    assert moves(problem, owner) == 4
    assert np.bincount(owner).tolist() == [6] * 25


def test_nothing_is_dealt_anew_where_members_come_or_weigh_more_or_nothing_is_heavy() -> None:
    """One waits for an owner, one member weighs more, counts are free, the limit makes no giant, or the plan is good as it is."""
    problem = two_giants()
    assert giants.with_giants_dealt_anew(planned(problem, TO_100))
    waits = problem.previous_owner.copy()
    waits[100] = -1
    assert not giants.with_giants_dealt_anew(planned(problem.replace(previous_owner=waits), TO_100))
    assert not giants.with_giants_dealt_anew(planned(problem, TO_100, counts=150))
    assert not giants.with_giants_dealt_anew(planned(problem, Fraction(1)))
    assert not giants.with_giants_dealt_anew(planned(two_giants(capacity=[2] + [1] * 24), TO_100))
    done = problem.replace(previous_owner=planned(problem, TO_100).owner)
    assert not giants.with_giants_dealt_anew(planned(done, TO_100))


@pytest.mark.parametrize("seed", range(4))
def test_each_row_gets_a_column_of_its_own_at_the_least_cost_in_all(seed: int) -> None:
    """Every way to do it, tried."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        rows = int(rng.integers(1, 5))
        columns = int(rng.integers(rows, 6))
        cost = rng.integers(-5, 5, (rows, columns))
        found = giants._assigned(cost)
        least = min(sum(cost[row, column] for row, column in enumerate(way)) for way in permutations(range(columns), rows))
        assert len(set(found)) == rows
        assert int(cost[np.arange(rows), found].sum()) == least
