"""The balanced plan that `lag-sticky` starts from: as `sticky` gives it, but where counts tie larger capacities come first."""

from __future__ import annotations

from typing import Literal

import numpy as np

from counterpoise.model.problem import Int32, Int64, Problem
from counterpoise.solver.engine import solve
from counterpoise.solver.lag.arcs import price
from counterpoise.solver.lag.blocks import Bools

__all__ = ["balanced_plan", "may_have_fewer"]


def balanced_plan(problem: Problem, *, history: Literal["prefer", "ignore"] = "prefer") -> Int32:
    """Owners that are balanced and keep as much as can be, int32[P].

    Where one partition more costs several members the same, most claims come first as with `sticky`, then the largest
    capacity (one more is the smallest part of what it has), then the id. So members are named in the order of their capacities,
    dealt to, and named back.
    """
    capacity, n = problem.capacity, problem.n_members
    if int(capacity.min(initial=1)) == int(capacity.max(initial=1)):
        return solve(problem, history=history, racks="ignore")
    named = np.argsort(-capacity, kind="stable")
    name = np.empty(n, np.int64)
    name[named] = np.arange(n)
    topic = np.repeat(np.arange(problem.n_topics), np.diff(problem.subscriber_start))
    subscriber = np.sort(topic * n + name[problem.subscriber]) - topic * n
    previous = problem.previous_owner.copy()
    claimed = (previous >= 0) & (previous < n)
    previous[claimed] = name[previous[claimed]]
    renamed = Problem(n, problem.topic_start, problem.subscriber_start, subscriber, previous, capacity=capacity[named])
    owner = solve(renamed, history=history, racks="ignore")
    owned = owner >= 0
    owner[owned] = named[owner[owned]]
    return owner


def may_have_fewer(balanced: Int64, capacity: Int64) -> Bools:
    """Members that other plans as balanced may leave one partition less: its cost is what one more costs somebody, bool[M]."""
    fewer: Bools = np.isin(price(balanced, -1, capacity), price(balanced, 1, capacity))
    return fewer
