"""verify reads a plan from anywhere, proves it or says by name what is wrong and what would be better."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoise.errors import OptionError, SnapshotError
from counterpoise.laws import LAWS, NamedMove, verify
from counterpoise.model.problem import UNOWNED
from counterpoise.planning.assign import assign
from counterpoise.planning.compare import compare
from counterpoise.simulation.simulate import simulate
from counterpoise.snapshot import Group, Member
from counterpoise.snapshot.plan import moves_as_json
from counterpoise.snapshot.written import WrittenPlan, read_plan
from tests.strategies import groups

CHAIN = Group(
    {"t1": 15, "t2": 15},
    [
        Member("m1", ["t1"], {"t1": range(9)}, 1),
        Member("m2", ["t1", "t2"], {"t1": range(9, 15), "t2": range(4)}, 1),
        Member("m3", ["t2"], {"t2": range(4, 15)}, 1),
    ],
)
PAIR = Group({"t": 4}, [Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), Member("b", ["t"])])


@given(groups(), st.sampled_from(["sticky", "cooperative-sticky"]))
def test_plans_of_the_sticky_strategies_are_proven_by_arrays_and_by_names(group: Group, strategy: str) -> None:
    """A Plan, its target as a mapping, and the same mapping in another order."""
    plan = assign(group, strategy)
    assert verify(group, plan) == []
    assert verify(group, plan.target) == []
    shuffled = {member: dict(reversed(topics.items())) for member, topics in reversed(plan.target.items())}
    assert verify(group, shuffled) == []


@given(groups(), st.data())
def test_a_mutated_mapping_is_never_proven_unless_it_is_as_good(group: Group, data: st.DataObject) -> None:
    """Taking a partition away, giving it twice and inventing one are found by name."""
    target = assign(group, "sticky").target
    owned = [(member, topic, index) for member, topics in target.items() for topic, listed in topics.items() for index in listed]
    assume(owned)
    member, topic, index = data.draw(st.sampled_from(owned))
    without = {m: {t: [i for i in listed if (m, t, i) != (member, topic, index)] for t, listed in topics.items()}
               for m, topics in target.items()}  # fmt: skip
    twice = {**target, member: {**target[member], topic: [*target[member][topic], index]}}
    invented = {**target, member: {**target[member], topic: [*target[member][topic], 99]}}
    for broken, word in ((without, "without an owner"), (twice, "more than once"), (invented, "do not exist")):
        (fault,) = verify(group, broken)
        assert (fault.law, fault.count) == ("complete", 1)
        assert word in fault.message
        assert f"{topic}-" in fault.message


def test_the_better_moves_are_named() -> None:
    """The 9/10/11 chain: one partition travels from m3 over m2 to m1."""
    (fault,) = verify(CHAIN, {member.id: member.owned for member in CHAIN.members})
    assert fault.law == "balanced"
    assert fault.moves == (NamedMove("t2", 4, "m3", "m2"), NamedMove("t1", 9, "m2", "m1"))
    assert fault.message == (
        "m3 has 11 partitions and m1 has 9 partitions: one fewer for the first and one more for the second is better balanced; "
        "move t2-4 from m3 to m2, t1-9 from m2 to m1"
    )


def test_the_better_exchange_is_named() -> None:
    """Balanced, but a and b each hold what the other claims."""
    group = Group({"t": 2}, [Member("a", ["t"], {"t": [0]}, 1), Member("b", ["t"], {"t": [1]}, 1)])
    (fault,) = verify(group, {"a": {"t": [1]}, "b": {"t": [0]}})
    assert (fault.law, fault.gain) == ("sticky", 2)
    assert set(fault.moves) == {NamedMove("t", 0, "b", "a"), NamedMove("t", 1, "a", "b")}
    assert fault.message.startswith("at the same balance 2 more partitions could stay")


def test_capacities_are_named_where_they_differ() -> None:
    """Loads alone would not explain the message."""
    group = Group({"t": 4}, [Member("a", ["t"]), Member("b", ["t"], capacity=3)])
    (fault,) = verify(group, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}})
    assert fault.message.startswith("a has 2 partitions at capacity 1 and b has 2 partitions at capacity 3")


def test_members_and_topics_that_do_not_exist_are_named() -> None:
    """A plan of another group."""
    faults = verify(PAIR, {"a": {"t": [0, 1], "gone": [0]}, "b": {"t": [2, 3]}, "stranger": {"t": [0]}})
    assert [(fault.law, fault.count) for fault in faults] == [("valid", 1), ("complete", 1)]
    assert "stranger" in faults[0].message
    assert "gone-0 (given to a)" in faults[1].message


def test_an_owner_that_does_not_subscribe_is_named() -> None:
    """Valid speaks of members by name."""
    group = Group({"t": 1}, [Member("a", ["t"]), Member("b", [])])
    (fault,) = verify(group, {"b": {"t": [0]}})
    expected = "1 partition is given to a member that does not subscribe to the topic: t-0 (given to b)"
    assert (fault.law, fault.message) == ("valid", expected)


def test_only_the_laws_asked_for_are_checked() -> None:
    """Range makes no promise to keep anything; it is still valid and complete."""
    lazy = {"a": {"t": [0, 1, 2, 3]}}
    assert [fault.law for fault in verify(PAIR, lazy)] == ["balanced"]
    assert verify(PAIR, lazy, ["valid", "complete"]) == []
    assert verify(PAIR, lazy, ["sticky-first"]) == []
    with pytest.raises(OptionError, match="'quick' is no law"):
        verify(PAIR, lazy, ["quick"])


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([], "plan: Expected `object`, got `array`"),
        ({"a": [0]}, "plan.a: Expected `object`, got `array`"),
        ({"a": {"t": "01"}}, "plan.a.t: Expected `array`, got `str`"),
        ({"a": {"t": [0.5]}}, "plan.a.t[0]: Expected `int`, got `float`"),
        ({"a": {"t": [[0], [1, 2]]}}, "plan.a.t[0]: Expected `int`, got `array`"),
    ],
)
def test_a_plan_of_another_form_is_one_clear_error(plan: object, message: str) -> None:
    """The path comes first."""
    with pytest.raises(SnapshotError, match=re.escape(message)):
        verify(PAIR, plan)  # type: ignore[arg-type]


def test_a_cooperative_plan_that_hands_out_too_early_is_found() -> None:
    """Both cooperative laws speak; an eager plan is not asked."""
    plan = assign(PAIR, "cooperative-sticky")
    assert verify(PAIR, plan) == []
    early = dataclasses.replace(plan, owner=plan.target_owner)
    assert [fault.law for fault in verify(PAIR, early)] == ["withheld", "added-and-revoked"]
    assert verify(PAIR, early, ["valid", "balanced"]) == []
    late = dataclasses.replace(plan, owner=np.full(4, UNOWNED, np.int32))
    assert [fault.law for fault in verify(PAIR, late)] == ["withheld"]
    assert verify(PAIR, dataclasses.replace(early, protocol="eager")) == []


def test_a_plan_of_a_group_with_other_codes_is_read_by_names() -> None:
    """The same names in a group with one member more: codes differ, names decide."""
    plan = assign(PAIR, "cooperative-sticky")
    larger = Group({"s": 1, "t": 4}, [Member("0", ["s"]), *PAIR.members])
    (fault,) = verify(larger, plan)
    assert (fault.law, fault.count) == ("complete", 1)
    assert "s-0" in fault.message
    assert verify(Group({"s": 0, "t": 4}, [Member("0", []), *PAIR.members]), plan) == []


def test_a_group_without_members_or_partitions_is_proven() -> None:
    """Nothing to own, nothing wrong."""
    assert verify(Group({}, []), {}) == []
    assert verify(Group({"t": 3}, []), {}) == []
    assert verify(Group({}, [Member("a", ["t"])]), {"a": {}}) == []


def test_what_a_cooperative_round_hands_out_is_no_whole_plan() -> None:
    """The mapping alone cannot say what is withheld; what nobody holds is simply missing."""
    plan = assign(PAIR, "cooperative-sticky")
    (fault,) = verify(PAIR, plan.assignment)
    assert (fault.law, fault.count) == ("complete", 2)
    assert fault.message.endswith("would withhold them: if this is plan.assignment, pass the plan")
    (fresh,) = verify(Group({"t": 2}, [Member("a", ["t"])]), {"a": {"t": [0]}})
    assert "withhold" not in fresh.message


def test_one_name_is_no_list_of_laws() -> None:
    for laws in ("valid", 5):
        with pytest.raises(OptionError, match=f"laws: expected a list of names, not {laws!r}"):
            verify(PAIR, assign(PAIR, "sticky"), laws)  # type: ignore[arg-type]


def test_one_name_is_no_list_of_strategies() -> None:
    for names in ("sticky", 5):
        with pytest.raises(OptionError, match=f"strategies: expected a list of names, not {names!r}"):
            compare(PAIR, names)  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=f"strategies: expected a list of names, not {names!r}"):
            simulate("scale-out", names)  # type: ignore[arg-type]


def test_a_round_of_another_client_is_checked_by_the_laws_asked_for() -> None:
    """A mapping without a protocol; the partition that moves is still held."""
    group = Group({"t": 2}, [Member("a", ["t"], {"t": [0, 1]}), Member("b", ["t"])])
    laws = ["valid", "withheld", "added-and-revoked"]
    assert verify(group, {"a": {"t": [0]}, "b": {}}, laws) == []
    found = verify(group, {"a": {"t": [0]}, "b": {"t": [1]}}, laws)
    assert [fault.law for fault in found] == ["withheld", "added-and-revoked"]


@pytest.mark.parametrize("law", LAWS)
def test_no_law_is_proven_of_a_plan_that_names_what_the_group_does_not_have(law: str) -> None:
    """A stranger owns everything; a partition given twice hides an owner that does not subscribe; one does not exist."""
    group = Group({"t": 2, "u": 2}, [Member("a", ["t"]), Member("b", ["u"])], {"t": [0, 0], "u": [0, 0]})
    for plan in ({"zz": {"t": [0, 1], "u": [0, 1]}}, {"a": {"u": [0, 0, 1]}, "b": {"t": [0, 1]}}, {"a": {"t": [0, 1, 2]}}):
        assert verify(group, plan, [law]) != []


@pytest.mark.parametrize("law", ["counts", "lag"])
def test_counts_and_lag_of_a_plan_that_is_not_valid_and_complete_are_not_proven(law: str) -> None:
    """Nobody who owns nothing is behind; a member that does not subscribe can be as light as another."""
    group = Group({"t": 2, "u": 2}, [Member("a", ["t"]), Member("b", ["u"])], {"t": [0, 0], "u": [0, 0]})
    for plan, fault in (({}, "complete"), ({"a": {"u": [0, 1]}, "b": {"t": [0, 1]}}, "valid")):
        assert [found.law for found in verify(group, plan, [law])] == [fault]


@pytest.mark.parametrize("law", ["withheld", "added-and-revoked"])
def test_no_round_is_proven_that_gives_a_partition_twice(law: str) -> None:
    """The target is fine; both owners of t-1 are in what the round hands out."""
    group = Group({"t": 2}, [Member("a", ["t"], {"t": [0, 1]}, 1), Member("b", ["t"])])
    target = {"a": {"t": [0]}, "b": {"t": [1]}}
    twice = WrittenPlan("theirs", "cooperative", {}, {"a": {"t": [0, 1]}, "b": {"t": [1]}}, target)
    (fault,) = verify(group, twice, [law])
    assert (fault.law, fault.message) == ("complete", "1 partition is given more than once: t-1")
    assert verify(group, twice, ["balanced"]) == []


def test_what_a_round_leaves_out_is_found_whether_or_not_the_plan_names_its_strategy() -> None:
    """Nobody holds the partitions, nobody gets them, and no target says who will."""
    group = Group({"t": 2}, [Member("a", ["t"]), Member("b", ["t"])])
    for head in ("", '"strategy": "theirs", "protocol": "cooperative", '):
        (fault,) = verify(group, read_plan(f'{{{head}"assignment": {{"a": {{}}, "b": {{}}}}}}'), ["withheld"])
        assert (fault.law, fault.count) == ("withheld", 2)
    whole = read_plan('{"strategy": "theirs", "assignment": {"a": {"t": [0]}, "b": {"t": [1]}}}')
    assert verify(group, whole, ["withheld"]) == []


@pytest.mark.parametrize(
    ("head", "laws"),
    [
        ('"strategy": "theirs"', ["complete"]),
        ('"strategy": "theirs", "protocol": "eager"', ["complete"]),
        ('"protocol": "eager"', ["complete"]),
        ('"protocol": "cooperative"', ["withheld", "added-and-revoked"]),
    ],
)
def test_a_target_proves_nothing_about_what_a_plan_hands_out(head: str, laws: list[str]) -> None:
    """The target is fine. An eager round leaves t-0 out; a cooperative one gives b what a still holds."""
    group = Group({"t": 2}, [Member("a", ["t"], {"t": [0, 1]}, 1), Member("b", ["t"])])
    handed = '{"a": {"t": [0]}, "b": {"t": [1]}}' if "cooperative" in head else '{"a": {}, "b": {"t": [1]}}'
    plan = read_plan(f'{{{head}, "assignment": {handed}, "target": {{"a": {{"t": [0]}}, "b": {{"t": [1]}}}}}}')
    assert [fault.law for fault in verify(group, plan)] == laws


@given(groups(), st.sampled_from(["sticky", "cooperative-sticky", "range", "sticky-first"]))
def test_the_figures_of_a_plan_are_true(group: Group, strategy: str) -> None:
    """A plan in JSON carries its own figures: they add nothing to what is found without them."""
    plan = assign(group, strategy)
    written = {**plan.to_object(), "moves": moves_as_json(plan.moves)}
    names = ("strategy", "protocol", "options", "assignment", "target", "lag")
    bare = {name: written[name] for name in names if name in written}
    assert verify(group, read_plan(json.dumps(written))) == verify(group, read_plan(json.dumps(bare)))


@pytest.mark.parametrize(
    ("figure", "said", "law", "message"),
    [
        ("kept", 3, "sticky", "kept 3, but by its owners it is 2"),
        ("moved", 0, "sticky", "moved 0, but by its owners it is 2"),
        ("spread", "0", "balanced", "spread '0', but by its owners it is 0"),
        ("loads", {"a": 2, "b": 3}, "balanced", "loads[b] 3, but by its owners it is 2"),
        ("loads", {"b": 2}, "balanced", "loads[a] None, but by its owners it is 2"),
        ("loads", {"a": 2, "b": 2, "z": 0}, "balanced", "loads[z] 0, but by its owners it is None"),
        ("loads", 4, "balanced", "loads[a] None, but by its owners it is 2"),
        ("moves", [], "sticky", "moves[0] None, but by its owners it is {'topic': 't', 'partition': 1, 'from': 'a', 'to': 'b'}"),
        ("unassigned", {"t": [0]}, "complete", "unassigned[t] [0], but by its owners it is None"),
        ("withheld", {"t": [0]}, "withheld", "withheld[t] [0], but by its owners it is [1, 3]"),
    ],
)
def test_a_figure_that_contradicts_the_owners_is_found(figure: str, said: object, law: str, message: str) -> None:
    """It is reported under the law that it is about; null says nothing."""
    plan = assign(PAIR, "cooperative-sticky")
    written = {**plan.to_object(), "moves": moves_as_json(plan.moves)}
    assert verify(PAIR, read_plan(json.dumps({**written, figure: None}))) == []
    read = read_plan(json.dumps({**written, figure: said}))
    (fault,) = verify(PAIR, read)
    assert (fault.law, fault.message) == (law, f"the plan says {message}")
    assert [found.law for found in verify(PAIR, read, [law])] == [law]
    assert verify(PAIR, read, ["valid", "added-and-revoked"]) == []
    incomplete = {"strategy": "theirs", "assignment": {"a": {"t": [0, 1]}, "b": {}}, figure: said}
    assert [found.law for found in verify(PAIR, read_plan(json.dumps(incomplete)))] == ["complete"], "not checked further"


def test_members_whose_long_ids_begin_alike_have_figures_of_their_own() -> None:
    """In any order of the file's keys: a message shows only the first part of a long id."""
    first, second = (f"{'shipping-' * 12}{end}" for end in "ab")
    group = Group({"t": 3}, [Member(first, ["t"]), Member(second, ["t"])])
    plan = assign(group).to_object()
    true, false = ({second: 1, first: load} for load in (2, 3))
    assert verify(group, read_plan(json.dumps({**plan, "loads": true}))) == []
    (fault,) = verify(group, read_plan(json.dumps({**plan, "loads": false})))
    assert fault.message == f"the plan says {f'loads[{first}'[:80]}... 3, but by its owners it is 2"
