"""Balanced and sticky are what the certificate proves, whatever the plan; in closed form too."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.laws import certify
from counterpoise.metrics import measure, table
from counterpoise.model.problem import Int32, Problem
from tests.strategies import feasible_owner, random_problem

STRATEGIES = ("range", "roundrobin", "sticky", "sticky-first", "fair")


def alike(rng: np.random.Generator) -> Problem:
    """A group whose members subscribe to everything; claims of members that left and of nobody among them."""
    members, topics = int(rng.integers(1, 9)), int(rng.integers(0, 5))
    start = np.concatenate(([0], np.cumsum(rng.integers(0, 8, topics))))
    previous = rng.integers(-1, members + 1, int(start[-1]))
    everybody = np.tile(np.arange(members), topics)
    return Problem(members, start, np.arange(topics + 1) * members, everybody, previous)


def plans(problem: Problem, rng: np.random.Generator) -> list[Int32]:
    """What strategies say, what chance says, and one with a hole."""
    made = [assignor(name)(problem) for name in STRATEGIES]
    made += [feasible_owner(problem, rng, skew=skew) for skew in (0.0, 0.5)]
    holed = made[0].copy()
    holed[:1] = -1
    return [*made, holed]


@pytest.mark.parametrize("seed", range(60))
def test_the_verdict_is_the_certificate_s(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    asked: list[Problem] = []

    def counted(problem: Problem, owner: Int32) -> object:
        asked.append(problem)
        return certify(problem, owner)

    monkeypatch.setattr(table, "certify", counted)
    for problem, closed in ((alike(rng), True), (random_problem(rng), False)):
        asked.clear()
        for owner in plans(problem, rng):
            proven = certify(problem, owner)
            found = measure(problem, owner)
            assert (found.balanced, found.sticky) == (proven.balanced, proven.sticky)
        assert not (closed and asked), "groups that subscribe alike need no search"
