"""Plans and figures of one generation, each computed once: strategies that agree share what was found for the first of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterpoise.assignors.registry import strategy
from counterpoise.metrics import Metrics, measure
from counterpoise.metrics.figures import held
from counterpoise.model.problem import Int32, Problem

__all__ = ["Memo"]


class Memo:
    """What was computed for one generation.

    Parameters
    ----------
    problem : Problem
        The generation as its leader saw it.
    floor : callable
        Gives the proven bound on the largest member lag, or None; asked once, when the first figures are wanted.
    """

    def __init__(self, problem: Problem, floor: Callable[[], int | None]) -> None:
        self.problem = problem
        self._floor = floor
        self._bound: tuple[int | None] | None = None
        self._problems: dict[bytes, Problem] = {}
        if np.array_equal(problem.previous_owner, problem.holder):
            self._problems[problem.previous_owner.tobytes()] = problem
        self._plans: dict[tuple[Callable[..., Int32], int], Int32] = {}
        self._figures: dict[tuple[int, bytes, bool], Metrics] = {}

    def claiming(self, claims: Int32) -> Problem:
        """The generation with other claims; the same object for the same claims."""
        key = claims.tobytes()
        if key not in self._problems:
            self._problems[key] = self.problem.replace(previous_owner=claims)
        return self._problems[key]

    def plan(self, name: str, problem: Problem) -> Int32:
        """The plan of a strategy for one of this generation's problems."""
        kernel = strategy(name).kernel
        key = (kernel, id(problem))  # all of them live as long as this memo
        if key not in self._plans:
            self._plans[key] = kernel(problem)
        return self._plans[key]

    def figures(
        self, problem: Problem, owner: Int32, *, cooperative: bool, optimal: Int32 | None = None, duplicates: int = 0
    ) -> Metrics:
        """As `metrics.measure` gives them; `optimal` is the same one, or None, for all plans of a problem."""
        if self._bound is None:
            self._bound = (self._floor(),)
        key = (id(problem), owner.tobytes(), optimal is None)
        if key not in self._figures:
            self._figures[key] = measure(problem, owner, cooperative=True, optimal=optimal, floor=self._bound[0])
        found = self._figures[key]
        revoked = found.revoked if cooperative else int(np.count_nonzero(held(problem)))
        return found if (revoked, duplicates) == (found.revoked, 0) else replace(found, revoked=revoked, duplicates=duplicates)
