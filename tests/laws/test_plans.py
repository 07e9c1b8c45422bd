"""Each law of a plan holds of good plans and finds a fault planted in one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoise.errors import OptionError, ProblemError
from counterpoise.laws import DEFAULT_LAWS, LAWS, check_owners
from counterpoise.laws.check_owners import sticky_first
from counterpoise.laws.cooperative import added_and_revoked, withheld
from counterpoise.laws.exchange_graph import classes
from counterpoise.laws.owners import complete, valid
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem
from counterpoise.model.withhold import after_round, withhold
from tests.laws.oracle import all_plans, score, valid_claims
from tests.solver.oracle import optimum
from tests.strategies import Rebalance, feasible_owner, plans, problem_of, problems, random_problem, rebalances, subscribers_of


def planted(owner: Int32, at: int, value: int) -> Int32:
    """The plan with one owner changed."""
    changed = owner.copy()
    changed[at] = value
    return changed


@given(st.data(), problems())
def test_valid_names_exactly_the_partitions_whose_owner_does_not_subscribe(data: st.DataObject, problem: Problem) -> None:
    """A good plan passes; any stranger planted in it is found and counted."""
    owner = data.draw(plans(problem))
    assert valid(problem, owner) == []
    assume(problem.n_partitions > 0)
    at = data.draw(st.integers(0, problem.n_partitions - 1))
    stranger = data.draw(st.integers(-3, problem.n_members + 1))
    assume(stranger != UNOWNED and stranger not in subscribers_of(problem, at))
    (fault,) = valid(problem, planted(owner, at, stranger))
    assert (fault.law, fault.count) == ("valid", 1)


@given(st.data(), problems())
def test_complete_names_exactly_the_partitions_left_out(data: st.DataObject, problem: Problem) -> None:
    """A partition without an owner is a fault only where somebody subscribes."""
    owner = data.draw(plans(problem))
    assert complete(problem, owner) == []
    left_out = data.draw(st.lists(st.integers(0, max(problem.n_partitions - 1, 0)), unique=True, max_size=problem.n_partitions))
    missing = [at for at in left_out if owner[at] != UNOWNED]
    owner[missing] = UNOWNED
    assert sum(fault.count for fault in complete(problem, owner)) == len(missing)


def test_an_owner_array_of_another_shape_is_an_error() -> None:
    """Laws judge plans of this problem only."""
    problem = problem_of([2], [[0]], 1)
    with pytest.raises(ProblemError, match="owner: expected signed integers of shape"):
        valid(problem, np.zeros(3, np.int32))
    with pytest.raises(ProblemError, match="owner: expected signed integers of shape"):
        complete(problem, np.zeros(2, np.float64))


@given(problems())
def test_classes_group_equal_subscriptions_and_nothing_else(problem: Problem) -> None:
    """Two topics are in one class exactly when their subscribers are equal; two members when their topics are."""
    known = classes(problem)
    of_topic = [
        tuple(problem.subscriber[a:b]) for a, b in zip(problem.subscriber_start, problem.subscriber_start[1:], strict=False)
    ]
    of_member = [tuple(t for t, listed in enumerate(of_topic) if m in listed) for m in range(problem.n_members)]
    for labels, sets in ((known.of_topic.tolist(), of_topic), (known.of_member.tolist(), of_member)):
        assert len(set(zip(labels, sets, strict=True))) == len(set(labels)) == len(set(sets))


@given(st.data(), problems(max_members=4, max_topics=3, max_partitions=6, capacities=True))
def test_sticky_first_accepts_the_best_plans_that_move_no_claim_and_no_other(data: st.DataObject, problem: Problem) -> None:
    """Held against exhaustion; a claim that moves is named, and so is the move that balances the rest better."""
    claims = np.array(valid_claims(problem), np.int32)
    loyal = [plan for plan in all_plans(problem) if np.array_equal(plan[claims >= 0], claims[claims >= 0])]
    best = min(score(problem, plan)[0] for plan in loyal)
    plan = data.draw(st.sampled_from(loyal))
    faults = sticky_first(problem, plan)
    assert (faults == []) == (score(problem, plan)[0] == best)
    for fault in faults:
        better = plan.copy()
        for move in fault.moves:
            assert claims[move.partition] == UNOWNED
            better[move.partition] = move.taker
        assert score(problem, plan)[0] - score(problem, better)[0] == fault.gain > 0
    contended = [at for at in range(len(claims)) if claims[at] >= 0 and len(subscribers_of(problem, at)) > 1]
    if contended:
        other = next(member for member in subscribers_of(problem, contended[0]) if member != claims[contended[0]])
        (fault,) = sticky_first(problem, planted(plan, contended[0], other))
        assert (fault.law, fault.count) == ("sticky-first", 1)


@given(st.data(), rebalances())
def test_a_cooperative_round_withholds_what_another_member_holds(data: st.DataObject, rebalance: Rebalance) -> None:
    """The withheld set is exact: handing out early, withholding needlessly and handing to a third member are faults."""
    problem = rebalance.after
    target = data.draw(plans(problem))
    handed = withhold(problem, target)
    assert withheld(problem, target, handed) == []
    assert added_and_revoked(problem, handed) == []
    for at in range(problem.n_partitions):
        if target[at] == UNOWNED:
            continue
        waits = handed[at] == UNOWNED
        changed = planted(handed, at, int(target[at]) if waits else UNOWNED)
        assert [fault.law for fault in withheld(problem, target, changed)] == ["withheld"]
        assert [fault.law for fault in added_and_revoked(problem, changed)] == (["added-and-revoked"] if waits else [])
        if not waits and problem.n_members > 1:
            third = planted(handed, at, (int(target[at]) + 1) % problem.n_members)
            assert [fault.law for fault in withheld(problem, target, third)] == ["withheld"]


def test_a_disputed_partition_waits_for_one_round() -> None:
    """CONTESTED: both claimants have to let go first."""
    problem = problem_of([3], [[0, 1]], 2, [CONTESTED, 0, UNOWNED])
    target = np.array([1, 0, 1], np.int32)
    assert withheld(problem, target, np.array([UNOWNED, 0, 1], np.int32)) == []
    assert [fault.law for fault in withheld(problem, target, target)] == ["withheld"]
    after = after_round(problem, np.array([UNOWNED, 0, 1], np.int32))
    assert (after.holder.tolist(), after.previous_owner.tolist()) == ([-1, 0, 1], [-1, 0, 1])


def test_a_departed_holder_keeps_nobody_waiting() -> None:
    """Codes beyond the members are members of the past: there is nobody to revoke anything."""
    problem = problem_of([2], [[0, 1]], 2, [2, 0])
    target = np.array([1, 0], np.int32)
    assert withheld(problem, target, target) == []
    assert added_and_revoked(problem, target) == []
    assert [fault.law for fault in withheld(problem, target, np.array([UNOWNED, 0], np.int32))] == ["withheld"]


def test_what_nobody_holds_does_not_wait_whatever_the_target_is() -> None:
    problem = problem_of([2, 1], [[0, 1], []], 2, [0, UNOWNED, UNOWNED])
    nobody = np.full(3, UNOWNED, np.int32)
    assert [fault.law for fault in withheld(problem, None, nobody)] == ["withheld"]
    assert withheld(problem, nobody, nobody) == []
    held = problem_of([2, 1], [[0, 1], []], 2, [0, 1, UNOWNED])
    assert withheld(held, None, nobody) == []


def test_check_owners_reports_the_laws_asked_for() -> None:
    """An unbalanced plan fails `balanced`; asked only for `sticky` it says why that cannot be proven."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0])
    lazy = problem.previous_owner
    assert [fault.law for fault in check_owners(problem, lazy)] == ["balanced"]
    assert [fault.law for fault in check_owners(problem, lazy, ["sticky"])] == ["sticky"]
    assert check_owners(problem, lazy, ["valid", "complete", "sticky-first"]) == []
    broken = planted(lazy, 0, UNOWNED)
    assert check_owners(problem, broken, ["valid"]) == []
    assert [fault.law for fault in check_owners(problem, broken, ["balanced"])] == ["complete"]


def test_unknown_laws_are_refused_by_name() -> None:
    """An unknown name is an error that lists the laws."""
    assert set(DEFAULT_LAWS) < set(LAWS)
    with pytest.raises(OptionError, match="'fast' is no law; there are: valid, complete, balanced"):
        check_owners(problem_of([1], [[0]], 1), np.zeros(1, np.int32), ["fast"])


def test_optimal_plans_of_random_groups_pass_all_laws_and_others_do_not() -> None:
    """The default laws together are optimality."""
    for seed in range(100):
        rng = np.random.default_rng([seed, 5])
        problem = random_problem(rng, max_members=6, max_topics=5, max_partitions=6)
        best = optimum(problem)
        assert check_owners(problem, best) == []
        other = feasible_owner(problem, rng)
        assert (check_owners(problem, other) == []) == (score(problem, other) == score(problem, best))
