"""Groups by name: the examples of the KIPs, and the counterexamples that other assignors get wrong."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.assignors.registry import assignor
from counterpoise.solver.engine import solve
from tests.solver.build import group, kept, loads, owners

FOUR = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
STEPS = {"t0": 1, "t1": 2, "t2": 3}


def test_kip_54_example_1_fresh():
    """Like round robin, in partition order."""
    members = {member: list(FOUR) for member in ["C0", "C1", "C2"]}
    assert owners(FOUR, members, solve(group(FOUR, members))) == {
        "C0": ["t0p0", "t1p1", "t3p0"],
        "C1": ["t0p1", "t2p0", "t3p1"],
        "C2": ["t1p0", "t2p1"],
    }


def test_kip_54_example_1_after_c1_leaves():
    """Everybody keeps what it had; orphans go to the least loaded, in partition order."""
    members = {member: list(FOUR) for member in ["C0", "C2"]}
    owned = {"C0": ["t0p0", "t1p1", "t3p0"], "C2": ["t1p0", "t2p1"]}
    assert owners(FOUR, members, solve(group(FOUR, members, owned))) == {
        "C0": ["t0p0", "t1p1", "t2p0", "t3p0"],
        "C2": ["t0p1", "t1p0", "t2p1", "t3p1"],
    }


def test_kip_54_example_2_fresh_and_after_c0_leaves():
    members = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    first = owners(STEPS, members, solve(group(STEPS, members)))
    assert first == {"C0": ["t0p0"], "C1": ["t1p0", "t1p1"], "C2": ["t2p0", "t2p1", "t2p2"]}
    del members["C0"], first["C0"]
    assert owners(STEPS, members, solve(group(STEPS, members, first))) == {
        "C1": ["t0p0", "t1p0", "t1p1"],
        "C2": ["t2p0", "t2p1", "t2p2"],
    }


def test_kip_54_example_3_fresh_and_after_c2_joins():
    """The newcomer gets one partition; three stay."""
    topics = {"t0": 2, "t1": 2}
    members = {"C0": ["t0", "t1"], "C1": ["t0", "t1"]}
    first = owners(topics, members, solve(group(topics, members)))
    assert first == {"C0": ["t0p0", "t1p0"], "C1": ["t0p1", "t1p1"]}
    members["C2"] = ["t0", "t1"]
    assert owners(topics, members, solve(group(topics, members, first))) == {
        "C0": ["t0p0", "t1p0"],
        "C1": ["t0p1"],
        "C2": ["t1p1"],
    }


# A bystander with a topic of its own: the same group goes through the general engine instead of the equal path.
BYSTANDER = [pytest.param({}, {}, id="equal subscriptions"), pytest.param({"z": 3}, {"Z": ["z"]}, id="mixed subscriptions")]


@pytest.mark.parametrize(("more_topics", "more_members"), BYSTANDER)
def test_orphans_go_to_the_least_loaded_in_partition_order(more_topics, more_members):
    """KIP-54's example 1 after C1 leaves, also where others subscribe to something else."""
    members = {member: list(FOUR) for member in ["C0", "C2"]} | more_members
    topics = FOUR | more_topics
    owned = {"C0": ["t0p0", "t1p1", "t3p0"], "C2": ["t1p0", "t2p1"]}
    plan = owners(topics, members, solve(group(topics, members, owned)))
    assert plan["C0"] == ["t0p0", "t1p1", "t2p0", "t3p0"]
    assert plan["C2"] == ["t0p1", "t1p0", "t2p1", "t3p1"]


@pytest.mark.parametrize(("more_topics", "more_members"), BYSTANDER)
def test_ceiling_slots_go_to_members_with_the_most_claims_then_to_the_lowest_ids(more_topics, more_members):
    """Ten partitions on three members: one has four. With 4, 5 and 1 claims it is the second, with 4, 4 and 2 the first."""
    topics, members = {"t": 10} | more_topics, {member: ["t"] for member in "abc"} | more_members
    first = {"a": [f"tp{i}" for i in range(4)], "b": [f"tp{i}" for i in range(4, 9)], "c": ["tp9"]}
    assert loads(*_planned(topics, members, first))[-3:] == [3, 4, 3]
    second = {"a": [f"tp{i}" for i in range(4)], "b": [f"tp{i}" for i in range(4, 8)], "c": ["tp8", "tp9"]}
    assert loads(*_planned(topics, members, second))[-3:] == [4, 3, 3]


@pytest.mark.parametrize(("more_topics", "more_members"), BYSTANDER)
def test_ceiling_slots_of_a_group_without_claims_go_to_the_lowest_ids(more_topics, more_members):
    topics, members = {"t": 8} | more_topics, {member: ["t"] for member in "abcde"} | more_members
    assert loads(*_planned(topics, members, {}))[-5:] == [2, 2, 2, 1, 1]


def test_ceiling_slots_go_to_the_lowest_ids_across_member_classes():
    """Either of two member classes could take two of the three ceiling slots: ids decide, not the order of classes."""
    members = {"a": ["t", "v"], "b": ["t", "u"], "c": ["t", "u"], "d": ["t", "v"]}
    assert loads(*_planned({"t": 7, "u": 2, "v": 2}, members, {})) == [3, 3, 3, 2]


def test_even_topics_come_before_low_ids():
    """With ceiling slots for a and b, a would have two partitions of t. With slots for b and d every member has one of t."""
    members = {"a": ["t"], "b": ["t", "u"], "c": ["t"], "d": ["t", "u"]}
    assert loads(*_planned({"t": 4, "u": 2}, members, {})) == [1, 2, 1, 2]


def _planned(topics, members, owned):
    problem = group(topics, members, owned)
    return problem, solve(problem)


CASES = {
    "balance": (
        {"t0": 2, "t1": 2, "t2": 2},
        {"m0": ["t0", "t2"], "m1": ["t2"], "m2": ["t0", "t1"]},
        {"m0": ["t2p1"], "m2": ["t0p0", "t0p1", "t1p1"]},
        [2, 2, 2],
        1,
    ),
    "stickiness": (
        {"t0": 2, "t1": 3},
        {"m0": ["t0"], "m1": ["t0", "t1"], "m2": ["t0"], "m3": ["t0", "t1"]},
        {"m1": ["t1p0"], "m3": ["t0p0", "t0p1", "t1p1", "t1p2"]},
        [1, 1, 1, 2],
        3,
    ),
    "chain 9/10/11": (
        {"t1": 15, "t2": 15},
        {"m1": ["t1"], "m2": ["t1", "t2"], "m3": ["t2"]},
        {
            "m1": [f"t1p{i}" for i in range(9)],
            "m2": [f"t1p{i}" for i in range(9, 15)] + [f"t2p{i}" for i in range(4)],
            "m3": [f"t2p{i}" for i in range(4, 15)],
        },
        [10, 10, 10],
        28,
    ),
    "broker uniform": ({"t0": 3}, {"a": ["t0"], "b": ["t0"]}, {"a": ["t0p0"], "b": ["t0p1", "t0p2"]}, [1, 2], 3),
    "needless moves": (
        {"t": 6, "u": 2},
        {"a": ["t", "u"], "b": ["t", "u"], "c": ["t"]},
        {"a": ["tp0", "tp1", "tp2", "up0"], "b": ["tp3", "tp4", "tp5", "up1"]},
        [2, 3, 3],
        6,
    ),
    "a member without topics": ({"t": 4}, {"a": [], "b": ["t"], "c": ["t"]}, {}, [0, 2, 2], 0),
    "a claim on a topic given up": (
        {"t": 8, "u": 3},
        {"a": ["t"], "b": ["u"], "c": ["t", "u"]},
        {"a": [f"tp{i}" for i in range(2, 8)], "b": ["tp0", "tp1"]},
        [3, 4, 4],
        4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_counterexamples_come_out_optimal(name):
    """Loads (in any order) and the number of kept partitions are the optimum, worked out by hand."""
    topics, members, owned, want_loads, want_kept = CASES[name]
    problem = group(topics, members, owned)
    owner = solve(problem)
    assert (sorted(loads(problem, owner)), kept(problem, owner)) == (sorted(want_loads), want_kept)


def test_kafka_12464_example():
    """Ten partitions, a third member joins: both keep their first ones, the newcomer gets the rest."""
    problem = group(
        {"t": 10},
        {member: ["t"] for member in ["C0", "C1", "C2"]},
        {"C0": [f"tp{i}" for i in range(5)], "C1": [f"tp{i}" for i in range(5, 10)]},
    )
    owner = assignor("constrained-cooperative-sticky")(problem)
    assert owner.tolist() == [0, 0, 0, 0, 2, 1, 1, 1, 2, 2]


def test_constrained_deals_by_index_in_turns():
    """Free partitions go out as t0p0, t1p0, t2p0, t0p1, ..; members take turns by id."""
    topics = {"t0": 2, "t1": 2, "t2": 1}
    members = {member: list(topics) for member in ["a", "b"]}
    owner = assignor("constrained-cooperative-sticky")(group(topics, members))
    assert owners(topics, members, owner) == {"a": ["t0p0", "t1p1", "t2p0"], "b": ["t0p1", "t1p0"]}


@pytest.mark.parametrize("strategy", ["sticky", "constrained-cooperative-sticky"])
@pytest.mark.parametrize(
    ("partitions", "held"),
    [
        pytest.param(11, [4, 3, 3, 0, 0], id="KAFKA-9987 taken literally leaves loads 2,3,3,2,1"),
        pytest.param(1, [0, 0, 0, 0, 0], id="KAFKA-12464 taken literally leaves one of one unassigned"),
        pytest.param(5, [2, 2], id="KAFKA-12464 taken literally leaves one of five unassigned"),
    ],
)
def test_every_partition_is_assigned_where_the_pseudo_code_of_the_documents_is_wrong(strategy, partitions, held):
    """Everything is assigned, loads differ by one at most, and nobody gives up more than its quota asks for."""
    previous = np.full(partitions, -1)
    previous[: sum(held)] = np.repeat(np.arange(len(held)), held)
    problem = group({"t": partitions}, {f"m{i}": ["t"] for i in range(len(held))}).replace(previous_owner=previous)
    owner = assignor(strategy)(problem)
    floor, slots = divmod(partitions, len(held))
    assert sorted(loads(problem, owner)) == [floor] * (len(held) - slots) + [floor + 1] * slots
    quotas = sorted((min(count, floor + (i < slots)) for i, count in enumerate(sorted(held, reverse=True))), reverse=True)
    assert kept(problem, owner) == sum(quotas)


def test_sticky_first_leaves_an_uneven_history_alone():
    """A valid claim never moves, however uneven; the free partition goes to the least loaded."""
    problem = group({"t": 5}, {"a": ["t"], "b": ["t"], "c": ["t"]}, {"a": ["tp0", "tp1", "tp2"], "b": ["tp3"]})
    assert assignor("sticky-first")(problem).tolist() == [0, 0, 0, 1, 2]
