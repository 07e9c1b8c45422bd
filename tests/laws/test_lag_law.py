"""Plans that carry lag figures: true ones are proven without the solver, false ones refused, in memory and from JSON."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.assignors import assignor
from counterpoise.errors import OptionError, SnapshotError
from counterpoise.laws import check_owners, verify
from counterpoise.laws.lag_law import count_band
from counterpoise.laws.owners import complete, valid
from counterpoise.laws.promises import promised
from counterpoise.planning.assign import assign
from counterpoise.snapshot import Group, Member
from counterpoise.snapshot.written import WrittenPlan, read_plan
from tests.strategies import problem_of, random_problem

BEHIND = Group(
    {"t": 4, "u": 2},
    [Member("a", ["t", "u"], {"t": [0, 1], "u": [0]}, 1), Member("b", ["t", "u"], {"t": [2, 3], "u": [1]}, 1)],
    lag={"t": [90, 80, 10, 0], "u": [0, 3]},
)
UNKNOWN = Group(BEHIND.topics, BEHIND.members)


@st.composite
def lagging(draw: st.DrawFn) -> Group:
    """Groups by name, with capacities, claims and lag."""
    counts = draw(st.dictionaries(st.sampled_from("stu"), st.integers(1, 5), min_size=1))
    names = sorted(counts)
    free = {(topic, index) for topic in names for index in range(counts[topic])}
    members = []
    for at in range(draw(st.integers(1, 4))):
        topics = draw(st.lists(st.sampled_from(names), unique=True))
        mine = {each for each in sorted(free) if each[0] in topics and draw(st.booleans())}
        free -= mine
        owned = {topic: [index for of, index in sorted(mine) if of == topic] for topic in topics}
        members.append(Member(f"m{at}", topics, owned, 1, capacity=draw(st.integers(1, 3))))
    lag = {topic: draw(st.lists(st.integers(0, 99), min_size=counts[topic], max_size=counts[topic])) for topic in names}
    return Group(counts, members, lag)


def test_the_bound_that_is_named_is_the_one_that_the_gap_is_of() -> None:
    """9 records on two members: one has at least 5, not 4.5."""
    group = Group({"t": 6}, [Member("a", ["t"]), Member("b", ["t"])], lag={"t": [3, 3, 1, 1, 1, 0]})
    (fault,) = verify(group, {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4, 5]}}, ["lag"])
    assert fault.message == (
        "a is 7 records behind at capacity 1, 40.0% above the proven bound of 5 per capacity; 10.0% are tolerated"
    )


@given(lagging(), st.sampled_from(["eager", "cooperative"]), st.sampled_from(["balanced", 1, 99]))
def test_lag_sticky_plans_keep_what_they_promise_in_memory_and_in_json(group: Group, protocol: str, counts: object) -> None:
    plan = assign(group, "lag-sticky", protocol=protocol, counts=counts)
    assert verify(group, plan) == []
    read = read_plan(plan.to_json())
    assert isinstance(read, WrittenPlan)
    assert (read.strategy, read.options["counts"], read.target) == ("lag-sticky", counts, plan.target)
    assert verify(group, read) == []


@given(lagging(), st.sampled_from(["largest", "member", "bound", "gap", "counts", "reason", "topics", "moves"]))
def test_no_false_figure_passes(group: Group, name: str) -> None:
    """Whatever strategy made the plan: each figure, changed alone, is named."""
    for strategy in ("sticky", "lag-sticky"):
        value = json.loads(assign(group, strategy).to_json())
        value["lag"][name] = "another"
        read = read_plan(json.dumps(value))
        (fault,) = [fault for fault in verify(group, read) if fault.law == "lag"]
        assert fault.message.startswith(f"the plan says {name} 'another' of its lag, but it is ")


def test_a_plan_whose_owners_changed_behind_its_figures_is_refused() -> None:
    """The figures were made for another target."""
    plan = assign(BEHIND, "lag-sticky", protocol="eager")
    assert [fault.law for fault in verify(BEHIND, plan)] == []
    other = dataclasses.replace(plan, target_owner=BEHIND.problem().previous_owner, owner=BEHIND.problem().previous_owner)
    (fault,) = verify(BEHIND, other)
    assert (fault.law, fault.message) == ("lag", "the plan says largest 93 of its lag, but it is 170")


def test_a_plan_made_for_another_lag_is_refused() -> None:
    plan = assign(BEHIND, "lag-sticky")
    later = Group(BEHIND.topics, BEHIND.members, {"t": [1, 1, 1, 500], "u": [0, 0]})
    assert [fault.law for fault in verify(later, plan)] == ["lag"]
    assert "the lag of the group is not known" in verify(UNKNOWN, plan, ["lag"])[0].message


def test_an_unbalanced_plan_is_reported_and_its_bound_of_balanced_plans_is_not_believed() -> None:
    plan = assign(BEHIND, "lag-sticky", protocol="eager")
    lazy = np.zeros(6, np.int32)
    other = dataclasses.replace(plan, target_owner=lazy, owner=lazy)
    assert [fault.law for fault in verify(BEHIND, other)] == ["balanced"]
    assert verify(BEHIND, other, ["lag"])[0].message.startswith("the plan is not balanced")


def test_a_lag_sticky_plan_that_says_nothing_is_held_to_its_tolerance() -> None:
    value = json.loads(assign(BEHIND, "sticky").to_json())
    value |= {"strategy": "lag-sticky", "options": {"tolerance": 0.05}}
    del value["lag"]
    (fault,) = verify(BEHIND, read_plan(json.dumps(value)))
    assert fault.message.endswith("5.0% are tolerated")
    for tolerance in (1, 0.9):
        value["options"]["tolerance"] = tolerance
        assert verify(BEHIND, read_plan(json.dumps(value))) == []
    value["options"] = {"tolerance": 0, "min_lag_gain": 170}
    assert verify(BEHIND, read_plan(json.dumps(value))) == []
    value["options"] = {"tolerance": "much"}
    with pytest.raises(OptionError, match="the plan's option 'tolerance': 'much' is no number"):
        verify(BEHIND, read_plan(json.dumps(value)))


def test_mappings_are_asked_whether_they_are_optimal_and_for_lag_only_on_request() -> None:
    target = assign(BEHIND, "lag-sticky").target
    assert [fault.law for fault in verify(BEHIND, target)] == ["sticky"]
    assert verify(BEHIND, target, ["balanced", "lag"]) == []
    owned = {member.id: member.owned for member in BEHIND.members}
    assert [(fault.law, fault.count) for fault in verify(BEHIND, owned, ["lag"])] == [("lag", 1)]
    with pytest.raises(OptionError, match="'lag' needs the lag of the group"):
        verify(UNKNOWN, owned, ["lag"])


def test_other_strategies_are_held_to_optimality_but_sticky_first() -> None:
    """Sticky-first gives up balance on purpose; without lag, lag-sticky is sticky."""
    problem = BEHIND.problem()
    assert promised("range", {}, problem) == promised("sticky", {}, problem) == promised("lag-sticky", {}, UNKNOWN.problem())
    lopsided = Group({"t": 4}, [Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), Member("b", ["t"])])
    plan = assign(lopsided, "sticky-first")
    assert verify(lopsided, plan) == []
    assert [fault.law for fault in verify(lopsided, plan.target)] == ["balanced"]
    moved = np.array([0, 0, 1, 1], np.int32)
    assert [fault.law for fault in verify(lopsided, dataclasses.replace(plan, target_owner=moved, owner=moved))] == [
        "sticky-first"
    ]
    assert verify(UNKNOWN, assign(UNKNOWN, "lag-sticky")) == []
    assert assign(UNKNOWN, "lag-sticky").lag_report is None
    assert "lag" not in assign(UNKNOWN, "lag-sticky").to_object()


def test_a_written_plan_of_another_form_is_one_clear_error() -> None:
    for text, message in (
        ('{"strategy": "sticky"}', "plan: .*assignment"),
        ("[", "not JSON"),
        ('{"a": 3}', r"plan\.a: Expected"),
    ):
        with pytest.raises(SnapshotError, match=message):
            read_plan(text)
    early = json.loads(assign(BEHIND, "lag-sticky").to_json())
    early["assignment"], early["withheld"] = early["target"], {}
    assert [fault.law for fault in verify(BEHIND, read_plan(json.dumps(early)))] == ["withheld", "added-and-revoked"]


@pytest.mark.parametrize(
    "odd",
    [None, "x", "", -1, 1.5, 10**30, [], [[]], {}, {"z": -1}],
    ids=["null", "text", "no text", "negative", "half", "huge", "no list", "list", "no object", "object"],
)
def test_any_lag_figure_of_another_kind_is_a_fault_or_one_clear_error(odd: object) -> None:
    """Whichever figure of a plan it is; some ended in a StopIteration."""
    written = json.loads(assign(BEHIND, "lag-sticky").to_json())
    errors: list[str] = []
    faults = []
    for name in written["lag"]:
        try:
            faults += verify(BEHIND, read_plan(json.dumps({**written, "lag": {**written["lag"], name: odd}})))
        except SnapshotError as error:
            errors.append(f"{name}: {error}")
    assert faults or errors
    assert [line for line in errors if f"plan.lag.{line.partition(':')[0]}: " not in line] == []


@pytest.mark.parametrize("band", [0, 1, 3])
def test_counts_of_60_groups_lie_within_the_band_and_a_member_moved_out_of_it_is_named(band: int) -> None:
    rng = np.random.default_rng(30 + band)
    caught = 0
    for number in range(60):
        problem = random_problem(rng, capacities=number % 2 == 0)
        problem = problem.replace(lag=rng.lognormal(5, 2, problem.n_partitions).astype(np.int64))
        owner = assignor("lag-sticky", counts=band)(problem)
        assert [*valid(problem, owner), *complete(problem, owner)] == [], f"group {number}"
        assert count_band(problem, owner, options={"counts": band}) == [], f"group {number}"
        even = assignor("sticky")(problem)
        assert count_band(problem, even) == []
        topic = int(np.argmax(np.diff(problem.topic_start)))
        taker = int(np.append(problem.subscriber, -1)[problem.subscriber_start[topic]])
        piled = owner.copy()
        piled[problem.topic_start[topic] : problem.topic_start[topic + 1]] = taker
        far = np.count_nonzero(piled == taker) > np.count_nonzero(even == taker) + band + 1
        if number % 2 and taker >= 0 and problem.subscriber_start[topic + 1] > problem.subscriber_start[topic] and far:
            caught += 1
            assert [fault.law for fault in count_band(problem, piled, options={"counts": band})] == ["counts"]
    assert caught > 5


def test_a_band_is_checked_by_the_nearest_count_of_any_balanced_plan() -> None:
    """Five partitions on two members: 3 and 2, or 2 and 3; so 4 is one from balance for either of them, and 5 is two."""
    problem = problem_of([5], [[0, 1]], 2)
    for owner in ([0, 0, 0, 0, 1], [0, 1, 1, 1, 1]):
        assert count_band(problem, np.array(owner, np.int32), options={"counts": 1}) == []
        (fault,) = count_band(problem, np.array(owner, np.int32))
        assert (fault.law, fault.count) == ("counts", 2)
    (fault,) = count_band(problem, np.zeros(5, np.int32), options={"counts": 1})
    assert fault.message == "member 0 has 5 partitions, 2 from the nearest balanced count of 3; 1 are allowed"
    with pytest.raises(OptionError, match="the plan's option 'counts': -1 is neither"):
        count_band(problem, np.zeros(5, np.int32), options={"counts": -1})


def test_verify_holds_a_plan_to_the_band_it_was_made_with() -> None:
    plan = assign(BEHIND, "lag-sticky", protocol="eager", counts=1)
    assert verify(BEHIND, plan) == []
    piled = np.zeros(6, np.int32)
    faults = verify(BEHIND, dataclasses.replace(plan, target_owner=piled, owner=piled))
    assert (faults[0].law, faults[0].message) == (
        "counts",
        "a has 6 partitions, 3 from the nearest balanced count of 3; 1 are allowed",
    )
    assert [fault.law for fault in check_owners(BEHIND.problem(), piled, ["counts"])] == ["counts"]
