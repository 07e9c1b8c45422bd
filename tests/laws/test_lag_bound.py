"""The lag bound against every possible plan of small groups, and what a report says."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors import assignor
from counterpoise.errors import OptionError, ProblemError
from counterpoise.laws.certificate import certify
from counterpoise.laws.lag_bound import lag_floor, lag_report
from counterpoise.metrics import measure
from counterpoise.model.problem import Problem
from tests.strategies import problem_of, subscribers_of


def small_group(rng: np.random.Generator) -> Problem:
    n_members, n_topics = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    counts = rng.integers(1, 4, n_topics).tolist()
    some = [rng.choice(n_members, int(rng.integers(1, n_members + 1)), replace=False).tolist() for _ in counts]
    subscribers = [sorted(one) if rng.random() < 0.6 else list(range(n_members)) for one in some]
    n = sum(counts)
    lag = rng.choice([rng.integers(0, 5, n), rng.integers(0, 100, n), np.where(rng.random(n) < 0.4, rng.integers(0, 50, n), 0)])
    capacity = rng.integers(1, 4, n_members) if rng.random() < 0.4 else None
    return problem_of(counts, subscribers, n_members, rng.integers(-1, n_members, n), lag=lag, capacity=capacity)


def largest_lag(problem: Problem, owner: tuple[int, ...]) -> Fraction:
    load = [0] * problem.n_members
    for member, behind in zip(owner, problem.lag.tolist(), strict=True):  # type: ignore[union-attr]
        load[member] += behind
    return max(Fraction(x, c) for x, c in zip(load, problem.capacity.tolist(), strict=True))


def unbalance(problem: Problem, owner: tuple[int, ...]) -> Fraction:
    counts = np.bincount(owner, minlength=problem.n_members).tolist()
    return sum((Fraction(x * x, c) for x, c in zip(counts, problem.capacity.tolist(), strict=True)), Fraction(0))


def test_no_plan_of_150_small_groups_undercuts_the_bound_and_the_bound_is_mostly_reached() -> None:
    rng = np.random.default_rng(3)
    reached = {"any": 0, "balanced": 0}
    for number in range(150):
        problem = small_group(rng)
        everything = list(itertools.product(*(subscribers_of(problem, p) for p in range(problem.n_partitions))))
        least = min(unbalance(problem, plan) for plan in everything)
        best = min(largest_lag(problem, plan) for plan in everything)
        best_balanced = min(largest_lag(problem, plan) for plan in everything if unbalance(problem, plan) == least)
        balanced = assignor("sticky")(problem)
        tight = lag_report(problem, balanced, counts="balanced").bound
        free = lag_report(problem, balanced).bound
        assert free <= best, f"group {number}"
        assert 0 <= lag_floor(problem) <= best, f"group {number}"
        assert lag_floor(problem) <= lag_floor(problem, balanced) <= best, f"group {number}"
        assert tight <= best_balanced, f"group {number}"
        even = len(set(problem.capacity.tolist())) == 1
        reached["any"] += (-(-free // 1) if even else free) == best
        reached["balanced"] += (-(-tight // 1) if even else tight) == best_balanced
    assert reached["any"] > 120
    assert reached["balanced"] > 120


def test_a_report_names_the_heaviest_member_the_gap_and_the_moves() -> None:
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[10, 20, 30, 40])
    report = lag_report(problem, np.array([0, 1, 1, 1], np.int32))
    assert (report.bound, report.largest, report.heaviest, report.moves) == (Fraction(50), Fraction(90), 1, 1)
    assert report.gap == pytest.approx(0.8)
    assert (report.reason, report.topics) == ("topics", (0,))


def test_topics_only_some_may_take_raise_the_bound() -> None:
    problem = problem_of([2, 2], [[0], [0, 1]], 2, lag=[50, 50, 1, 1])
    report = lag_report(problem, np.array([0, 0, 1, 1], np.int32))
    assert (report.bound, report.gap, report.topics) == (Fraction(100), 0.0, (0,))


def test_more_heavy_partitions_than_members_share_one() -> None:
    problem = problem_of([9], [[0, 1]], 2, lag=[60, 60, 60, 0, 0, 0, 0, 0, 0])
    report = lag_report(problem, np.array([0, 0, 1, 0, 1, 0, 1, 0, 1], np.int32))
    assert (report.bound, report.reason, report.gap) == (Fraction(120), "crowding", 0.0)


def test_balanced_counts_add_the_lightest_partitions_to_the_owner_of_an_oversized_one() -> None:
    problem = problem_of([4], [[0, 1]], 2, lag=[100, 9, 8, 7])
    owner = np.array([0, 1, 1, 0], np.int32)
    assert lag_report(problem, owner).bound == 100
    assert lag_report(problem, owner, counts="balanced").bound == 107
    assert lag_report(problem, owner, counts=1).bound == 100


def test_counts_can_bind_a_shared_topic_to_one_side() -> None:
    """Members 0 and 1 must take all of topic 0 to have as many partitions as 2 and 3 have of topic 2."""
    problem = problem_of([2, 2, 4], [[0, 1, 2, 3], [0, 1], [2, 3]], 4, lag=[50, 50, 10, 10, 1, 1, 1, 1])
    owner = assignor("lag-sticky")(problem)
    assert lag_report(problem, owner).bound == 50
    report = lag_report(problem, owner, counts="balanced")
    assert (report.bound, report.gap) == (Fraction(60), 0.0)


def test_without_lag_there_is_no_report() -> None:
    with pytest.raises(ProblemError, match=r"set Problem\.lag"):
        lag_report(problem_of([1], [[0]], 1), np.zeros(1, np.int32))
    assert lag_report(problem_of([1], [[]], 0, lag=[5]), np.array([-1], np.int32)).heaviest == -1


def test_the_owner_of_an_oversized_partition_completes_its_count_with_the_lightest_ones_that_it_may_own() -> None:
    """Two topics: members 0 and 1 may own the oversized partition, and each has three partitions in every balanced plan."""
    problem = problem_of([4, 5], [[0, 1], [0, 1, 2]], 3, lag=[100, 9, 8, 7, 1, 2, 3, 4, 5])
    owner = np.array([0, 1, 1, 1, 0, 0, 2, 2, 2], np.int32)
    assert lag_report(problem, owner, counts="balanced").bound == 103
    assert lag_report(problem, owner).bound == 100


@pytest.mark.parametrize("seed", range(40))
def test_where_all_subscribe_alike_the_bound_is_a_closed_form(seed: int) -> None:
    """Whatever the plan, in whole records; per capacity too."""
    rng = np.random.default_rng(seed)
    members, counts = int(rng.integers(1, 9)), rng.integers(0, 12, 3).tolist()
    lag = rng.integers(0, int(rng.choice([1, 4, 1000, 2**40])), sum(counts))
    problem = problem_of(counts, [list(range(members))] * 3, members, lag=lag)
    assert problem.lag is not None
    owner = rng.integers(0, members, sum(counts)).astype(np.int32)
    assert lag_floor(problem) == math.ceil(lag_report(problem, owner).bound)
    assert lag_floor(problem.replace(capacity=[3] * members)) == lag_floor(problem) / 3


FLOORS = [
    ("the largest lag", [3], [[0, 1, 2]], [9, 1, 1], 9),
    ("two of one more partition than members", [4], [[0, 1, 2]], [6, 5, 4, 4], 8),
    ("a topic that one member may read", [4, 1, 2], [[0], [0, 1, 2], [0, 1]], [5, 5, 5, 5, 1, 9, 9], 20),
    ("topics within the subscribers of another", [2, 2, 1], [[0], [0, 1], [0, 1, 2]], [7, 7, 8, 8, 1], 15),
]


@pytest.mark.parametrize(("counts", "subscribers", "lag", "floor"), [case[1:] for case in FLOORS], ids=[c[0] for c in FLOORS])
def test_each_part_of_the_floor_decides_once(counts: list[int], subscribers: list[list[int]], lag: list[int], floor: int) -> None:
    assert lag_floor(problem_of(counts, subscribers, 3, lag=lag)) == floor


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([0, 0], "owner: expected an array of integers, not list"),
        (np.zeros(1, np.int32), r"owner: expected signed integers of shape \(2,\)"),
        (np.zeros(2), r"owner: expected signed integers of shape \(2,\), got float64"),
        (np.zeros(2, np.uint8), r"owner: expected signed integers of shape \(2,\), got uint8"),
    ],
)
def test_what_is_no_integer_per_partition_is_refused_and_not_measured(owner: Any, message: str) -> None:
    problem = problem_of([2], [[0, 1]], 2, lag=[1, 1])
    for look in (lag_report, measure, certify):
        with pytest.raises(ProblemError, match=message):
            look(problem, owner)


def test_owners_that_are_no_members_have_no_lag_to_report() -> None:
    for code, message in ((2, r"owner\[1\]: 2 is no member; codes are 0 to 1"), (-2, r"owner\[1\]: -2 is no member")):
        with pytest.raises(ProblemError, match=message):
            lag_report(problem_of([2], [[0, 1]], 2, lag=[1, 1]), np.array([0, code], np.int32))


def test_what_a_report_is_asked_for_must_exist() -> None:
    problem, owner = problem_of([2], [[0, 1]], 2, lag=[1, 1]), np.zeros(2, np.int32)
    for counts in ("free", -1, True, 1.5, float("nan"), [1]):
        with pytest.raises(OptionError, match="counts: "):
            lag_report(problem, owner, counts=counts)  # type: ignore[arg-type]
