"""The laws between one plan and the next hold of every registered assignor that promises them, and find planted faults."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.assignors import assignor, strategies
from counterpoise.assignors.registry import strategy
from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.laws import certify
from counterpoise.laws.check_owners import sticky_first
from counterpoise.laws.owners import complete, valid
from counterpoise.laws.rounds import idempotent, pure, same_target, two_rounds
from counterpoise.laws.violation import Violation
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem
from counterpoise.model.withhold import after_round, withhold
from counterpoise.testing import random_problem as group_of_any_kind
from tests.laws.renaming import renamed, renaming
from tests.soak.groups import drawn as soak_group
from tests.strategies import Rebalance, problem_of, problems, random_problem, rebalances

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
GROUPS = 700 if LONG else 150
OPTIMAL = ["sticky", "cooperative-sticky", "constrained-cooperative-sticky"]
BALANCED = [*OPTIMAL, "fair", "lag-sticky"]
COOPERATIVE_ONES = [name for name in strategies() if COOPERATIVE in strategy(name).protocols]
NEEDS_LAG = {"lag", "lag-sticky"}


def with_lag(problem: Problem, name: str) -> Problem:
    """The problem, with some lag if the strategy needs it."""
    if name in NEEDS_LAG and problem.lag is None:
        return problem.replace(lag=np.arange(problem.n_partitions, dtype=np.int64) * 37 % 101)
    return problem


@pytest.mark.parametrize("name", strategies())
@given(problem=problems(), rebalance=rebalances())
def test_every_assignor_is_pure_valid_and_complete(name: str, problem: Problem, rebalance: Rebalance) -> None:
    """Same group, same plan; owners subscribe; nothing that can have an owner is left out."""
    for drawn in (problem, rebalance.after):
        group, assign = with_lag(drawn, name), assignor(name)
        owner = assign(group)
        assert [*pure(assign, group), *valid(group, owner), *complete(group, owner)] == []


@pytest.mark.parametrize("name", OPTIMAL)
@given(rebalance=rebalances(), problem=problems(capacities=True))
def test_sticky_assignors_are_proven_idempotent_and_done_after_two_rounds(
    name: str, rebalance: Rebalance, problem: Problem
) -> None:
    """Balance and stickiness by certificate; planning again changes nothing; round two ends with the target of round one."""
    assign = assignor(name)
    for group in (rebalance.after, problem):
        certificate = certify(group, assign(group))
        assert certificate.violations == ()
        assert certificate.sticky
        assert [*idempotent(assign, group), *two_rounds(assign, group), *same_target(assign, group)] == []


@pytest.mark.parametrize("name", COOPERATIVE_ONES)
def test_the_second_round_of_any_group_ends_with_the_target_of_the_first(name: str) -> None:
    """Arbitrary claims, partitions without an owner, contested ones, holders without a claim, capacities and racks."""
    for number in range(GROUPS):
        assert same_target(assignor(name), group_of_any_kind(number)) == [], f"group {number}"


@pytest.mark.parametrize("options", [{}, {"tolerance": 0}, {"counts": 1}], ids=str)
def test_the_second_round_of_lag_sticky_ends_with_the_target_of_the_first(options: dict[str, object]) -> None:
    """6294: the plan from scratch leaves more than half claimed; completing these claims would give other owners."""
    assign = assignor("lag-sticky", **options)
    for number in [*range(GROUPS // 2), 6294]:
        problem, rng = group_of_any_kind(number), np.random.default_rng(number)
        assert same_target(assign, problem) == [], f"group {number}"
        scratch = assign(problem.replace(previous_owner=np.full(problem.n_partitions, UNOWNED, np.int32)))
        claims = np.where(rng.random(problem.n_partitions) < 0.4, scratch, rng.choice([UNOWNED, CONTESTED], problem.n_partitions))
        few = problem.replace(previous_owner=claims.astype(np.int32))
        assert [*same_target(assign, few), *two_rounds(assign, few)] == [], f"group {number} with few claims"


def test_with_equal_subscriptions_a_holder_may_get_a_partition_back_that_another_member_claims() -> None:
    """The second round of the second plan is planned too: claims after it are not those of the group."""
    claims, holder = [1, 2, 3, 4, 2, UNOWNED, 1, 2, 4], [1, 4, 3, 4, 3, 1, 1, 2, 2]
    problem = problem_of([6, 3], [list(range(5))] * 2, 5, claims, holder=holder)
    assert same_target(assignor("constrained-cooperative-sticky"), problem) == []


@pytest.mark.parametrize(
    "options", [{"racks": "before"}, {"evenness": "exact"}, {"racks": "before", "evenness": "exact"}], ids=str
)
def test_the_second_round_ends_with_the_target_of_the_first_under_every_option_of_sticky(options: dict[str, object]) -> None:
    """Racks first or last, and topics spread exactly."""
    assign = assignor("cooperative-sticky", **options)
    for number in range(GROUPS // 2):
        assert same_target(assign, group_of_any_kind(number)) == [], f"group {number}"


@pytest.mark.parametrize("name", COOPERATIVE_ONES)
@given(rebalance=rebalances(), problem=problems(capacities=True, lags=True))
def test_a_cooperative_rebalance_ends_with_its_second_round(name: str, rebalance: Rebalance, problem: Problem) -> None:
    """Arbitrary claims and capacities, one member that joins or leaves: with the same lag round two revokes nothing."""
    for drawn in (rebalance.after, problem):
        group = with_lag(drawn, name)
        assert two_rounds(assignor(name), group) == []


@pytest.mark.parametrize("options", [{"tolerance": 0}, {"tolerance": 0.02}, {"counts": 1}, {"counts": 10**6}], ids=str)
@given(problem=problems(capacities=True, lags=True))
def test_a_cooperative_rebalance_ends_with_its_second_round_under_every_option_of_lag_sticky(
    options: dict[str, object], problem: Problem
) -> None:
    """What round one hands out stays in round two, and nothing is left to hand out."""
    assign = assignor("lag-sticky", **options)
    handed = withhold(problem, assign(problem))
    end = assign(after_round(problem, handed))
    assert end[handed >= 0].tolist() == handed[handed >= 0].tolist()
    assert withhold(after_round(problem, handed), end).tolist() == end.tolist()


@pytest.mark.parametrize("band", [1, 3])
def test_a_cooperative_rebalance_of_a_larger_group_within_a_band_ends_with_its_second_round(band: int) -> None:
    """The second round lifts no member to its least count with what the first one gave to another."""
    rng, assign = np.random.default_rng(1), assignor("lag-sticky", counts=band)
    for number in range(GROUPS // 2):
        problem = random_problem(rng, capacities=number % 2 == 0)
        problem = problem.replace(lag=rng.lognormal(5, 2, problem.n_partitions).astype(np.int64))
        handed = withhold(problem, assign(problem))
        end = assign(after_round(problem, handed))
        assert end[handed >= 0].tolist() == handed[handed >= 0].tolist(), f"group {number}"
        assert same_target(assignor("lag-sticky", counts=band, max_moves=number % 4), problem) == [], f"group {number}"


def test_a_cooperative_rebalance_ends_with_its_second_round_if_partitions_are_held_without_a_valid_claim() -> None:
    """A plan that moves no claim has a second round all the same: it withholds these partitions."""
    claims, holder = [1, -1, -1, -1, -1, -1, -1, -1, 1], [1, 0, 4, 3, 4, 3, 0, 1, 1]
    out_of_steps = problem_of([9], [list(range(5))], 5, claims, holder=holder, lag=[6, 6, 2, 1, 0, 7, 4, 8, 4])
    for problem in (out_of_steps, soak_group(183994).problem()):
        assert two_rounds(assignor("lag-sticky"), problem) == []


@pytest.mark.parametrize("most", [0, 1, 3])
@given(problem=problems(capacities=True, lags=True))
def test_with_a_cap_on_moves_the_second_round_ends_with_the_target_of_the_first(most: int, problem: Problem) -> None:
    """With balanced counts, in a band, or with free counts. If nothing is withheld there is no second round."""
    for counts in ("balanced", 1, 10**6):
        assert same_target(assignor("lag-sticky", max_moves=most, counts=counts), problem) == []


def test_with_a_cap_on_moves_a_member_below_its_least_count_takes_nothing_that_the_first_round_assigned() -> None:
    """In the second round a member takes a withheld partition of another one, which takes one of a third."""
    claims = [3, 1, 4, 4, 0, 1, 1, 4, -1, -1, 3, 3, 0, 0, 4, -1, 0, 0, 3, 3, 1]
    lag = [0, 5, 0, 1, 0, 2, 1, 0, 1, 0, 1, 1, 2, 1, 0, 1, 2, 1, 0, 1, 10]
    problem = problem_of([5, 3, 5, 4, 4], [[1, 2], [3, 4], [1, 2, 3, 4], [2, 3], [0, 3, 4]], 5, claims, lag=lag)
    for most in (0, 3):
        assert same_target(assignor("lag-sticky", max_moves=most, counts=1), problem) == []


def test_a_member_that_joins_groups_by_lag_ends_with_the_target_of_the_first_round() -> None:
    """Twelve partitions and fewer, in balance before; the first group is the one that took three rounds."""
    rng = np.random.default_rng(22)
    joined = [problem_of([6], [[0, 1, 2]], 3, [1, 1, 0, 0, 0, 1], lag=[2, 35, 24, 39, 10, 10])]
    for _ in range(GROUPS // 2):
        members, size = int(rng.integers(2, 6)), int(rng.integers(4, 25))
        claims = assignor("lag-sticky")(problem_of([size], [list(range(members))], members, lag=rng.integers(0, 50, size)))
        joined.append(problem_of([size], [list(range(members + 1))], members + 1, claims, lag=rng.integers(0, 50, size)))
    for number, problem in enumerate(joined):
        target = assignor("lag-sticky")(problem)
        second = assignor("lag-sticky")(after_round(problem, withhold(problem, target)))
        assert second.tolist() == target.tolist(), f"group {number}"


@pytest.mark.parametrize("name", BALANCED)
@given(problem=problems(lags=True))
def test_balanced_assignors_are_proven_balanced(name: str, problem: Problem) -> None:
    """Balance by certificate, whatever else the strategy weighs afterwards."""
    assert certify(problem, assignor(name)(problem)).balanced


@pytest.mark.parametrize("name", OPTIMAL)
@given(data=st.data(), rebalance=rebalances())
def test_other_names_change_neither_balance_nor_the_number_kept(name: str, data: st.DataObject, rebalance: Rebalance) -> None:
    """Members and topics renamed at random."""
    group = rebalance.after
    members = data.draw(st.permutations(range(group.n_members)))
    topics = data.draw(st.permutations(range(group.n_topics)))
    assert renaming(assignor(name), group, np.array(members, np.int64), np.array(topics, np.int64)) == []


@given(rebalance=rebalances(), problem=problems(capacities=True))
def test_sticky_first_moves_no_claim_and_balances_the_rest(rebalance: Rebalance, problem: Problem) -> None:
    """KIP-54's "sticky yet fair", proven by certificate."""
    for group in (rebalance.after, problem):
        assert sticky_first(group, assignor("sticky-first")(group)) == []


@given(st.data(), problems(capacities=True, lags=True, racks=True))
def test_renaming_back_and_forth_gives_the_same_problem(data: st.DataObject, problem: Problem) -> None:
    """`renamed` permutes every array, and its inverse undoes it."""
    members = np.array(data.draw(st.permutations(range(problem.n_members))), np.int64)
    topics = np.array(data.draw(st.permutations(range(problem.n_topics))), np.int64)
    there = renamed(problem, members, topics)
    back = renamed(there, np.argsort(members), np.argsort(topics))
    for name in ("topic_start", "subscriber_start", "subscriber", "previous_owner", "holder", "capacity", "lag", "static_rank"):
        assert getattr(back, name).tolist() == getattr(problem, name).tolist(), name
    assert back.racks is not None
    assert problem.racks is not None
    assert back.racks.replica_rack.tolist() == problem.racks.replica_rack.tolist()
    assert back.racks.rack_of_member.tolist() == problem.racks.rack_of_member.tolist()


PAIR = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0])


def laws_of(found: list[Violation]) -> set[str]:
    """Names of the broken laws."""
    return {fault.law for fault in found}


def test_an_assignor_that_remembers_is_not_pure() -> None:
    """A result that depends on how often it was asked is found."""
    calls = []

    def forgetful(problem: Problem) -> Int32:
        calls.append(1)
        return np.full(problem.n_partitions, len(calls) % 2, np.int32)

    assert laws_of(pure(forgetful, PAIR)) == {"pure"}
    assert laws_of(pure(lambda problem: np.zeros(problem.n_partitions, np.int64), PAIR)) == {"pure"}


def test_an_assignor_that_swaps_everything_each_time_is_not_idempotent() -> None:
    """It also never gets done: its second round revokes what the first gave."""

    def swap(problem: Problem) -> Int32:
        return np.where(problem.previous_owner == 0, 1, 0).astype(np.int32)

    assert laws_of(idempotent(swap, PAIR)) == {"idempotent"}
    half = PAIR.replace(previous_owner=np.array([0, 0, UNOWNED, UNOWNED], np.int32))
    assert laws_of(two_rounds(swap, half)) == {"two-rounds"}


def test_an_assignor_that_favours_low_codes_does_not_survive_renaming() -> None:
    """Everything to the first subscriber: another balance under other names."""

    def first(problem: Problem) -> Int32:
        start = problem.subscriber_start[:-1]
        return np.repeat(problem.subscriber[start], np.diff(problem.topic_start))

    uneven = problem_of([2, 2], [[0, 1], [1]], 2, [0, 0, 1, 1])
    assert laws_of(renaming(first, uneven, np.array([1, 0]), np.array([0, 1]))) == {"renaming"}


def test_an_assignor_that_keeps_by_chance_does_not_survive_renaming() -> None:
    """The same balance, but what stays depends on the names."""

    def in_turn(problem: Problem) -> Int32:
        return (np.arange(problem.n_partitions) % problem.n_members).astype(np.int32)

    lucky = PAIR.replace(previous_owner=np.array([0, 1, 0, 1], np.int32))
    assert laws_of(renaming(in_turn, lucky, np.array([1, 0]), np.array([0]))) == {"renaming"}


def test_an_assignor_that_ends_elsewhere_breaks_the_two_round_law() -> None:
    """Round two with other loads than the target of round one is found."""

    def lazy(problem: Problem) -> Int32:
        if (problem.previous_owner == UNOWNED).any():
            return np.where(problem.previous_owner == UNOWNED, 0, problem.previous_owner).astype(np.int32)
        return np.array([0, 0, 1, 1], np.int32)

    assert laws_of(two_rounds(lazy, PAIR)) == {"two-rounds"}
    assert laws_of(same_target(lazy, PAIR)) == {"same-target"}
    assert after_round(PAIR, np.array([0, 0, -1, -1], np.int32)).holder.tolist() == [0, 0, -1, -1]
