"""Plans of many groups measured at once have the figures they have alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.metrics import Batch, Metrics, Query, batch, measure, table
from counterpoise.model.problem import UNOWNED, Problem
from tests.strategies import feasible_owner, problem_of, random_problem


def group(rng: np.random.Generator) -> Problem:
    """Groups that subscribe alike and others; claims and holders of any kind, empty topics, lags of any size or none."""
    if rng.random() < 0.3:
        return random_problem(rng)
    members, counts = int(rng.integers(1, 12)), rng.integers(0, 9, int(rng.integers(1, 4))).tolist()
    size = sum(counts)
    lag = [None, rng.integers(0, 5, size), rng.integers(0, 2 ** int(rng.integers(1, 55)), size)][int(rng.integers(0, 3))]
    claims, holder = rng.integers(-2, members + 2, (2, size))
    capacity = rng.integers(1, 4, members) if rng.random() < 0.3 else [int(rng.integers(1, 4))] * members
    everybody = [list(range(members))] * len(counts)
    return problem_of(counts, everybody, members, claims, holder=holder, capacity=capacity, lag=lag)


def several(rng: np.random.Generator) -> list[Query]:
    """Plans of one group with its own claims and with others; holes, repetitions, an optimal plan for some, no proof for some."""
    problem = group(rng)
    variants = [problem, problem.replace(previous_owner=rng.integers(-2, problem.n_members + 1, problem.n_partitions))]
    made = [feasible_owner(problem, rng, skew=skew) for skew in (0.0, 0.4, 0.9)]
    made[1][rng.random(problem.n_partitions) < 0.2] = UNOWNED
    best = assignor("sticky")(problem)
    return [
        Query(
            variants[int(rng.integers(0, 2))],
            made[int(rng.integers(0, 3))],
            bool(rng.integers(0, 2)),
            [None, best][int(rng.integers(0, 2))],
            int(rng.integers(0, 3)),
            bool(rng.random() < 0.8),
        )
        for _ in range(int(rng.integers(1, 9)))
    ]


def alone(queries: Sequence[Query], floor: Fraction | int | None = None) -> list[Metrics]:
    """The same, one by one."""
    return [
        measure(
            one.problem, one.owner, cooperative=one.cooperative, optimal=one.optimal, duplicates=one.duplicates, prove=one.prove,
            floor=floor,
        )
        for one in queries
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_a_batch_has_the_figures_of_each_plan_alone(seed: int) -> None:
    """Every figure, to the last bit, in whatever order they are read."""
    rng, waiting = np.random.default_rng(seed), Batch()
    groups = [(several(rng), [None, 7, Fraction(9, 2)][int(rng.integers(0, 3))]) for _ in range(30)]
    figures = [waiting.add(queries, floor) for queries, floor in groups]
    for at in rng.permutation(len(groups)).tolist():
        queries, floor = groups[at]
        assert [figures[at].of(number) for number in range(len(queries))] == alone(queries, floor)


def test_groups_may_share_a_plan() -> None:
    """The very array that was remembered for a group of the same shape."""
    waiting, owner = Batch(), np.array([0, 1, 1, 0], np.int32)
    problems = [problem_of([4], [[0, 1]], 2, lag=lag) for lag in ([1, 2, 3, 4], [9, 0, 0, 9])]
    figures = [waiting.add([Query(problem, owner)]) for problem in problems]
    assert [one.of(0).max_member_lag for one in figures] == [5, 18]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs to read the figures; a group that is too large does not wait."""
    monkeypatch.setattr(batch, "_CELLS", 20)
    waiting, owner = Batch(), np.array([0, 1], np.int32)
    small, large = problem_of([2], [[0, 1]], 2), problem_of([21], [[0, 1]], 2)
    for _ in range(7):
        waiting.add([Query(small, owner)])
        assert len(waiting._waiting) <= 5
    figures = waiting.add([Query(large, np.arange(21, dtype=np.int32) % 2)])
    assert (figures.of(0).spread, waiting._waiting) == (1, [])


def test_sums_too_large_for_int64_are_found_in_pythons_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways have the same result where both are possible."""
    problem = problem_of([6, 3], [[0, 1, 2], [0, 1, 2]], 3, lag=[5, 1, 4, 1, 5, 9, 2, 6, 5])
    queries = [Query(problem, np.array(owner, np.int32)) for owner in ([0, 1, 2] * 3, [0] * 9)]
    expected = alone(queries)
    monkeypatch.setattr(table, "_EXACT", 0)
    assert alone(queries) == expected


def test_groups_without_queries_partitions_or_members_wait_beside_others() -> None:
    """Empty stretches between full ones shift nothing."""
    waiting, owner = Batch(), np.array([0, 1, 1, 0], np.int32)
    waiting.add([])
    empty = [Query(problem_of([], [], 0), np.zeros(0, np.int32))]
    idle = [Query(problem_of([2, 0], [[], []], 0, lag=[3, 0]), np.full(2, UNOWNED, np.int32))]
    full = [Query(problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[4, 3, 2, 1]), owner)]
    groups = [empty, full, idle, full, empty]
    figures = [waiting.add(queries) for queries in groups]
    assert [one.of(0) for one in figures] == [alone(queries)[0] for queries in groups]
