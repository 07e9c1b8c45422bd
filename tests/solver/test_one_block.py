"""One block: every plan is proven; groups without such a plan are left to the flows."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.assignors.registry import assignor
from counterpoise.laws import certify
from counterpoise.model.problem import Int32, Problem
from counterpoise.solver.bitset import exchange
from counterpoise.solver.bitset.one_block import _floors_possible, one_block

# Augmenting paths could end at three members without slack, although only two ceiling slots were left, while member 2 was still
# one partition below its floor.
ONE_BELOW_ITS_FLOOR = Problem(
    6,
    [0, 3, 9, 20],
    [0, 6, 11, 14],
    [0, 1, 2, 3, 4, 5, 0, 1, 2, 4, 5, 3, 4, 5],
    [1, 3, 0, 0, 1, 2, 0, 1, 2, -1, -1, -1, 3, -1, -1, 3, -1, -1, -1, -1],
)


def _planned(problem: Problem, *, with_history: bool) -> Int32 | None:
    block = one_block(problem)
    return None if block is None else block.assign(problem, with_history=with_history)


def test_augmenting_paths_use_no_more_ceiling_slots_than_there_are_while_a_member_is_below_its_floor() -> None:
    owner = _planned(ONE_BELOW_ITS_FLOOR, with_history=True)
    assert owner is not None
    assert sorted(np.bincount(owner, minlength=6).tolist()) == [3, 3, 3, 3, 4, 4]
    assert certify(ONE_BELOW_ITS_FLOOR, owner).sticky
    assert assignor("sticky")(ONE_BELOW_ITS_FLOOR).tolist() == owner.tolist()


def test_plans_are_balanced_and_sticky_with_equal_and_with_other_capacities() -> None:
    rng = np.random.default_rng(7)
    taken = 0
    for _ in range(300):
        table = rng.random((6, 8)) < 0.6
        start = np.concatenate(([0], np.cumsum(table.sum(axis=1))))
        claims, capacity = rng.integers(-1, 8, 30), rng.integers(1, rng.integers(2, 5), 8)
        problem = Problem(8, np.arange(7) * 5, start, np.nonzero(table)[1], claims, capacity=capacity)
        owner = _planned(problem, with_history=True)
        if owner is not None:
            taken += 1
            certificate = certify(problem, owner)
            assert (certificate.balanced, certificate.sticky) == (True, True)
    assert taken > 100


def test_thousands_of_topics_are_taken_if_most_have_subscribers_of_their_own_and_left_to_flows_if_they_share_them() -> None:
    """Flows took 0.7 s for the first group with a thousand members, this path 10 ms; for the second one it is the slower way."""
    rng = np.random.default_rng(7)
    for of_its_own in (True, False):
        table = rng.random((2500 if of_its_own else 8, 40)) < 0.5
        table = table if of_its_own else table[rng.integers(0, 8, 2500)]
        start = np.concatenate(([0], np.cumsum(table.sum(axis=1))))
        problem = Problem(40, np.arange(2501) * 2, start, np.nonzero(table)[1], rng.integers(-1, 40, 5000))
        owner = _planned(problem, with_history=True)
        assert (owner is not None) is of_its_own
        if owner is not None:
            certificate = certify(problem, owner)
            assert (certificate.balanced, certificate.sticky) == (True, True)


def test_hundreds_of_capacities_and_searches_of_many_topics_are_planned_as_one_block() -> None:
    """By flows the group of 300 capacities takes ten times as long; the searches for the second one visit each topic 40 times.

    In the third one members have few topics: searches that looked at all topics would exceed the limit of visits. In the last one
    they look at all topics, and visit each 180 times; flows take three times as long.
    """
    many, equal = np.arange(1, 301), np.ones(500, np.int64)
    shapes = (
        (200, 300, 100, 0.5, many),
        (1000, 500, 2, 0.02, equal),
        (400, 200, 5, 0.03, equal[:200]),
        (400, 400, 5, 0.025, equal[:400]),
    )
    for topics, members, size, share, capacity in shapes:
        rng = np.random.default_rng(7)
        table = rng.random((topics, members)) < share
        table[:, 0] = True
        start = np.concatenate(([0], np.cumsum(table.sum(axis=1))))
        for with_history in (False, True):
            claims = rng.integers(-1, members, topics * size) if with_history else None
            problem = Problem(members, np.arange(topics + 1) * size, start, np.nonzero(table)[1], claims, capacity=capacity)
            owner = _planned(problem, with_history=with_history)
            assert owner is not None
            certificate = certify(problem, owner)
            assert (certificate.balanced, certificate.sticky) == (True, True)


def test_searches_that_look_at_the_topics_of_members_find_the_paths_of_those_that_look_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 11])
        topics, members = int(rng.integers(20, 80)), int(rng.integers(10, 40))
        table = rng.random((topics, members)) < rng.choice([0.15, 0.3])
        start = np.concatenate(([0], np.cumsum(table.sum(axis=1))))
        claims = rng.integers(-1, members, 2 * topics)
        problem = Problem(members, np.arange(topics + 1) * 2, start, np.nonzero(table)[1], claims)
        monkeypatch.setattr(exchange, "_VISITS_PER_ENTRY", 10**6)
        everywhere = _planned(problem, with_history=True)
        monkeypatch.setattr(exchange, "_VISITS_PER_ENTRY", -(10**6))
        nearby = _planned(problem, with_history=True)
        assert (nearby is None) is (everywhere is None), f"seed {seed}"
        if nearby is not None and everywhere is not None:
            searched += 1
            assert nearby.tolist() == everywhere.tolist(), f"seed {seed}"
    assert searched > 20


def test_floors_are_possible_if_the_topics_of_each_member_just_suffice() -> None:
    """Member 1 has the later half of 100 topics, so the topics of every portion that is looked at count."""
    count = np.repeat([1, 2], 50)
    problem = Problem(2, np.arange(101), np.concatenate(([0], np.cumsum(count))), np.array([0] * 50 + [0, 1] * 50))
    for floor, possible in (([50, 50], True), ([100, 50], True), ([50, 51], False), ([101, 0], False)):
        assert _floors_possible(problem, np.ones(100, np.int64), count, np.array(floor)) is possible
