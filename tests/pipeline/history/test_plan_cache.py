"""What strategies were asked before is not computed again, changes nothing, and takes no more memory than it may."""

from __future__ import annotations

from fractions import Fraction
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors.registry import strategies
from counterpoise.model.problem import Problem
from counterpoise.pipeline.history.plan_cache import PlanCache, PlanLookup
from counterpoise.solver.lag import search
from counterpoise.solver.lag.bound import lower_bound
from counterpoise.solver.lag.state import LagGroup
from tests.pipeline.pieces_of_folds import replays_of_group
from tests.pipeline.rows import generation, member

NAMES = strategies()


def restarts(steps: int) -> list[dict[str, Any]]:
    """A group of three under `range` whose members go and come back one after another, as in a rolling restart."""
    whole = {"a-1": [0, 1, 2], "b-1": [3, 4, 5], "c-1": [6, 7, 8]}
    states = [
        whole,
        {"b-1": [0, 1, 2, 3, 4], "c-1": [5, 6, 7, 8]},
        whole,
        {"a-1": [0, 1, 2, 3, 4], "c-1": [5, 6, 7, 8]},
        whole,
        {"a-1": [0, 1, 2, 3, 4], "b-1": [5, 6, 7, 8]},
    ]
    lag = [{"topic": "t", "partitions": list(range(9)), "lags": [5, 0, 7, 100, 3, 3, 8, 1, 90]}]
    rows = []
    for number, state in enumerate(islice(cycle(states), steps), 1):
        members = (member(name, {"t": partitions}) for name, partitions in state.items())
        rows.append({**generation(number, *members), "lag": lag})
    return rows


def seen(rows: list[dict[str, Any]], plans: PlanCache) -> list[tuple[Any, ...]]:
    """All there is to a replay."""
    return [
        (r.row["generation"], r.name, r.mode, r.owner.tolist(), r.metrics, r.matches)
        for r in replays_of_group(rows, NAMES, plans)
    ]


def test_a_history_that_repeats_asks_no_strategy_twice() -> None:
    """After a few turns of the wheel everything was asked before; nine strategies in two modes would be 18 a generation."""
    plans = PlanCache()
    seen(restarts(36), plans)
    assert 0 < plans.computed <= 36 * 3
    warm = plans.computed
    seen(restarts(90), plans)
    assert plans.computed == warm


def test_another_group_of_the_same_shape_is_known_already() -> None:
    """Names settle the order of members, and nothing else."""
    plans = PlanCache()
    seen(restarts(12), plans)
    asked = plans.computed
    renamed = [
        {
            **row,
            "group_id": "other",
            "members": [{**one, "member_id": f"x{one['member_id']}", "client_id": "x"} for one in row["members"]],
        }
        for row in restarts(12)
    ]
    seen(renamed, plans)
    assert plans.computed == asked


def test_what_is_remembered_changes_nothing() -> None:
    rows = restarts(14)
    assert seen(rows, PlanCache()) == seen(rows, PlanCache(0))


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    plans = PlanCache(20_000)
    problems = [Problem(2, [0, n], [0, 2], [0, 1]) for n in range(1, 41)]
    for problem in problems:
        PlanLookup(problem, plans).plan("range", problem)
    assert plans.computed == 40
    assert 0 < plans.size <= 20_000
    again = PlanLookup(problems[-1], plans)
    again.plan("range", problems[-1])
    assert plans.computed == 40
    PlanLookup(problems[0], plans).plan("range", problems[0])
    assert plans.computed == 41
    large = Problem(2, [0, 1000], [0, 2], [0, 1])
    before = plans.size
    PlanLookup(large, plans).plan("range", large)
    assert plans.size == before


def test_equal_plans_are_one_object_and_claims_one_problem() -> None:
    problem = Problem(2, [0, 4], [0, 2], [0, 1], [0, 0, 1, 1])
    asking = PlanLookup(problem, PlanCache())
    assert asking.with_claims(problem.previous_owner.copy()) is problem
    other = asking.with_claims(np.array([1, 1, 0, 0], np.int32))
    assert asking.with_claims(np.array([1, 1, 0, 0], np.int32)) is other
    assert asking.plan("sticky", problem) is asking.plan("range", problem)
    assert asking.plan("sticky", other).tolist() == [1, 1, 0, 0]


def test_what_does_not_depend_on_claims_is_computed_once_in_both_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = []

    def counted(group: LagGroup, counts: list[int] | None) -> Fraction:
        bounds.append(group)
        return lower_bound(group, counts)

    monkeypatch.setattr(search, "lower_bound", counted)
    problem = Problem(2, [0, 4], [0, 2], [0, 1], [0, 0, 1, 1], lag=[9, 9, 1, 1])
    lookup = PlanLookup(problem, PlanCache())
    for claims in ([0, 0, 1, 1], [0, 1, 1, 0]):
        lookup.plan("lag-sticky", lookup.with_claims(np.array(claims, np.int32)))
    assert len(bounds) == 1


def test_a_generation_held_apart_from_its_claims_is_another_problem() -> None:
    """Who holds a partition and who may keep it differ: closed loop with the same claims is not the same question."""
    problem = Problem(2, [0, 2], [0, 2], [0, 1], [-1, 1], holder=[0, 1])
    assert PlanLookup(problem, PlanCache()).with_claims(problem.previous_owner) is not problem
