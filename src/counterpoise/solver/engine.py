"""The engine's front door: one problem in, the optimal owners out."""

from __future__ import annotations

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int32, Problem
from counterpoise.solver.equal import common_subscribers, deal_equal

__all__ = ["solve"]


def solve(problem: Problem, *, history: bool = True, racks: str = "after") -> Int32:
    """Optimal owners, int32[P]."""
    members = common_subscribers(problem)
    if members is not None and (problem.racks is None or racks == "ignore"):
        return deal_equal(problem, members, history=history)
    raise InvariantError("unequal subscriptions are not solved by this revision")
