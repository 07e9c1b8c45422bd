"""Where Java 4.3.1 is wrong, by name: the bytes that trip it, and what is right instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from counterpoise import Plan, assign, verify
from counterpoise.laws.cooperative import added_and_revoked
from counterpoise.laws.owners import valid
from tests.planning.test_java_vectors import java_owner
from tests.planning.vectors import cases, group_of, loads

Check = Callable[[dict[str, Any], Plan], None]


def vanished_partition(case: dict[str, Any], plan: Plan) -> None:
    """A topic re-created smaller: Java throws, or hands out partitions that do not exist; the claims are dropped here."""
    group = group_of(case)
    assert group.settled.vanished_partition >= 1
    assert "error" in case or java_owner(group, case["assignment"]) is None
    assert sum(plan.loads.values()) == sum(case["topics"].values())


def chain(case: dict[str, Any], plan: Plan) -> None:
    """9/10/11 is stuck for Java; two moves along the chain give 10/10/10."""
    theirs = java_owner(group_of(case), case["assignment"])
    assert theirs is not None
    assert loads(plan.problem, theirs) == [11, 10, 9]
    assert (sorted(plan.loads.values()), plan.moved) == ([10, 10, 10], 2)


def zombie(case: dict[str, Any], plan: Plan) -> None:
    """Java hands t-0 and t-1 to the zombie while the live owner still holds them; here they wait for its revocation."""
    live, ghost = ("zlive", "azombie") if "zlive" in plan.member_ids else ("live", "zombie")
    given = plan.assignment[ghost].get("t", [])
    owned = next(member for member in case["members"] if member["id"] == live)["owned"]["t"]
    if plan.protocol == "cooperative":
        assert given == []
        assert set(plan.withheld.get("t", [])) <= set(owned)
        assert case["assignment"][ghost] in ({"t": [0, 1]}, {})
    assert plan.problem.holder.tolist().count(plan.member_ids.index(ghost)) == 0
    assert plan.kept == sum(plan.loads.values()) - 2


def without_topics(case: dict[str, Any], plan: Plan) -> None:
    """A member whose pattern matches nothing yet gets partitions from Java when it comes first; never here."""
    idle = next(member["id"] for member in case["members"] if not member["topics"])
    assert plan.assignment[idle] == {}
    assert sorted(plan.loads.values()) == [0, 2, 2]


def given_up_topic(case: dict[str, Any], plan: Plan) -> None:
    """An older claim on a topic its member gave up: Java assigns to a non-subscriber, or throws; it counts for nothing."""
    assert "error" in case or java_owner(group_of(case), case["assignment"]) is None
    assert "t" not in plan.assignment["b"]
    assert plan.problem.holder[:2].tolist() == [plan.member_ids.index("a")] * 2


def needless_moves(case: dict[str, Any], plan: Plan) -> None:
    """Two moves suffice; Java makes three."""
    assert plan.moved == 2
    if case["assignor"] == "sticky":
        theirs = java_owner(group_of(case), case["assignment"])
        previous = plan.problem.previous_owner
        assert theirs is not None
        assert int(((previous >= 0) & (previous != theirs)).sum()) == 3


def repeated_topic(case: dict[str, Any], plan: Plan) -> None:
    """A topic named twice in a subscription counts once."""
    assert sum(plan.loads.values()) == sum(case["topics"].values())


NAMED: dict[str, Check] = {
    "J1": vanished_partition,
    "J1b": vanished_partition,
    "J1c": vanished_partition,
    "J1d": vanished_partition,
    "J2": chain,
    "J3": zombie,
    "J3u": zombie,
    "J4": without_topics,
    "J5": given_up_topic,
    "J6": given_up_topic,
    "J7": needless_moves,
    "J8": repeated_topic,
    "J9": repeated_topic,
}
FAULTS = cases("java-faults")


@pytest.mark.parametrize("case", FAULTS, ids=[f"{c['assignor']}: {c['tags'][-1]} ({c['id']})" for c in FAULTS])
def test_what_trips_java_is_right_here(case: dict[str, Any]) -> None:
    group = group_of(case)
    plan = assign(group, case["assignor"])
    if case["assignor"] in {"sticky", "cooperative-sticky"}:
        assert verify(group, plan) == []
    assert valid(plan.problem, plan.target_owner) == []
    assert added_and_revoked(plan.problem, plan.owner) == [] or plan.protocol == "eager"
    NAMED[case["tags"][-1].split(",")[0]](case, plan)


def test_every_fault_has_its_check() -> None:
    assert {case["tags"][-1].split(",")[0] for case in FAULTS} == set(NAMED)
