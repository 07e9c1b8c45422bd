"""Plans of many groups measured at once have the figures they have alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.metrics import Asked, Metrics, Together, measure
from counterpoise.metrics import together as shipped
from counterpoise.model.problem import UNOWNED, Problem
from tests.strategies import feasible_owner, problem_of, random_problem


def group(rng: np.random.Generator) -> Problem:
    """Mostly small ones that subscribe alike; claims and holders of any kind, empty topics, lags of any size or none."""
    if rng.random() < 0.15:
        return random_problem(rng)
    members, counts = int(rng.integers(1, 12)), rng.integers(0, 9, int(rng.integers(1, 4))).tolist()
    size = sum(counts)
    lag = [None, rng.integers(0, 5, size), rng.integers(0, 2 ** int(rng.integers(1, 40)), size)][int(rng.integers(0, 3))]
    claims, holder = rng.integers(-2, members + 2, (2, size))
    capacity = [int(rng.integers(1, 4))] * members
    everybody = [list(range(members))] * len(counts)
    return problem_of(counts, everybody, members, claims, holder=holder, capacity=capacity, lag=lag)


def several(rng: np.random.Generator) -> list[Asked]:
    """Plans of one group with its own claims and with others; holes, repetitions, an optimal plan for some, unknown members."""
    problem = group(rng)
    variants = [problem, problem.replace(previous_owner=rng.integers(-2, problem.n_members + 1, problem.n_partitions))]
    made = [feasible_owner(problem, rng, skew=skew) for skew in (0.0, 0.4, 0.9)]
    made[1][rng.random(problem.n_partitions) < 0.2] = UNOWNED
    if rng.random() < 0.05:
        made[2][:1] = -7
    best = assignor("sticky")(problem)
    return [
        Asked(
            variants[int(rng.integers(0, 2))],
            made[int(rng.integers(0, 3))],
            bool(rng.integers(0, 2)),
            [None, best][int(rng.integers(0, 2))],
            int(rng.integers(0, 3)),
        )
        for _ in range(int(rng.integers(1, 9)))
    ]


def alone(asked: Sequence[Asked], floor: int | None) -> list[Metrics]:
    """The same, one by one."""
    return [
        measure(one.problem, one.owner, cooperative=one.cooperative, optimal=one.optimal, duplicates=one.duplicates, floor=floor)
        for one in asked
    ]


@pytest.mark.parametrize("seed", range(12))
def test_together_is_as_alone(seed: int) -> None:
    """Every figure, to the last bit, in whatever order they are asked for."""
    rng, together = np.random.default_rng(seed), Together()
    groups = [(several(rng), [None, 7][int(rng.integers(0, 2))]) for _ in range(30)]
    waiting = [together.ask(asked, floor) for asked, floor in groups]
    for at in rng.permutation(len(groups)).tolist():
        asked, floor = groups[at]
        assert [waiting[at].of(number) for number in range(len(asked))] == alone(asked, floor)


def test_groups_may_share_a_plan() -> None:
    """The very array that was remembered for a group of the same shape."""
    together, owner = Together(), np.array([0, 1, 1, 0], np.int32)
    problems = [problem_of([4], [[0, 1]], 2, lag=lag) for lag in ([1, 2, 3, 4], [9, 0, 0, 9])]
    waiting = [together.ask([Asked(problem, owner)]) for problem in problems]
    assert [one.of(0).max_member_lag for one in waiting] == [5, 18]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs to ask for the figures; a group that is too large does not wait."""
    monkeypatch.setattr(shipped, "_CELLS", 20)
    together, owner = Together(), np.array([0, 1], np.int32)
    small, large = problem_of([2], [[0, 1]], 2), problem_of([21], [[0, 1]], 2)
    for _ in range(7):
        together.ask([Asked(small, owner)])
        assert len(together._waiting) <= 5
    assert together.ask([Asked(large, np.arange(21, dtype=np.int32) % 2)]).of(0).spread == 1
    assert len(together._waiting) == 1


def test_nothing_asked_is_nothing() -> None:
    """No plan at all, and a group without partitions."""
    together = Together()
    together.ask([])
    empty = [Asked(problem_of([], [], 0), np.zeros(0, np.int32))]
    assert [together.ask(empty).of(0)] == alone(empty, None)
