"""What a plan costs, and all plans of tiny groups; larger ones are held against `tests.solver.oracle.optimum`."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Problem
from tests.strategies import subscribers_of

__all__ = ["all_plans", "score", "valid_claims"]


def valid_claims(problem: Problem) -> list[int]:
    """Who may keep each partition, by looking at one partition after the other."""
    previous = problem.previous_owner.tolist()
    return [previous[at] if previous[at] in subscribers_of(problem, at) else UNOWNED for at in range(problem.n_partitions)]


def score(problem: Problem, owner: Int32) -> tuple[Fraction, int]:
    """(sum of load²/capacity, minus the number of kept partitions): smaller is better, in this order."""
    load = [0] * problem.n_members
    for member in owner.tolist():
        if member >= 0:
            load[member] += 1
    cost = sum((Fraction(n * n, c) for n, c in zip(load, problem.capacity.tolist(), strict=True)), Fraction(0))
    return cost, -sum(claim == own >= 0 for claim, own in zip(valid_claims(problem), owner.tolist(), strict=True))


def all_plans(problem: Problem) -> list[Int32]:
    """Every valid, complete plan."""
    allowed = [subscribers_of(problem, at) or [UNOWNED] for at in range(problem.n_partitions)]
    return [np.array(plan, np.int32) for plan in itertools.product(*allowed)]
