"""`lag-sticky`: counts first, then lag near the proven bound, then few moves; hysteresis, caps, capacities."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from cProfile import Profile
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from benchmarks import lag_both_ends
from benchmarks.lag import drift_of
from benchmarks.lag_minimum import least_moves
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.assignors import assignor
from counterpoise.assignors.lag_sticky import LAG_STICKY
from counterpoise.errors import OptionError, ProblemError
from counterpoise.laws.lag_bound import lag_report
from counterpoise.laws.lag_law import count_band
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.engine import Prepared, prepare
from counterpoise.solver.lag import placement, search
from counterpoise.solver.lag.bound import lower_bound
from counterpoise.solver.lag.placement import CountSlack, place
from counterpoise.solver.lag.state import PlanState, StepBudget, lag_group
from tests.strategies import problem_of, problems, random_problem, subscribers_of

sticky = assignor("sticky")


def lag_sticky(problem: Problem, **options: Any) -> Int32:
    return assignor("lag-sticky", **options)(problem)


def lags(shape: str, n: int, rng: np.random.Generator) -> Int64:
    if shape == "zipf":
        return rng.permutation((1e7 / np.arange(1, n + 1) ** 1.1).astype(np.int64))
    if shape == "lognormal":
        return rng.lognormal(8, 2, n).astype(np.int64)
    if shape == "mostly zero":
        return np.where(rng.random(n) < 0.05, rng.lognormal(8, 2, n), 0).astype(np.int64)
    return rng.permutation(np.concatenate(([10**8], rng.integers(0, 1000, n - 1))))


def group(subscriptions: str, n_topics: int, size: int, n_members: int, rng: np.random.Generator, **more: Any) -> Problem:
    topic, member = np.arange(n_topics)[:, None], np.arange(n_members)[None, :]
    wants = {
        "equal": topic + member >= 0,
        "four sets": (topic % 4 == member % 4) | (topic == 0),
        "random": rng.random((n_topics, n_members)) < 0.5,
    }[subscriptions]
    return problem_of([size] * n_topics, [np.flatnonzero(row).tolist() for row in wants], n_members, **more)


def member_lag(problem: Problem, owner: Int32) -> Int64:
    load = np.zeros(problem.n_members + 1, np.int64)
    np.add.at(load, owner + 1, np.asarray(problem.lag))
    return load[1:]


def cost(problem: Problem, owner: Int32) -> Fraction:
    """The sum of load²/capacity: smallest where counts are balanced."""
    load = np.bincount(owner[owner >= 0], minlength=problem.n_members)
    return sum((Fraction(n * n, c) for n, c in zip(load.tolist(), problem.capacity.tolist(), strict=True)), Fraction(0))


@pytest.mark.parametrize("shape", ["zipf", "lognormal", "mostly zero", "one oversized partition"])
@pytest.mark.parametrize("subscriptions", ["equal", "four sets", "random"])
def test_with_free_counts_the_largest_lag_is_within_one_percent_of_the_bound(subscriptions: str, shape: str) -> None:
    rng = np.random.default_rng(11)
    problem = group(subscriptions, 20, 500, 100, rng, lag=lags(shape, 10_000, rng))
    for tolerance in (0.0, 0.01):
        owner = lag_sticky(problem, tolerance=tolerance, counts=10_000)
        assert lag_report(problem, owner).gap <= 0.01


@pytest.mark.parametrize("shape", ["zipf", "lognormal", "mostly zero", "one oversized partition"])
@pytest.mark.parametrize("subscriptions", ["equal", "four sets", "random"])
def test_with_balanced_counts_the_largest_lag_comes_near_the_bound_of_such_counts(subscriptions: str, shape: str) -> None:
    rng = np.random.default_rng(12)
    problem = group(subscriptions, 20, 500, 100, rng, lag=lags(shape, 10_000, rng))
    owner = lag_sticky(problem, tolerance=0.01)
    assert cost(problem, owner) == cost(problem, sticky(problem))
    assert lag_report(problem, owner, counts="balanced").gap <= 0.011


@given(problems(lags=True, capacities=True))
def test_any_group_gets_valid_owners_and_the_counts_of_sticky(problem: Problem) -> None:
    owner = lag_sticky(problem)
    assert all(o in (subscribers_of(problem, p) or [-1]) for p, o in enumerate(owner.tolist()))
    assert cost(problem, owner) == cost(problem, sticky(problem))


@pytest.mark.parametrize("options", [{}, {"tolerance": 0}, {"counts": 1}, {"max_moves": 1}], ids=str)
@given(problem=problems(lags=True, capacities=True), seed=st.integers(0, 99))
def test_a_prepared_assignor_plans_other_claims_as_the_kernel_does(options: dict[str, Any], problem: Problem, seed: int) -> None:
    assert LAG_STICKY.prepare is not None
    prepared, rng = LAG_STICKY.prepare(problem, **options), np.random.default_rng(seed)
    for _ in range(3):
        other = problem.replace(previous_owner=problem.previous_owner[rng.permutation(problem.n_partitions)])
        assert prepared(other).tolist() == lag_sticky(other, **options).tolist()
    assert prepared(problem).tolist() == lag_sticky(problem, **options).tolist()


@given(problems(lags=True, capacities=True))
def test_planning_again_changes_nothing(problem: Problem) -> None:
    owner = lag_sticky(problem)
    assert lag_sticky(problem.replace(previous_owner=owner)).tolist() == owner.tolist()


@given(problems(lags=True, capacities=True))
def test_planning_again_within_a_band_changes_nothing_once_the_limit_is_met(problem: Problem) -> None:
    owner = lag_sticky(problem, counts=2)
    if lag_report(problem, owner).gap <= 0.1:
        assert lag_sticky(problem.replace(previous_owner=owner), counts=2).tolist() == owner.tolist()


def test_larger_groups_get_valid_owners_balanced_counts_and_fixed_points() -> None:
    rng = np.random.default_rng(7)
    for number in range(100):
        problem = random_problem(rng, capacities=number % 2 == 0)
        problem = problem.replace(lag=rng.lognormal(5, 2, problem.n_partitions).astype(np.int64))
        owner = lag_sticky(problem)
        assert cost(problem, owner) == cost(problem, sticky(problem)), f"group {number}"
        again = lag_sticky(problem.replace(previous_owner=owner))
        assert again.tolist() == owner.tolist(), f"group {number}"


def test_counts_stay_balanced_where_a_member_passes_on_what_it_was_just_given() -> None:
    """The member that takes it has one partition more, and may have no slack for another."""
    rng = np.random.default_rng(5)
    for number in range(1000):
        problem = random_problem(rng, max_partitions=12)
        problem = problem.replace(lag=rng.lognormal(5, 2, problem.n_partitions).astype(np.int64))
        if number in (3, 982):
            assert cost(problem, lag_sticky(problem)) == cost(problem, sticky(problem)), f"group {number}"


def test_counts_stay_within_the_band() -> None:
    rng = np.random.default_rng(3)
    problem = group("equal", 4, 50, 10, rng, lag=lags("lognormal", 200, rng))
    for band in (0, 1, 3):
        count = np.bincount(lag_sticky(problem, counts=band), minlength=10)
        assert np.abs(count - 20).max() <= band
    assert np.bincount(lag_sticky(problem, counts=200), minlength=10).min() < 17


def test_a_band_keeps_what_it_can_when_a_member_joins() -> None:
    """Twelve members held 20 each; the thirteenth needs 18 (240 / 13 = 18.46) less the band of 2."""
    problem = problem_of([240], [list(range(13))], 13, np.arange(240) % 12, lag=np.full(240, 5))
    owner = lag_sticky(problem, counts=2, tolerance=1.0)
    assert np.bincount(owner).tolist()[12] == 16
    assert np.count_nonzero(owner != problem.previous_owner) == 16


@pytest.mark.parametrize("counts", ["balanced", 0, 3])
def test_without_lag_partitions_are_spread_by_count(counts: str | int) -> None:
    problem = problem_of([30, 30], [[0, 1, 2], [0, 1, 2]], 3, lag=np.zeros(60, np.int64))
    assert np.bincount(lag_sticky(problem, counts=counts)).tolist() == [20, 20, 20]
    assert lag_sticky(problem.replace(lag=None)).tolist() == sticky(problem).tolist()


def test_idle_partitions_do_not_pile_up_on_the_member_with_the_least_lag() -> None:
    lag = np.zeros(100, np.int64)
    lag[:3] = 1000, 900, 10
    owner = lag_sticky(problem_of([100], [[0, 1, 2, 3]], 4, lag=lag), counts=100)
    assert np.bincount(owner).tolist() == [25, 25, 25, 25]


@pytest.mark.parametrize("subscriptions", ["equal", "random"])
def test_with_free_counts_drifting_lags_move_at_most_135_percent_of_the_proven_minimum(subscriptions: str) -> None:
    rng = np.random.default_rng(50)
    problem = group(subscriptions, 10, 400, 50, rng, lag=rng.lognormal(10, 1, 4000).astype(np.int64))
    owner, by_rule = lag_sticky(problem, tolerance=0.02, counts=4000), assignor("lag")(problem)
    moves = needed = moves_by_rule = 0
    for _ in range(6):
        assert problem.lag is not None
        problem = problem.replace(previous_owner=owner, lag=(problem.lag * rng.uniform(0.8, 1.2, 4000)).astype(np.int64))
        owner, before = lag_sticky(problem, tolerance=0.02, counts=4000), owner
        report = lag_report(problem, owner)
        assert report.gap <= 0.02 + 1e-4
        moves += report.moves
        needed += least_moves(problem, before, float(report.bound) * 1.02 + 1, fixed=False)
        by_rule, rule_before = assignor("lag")(problem), by_rule
        moves_by_rule += int(np.count_nonzero(by_rule != rule_before))
    assert needed > 0
    assert moves <= 1.35 * needed
    assert moves_by_rule > 0.5 * 6 * 4000


def drift(problem: Problem, rng: np.random.Generator, rebalances: int, **options: Any) -> Iterator[tuple[Problem, Int32]]:
    """The problem of each rebalance, while lags drift, and the owners after it."""
    owner = lag_sticky(problem, tolerance=0.02, **options)
    for _ in range(rebalances):
        assert problem.lag is not None
        by = rng.uniform(0.8, 1.2, problem.n_partitions)
        problem = problem.replace(previous_owner=owner, lag=(problem.lag * by).astype(np.int64))
        owner = lag_sticky(problem, tolerance=0.02, **options)
        yield problem, owner


def drifted(problem: Problem, rng: np.random.Generator, rebalances: int) -> tuple[int, int, list[Int32]]:
    """Moves with balanced counts while lags drift, the proven minimum, and the owners after each rebalance."""
    owners: list[Int32] = []
    moves = needed = 0
    for one, owner in drift(problem, rng, rebalances):
        report = lag_report(one, owner, counts="balanced")
        assert report.gap <= 0.02 + 1e-4
        least = least_moves(one, one.previous_owner, float(report.bound) * 1.02 + 1, fixed=True)
        assert least <= report.moves
        owners.append(owner)
        moves, needed = moves + report.moves, needed + least
    return moves, needed, owners


@pytest.mark.parametrize(
    ("subscriptions", "size", "seed", "options"),
    [("equal", 200, 2, {}), ("four sets", 205, 2, {}), ("equal", 205, 3, {}), ("random", 200, 2, {"counts": 2000})],
)
def test_in_a_long_history_no_rebalance_moves_the_whole_group(
    subscriptions: str, size: int, seed: int, options: dict[str, Any]
) -> None:
    """The lag of one partition grows to a member's share: its owner takes the lightest partitions, one exchange after another.

    With free counts the second round finds, by best fit, the members that have given up lag to get slack for heavy partitions.
    """
    rng = np.random.default_rng(seed)
    lag = rng.lognormal(10, 1, 10 * size).astype(np.int64)
    for problem, owner in drift(group(subscriptions, 10, size, 100, rng, lag=lag), rng, 10, **options):
        report = lag_report(problem, owner, counts=None if options else "balanced")
        assert report.gap <= 0.02 + 1e-4
        assert report.moves < 100


@pytest.mark.parametrize("subscriptions", ["equal", "four sets", "random"])
def test_with_balanced_counts_drifting_lags_move_at_most_135_percent_of_the_proven_minimum(subscriptions: str) -> None:
    rng = np.random.default_rng(51)
    problem = group(subscriptions, 20, 400, 80, rng, lag=rng.lognormal(10, 1, 8000).astype(np.int64))
    moves, needed, owners = drifted(problem, rng, 3)
    assert all(np.bincount(owner).tolist() == [100] * 80 for owner in owners)
    assert needed > 0
    assert moves <= 1.35 * needed


@pytest.mark.parametrize("free", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("tolerance", [0.02, 0.05])
@pytest.mark.parametrize("subscriptions", ["equal", "four sets", "random"])
@pytest.mark.parametrize("size", [200, 205])
def test_the_histories_of_the_benchmark_take_at_most_135_percent_of_the_proven_minimum(
    size: int, subscriptions: str, tolerance: float, *, free: bool
) -> None:
    moves, needed, _ = drift_of(2, size, subscriptions, tolerance, 20, free)
    assert 0 < needed <= moves <= 1.35 * needed


@pytest.mark.parametrize("fixed", [True, False])
def test_no_plan_of_small_groups_needs_fewer_moves_than_the_minimum(monkeypatch: pytest.MonkeyPatch, fixed: bool) -> None:
    """Every plan within the limit, tried; with balanced counts every balanced one, whoever has a partition more in it."""
    monkeypatch.setattr(lag_both_ends, "_LEVELS", (0.3, 0.6, 1, 2))
    rng = np.random.default_rng(52)
    tight = uneven = 0
    for number in range(120):
        n_members = int(rng.integers(2, 5))
        sets = [sorted(rng.choice(n_members, int(rng.integers(1, n_members + 1)), replace=False).tolist()) for _ in range(2)]
        heavy = rng.random() < 0.6
        lag = np.where(rng.random(6) < 0.4, rng.integers(20, 50, 6), rng.integers(1, 8, 6)) if heavy else rng.integers(0, 30, 6)
        problem = problem_of([3, 3], [sets[0], list(range(n_members))], n_members, lag=lag)
        everything = np.array(list(product(*(subscribers_of(problem, p) for p in range(6)))), np.int32)
        counts = (everything[:, :, None] == np.arange(n_members)).sum(axis=1)
        largest = ((everything[:, :, None] == np.arange(n_members)) * np.asarray(lag)[:, None]).sum(axis=1).max(axis=1)
        balanced = (counts**2).sum(axis=1) == (counts**2).sum(axis=1).min()
        owner = sticky(problem) if fixed else everything[int(rng.integers(len(everything)))]
        limit = int(member_lag(problem, owner).max() * rng.uniform(0.7, 1)) + 1
        within = (largest <= limit) & (balanced | (not fixed))
        if within.any():
            fewest = int((everything[within] != owner).sum(axis=1).min())
            least = least_moves(problem, owner, limit, fixed=fixed)
            assert least <= fewest, f"group {number}"
            tight += least == fewest > 0
            uneven += len(set(np.bincount(owner, minlength=n_members).tolist())) > 1 and least > 0
    assert tight > 20
    assert uneven > 8


def test_a_heavy_partition_is_not_counted_as_one_move_where_it_cannot_go_for_one() -> None:
    """Whoever takes the 90 must give three of its own; three light ones are no more."""
    lag = [90, 5, 5, 5, *[30, 30, 30, 2], *[30, 30, 30, 1]]
    problem = problem_of([12], [[0, 1, 2]], 3, np.repeat([0, 1, 2], 4), lag=lag)
    assert least_moves(problem, problem.previous_owner, 100, fixed=False) == 1
    assert least_moves(problem, problem.previous_owner, 94, fixed=False) == 3


def test_a_cyclic_exchange_relieves_several_members_with_a_move_each_and_one_more() -> None:
    """Three members at 110 where 101 are tolerated, one at 60: four moves, where exchanges would take six."""
    lag = [10, 20, 80, 20, 30, 60, 30, 40, 40, 10, 20, 30]
    owner = np.repeat([0, 1, 2, 3], 3)
    problem = problem_of([12], [[0, 1, 2, 3]], 4, owner, lag=lag)
    planned = lag_sticky(problem, tolerance=0.03)
    report = lag_report(problem, planned, counts="balanced")
    assert (report.moves, int(report.largest)) == (4, 100)
    assert np.bincount(planned).tolist() == [3, 3, 3, 3]


def skewed() -> Problem:
    """Ten members with ten partitions each; all lag is with members 0 and 1."""
    owner = np.repeat(np.arange(10), 10)
    return problem_of([100], [list(range(10))], 10, owner, lag=np.where(owner < 2, 100, 0))


@pytest.mark.parametrize("cap", [0, 1, 5, 8])
def test_no_more_moves_than_allowed_are_made_for_lag(cap: int) -> None:
    problem = skewed()
    for counts in ("balanced", 100):
        report = lag_report(problem, lag_sticky(problem, max_moves=cap, counts=counts))
        assert report.moves <= cap
        assert report.largest <= 1000
    assert lag_report(problem, lag_sticky(problem, counts=100)).moves > 8


def test_a_cap_holds_in_a_band_whose_counts_demand_no_move() -> None:
    """The largest lags left member 0 below its least count of 2, and a claim of member 1 moved to it."""
    problem = problem_of([7], [[0, 1, 2]], 3, [1, 1, UNOWNED, UNOWNED, UNOWNED, 2, UNOWNED], lag=[1, 0, 5, 10, 5, 0, 1])
    for tolerance in (0, 0.1):
        planned = lag_sticky(problem, counts=1, max_moves=0, tolerance=tolerance)
        assert lag_report(problem, planned).moves == 0
        assert count_band(problem, planned, options={"counts": 1}) == []


def test_a_member_below_its_least_count_takes_partitions_without_a_claim_first() -> None:
    """The partition with the largest lag alone left member 1 below its least count of 2, and a claim of member 0 moved to it."""
    problem = problem_of([12], [[0, 1, 2]], 3, [0] * 6 + [UNOWNED] * 6, lag=[1] * 6 + [1000] + [1] * 5)
    assert np.bincount(owner := lag_sticky(problem, counts=2)).tolist() == [6, 2, 4]
    assert set(owner[:6].tolist()) == {0}
    # Member 0 gives up six of twelve claims; one of these goes to member 1, and no seventh.
    problem = problem_of([12], [[0, 1, 2]], 3, [0] * 12, lag=[1] * 11 + [1000])
    assert np.bincount(owner := lag_sticky(problem, counts=2)).tolist() == [6, 2, 4]


@pytest.mark.parametrize(("n", "members", "band"), [(100, 2, 20), (10, 2, 2), (12, 3, 2), (10, 2, 4)])
def test_a_cap_never_makes_a_plan_in_a_band_move_more(n: int, members: int, band: int) -> None:
    problem = problem_of([n], [list(range(members))], members, [0] * n, lag=[7] * n)
    moves = [
        lag_report(problem, lag_sticky(problem, counts=band, max_moves=most, tolerance=5)).moves for most in (0, 1, 2, 3, None)
    ]
    assert max(moves) == moves[-1]


def test_moves_that_counts_demand_are_made_under_any_cap() -> None:
    problem = problem_of([10], [[0, 1]], 2, [0] * 10, lag=[7] * 10)
    assert np.bincount(lag_sticky(problem, max_moves=0)).tolist() == [5, 5]


def test_nothing_moves_for_less_lag_than_is_worth_a_move() -> None:
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[50, 50, 20, 20])
    assert lag_sticky(problem, tolerance=0, min_lag_gain=30).tolist() == [0, 0, 1, 1]
    assert member_lag(problem, lag_sticky(problem, tolerance=0, min_lag_gain=29)).tolist() == [70, 70]


def test_nothing_moves_within_the_tolerance() -> None:
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 1, 1], lag=[45, 45, 35, 35])
    assert lag_sticky(problem, tolerance=0.125).tolist() == [0, 0, 1, 1]
    assert member_lag(problem, lag_sticky(problem, tolerance=0.1)).tolist() == [80, 80]


def test_capacities_share_counts_exactly_and_lag_nearly() -> None:
    rng = np.random.default_rng(9)
    capacity = np.array([1, 1, 2, 4])
    problem = problem_of([800], [[0, 1, 2, 3]], 4, lag=lags("lognormal", 800, rng), capacity=capacity)
    owner = lag_sticky(problem, tolerance=0.01)
    assert np.bincount(owner).tolist() == [100, 100, 200, 400]
    assert lag_report(problem, owner, counts="balanced").gap <= 0.01


def test_an_oversized_partition_goes_to_the_strongest_member() -> None:
    problem = problem_of([5], [[0, 1, 2]], 3, lag=[900, 10, 10, 10, 10], capacity=[1, 3, 1])
    assert lag_sticky(problem, counts=5)[0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -0.1}, "'tolerance'"),
        ({"min_lag_gain": -1}, "'min_lag_gain'"),
        ({"max_moves": -1}, "'max_moves'"),
        ({"counts": "free"}, "'counts'"),
        ({"counts": -1}, "'counts'"),
        ({"tolerance": float("nan")}, "'tolerance'"),
        ({"tolerance": "0.1"}, "'tolerance'"),
        ({"max_moves": 1.5}, "'max_moves'"),
        ({"counts": 2.0}, "'counts'"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        lag_sticky(skewed(), **options)


def test_partitions_without_lag_stay_where_counts_are_free_and_are_spread_where_they_are_not() -> None:
    problem = problem_of([6], [[0, 1]], 2, [0] * 6, lag=[0] * 6)
    assert lag_sticky(problem, counts=6).tolist() == [0] * 6
    assert np.bincount(lag_sticky(problem)).tolist() == [3, 3]


def test_lags_beyond_any_log_are_refused() -> None:
    with pytest.raises(ProblemError, match="sum up to"):
        lag_sticky(problem_of([2], [[0]], 1, lag=[2**61, 2**61]))


@pytest.mark.parametrize("counts", ["balanced", 10**6])
@pytest.mark.parametrize(("size", "seed", "tolerance"), [(200, 2, 0.02), (200, 2, 0.05), (205, 2, 0.02), (205, 3, 0.02)])
def test_drift_in_small_groups_never_moves_nearly_everything_and_stays_within_the_tolerance(
    counts: str | int, size: int, seed: int, tolerance: float
) -> None:
    """About twenty partitions a member, half of the topics each: where keeping misses the limit, only a few are dealt anew.

    At 2 % the owner of an oversized partition finds light ones only at members without slack, who pass on what is too much for
    them; and with 205 a topic and seed 3 it has the lightest it may take, so the oversized one must go to somebody who may take
    lighter ones.
    """
    rng = np.random.default_rng(seed)
    n = 10 * size
    problem = group("random", 10, size, 100, rng, lag=rng.lognormal(10, 1, n).astype(np.int64))
    owner = lag_sticky(problem, tolerance=tolerance, counts=counts)
    for number in range(6):
        assert problem.lag is not None
        problem = problem.replace(previous_owner=owner, lag=(problem.lag * rng.uniform(0.8, 1.2, n)).astype(np.int64))
        owner = lag_sticky(problem, tolerance=tolerance, counts=counts)
        report = lag_report(problem, owner, counts="balanced" if counts == "balanced" else None)
        assert report.moves < 0.2 * n, f"rebalance {number}"
        assert report.gap <= tolerance + 1e-4, f"rebalance {number}"


def test_nobody_moves_for_a_limit_that_the_owner_of_an_oversized_partition_cannot_meet() -> None:
    """Three each: whoever has the 100 has two more, of 9 at least each; so 110 elsewhere is no lag worth a move."""
    lag = [100, 9, 9, 60, 25, 25, 20, 15, 15, 40, 40, 20]
    problem = problem_of([9, 3], [[0, 1, 2], [0, 1, 2, 3]], 4, np.repeat([0, 1, 2, 3], 3), lag=lag)
    assert lag_sticky(problem, tolerance=0.0).tolist() == problem.previous_owner.tolist()


def test_the_largest_capacity_and_long_lags_are_no_overflow() -> None:
    """Limits are whole numbers of any size."""
    problem = problem_of([3, 3], [[2], [0, 1]], 3, lag=[1, 1, 1, 10**11, 9 * 10**11, 9 * 10**11], capacity=[1, 3, 2**31 - 1])
    assert np.bincount(lag_sticky(problem), minlength=3).tolist() == [1, 2, 3]
    assert lag_sticky(problem_of([2], [[0]], 1, lag=[2**53, 1]), tolerance=999).tolist() == [0, 0]


def test_tiny_groups_are_within_the_tolerance_of_the_best_balanced_plan_or_nearly() -> None:
    """Every balanced plan of 150 groups, tried: nine in ten are within 10 % of the best, none above 40 %."""
    rng, far = np.random.default_rng(60), 0
    for number in range(150):
        n = int(rng.integers(2, 4))
        sets = [sorted(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()), list(range(n))]
        problem = problem_of([3, 4], sets, n, lag=rng.integers(1, 60, 7))
        claims = [int(rng.choice(subscribers_of(problem, p))) for p in range(7)]
        problem = problem.replace(previous_owner=np.array(claims, np.int32))
        plans = np.array(list(product(*(subscribers_of(problem, p) for p in range(7)))), np.int32)
        counts = (plans[:, :, None] == np.arange(n)).sum(axis=1)
        balanced = (counts**2).sum(axis=1) == (counts**2).sum(axis=1).min()
        largest = ((plans[:, :, None] == np.arange(n)) * np.asarray(problem.lag)[:, None]).sum(axis=1).max(axis=1)
        best, got = int(largest[balanced].min()), int(member_lag(problem, lag_sticky(problem)).max())
        assert got <= 1.4 * best + 1, f"group {number}"
        far += got > 1.1 * best + 1
    assert far <= 15


@pytest.mark.parametrize(
    ("subscriptions", "n_topics", "n_members", "options"),
    [
        ("random", 1000, 1000, {}),
        ("random", 20, 500, {}),
        ("equal", 20, 500, {"tolerance": 0.02}),
        ("four sets", 10, 1000, {"tolerance": 0.02}),
        ("random", 1000, 1000, {"tolerance": 0.02, "counts": 3}),
    ],
)
def test_the_work_of_a_plan_of_5000_partitions_is_bounded_however_lags_changed(
    monkeypatch: pytest.MonkeyPatch, subscriptions: str, n_topics: int, n_members: int, options: dict[str, Any]
) -> None:
    """Lags dealt anew at random, up to half of the members above their limits: steps of the search and calls, counted."""
    rng = np.random.default_rng(3)
    problem = group(subscriptions, n_topics, 5000 // n_topics, n_members, rng, lag=rng.lognormal(8, 0.5, 5000).astype(np.int64))
    owner = lag_sticky(problem, **options)
    later = problem.replace(previous_owner=owner, lag=rng.permutation(np.asarray(problem.lag)))
    given: list[tuple[int, StepBudget]] = []

    def counted(steps: int) -> StepBudget:
        given.append((steps, StepBudget(steps)))
        return given[-1][1]

    monkeypatch.setattr(search, "StepBudget", counted)
    profile = Profile()
    planned = profile.runcall(lag_sticky, later, **options)
    assert np.count_nonzero(planned != owner) < 500  # without steps left partitions stay where they are
    assert 2_000 < sum(steps - budget.left for steps, budget in given) <= 50_000
    assert all(budget.left > -12_000 for _, budget in given)  # a second round that was begun is planned to its end
    assert 10_000 < sum(entry.callcount for entry in profile.getstats()) <= 220_000


@pytest.mark.parametrize("band", [1, 3])
def test_the_work_of_a_plan_in_a_band_of_counts_is_bounded_when_members_join(band: int) -> None:
    """The members double: 500 are below their least counts, and nothing that stays with its owner is looked at for them."""
    lag = np.random.default_rng(3).lognormal(8, 0.5, 5000).astype(np.int64)
    problem = problem_of([5000], [list(range(1000))], 1000, np.arange(5000) % 500, lag=lag)
    profile = Profile()
    profile.runcall(lag_sticky, problem, counts=band)
    assert sum(entry.callcount for entry in profile.getstats()) <= 300_000


def test_the_work_of_a_plan_in_a_band_of_counts_is_bounded_if_topics_have_other_subscribers() -> None:
    """A path looks at each topic class once; a third of the members was there before."""
    rng, n = np.random.default_rng(0), 300
    home = np.sort(rng.integers(0, 6, n))
    subscribers = [[one for one in range(n) if (home[one] * 7 + topic * 3) % 6 < 2 or home[one] == topic] for topic in range(6)]
    old = [[one for one in some if one % 3 == 0] for some in subscribers]
    claims = np.concatenate([np.where(rng.random(500) < 0.9, rng.choice(some, 500), UNOWNED) for some in old])
    problem = problem_of([500] * 6, subscribers, n, claims, lag=rng.lognormal(5, 2, 3_000).astype(np.int64))
    profile = Profile()
    profile.runcall(lag_sticky, problem, counts=2)
    assert sum(entry.callcount for entry in profile.getstats()) <= 400_000


def test_a_plan_without_claims_needs_one_balanced_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where LPT within its quotas fails, as with few subscribers a topic: another one without claims would be the same."""
    rng = np.random.default_rng(3)
    subscribers = [np.flatnonzero(rng.random(1000) < 0.1).tolist() for _ in range(100)]
    problem = problem_of([50] * 100, subscribers, 1000, lag=rng.lognormal(8, 2, 5000).astype(np.int64))
    solved: list[dict[str, Any]] = []

    def counted(problem: Problem, **about: Any) -> Prepared:
        prepared = prepare(problem, **about)

        def plan(claiming: Problem, **options: Any) -> Int32:
            solved.append(options)
            return prepared.plan(claiming, **options)

        return replace(prepared, plan=plan)

    monkeypatch.setattr(search, "prepare", counted)
    owner = lag_sticky(problem)
    assert solved == [{"history": "ignore"}]
    assert np.array_equal(np.sort(np.bincount(owner)), np.sort(np.bincount(assignor("sticky")(problem))))


def test_the_bound_looks_once_at_members_that_are_alike() -> None:
    """A thousand members with the same topics, and one with 2,500 partitions of its own: each of these might fill up a count."""
    lag = np.random.default_rng(3).lognormal(8, 1, 5000).astype(np.int64)
    problem = problem_of([20] * 250, [list(range(1, 1000)), [0]] * 125, 1000, lag=lag)
    searched, counts = lag_group(problem, lag), np.bincount(assignor("sticky")(problem)).tolist()
    tracemalloc.start()
    lower_bound(searched, counts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000  # tables of partitions by members take 85 MB, and 150 ms


def test_topics_whose_subscribers_agree_in_the_first_64_are_distinguished() -> None:
    """b has the subscribers 0 to 63 and 65, c has 0 to 64: neither is within the other, so d is the densest with 109 each."""
    lag = [10] * 65 + [100] * 65 + [55] * 10 + [54] * 10
    for b, bound in (([*range(64), 65], 109), ([*range(65)], 110)):
        problem = problem_of([65, 65, 20], [b, [*range(65)], [*range(66, 76)]], 76, lag=lag)
        assert lower_bound(lag_group(problem, np.asarray(problem.lag)), None) == bound


def test_a_slot_is_freed_along_an_augmenting_path() -> None:
    """One partition each: member 1 takes c and member 0 takes b; a finds its slot as c goes on to 2 and b to 1."""
    problem = problem_of([1, 1, 1], [[0], [0, 1], [1, 2]], 3, lag=[1, 2, 3])
    found = lag_group(problem, np.asarray(problem.lag))
    state = PlanState(found, [UNOWNED] * 3, [0] * 3, [0] * 3, [9] * 3, StepBudget(100))
    assert place(state, found.heaviest_first, CountSlack([1] * 3, [1] * 3, {}, found.subscribers))
    assert (state.owner, state.load, state.count) == ([0, 1, 2], [1, 2, 3], [1, 1, 1])


def test_topic_classes_are_searched_by_the_partition_that_they_were_given_last() -> None:
    """A partition that is passed on is the last one of its class, though it is heavier than the one before."""
    subscribers = [[2, 3], [1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2]]
    problem = problem_of([1, 2, 1, 2, 1], subscribers, 4, lag=[5, 6, 14, 28, 21, 15, 19])
    found = lag_group(problem, np.asarray(problem.lag))
    state = PlanState(found, [UNOWNED] * 7, [0] * 4, [0] * 4, [10**6] * 4, StepBudget(100))
    assert place(state, found.heaviest_first, CountSlack([2, 2, 2, 1], [2, 2, 2, 1], {}, found.subscribers))
    assert state.owner == [2, 1, 1, 0, 2, 3, 0]


def test_a_search_for_a_slot_looks_at_topic_classes_and_not_at_all_former_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a's partitions find a slot as one of b goes on from member 0 to member 1: 20 searches among two topic classes."""
    problem = problem_of([40, 40], [[0], [0, 1]], 2, lag=[*range(1, 41), *range(1001, 1041)])
    found, sizes = lag_group(problem, np.asarray(problem.lag)), list[int]()

    def free_slot(queue: Any, partition: int) -> tuple[int | None, int]:
        freed = slot(queue, partition)
        sizes.append(len(queue.by_last))
        return freed

    slot = placement._free_slot
    monkeypatch.setattr(placement, "_free_slot", free_slot)
    state = PlanState(found, [UNOWNED] * 80, [0] * 2, [0] * 2, [10**6] * 2, StepBudget(100))
    assert place(state, found.heaviest_first, CountSlack([40] * 2, [40] * 2, {}, found.subscribers))
    assert state.owner == [0] * 40 + [1] * 40
    assert (len(sizes), max(sizes) <= 6) == (20, True)


@pytest.mark.parametrize(("change", "most"), [("lag", 770), ("join", 2000), ("leave", 970)])
def test_a_plan_of_thirty_partitions_takes_few_calls(change: str, most: int) -> None:
    """Function calls per plan, counted: no plan from scratch if only lags change, no balanced plan of the second round."""
    rng, profile = np.random.default_rng(5), Profile()
    for _ in range(40):
        before, after = {"lag": (5, 5), "join": (5, 6), "leave": (6, 5)}[change]
        lag = rng.lognormal(6, 1, 30).astype(np.int64)
        owner = lag_sticky(problem_of([30], [list(range(before))], before, lag=lag))
        lag = (lag * rng.lognormal(0, 0.3, 30)).astype(np.int64)
        profile.runcall(lag_sticky, problem_of([30], [list(range(after))], after, owner, lag=lag))
    assert sum(entry.callcount for entry in profile.getstats()) / 40 <= most
