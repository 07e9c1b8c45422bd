"""The certificate accepts every optimal plan, rejects every other one, and the move it names is really better."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.assignors import assignor
from counterpoise.laws import Move, Violation, certify, check, exchange_graph, stickiness
from counterpoise.laws.balance import marginal_costs
from counterpoise.model.problem import Int32, Problem
from tests.laws.oracle import all_plans, score
from tests.solver.oracle import optimum
from tests.strategies import feasible_owner, problem_of, problems, random_problem, subscribers_of

LONG = os.environ.get("COUNTERPOISE_PROFILE") == "long"
CASES = 20_000 if LONG else 240


def applied(problem: Problem, owner: Int32, violation: Violation) -> Int32:
    """The plan with the moves of a violation made; each must be possible."""
    better = owner.copy()
    partitions = [move.partition for move in violation.moves]
    assert len(set(partitions)) == len(partitions) > 0
    for move in violation.moves:
        assert isinstance(move, Move)
        assert better[move.partition] == move.giver
        assert move.taker in subscribers_of(problem, move.partition)
        better[move.partition] = move.taker
    return better


def judge(problem: Problem, owner: Int32, best: tuple[object, int]) -> None:
    """One plan against the truth: flags, the checker's verdict, and what applying the named moves gains."""
    mine = score(problem, owner)
    certificate = certify(problem, owner)
    assert certificate.balanced == (mine[0] == best[0])
    assert certificate.sticky == (mine == best)
    assert (check(problem, owner, certificate) == []) == (mine == best)
    assert (certificate.violations == ()) == (mine == best)
    for violation in certificate.violations:
        after = score(problem, applied(problem, owner, violation))
        if violation.law == "balanced":
            assert mine[0] - after[0] == violation.gain > 0
        else:
            assert after[0] == mine[0]
            assert mine[1] - after[1] == violation.gain > 0


@given(st.data(), st.booleans())
def test_certificates_of_every_plan_of_a_tiny_group_agree_with_exhaustion(data: st.DataObject, weighted: bool) -> None:
    """All plans of groups of up to 4 members and 6 partitions, with and without capacities."""
    problem = data.draw(problems(max_members=4, max_topics=3, max_partitions=6, capacities=weighted))
    every = all_plans(problem)
    best = min(score(problem, plan) for plan in every)
    few = every if len(every) <= 40 else data.draw(st.lists(st.sampled_from(every), min_size=20, max_size=20))
    for plan in [min(every, key=lambda plan: score(problem, plan)), *few]:
        judge(problem, plan, best)


@pytest.mark.parametrize("block", range(8))
def test_certificates_of_random_groups_agree_with_an_optimal_assignment(block: int) -> None:
    """The oracle's optimum is accepted; mutated and random plans are accepted exactly when they are as good."""
    for seed in range(block, CASES, 8):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, capacities=seed % 4 == 0)
        plan = optimum(problem)
        best = score(problem, plan)
        judge(problem, plan, best)
        judge(problem, mutated(problem, plan, rng), best)
        judge(problem, feasible_owner(problem, rng), best)


def mutated(problem: Problem, owner: Int32, rng: np.random.Generator) -> Int32:
    """One or two partitions given to any of their subscribers."""
    plan = owner.copy()
    for _ in range(int(rng.integers(1, 3))):
        if problem.n_partitions:
            at = int(rng.integers(problem.n_partitions))
            plan[at] = rng.choice(subscribers_of(problem, at) or [-1])
    return plan


def test_following_the_named_moves_leads_to_an_optimum() -> None:
    """From any plan, making the named moves again and again ends at the oracle's score."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, max_members=8, max_topics=6, max_partitions=8)
        plan = feasible_owner(problem, rng, skew=1.0)
        while violations := certify(problem, plan).violations:
            plan = applied(problem, plan, violations[0])
        assert score(problem, plan) == score(problem, optimum(problem))


def test_the_checker_loads_nothing_of_the_solver() -> None:
    """In a fresh interpreter: the laws need NumPy, not the code they judge."""
    script = (
        "import sys, counterpoise.laws as laws, numpy as np; from counterpoise.model.problem import Problem; "
        "p = Problem(2, [0, 3], [0, 2], [0, 1], [0, 0, 1]); o = np.array([0, 1, 1], np.int32); "
        "laws.check(p, o, laws.certify(p, o)); "
        "print([m for m in sys.modules if m.startswith(('counterpoise.solver', 'counterpoise.assignors', 'scipy'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_huge_capacities_that_differ_by_one_have_different_marginal_costs() -> None:
    """1/(2**62 - 1) is more than 1/2**62, and no float tells."""
    marginal = marginal_costs(np.array([1, 1]), np.array([2**62, 2**62 - 1]))
    assert marginal.last[0] < marginal.last[1]


def test_groups_beyond_the_dense_table_have_the_same_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted pairs instead of a members x classes table: the same certificate."""
    for seed in range(60):
        rng = np.random.default_rng([seed, 8])
        problem = random_problem(rng, max_members=8, max_topics=6, max_partitions=8)
        for plan in (optimum(problem), feasible_owner(problem, rng)):
            dense = certify(problem, plan)
            with monkeypatch.context() as limited:
                limited.setattr(exchange_graph, "DENSE_CELLS", 0)
                sparse = certify(problem, plan)
            assert sparse.violations == dense.violations
            for name in ("heaviest", "member_label", "topic_label"):
                assert getattr(sparse, name).tolist() == getattr(dense, name).tolist()


@pytest.mark.parametrize(("members", "most"), [(30, 8), (200, 8)])
def test_the_search_for_labels_takes_a_few_sweeps_on_random_subscriptions(
    members: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work, not time: sweeps over all arcs after a member has left, however large the group is."""
    sweeps: list[int] = []
    sweep = stickiness._State.sweep

    def counted(state: stickiness._State) -> bool:
        sweeps.append(1)
        return sweep(state)

    monkeypatch.setattr(stickiness._State, "sweep", counted)
    mask = np.random.default_rng(1).random((60, members)) < 0.5
    problem = problem_of([40] * 60, [np.flatnonzero(row).tolist() for row in mask], members)
    previous = assignor("sticky")(problem)
    previous = np.where(previous == 3, 4, previous).astype(np.int32)
    group = problem.replace(previous_owner=previous)
    assert certify(group, assignor("sticky")(group)).sticky
    assert len(sweeps) <= most


def line(*counts: int) -> Problem:
    """One topic per neighbouring pair of members: a chain."""
    return problem_of(list(counts), [[at, at + 1] for at in range(len(counts))], len(counts) + 1)


def test_a_chain_with_loads_9_10_11_is_not_balanced() -> None:
    """KIP-54's local condition holds, the optimum is 10, 10, 10: one partition has to travel over the middle member."""
    problem = problem_of([15, 15], [[0, 1], [1, 2]], 3, [0] * 9 + [1] * 6 + [1] * 4 + [2] * 11)
    (violation,) = certify(problem, problem.previous_owner).violations
    assert violation.law == "balanced"
    assert [(move.giver, move.taker) for move in violation.moves] == [(2, 1), (1, 0)]
    assert violation.gain == 2


def test_loads_3_2_1_that_java_leaves_are_not_balanced() -> None:
    """t0:2 t1:2 t2:2; m0 {t0,t2}, m1 {t2}, m2 {t0,t1}: the optimum is 2, 2, 2."""
    problem = problem_of([2, 2, 2], [[0, 2], [2], [0, 1]], 3, [2, 2, -1, 2, -1, 1])
    unbalanced = np.array([0, 0, 2, 2, 0, 1], np.int32)
    assert [violation.law for violation in certify(problem, unbalanced).violations] == ["balanced"]
    assert certify(problem, np.array([0, 0, 2, 2, 1, 1], np.int32)).balanced


def test_a_plan_that_keeps_2_where_3_can_stay_is_not_sticky() -> None:
    """t0:2 t1:3; the plan Java makes keeps 2 partitions, 3 can stay at the same balance."""
    problem = problem_of([2, 3], [[0, 1, 2, 3], [1, 3]], 4, [3, 3, 1, 3, 3])
    java = np.array([0, 2, 1, 3, 1], np.int32)
    (violation,) = certify(problem, java).violations
    assert (violation.law, violation.gain) == ("sticky", 1)
    assert certify(problem, applied(problem, java, violation)).sticky


def test_two_moves_suffice_where_java_makes_three() -> None:
    """t:6 u:2; a and b own everything, c {t} joins."""
    problem = problem_of([6, 2], [[0, 1, 2], [0, 1]], 3, [0, 0, 0, 1, 1, 1, 0, 1])
    three = np.array([0, 0, 2, 2, 1, 1, 1, 0], np.int32)
    assert [violation.law for violation in certify(problem, three).violations] == ["sticky"]
    assert certify(problem, np.array([0, 0, 2, 2, 1, 1, 0, 1], np.int32)).sticky


def test_a_split_of_1_and_2_that_stays_is_optimal() -> None:
    """t0:3, two members owning {0} and {1, 2}: no move is needed, and moving one is not sticky."""
    problem = problem_of([3], [[0, 1]], 2, [0, 1, 1])
    assert certify(problem, problem.previous_owner).sticky
    assert not certify(problem, np.array([0, 0, 1], np.int32)).sticky


def forgeries(problem: Problem, owner: Int32) -> list[str]:
    """Laws that fail when each number of a certificate is changed by one, one after the other."""
    genuine = certify(problem, owner)
    failed = []
    for name in ("heaviest", "member_label", "topic_label"):
        for at in range(len(getattr(genuine, name))):
            for step in (-1, 1):
                numbers = getattr(genuine, name).copy()
                numbers[at] += step
                failed += [fault.law for fault in check(problem, owner, dataclasses.replace(genuine, **{name: numbers}))]
    return failed


def test_no_certificate_however_forged_passes_a_plan_that_is_not_optimal() -> None:
    """The checker looks at the numbers, not at the flags: random labels never pass a bad plan."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, max_members=5, max_topics=4, max_partitions=5)
        plan = feasible_owner(problem, rng, skew=1.0)
        certificate = certify(problem, plan)
        forged = dataclasses.replace(
            certificate,
            balanced=True,
            sticky=True,
            violations=(),
            heaviest=rng.integers(0, problem.n_members, problem.n_members).astype(np.int32),
            member_label=rng.integers(-2, 1, problem.n_members).astype(np.int32),
            topic_label=rng.integers(-2, 1, problem.n_topics).astype(np.int32),
        )
        assert certificate.sticky or check(problem, plan, forged) != []


def test_levels_below_the_loads_or_beyond_the_next_prove_nothing() -> None:
    """Everybody on the level of the lightest, or of the heaviest member: even, and wrong."""
    problem = problem_of([4], [[0, 1]], 2, [0, 0, 0, 0])
    genuine = certify(problem, problem.previous_owner)
    for code in (0, 1):
        levels = np.full(2, code, np.int32)
        faults = check(problem, problem.previous_owner, dataclasses.replace(genuine, heaviest=levels))
        assert [fault.law for fault in faults] == ["balanced"]
    own = dataclasses.replace(genuine, heaviest=np.array([0, 1], np.int32))
    assert [fault.law for fault in check(problem, problem.previous_owner, own)] == ["balanced"]


@pytest.mark.parametrize(
    ("members", "topics"),
    [
        pytest.param([-1, 0, -1], [0, 0, 0], id="passing a partition on"),
        pytest.param([-1, 0, -1], [-1, 0, 0], id="taking any partition"),
        pytest.param([0, 0, 0], [0, 0, 0], id="taking back a claim"),
        pytest.param([0, 0, -1], [0, 0, 0], id="swapping two loads"),
    ],
)
def test_labels_that_overlook_one_kind_of_exchange_prove_nothing(members: list[int], topics: list[int]) -> None:
    """One circle, four kinds of arcs in it; each set of labels respects all kinds but one."""
    problem = problem_of([2, 1, 1], [[0, 1], [1, 2], [2]], 3, [-1, -1, 2, 2])
    plan = np.array([0, 0, 1, 2], np.int32)
    genuine = certify(problem, plan)
    assert [violation.law for violation in genuine.violations] == ["sticky"]
    forged = dataclasses.replace(
        genuine, member_label=np.array(members, np.int32), topic_label=np.array(topics, np.int32), sticky=True
    )
    assert [fault.law for fault in check(problem, plan, forged)] == ["sticky"]


def test_a_changed_certificate_of_a_good_plan_is_noticed() -> None:
    """A certificate whose numbers do not fit proves nothing, even of an optimal plan."""
    problem = problem_of([2, 3], [[0, 1, 2, 3], [1, 3]], 4, [3, 3, 1, 3, 3])
    assert set(forgeries(problem, optimum(problem))) == {"balanced", "sticky"}
    other = certify(line(2), np.array([0, 1], np.int32))
    assert [fault.law for fault in check(problem, optimum(problem), other)] == ["balanced"]


def test_an_incomplete_or_invalid_plan_is_not_certified() -> None:
    """The first two laws come first, in certify and in check."""
    problem = line(2, 2)
    whole = certify(problem, np.array([0, 1, 1, 2], np.int32))
    for owner, law in (([0, -1, 1, 2], "complete"), ([2, 1, 1, 2], "valid"), ([0, 1, 1, 7], "valid")):
        plan = np.array(owner, np.int32)
        certificate = certify(problem, plan)
        assert (certificate.balanced, certificate.sticky) == (False, False)
        assert [fault.law for fault in certificate.violations] == [law]
        assert [fault.law for fault in check(problem, plan, whole)] == [law]


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 2**62)), min_size=2, max_size=6))
def test_marginal_costs_compare_as_fractions_do(members: list[tuple[int, int]]) -> None:
    """(2j-1)/capacity is compared exactly, up to capacities near 2**62."""
    load, capacity = (np.array(column, np.int64) for column in zip(*members, strict=True))
    marginal = marginal_costs(load, capacity)
    ranks = [*marginal.last.tolist(), *marginal.following.tolist()]
    pairs = [(2 * n + step, c) for step in (-1, 1) for n, c in members]
    for rank, (top, bottom) in zip(ranks, pairs, strict=True):
        for other, (above, below) in zip(ranks, pairs, strict=True):
            same_order = (rank > other) == (top * below > above * bottom)
            assert same_order


def test_a_chain_of_300_members_is_unravelled() -> None:
    """Loads 1, 2, ..., 2, 3: one partition has to be passed on over every member of the chain."""
    n = 300
    problem = problem_of([2] * (n - 1) + [2], [*([at, at + 1] for at in range(n - 1)), [n - 1]], n)
    plan = np.array([member for at in range(n - 1) for member in (at, at + 1)] + [n - 1] * 2, np.int32)
    (violation,) = certify(problem, plan).violations
    assert [move.giver for move in violation.moves] == list(range(n - 1, 0, -1))
    assert certify(problem, applied(problem, plan, violation)).balanced
