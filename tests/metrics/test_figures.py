"""Every figure equals its definition computed the slow way, and stays exact where floats would not."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.metrics import Metrics, measure
from counterpoise.metrics import figures as shipped
from counterpoise.metrics.figures import jain, kip54_score, lag_floor, max_topic_spread, member_lag, within_topics
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem
from tests.laws.oracle import all_plans, flow_optimum, valid_claims
from tests.strategies import plans, problem_of, problems, subscribers_of


@st.composite
def partial_plans(draw: st.DrawFn) -> tuple[Problem, Int32]:
    """A problem with lag, and a plan that may leave partitions out."""
    problem = draw(problems(lags=True))
    owner = draw(plans(problem))
    for at in draw(st.lists(st.integers(0, max(problem.n_partitions - 1, 0)), max_size=2)):
        if problem.n_partitions:
            owner[at] = UNOWNED
    return problem, owner


def load_of(problem: Problem, owner: Int32) -> list[int]:
    """Partitions per member."""
    return [owner.tolist().count(member) for member in range(problem.n_members)]


@given(partial_plans())
def test_counts_equal_their_definitions(drawn: tuple[Problem, Int32]) -> None:
    """Balance, moves and what stops, partition by partition and pair by pair."""
    problem, owner = drawn
    load = load_of(problem, owner)
    claims = valid_claims(problem)
    found = measure(problem, owner)
    pairs = list(zip(claims, owner.tolist(), strict=True))
    assert found.spread == (max(load) - min(load) if load else 0)
    assert found.kip54_score == sum(abs(a - b) for a, b in itertools.combinations(load, 2))
    assert found.kept == sum(claim == own >= 0 for claim, own in pairs)
    assert found.moved == sum(claim != own and claim >= 0 and own >= 0 for claim, own in pairs)
    assert found.unassigned == sum(own < 0 and bool(subscribers_of(problem, at)) for at, own in enumerate(owner.tolist()))
    holders = problem.holder.tolist()
    assert found.revoked == sum(holder != UNOWNED for holder in holders)
    changing = sum(holder not in (UNOWNED, own) for holder, own in zip(holders, owner.tolist(), strict=True))
    assert measure(problem, owner, cooperative=True).revoked == changing


@given(partial_plans())
def test_topic_spread_and_lag_equal_their_definitions(drawn: tuple[Problem, Int32]) -> None:
    """Per topic over its subscribers; lag summed per member in Python's integers."""
    problem, owner = drawn
    spreads = [0]
    for t, (first, end) in enumerate(itertools.pairwise(problem.topic_start.tolist())):
        listed = problem.subscriber[problem.subscriber_start[t] : problem.subscriber_start[t + 1]].tolist()
        counts = [owner[first:end].tolist().count(member) for member in listed]
        spreads.append(max(counts, default=0) - min(counts, default=0))
    assert max_topic_spread(problem, owner) == max(spreads)
    assert within_topics(problem, owner).tolist() == spreads[1:]
    assert problem.lag is not None
    lags = [sum(v for v, o in zip(problem.lag.tolist(), owner.tolist(), strict=True) if o == m) for m in range(problem.n_members)]
    assert member_lag(problem, owner, problem.lag).tolist() == lags
    found = measure(problem, owner)
    assert found.max_member_lag == max(lags, default=0)
    able = [m for m in range(problem.n_members) if any(m in subscribers_of(problem, at) for at in range(problem.n_partitions))]
    mean = statistics.fmean(lags[m] for m in able) if able else 0
    expected = statistics.pstdev(lags[m] for m in able) / mean if mean else 0.0
    assert found.lag_cv == pytest.approx(expected)


@given(problems(max_members=4, max_topics=3, max_partitions=6, lags=True))
def test_no_plan_beats_the_lag_floor(problem: Problem) -> None:
    """The bound of the makespan ratio, held against every plan."""
    assert problem.lag is not None
    best = min(max(member_lag(problem, plan, problem.lag).tolist(), default=0) for plan in all_plans(problem))
    assert lag_floor(problem, problem.lag) <= best


def test_the_lag_floor_sees_a_crowded_topic() -> None:
    """Three bounds, each the decisive one once: largest lag, two of M+1 partitions, topics that few may read."""
    assert lag_floor(problem_of([3], [[0, 1, 2]], 3), np.array([9, 1, 1])) == 9
    assert lag_floor(problem_of([4], [[0, 1, 2]], 3), np.array([6, 5, 4, 4])) == 8
    crowded = problem_of([4, 1, 2], [[0], [0, 1, 2], [0, 1]], 3)
    assert lag_floor(crowded, np.array([5, 5, 5, 5, 1, 9, 9])) == 20
    nested = problem_of([2, 2, 1], [[0], [0, 1], [0, 1, 2]], 3)
    assert lag_floor(nested, np.array([7, 7, 8, 8, 1])) == 15


def test_the_floor_with_many_subscriber_sets_takes_the_simple_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit sets are not compared; the bound is weaker, never wrong."""
    nested = problem_of([2, 2, 1], [[0], [0, 1], [0, 1, 2]], 3)
    lag = np.array([7, 7, 8, 8, 1])
    monkeypatch.setattr(shipped, "_CLASSES_COMPARED", 2)
    assert lag_floor(nested, lag) == 14


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=30))
def test_the_kip54_score_stays_exact(load: list[int]) -> None:
    """By sorting, the same integer as by pairs, beyond 2**63 too."""
    assert kip54_score(np.array(load, np.int64)) == sum(abs(a - b) for a, b in itertools.combinations(load, 2))
    assert kip54_score(np.array([0, 2**62, 2**62], np.int64)) == 2**63


def test_jain_is_one_for_even_loads_and_one_nth_for_a_single_owner() -> None:
    """The two ends of the index, and the empty group."""
    assert jain(np.array([3, 3, 3])) == 1.0
    assert jain(np.array([0, 0, 0, 5])) == 0.25
    assert jain(np.array([1, 2, 3])) == pytest.approx(36 / 42)
    assert jain(np.zeros(0, np.int64)) == 1.0


def test_large_lags_are_summed_exactly() -> None:
    """Lags near 2**60 lose no record."""
    problem = problem_of([3], [[0]], 1)
    lag = np.array([2**60 + 1, 2**60 + 3, 2**53 + 1])
    assert member_lag(problem, np.zeros(3, np.int32), lag).tolist() == [2**61 + 2**53 + 5]


def test_topics_are_counted_in_slices_that_bound_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One topic at a time gives what all at once give."""
    problem = problem_of([4, 0, 6, 3], [[0, 1], [1], [1, 2], []], 3)
    owner = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2, -1, -1, -1], np.int32)
    apart = [2, 0, 4, 0]
    assert within_topics(problem, owner).tolist() == apart
    monkeypatch.setattr(shipped, "_CELLS_AT_ONCE", 1)
    assert within_topics(problem, owner).tolist() == apart
    assert max_topic_spread(problem, owner) == max(apart)


def test_a_whole_row_of_figures() -> None:
    """A group of two, one member holding everything: what staying and what moving two partitions means."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0], lag=[5, 1, 1, 1])
    lazy = measure(problem, problem.previous_owner, cooperative=True, optimal=flow_optimum(problem))
    assert lazy == Metrics(4, 4, 0.5, 4, 0, 4, 2, 0, 8, 1.0, 1.6, 0, 0, False, False)
    moved = measure(problem, np.array([0, 1, 1, 0], np.int32), duplicates=3)
    assert moved == Metrics(0, 0, 1.0, 0, 2, 2, 2, 4, 6, 0.5, 1.2, 3, 0, True, True)


def test_what_is_unknown_is_none() -> None:
    """No lag, no optimal plan, no proof asked for."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0])
    found = measure(problem, problem.previous_owner, prove=False)
    assert (found.min_moves, found.max_member_lag, found.lag_cv, found.makespan_ratio) == (None, None, None, None)
    assert (found.balanced, found.sticky) == (None, None)
    assert measure(problem, problem.previous_owner).min_moves is None


def test_groups_without_members_partitions_or_lag_have_figures() -> None:
    """The empty ends: nobody is unfair, nothing is late."""
    empty = problem_of([], [], 0)
    assert measure(empty, np.zeros(0, np.int32)) == Metrics(0, 0, 1.0, 0, 0, 0, 0, 0, None, None, None, 0, 0, True, True)
    idle = problem_of([2], [[]], 1, lag=[0, 0])
    assert measure(idle, np.full(2, UNOWNED, np.int32)).makespan_ratio == 1.0


def test_disputed_partitions_are_held_and_a_departed_holder_holds_nothing() -> None:
    """What `revoked` counts."""
    problem = problem_of([3], [[0, 1]], 2, [CONTESTED, 7, 1])
    owner = np.array([0, 0, 1], np.int32)
    assert measure(problem, owner).revoked == 2
    assert measure(problem, owner, cooperative=True).revoked == 1
