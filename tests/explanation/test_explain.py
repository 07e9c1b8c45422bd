"""explain says in words what the claims and the loads say in numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from counterpoise.errors import SnapshotError
from counterpoise.explanation import explain
from counterpoise.planning.assign import assign
from counterpoise.snapshot import Group, Member, Topic
from counterpoise.snapshot.written import WrittenPlan, read_plan
from tests.strategies import groups

GROUP = Group(
    {"t": 8, "u": 2, "w": 1, "z": 1},
    [
        Member("a", ["t"], {"t": range(5)}, 3),
        Member("b", ["t", "u"], {"t": [0, 5, 6], "u": [0]}, 2),
        Member("c", ["u", "t"], {"t": [7], "u": [1]}, 3),
        Member("d", ["u"], {"t": [7]}, 3),
        Member("e", ["w"], {"u": [0]}, 4),
    ],
)
WAITS = " It is withheld in this round until {} revoked it."


@pytest.mark.parametrize(
    ("topic", "partition", "reason"),
    [
        pytest.param("t", 1, "t-1 stays with a, which owns it.", id="stays"),
        pytest.param(
            "t", 0, "t-0 stays with a, which owns it. The claim of b (generation 2) is older than that of a (generation 3) "
            "and does not count.", id="an older claim is beaten",
        ),
        pytest.param(
            "t", 2, "t-2 moves from a to c: a owned 5 and its share is 3, and c would be short, with 1 instead of 2."
            + WAITS.format("a has"), id="the quota forces it",
        ),
        pytest.param(
            "t", 7, "c and d claim t-7 in the same generation 3, so neither counts as its owner. It goes to b, which would be "
            "short with 2 instead of 3." + WAITS.format("the members that claim it have"), id="disputed",
        ),
        pytest.param(
            "u", 0, "e holds u-0 but no longer subscribes to u. It goes to d, which would be short with 1 instead of 2. The "
            "claim of b (generation 2) is older than that of e (generation 4) and does not count." + WAITS.format("e has"),
            id="the holder gave the topic up",
        ),
        pytest.param(
            "u", 1, "u-1 moves from c to d: c has 2 without it, and d would be short, with 1 instead of 2."
            + WAITS.format("c has"), id="the owner has enough without it",
        ),
        pytest.param(
            "w", 0, "Nobody in the group owns w-0 (it is new, or its owner has left). It goes to e, the only subscriber.",
            id="new",
        ),
        pytest.param("z", 0, "z-0 has no owner because no member subscribes to z.", id="no subscriber"),
    ],
)  # fmt: skip
def test_a_cooperative_plan_is_explained(topic: str, partition: int, reason: str) -> None:
    """One group in which every reason occurs."""
    assert explain(GROUP, assign(GROUP, "cooperative-sticky"), topic, partition) == reason


def test_a_move_that_nothing_forced_is_called_so() -> None:
    """Range moves what could have stayed; by a plain mapping the strategy has no name."""
    plan = assign(GROUP, "range")
    moved = "t-3 moves from a to b, though staying would be as balanced (a would have 4 and b 3): "
    assert explain(GROUP, plan, "t", 3) == moved + "range has other aims."
    assert explain(GROUP, plan.target, "t", 3) == moved + "this plan has other aims."
    ends = "It goes to b, which then has 4, though d has only 0: {}."
    assert ends.format("range has other aims") in explain(GROUP, plan, "u", 0)
    assert ends.format("this plan is not balanced") in explain(GROUP, plan.target, "u", 0)


def test_a_move_that_makes_things_worse_is_called_so() -> None:
    """Staying would even be better balanced."""
    group = Group({"t": 3}, [Member("a", ["t"], {"t": [0, 1]}, 1), Member("b", ["t"], {"t": [2]}, 1)])
    plan = {"b": {"t": [0, 1, 2]}}
    assert explain(group, plan, "t", 0) == (
        "t-0 moves from a to b, though staying would be better balanced (a would have 1 and b 2): this plan has other aims."
    )


def test_broken_plans_are_explained() -> None:
    """Two owners, an owner that does not subscribe, a partition left out."""
    group = Group({"t": 2, "u": 1}, [Member("a", ["t"]), Member("b", ["t", "u"], {"u": [0]}, 1), Member("c", ["t"])])
    plan = {"a": {"t": [0], "u": [0]}, "b": {"t": [0]}}
    assert explain(group, plan, "t", 0) == "t-0 is given to a and b: the plan is broken, one partition has one owner."
    assert explain(group, plan, "u", 0) == "u-0 is given to a, which does not subscribe to u: the plan is broken."
    assert explain(group, plan, "t", 1) == "t-1 has no owner in this plan though it could: a, b and c subscribe to t."


def test_a_topic_everybody_gave_up_names_who_held_it() -> None:
    """The last subscriber left the topic but still holds the partition."""
    group = Group({"t": 1}, [Member("a", [], {"t": [0]}, 1)])
    expected = "t-0 has no owner because no member subscribes to t; a, which held it, no longer does."
    assert explain(group, assign(group, "sticky"), "t", 0) == expected


def test_claims_without_a_generation_are_the_oldest() -> None:
    """-1 is spoken as "no generation"; two of them dispute like any other."""
    group = Group(
        {"t": 2}, [Member("a", ["t"], {"t": [0]}, 0), Member("b", ["t"], {"t": [0, 1]}), Member("c", ["t"], {"t": [1]})]
    )
    plan = assign(group, "sticky")
    assert "The claim of b (no generation) is older than that of a (generation 0) and does not count." in explain(
        group, plan, "t", 0
    )
    assert explain(group, plan, "t", 1).startswith("b and c claim t-1 without a generation, so neither counts")
    three = Group({"t": 1}, [Member(name, ["t"], {"t": [0]}, 1) for name in "abc"])
    words = "a, b and c claim t-0 in the same generation 1, so none of them counts as its owner."
    assert explain(three, assign(three, "sticky"), "t", 0).startswith(words)


def test_capacities_are_named_where_they_differ() -> None:
    """A share is explained by the weight behind it."""
    group = Group({"t": 4}, [Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), Member("b", ["t"], capacity=3)])
    plan = assign(group, "sticky")
    moved = plan.moves[0][1]
    assert explain(group, plan, "t", moved) == (
        f"t-{moved} moves from a to b: a owned 4 and its share is 1 (capacity 1), and b would be short, "
        "with 2 instead of 3 (capacity 3)."
    )


@pytest.mark.parametrize(
    ("topic", "partition", "message"),
    [
        ("q", 0, "topic 'q' does not exist in this group; there are: t, u, w, z"),
        (["t"], 0, r"topic \['t'\] does not exist in this group; there are: t, u, w, z"),
        ("t", 8, "t-8 does not exist; partitions of t: 0 to 7"),
        ("t", -1, "t--1 does not exist; partitions of t: 0 to 7"),
        ("t", "1", "t: '1' is no partition; give a number from 0 on"),
        ("t", 1.0, "t: 1.0 is no partition; give a number from 0 on"),
        ("t", True, "t: True is no partition; give a number from 0 on"),
    ],
)
def test_what_does_not_exist_is_one_clear_error(topic: Any, partition: Any, message: str) -> None:
    """The message says what there is."""
    with pytest.raises(SnapshotError, match=message):
        explain(GROUP, assign(GROUP, "sticky"), topic, partition)


@given(groups())
def test_every_partition_of_every_group_has_a_reason_that_names_its_owner(group: Group) -> None:
    """No group, claim or strategy leaves explain without words; a sticky plan never moves for other aims."""
    for strategy in ("sticky", "cooperative-sticky", "range"):
        plan = assign(group, strategy)
        owner = {(t, p): member for member, topics in plan.target.items() for t, listed in topics.items() for p in listed}
        for topic, known in group.topics.items():
            for partition in range(known.partitions):
                words = explain(group, plan, topic, partition)
                assert f"{topic}-{partition}" in words
                assert words.endswith(".")
                if (topic, partition) in owner:
                    assert owner[topic, partition] in words
                if strategy != "range":
                    assert "other aims" not in words
                    assert "not balanced" not in words


def test_an_exchange_that_counts_did_not_ask_for_is_called_one() -> None:
    """Racks are the reason; nobody would be short without it."""
    racks = [["x"], ["y"]]
    members = [Member("a", ["t"], {"t": [1]}, 1, rack="x"), Member("b", ["t"], {"t": [0]}, 1, rack="y")]
    group = Group({"t": Topic(2, racks)}, members)
    reason = explain(group, assign(group, "sticky", racks="before"), "t", 0)
    assert reason.startswith("t-0 moves from b to a in an exchange: b still owns 1 and a 1")


def test_a_move_without_which_a_member_would_be_short_is_no_exchange() -> None:
    """c needs two of b's; b then needs one of a's, which gets two that nobody owned: b would have 1, and a 4."""
    members = [
        Member("a", ["t", "v"], {"t": [0, 1]}, 1),
        Member("b", ["t", "u"], {"u": [0, 1, 2]}, 1),
        Member("c", ["u"]),
    ]
    group = Group({"t": 2, "u": 3, "v": 2}, members)
    plan = assign(group, "sticky")
    assert plan.target["b"]["t"] == [0]
    assert explain(group, plan, "t", 0) == "t-0 moves from a to b: a has 3 without it, and b would be short, with 1 instead of 2."


def test_an_exchange_for_the_sake_of_a_third_member_does_not_deny_it() -> None:
    """c needs one of b's two, so b needs one of a's two, and a gets the new one: a and b have two each, before and after."""
    members = [Member("a", ["t", "v"], {"t": [0, 1]}, 1), Member("b", ["t", "u"], {"u": [0, 1]}, 1), Member("c", ["u"])]
    group = Group({"t": 2, "u": 2, "v": 1}, members)
    plan = assign(group, "sticky")
    assert plan.certificate.sticky
    moved = plan.target["b"]["t"][0]
    assert explain(group, plan, "t", moved) == (
        f"t-{moved} moves from a to b in an exchange: a still owns 2 and b 2; the counts of others, racks, the spread of topics "
        "or lag may ask for it."
    )


def test_a_plan_that_gives_a_partition_to_a_stranger_is_called_broken() -> None:
    assert explain(GROUP, {"x": {"t": [1]}}, "t", 1) == "t-1 is given to x, which is no member of the group: the plan is broken."
    both = explain(GROUP, {"a": {"t": [1]}, "x": {"t": [1]}}, "t", 1)
    assert both == "t-1 is given to a and x: the plan is broken, one partition has one owner."


def test_a_move_for_lag_says_so_with_the_figures_and_one_for_counts_does_not() -> None:
    """a has nearly all the lag: 80 goes over, 3 comes back for the sake of counts."""
    members = [Member("a", ["t"], {"t": [0, 1]}, 1), Member("b", ["t"], {"t": [2, 3]}, 1)]
    group = Group({"t": 4}, members, {"t": [90, 80, 10, 3]})
    plan = assign(group, "lag-sticky", protocol="eager")
    assert plan.target == {"a": {"t": [0, 3]}, "b": {"t": [1, 2]}}
    assert explain(group, plan, "t", 1) == (
        "t-1 moves from a to b for its lag of 80: with all it owned, a would be 170 records behind; now it is 93, and b is 90."
    )
    assert explain(group, plan, "t", 3) == (
        "t-3 moves from b to a in an exchange for lag: b takes on more than it gives, 90 records behind instead of 13, so that "
        "another is relieved; a is 93 behind."
    )
    assert explain(group, read_plan(plan.to_json()), "t", 1) == explain(group, plan, "t", 1)
    full = Group({"t": 4}, [Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), Member("b", ["t"])], {"t": [1, 1, 1, 1]})
    for_counts = assign(full, "lag-sticky", protocol="eager")
    moved = for_counts.target["b"]["t"][0]
    assert explain(full, for_counts, "t", moved).startswith(f"t-{moved} moves from a to b: a owned 4 and its share is 2, ")


def test_a_move_that_counts_force_is_not_called_one_for_lag() -> None:
    """Nothing lags: b may own t only, and a gets u instead."""
    group = Group({"t": 1, "u": 1}, [Member("a", ["t", "u"], {"t": [0]}, 1), Member("b", ["t"])], {"t": [0], "u": [0]})
    assert explain(group, assign(group, "lag-sticky", protocol="eager"), "t", 0) == (
        "t-0 moves from a to b: a has 1 without it, and b would be short, with 0 instead of 1."
    )


def test_an_exchange_for_lag_relieves_another_only_if_a_member_is_less_behind() -> None:
    """Both are further behind than before: a takes a free partition with a large lag, and b that of a instead."""
    group = Group({"t": 3}, [Member("a", ["t"], {"t": [2]}, 1), Member("b", ["t"], {"t": [0]}, 1)], {"t": [8, 15, 3]})
    assert explain(group, assign(group, "lag-sticky", protocol="eager"), "t", 2) == (
        "t-2 moves from a to b in an exchange for lag: a takes on more than it gives, 15 records behind instead of 3; "
        "b is 11 behind."
    )


def test_a_plan_read_back_from_json_says_what_is_withheld() -> None:
    for plan in (assign(GROUP, "cooperative-sticky"), assign(GROUP, "sticky")):
        for index in range(8):
            assert explain(GROUP, read_plan(plan.to_json()), "t", index) == explain(GROUP, plan, "t", index)
    late = WrittenPlan("theirs", "cooperative", {}, {}, {"e": {"w": [0]}})
    assert "withheld" not in explain(GROUP, late, "w", 0)  # Nobody holds it


def test_the_capacity_of_a_lighter_member_is_named() -> None:
    """3 of capacity 3 is less than 3 of capacity 1."""
    group = Group({"t": 6}, [Member("a", ["t"], capacity=3), Member("b", ["t"])])
    assert explain(group, {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4, 5]}}, "t", 3).endswith(
        "It goes to b, which then has 3 (capacity 1), though a has only 3 (capacity 3): this plan is not balanced."
    )
