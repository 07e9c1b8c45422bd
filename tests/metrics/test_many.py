"""Plans measured together have the figures they have alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.assignors import assignor
from counterpoise.metrics import Asked, measure, measure_all
from counterpoise.metrics import many as shipped
from counterpoise.model.problem import UNOWNED, Problem
from tests.strategies import feasible_owner, plans, problem_of, problems, random_problem


@st.composite
def several(draw: st.DrawFn) -> list[Asked]:
    """Plans of one group with its own claims and with others; holes, repetitions, an optimal plan for some."""
    problem = draw(problems(lags=draw(st.booleans()), capacities=draw(st.booleans())))
    n, size = problem.n_members, problem.n_partitions
    claims = np.array(draw(st.lists(st.integers(-2, n), min_size=size, max_size=size)), np.int32)
    variants = [problem, problem.replace(previous_owner=claims)]
    made = [draw(plans(problem)) for _ in range(3)]
    optimal = assignor("sticky")(problem)
    for owner in made[:1]:
        owner[: draw(st.integers(0, 2))] = UNOWNED
    return [
        Asked(
            draw(st.sampled_from(variants)),
            draw(st.sampled_from(made)),
            draw(st.booleans()),
            draw(st.sampled_from([None, optimal])),
            draw(st.integers(0, 2)),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]


def alone(asked: list[Asked], floor: int | None) -> list[object]:
    """The same, one by one."""
    return [
        measure(one.problem, one.owner, cooperative=one.cooperative, optimal=one.optimal, duplicates=one.duplicates, floor=floor)
        for one in asked
    ]


@given(several(), st.sampled_from([None, 3]))
def test_together_is_as_alone(asked: list[Asked], floor: int | None) -> None:
    """Every figure, the floats of lag to the last bit."""
    assert measure_all(asked, floor=floor) == alone(asked, floor)


@pytest.mark.parametrize("seed", range(8))
def test_larger_groups_too(seed: int) -> None:
    """Sums over many members take other roads in NumPy; the result must not tell."""
    rng = np.random.default_rng(seed)
    members, counts = int(rng.integers(20, 200)), rng.integers(1, 90, 5).tolist()
    everybody = [list(range(members))] * 5
    lag = rng.integers(0, 2 ** int(rng.integers(3, 55)), sum(counts))
    problem = problem_of(counts, everybody, members, rng.integers(-1, members, sum(counts)), lag=lag)
    for group in (problem, random_problem(rng)):
        made = [feasible_owner(group, rng, skew=skew) for skew in (0.0, 0.3, 0.9)]
        asked = [Asked(group, owner, cooperative=True, optimal=made[0]) for owner in made]
        assert measure_all(asked) == alone(asked, None)


def test_nothing_asked_is_nothing() -> None:
    """No plan at all, and a group without partitions."""
    assert measure_all([]) == []
    empty = [Asked(problem_of([], [], 0), np.zeros(0, np.int32))]
    assert measure_all(empty) == alone(empty, None)


def test_plans_of_large_groups_are_measured_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded; so are codes that are no members, which tables have no column for."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0], lag=[5, 1, 1, 1])
    asked = [Asked(problem, np.array([0, 1, 1, 0], np.int32)), Asked(problem, problem.previous_owner)]
    expected = alone(asked, None)
    with monkeypatch.context() as patched:
        patched.setattr(shipped, "_Table", None)
        patched.setattr(shipped, "_CELLS", 11)
        assert measure_all(asked) == expected
    gone = [Asked(problem, np.array([0, 1, 1, -7], np.int32))]
    assert measure_all(gone) == alone(gone, None)
    assert isinstance(problem, Problem)
