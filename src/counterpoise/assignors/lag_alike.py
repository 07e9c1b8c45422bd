"""`lag-sticky` where all members subscribe to everything at capacity 1: the same steps, bounds and counts in closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterpoise.model.problem import Int64, Problem
from counterpoise.solver.equal import member_quotas
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.counts import demand_counts
from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.opening import open_desk
from counterpoise.solver.lag.place import place_waiting
from counterpoise.solver.lag.repair import repair

__all__ = ["all_alike", "plan_alike"]


def all_alike(problem: Problem) -> bool:
    """Whether every member subscribes to every topic at capacity 1, and no topic is empty."""
    if len(problem.subscriber) != problem.n_members * problem.n_topics or int(problem.capacity.max(initial=0)) != 1:
        return False
    return bool((problem.topic_start[1:] > problem.topic_start[:-1]).all())


def plan_alike(problem: Problem, lag: Int64, share: Fraction, gain: int, budget: int) -> Desk | None:
    """The finished desk of `lag-sticky` with balanced counts, or None where the first attempt misses the limits.

    Parameters
    ----------
    problem : Problem
        For which `all_alike` holds.
    lag : int64[P]
        Not all zero.
    share, gain, budget
        Tolerance, least gain and moves, as `balance_lag` takes them.
    """
    n, size = problem.n_members, problem.n_partitions
    desk = open_desk(problem, lag, budget)
    quota = member_quotas(size, desk.count, np.full(n, size // n), np.ones(n, np.bool_), size % n)
    total = int(lag.sum())
    bound = max(Fraction(total, n), Fraction(_crowding(lag, n, size // n)))
    top, bottom = (bound * (1 + share)).as_integer_ratio()
    low, high = bound.as_integer_ratio()
    desk.limit = np.full(n, min(max(-(-top // bottom), -(-low // high) + gain), 2**62))
    demand_counts(desk, quota, 0)
    place_waiting(desk, LagBlocks((Fraction(total, n),), np.zeros(1, np.int64), np.array([0, -1])))
    desk.trade_counts = True
    repair(desk)
    return None if desk.excess() else desk


def _crowding(lag: Int64, n: int, least: int) -> int:
    """What `lag.bound.bound_of` finds in single partitions: the owner of the k + 1 lightest of the k*M + 1 heaviest (the
    heaviest for k = 0) fills up to its least count with nothing lighter than the lightest of the group.
    """
    falling = np.sort(lag)[::-1]
    total = np.concatenate(([0], np.cumsum(falling)))
    filling = total[-1] - total[::-1]  # of so many lightest
    k = np.arange((len(falling) - 1) // n + 1)
    last = k * n + 1
    return int((total[last] - total[last - k - 1] + filling[np.maximum(least - k - 1, 0)]).max())
