"""Every figure equals its definition computed the slow way, and stays exact where floats would not."""

from __future__ import annotations

import itertools
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.errors import ProblemError
from counterpoise.metrics import Metrics, measure
from counterpoise.metrics.runs import within_topics
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem
from tests.laws.oracle import valid_claims
from tests.solver.oracle import optimum
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
    assert measure(problem, owner).max_topic_spread == max(spreads)
    assert within_topics(problem, owner).tolist() == spreads[1:]
    assert problem.lag is not None
    lags = [sum(v for v, o in zip(problem.lag.tolist(), owner.tolist(), strict=True) if o == m) for m in range(problem.n_members)]
    found = measure(problem, owner)
    assert found.max_member_lag == max(lags, default=0)
    per_capacity = max((Fraction(lag, c) for lag, c in zip(lags, problem.capacity.tolist(), strict=True)), default=Fraction(0))
    assert measure(problem, owner, floor=Fraction(7, 3)).makespan_ratio == float(per_capacity / Fraction(7, 3))
    able = [m for m in range(problem.n_members) if any(m in subscribers_of(problem, at) for at in range(problem.n_partitions))]
    mean = statistics.fmean(lags[m] for m in able) if able else 0
    expected = statistics.pstdev(lags[m] for m in able) / mean if mean else 0.0
    assert found.lag_cv == pytest.approx(expected)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_balance_of_any_loads_equals_its_definition(load: list[int]) -> None:
    """KIP-54's score by pairs, Jain's index by its formula."""
    problem = problem_of([sum(load)], [list(range(len(load)))], len(load))
    found = measure(problem, np.repeat(np.arange(len(load)), load).astype(np.int32))
    assert found.kip54_score == sum(abs(a - b) for a, b in itertools.combinations(load, 2))
    assert found.jain == (sum(load) ** 2 / (len(load) * sum(x * x for x in load)) if sum(load) else 1.0)


def test_large_lags_are_summed_exactly() -> None:
    """Lags near 2**60 lose no record."""
    problem = problem_of([3], [[0]], 1, lag=[2**60 + 1, 2**60 + 3, 2**53 + 1])
    assert measure(problem, np.zeros(3, np.int32)).max_member_lag == 2**61 + 2**53 + 5


def test_the_makespan_counts_lag_per_capacity() -> None:
    """Ten lags of 100 for capacities 1 and 4: two and eight partitions are the best there can be."""
    problem = problem_of([10], [[0, 1]], 2, capacity=[1, 4], lag=[100] * 10)
    best = measure(problem, np.array([0] * 2 + [1] * 8, np.int32))
    assert (best.max_member_lag, best.makespan_ratio) == (800, 1.0)
    even = measure(problem, np.array([0, 1] * 5, np.int32))
    assert (even.max_member_lag, even.makespan_ratio) == (500, 2.5)


@pytest.mark.parametrize("code", [-7, 2])
def test_a_code_that_is_no_member_is_refused(code: int) -> None:
    problem = problem_of([2], [[0, 1]], 2)
    owner, wrong = np.array([0, 1], np.int32), np.array([0, code], np.int32)
    for plan, optimal in ((wrong, None), (owner, wrong)):
        with pytest.raises(ProblemError, match=rf"owner\[1\]: {code} is no member"):
            measure(problem, plan, optimal=optimal)


def test_a_whole_row_of_figures() -> None:
    """A group of two, one member holding everything: what staying and what moving two partitions means."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0], lag=[5, 1, 1, 1])
    lazy = measure(problem, problem.previous_owner, cooperative=True, optimal=optimum(problem))
    assert lazy == Metrics(4, 4, 0.5, 4, 0, 4, 2, 0, 8, 1.0, 1.6, 0, 0, False, False)
    moved = measure(problem, np.array([0, 1, 1, 0], np.int32))
    assert moved == Metrics(0, 0, 1.0, 0, 2, 2, 2, 4, 6, 0.5, 1.2, 0, 0, True, True)
    twice = measure(problem, np.array([0, 1, 1, 0], np.int32), duplicates=3)
    assert twice == Metrics(0, 0, 1.0, 0, 2, 2, 2, 4, 6, 0.5, 1.2, 3, 0, False, False)


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
