"""The examples of KIP-54, fresh and after a change, exactly as printed there."""

from __future__ import annotations

import pytest

from counterpoise import Group, Member, assign, verify

Wanted = dict[str, dict[str, list[int]]]


def rebalanced(topics: dict[str, int], subscriptions: dict[str, list[str]], before: Wanted) -> Wanted:
    members = [Member(member, names, before.get(member, {}), 1 if before else -1) for member, names in subscriptions.items()]
    group = Group(topics, members)
    plan = assign(group, "sticky")
    assert verify(group, plan) == []
    return plan.assignment


def test_example_1_fresh_and_after_c1_leaves() -> None:
    topics = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
    fresh = rebalanced(topics, {member: list(topics) for member in ("C0", "C1", "C2")}, {})
    assert fresh == {
        "C0": {"t0": [0], "t1": [1], "t3": [0]},
        "C1": {"t0": [1], "t2": [0], "t3": [1]},
        "C2": {"t1": [0], "t2": [1]},
    }
    after = rebalanced(topics, {member: list(topics) for member in ("C0", "C2")}, fresh)
    assert after == {
        "C0": {"t0": [0], "t1": [1], "t2": [0], "t3": [0]},
        "C2": {"t0": [1], "t1": [0], "t2": [1], "t3": [1]},
    }


def test_example_2_fresh_and_after_c0_leaves() -> None:
    topics = {"t0": 1, "t1": 2, "t2": 3}
    subscriptions = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    fresh = rebalanced(topics, subscriptions, {})
    assert fresh == {"C0": {"t0": [0]}, "C1": {"t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}
    del subscriptions["C0"]
    after = rebalanced(topics, subscriptions, fresh)
    assert after == {"C1": {"t0": [0], "t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "constrained-cooperative-sticky"])
def test_a_plan_planned_again_stays(strategy: str) -> None:
    topics = {"t0": 3, "t1": 4}
    first = assign(Group(topics, [Member(m, list(topics)) for m in "abc"]), strategy)
    again = assign(Group(topics, [Member(m, list(topics), first.target[m], 1) for m in "abc"]), strategy)
    assert (again.assignment, again.moved) == (first.target, 0)
