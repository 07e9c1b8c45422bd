"""Groups in and out of JSON, and the path that every error names."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.cli.inputs import read_groups
from counterpoise.errors import SnapshotError
from counterpoise.explanation import explain
from counterpoise.laws import verify
from counterpoise.model.lag import partition_lag
from counterpoise.model.problem import UNOWNED
from counterpoise.planning.assign import assign
from counterpoise.planning.compare import compare
from counterpoise.simulation import simulate
from counterpoise.snapshot import Group, Member, Topic, read_assignment
from counterpoise.snapshot.written import read_plan

EXAMPLE = """{"topics": {"t1": 10, "t2": {"partitions": 2, "racks": [["a","b"],["b","c"]]}},
 "members": [{"id": "c0", "instance_id": null, "rack": null, "topics": ["t1"], "owned": {"t1": [0,1]},
              "generation": 5, "capacity": 1}],
 "lag": {"t1": [0,0,7,0,0,0,0,0,0,0]}}"""

T1 = {"topics": {"t1": 10}}
REFUSED = [
    (
        "a partition that does not exist",
        {**T1, "members": [{"id": "a"}, {"id": "b", "owned": {"t1": [3, 12]}}]},
        "members[1].owned.t1[1]: partition 12 does not exist, t1 has 10",
    ),
    ("a negative index", {**T1, "members": [{"id": "a", "owned": {"t1": [-1]}}]}, "members[0].owned.t1[0]: Expected `int` >= 0"),
    ("a repeated id", {**T1, "members": [{"id": "a"}, {"id": "a"}]}, "members[1].id: 'a' is also members[0]"),
    ("a word for a number", {**T1, "members": [{"id": "a", "owned": {"t1": [1], "t2": ["x"]}}]}, "members[0].owned.t2[0]: "),
    ("a word for a count", {"topics": {"t1": 1, "t9": "x"}, "members": []}, "topics.t9: Expected `int | object`, got `str`"),
    (
        "a field nobody knows",
        {**T1, "members": [{"id": "a", "typo": 1}]},
        "members[0]: Object contains unknown field `typo`",
    ),
    ("a list for a group", [], "top level: Expected `object`, got `array`"),
    ("a member that is no object", {**T1, "members": [3]}, "members[0]: Expected `object`, got `int`"),
    ("nothing for claims", {**T1, "members": [{"id": "a", "owned": None}]}, "members[0].owned: Expected `object`, got `null`"),
    (
        "an index beyond Kafka's",
        {**T1, "members": [{"id": "a", "owned": {"t2": [2**31]}}]},
        "members[0].owned.t2[0]: Expected `int` <= 2147483647",
    ),
    ("no members", T1, "top level: Object missing required field `members`"),
    ("a capacity of zero", {**T1, "members": [{"id": "a", "capacity": 0}]}, "members[0].capacity: Expected `int` >= 1"),
    ("a negative count", {"topics": {"t1": -1}, "members": []}, "topics.t1: Expected `int` >= 0"),
    ("racks of the wrong length", {"topics": {"t": {"partitions": 2, "racks": [[]]}}, "members": []}, "topics.t.racks: 1 lists"),
    ("a lag of the wrong length", {**T1, "members": [], "lag": {"t1": [1]}}, "lag.t1: 1 numbers, t1 has 10"),
    ("a lag of an unknown topic", {**T1, "members": [], "lag": {"t2": [1]}}, "lag.t2: topic does not exist"),
    ("a count beyond all memory", {"topics": {"a": 3_000_000_000}, "members": []}, "topics.a: 3000000000 partitions so far"),
    ("a count beyond int64", {"topics": {"a": 10**20}, "members": []}, "topics.a: 100000000000000000000 partitions"),
    (
        "a huge generation",
        {**T1, "members": [{"id": "a", "generation": 2**63}]},
        "members[0].generation: Expected `int` <= 2147483647",
    ),
    ("a huge capacity", {**T1, "members": [{"id": "a", "capacity": 2**63}]}, "members[0].capacity: Expected `int` <= 2147483647"),
    (
        "a huge lag",
        {"topics": {"t1": 1}, "members": [], "lag": {"t1": [2**63]}},
        "lag.t1[0]: Expected `int` <= 9223372036854775807",
    ),
    ("a negative lag", {"topics": {"t1": 1}, "members": [], "lag": {"t1": [-1]}}, "lag.t1[0]: Expected `int` >= 0"),
]


@pytest.mark.parametrize(("value", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_wrong_snapshot_names_the_path(value: object, message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        Group.from_json(json.dumps(value))
    assert str(caught.value).startswith(message)


WRONG: Any = {"a": 2.5}, {"a": "3"}, 1.5, None
ANY: Any = Group
A: Any = Member
TOO_DEEP = "not JSON: " + ("maximum recursion depth" if sys.version_info < (3, 14) else "Stack overflow")

BUILT_WRONG = [
    ("a fraction for a count", lambda: Group(WRONG[0], []), "topics.a: Expected `int | object`, got `float`"),
    ("text for a count", lambda: Group(WRONG[1], []), "topics.a: Expected `int | object`, got `str`"),
    ("yes for a count", lambda: Group({"a": True}, []), "topics.a: Expected `int | object`, got `bool`"),
    ("a fraction for an index", lambda: owned([0.9]), "members[0].owned.a[0]: Expected `int`, got `float`"),
    ("text for an index", lambda: owned(["0"]), "members[0].owned.a[0]: Expected `int`, got `str`"),
    ("lists in a list", lambda: owned([[0], 1]), "members[0].owned.a[0]: Expected `int`, got `array`"),
    ("one name for a list", lambda: Group({}, [Member("x", "ab")]), "members[0].topics: Expected `array`, got `str`"),
    (
        "a fraction for a weight",
        lambda: Group({}, [Member("x", capacity=WRONG[2])]),
        "members[0].capacity: Expected `int`, got `float`",
    ),
    ("a fraction for a lag", lambda: Group({"a": 1}, [], {"a": [WRONG[2]]}), "lag.a[0]: Expected `int`, got `float`"),
    ("nothing for text", lambda: Group.from_json(WRONG[3]), "not JSON: "),
    ("bytes that are no UTF-8", lambda: Group.from_json(b'{"topics":{"\xff":1}}'), "not JSON: "),
    ("half a character in text", lambda: Group.from_json('{"topics":{"\udc00":1}}'), "not JSON: 'utf-8' codec can't encode"),
    ("half of one in a line", lambda: list(read_groups('{"\udc00":1}\n{}')), "not JSON: 'utf-8' codec can't encode"),
    ("lists in lists in lists", lambda: Group.from_json("[" * 100_000), TOO_DEEP),
    ("more of them", lambda: list(read_groups('{"topics":{"t":' + "[" * 100_000 + "\n{}")), TOO_DEEP),
    ("a number for a name", lambda: ANY({5: 1}, []), "topics: Expected `str`, got `int` as a key; docs/snapshot.md"),
    ("pairs for topics", lambda: ANY([("t", 1)], []), "topics: Expected `object`, got `array`"),
    ("nobody for members", lambda: ANY({}, None), "members: Expected `array`, got `null`"),
    ("members by name", lambda: ANY({}, {"x": A("x")}), "members: Expected `array`, got `object`"),
    ("a number for a group", lambda: ANY({}, [], None, 5), "group: Expected `str | null`, got `int`"),
    ("nothing for a list", lambda: Group({}, [A("x", None)]), "members[0].topics: Expected `array`, got `null`"),
    ("a number for indices", lambda: owned(A(1).id), "members[0].owned.a: Expected `array`, got `int`"),
    (
        "a number for an instance",
        lambda: Group({}, [A("x", instance_id=3)]),
        "members[0].instance_id: Expected `str | null`, got `int`",
    ),
    ("a number for a rack", lambda: Group({}, [A("x", rack=3)]), "members[0].rack: Expected `str | null`, got `int`"),
    ("a number for racks", lambda: ANY({"a": Topic(1, A(5).id)}, []), "topics.a.racks: Expected `array | null`, got `int`"),
    ("one rack for a list", lambda: ANY({"a": Topic(1, ["abc"])}, []), "topics.a.racks[0]: Expected `array`, got `str`"),
    (
        "a number in a list",
        lambda: ANY({"a": Topic(1, [[A(5).id]])}, []),
        "topics.a.racks[0][0]: Expected `str | null`, got `int`",
    ),
    ("a list for lags", lambda: ANY({"a": 1}, [], [1]), "lag: Expected `object | null`, got `array`"),
    (
        "lags without order",
        lambda: ANY({"a": 1}, [], {"a": {1}}),
        "lag.a: expected a list of records behind, one per partition, not {1}",
    ),
    ("a number for lags", lambda: ANY({"a": 1}, [], {"a": 1}), "lag.a: Expected `array`, got `int`"),
    ("an array of no dimension", lambda: ANY({}, np.array(3)), "members: Expected `array`, got `int`"),
    ("another one", lambda: owned(np.array(3)), "members[0].owned.a: Expected `array`, got `int`"),
    ("half a character in a name", lambda: ANY({"\ud800": 1}, []), "'\\ud800' holds half a surrogate pair, which is no text"),
    ("one in an id", lambda: ANY({}, [A("\udc00")]), "'\\udc00' holds half a surrogate pair, which is no text"),
    (
        "one in a subscription",
        lambda: ANY({}, [A("x", ["t", "\udc00"])]),
        "'\\udc00' holds half a surrogate pair, which is no text",
    ),
    ("one in a claim", lambda: ANY({}, [A("x", [], {"\udc00": []})]), "'\\udc00' holds half a surrogate pair, which is no text"),
    ("one in a rack", lambda: ANY({"a": Topic(1, [["\udc00"]])}, []), "'\\udc00' holds half a surrogate pair, which is no text"),
    (
        "one in a rack of ours",
        lambda: ANY({}, [A("x", rack="\udc00")]),
        "'\\udc00' holds half a surrogate pair, which is no text",
    ),
    ("one in a group", lambda: ANY({}, [], None, "\udc00"), "'\\udc00' holds half a surrogate pair, which is no text"),
]


def owned(indices: object) -> object:
    return Group({"a": 1}, [A("x", ["a"], {"a": indices})]).problem()


@pytest.mark.parametrize(("build", "message"), [case[1:] for case in BUILT_WRONG], ids=[case[0] for case in BUILT_WRONG])
def test_nothing_is_rounded_or_converted(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        build()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "call", [assign, lambda g, _: verify(g, {}), lambda g, s: compare(g, [s]), lambda g, _: explain(g, {}, "t", 0)]
)
def test_text_is_no_group(call: Callable[[Any, str], object]) -> None:
    with pytest.raises(SnapshotError, match=r"^group: expected a Group, not str; Group\.from_json reads"):
        call(EXAMPLE, "sticky")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "plan: Expected `object`, got `array`; a plan is"),
        ('{"a": {"t": [0]}, "b": 3}', "plan.b: Expected `object`, got `int`; a plan is"),
        ('{"a": {"t": [0], "u": 1}}', "plan.a.u: Expected `array`, got `int`; a plan is"),
        ('{"a": {"t": [0, 1.5]}}', "plan.a.t[1]: Expected `int`, got `float`; a plan is"),
        ('{"strategy": "x", "target": {"a": {"t": ["0"]}}}', "plan.a.t[0]: Expected `int`, got `str`; a plan is"),
    ],
)
def test_a_wrong_plan_names_the_path(text: str, message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_assignment(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("part", ["assignment", "target"])
def test_a_plan_needs_no_strategy(part: str) -> None:
    owners = {"a": {"t": [0]}, "b": {}}
    assert read_assignment(json.dumps({part: owners})) == owners
    assert read_assignment(json.dumps({"strategy": "mine", part: owners})) == owners
    member_of_that_name = {part: {"t": [0]}, "b": {}}
    assert read_assignment(json.dumps(member_of_that_name)) == member_of_that_name


@pytest.mark.parametrize("name", ["strategy", "protocol", "lag", "group"])
def test_members_may_be_named_as_the_parts_of_a_plan(name: str) -> None:
    """Both at once: a member `assignment`, or `target`, and one that is named as another part."""
    for part in ("assignment", "target"):
        for owned in ({"t": [0]}, {}):
            owners = {part: owned, name: {"t": [1]}}
            assert read_assignment(json.dumps(owners)) == read_plan(json.dumps(owners)) == owners


def test_the_plan_of_a_group_without_members_has_an_empty_assignment() -> None:
    for text in ('{"assignment": {}}', '{"assignment": {}, "group": "g"}', "{}"):
        assert read_assignment(text) == read_plan(text) == {}
    assert verify(Group({"t": 2}), read_assignment('{"assignment": {}}')) == []


def test_text_that_is_not_json_is_one_clear_error() -> None:
    with pytest.raises(SnapshotError, match="not JSON"):
        Group.from_json('{"topics":')


def test_a_byte_order_mark_before_the_json_is_skipped() -> None:
    text = '\ufeff{"topics": {"t": 2}, "members": [{"id": "a", "topics": ["t"]}]}'
    assert Group.from_json(text) == Group.from_json(text.encode()) == Group({"t": 2}, [Member("a", ["t"])])
    assert read_assignment('\ufeff{"assignment": {"a": {"t": [0]}}}') == {"a": {"t": [0]}}


def test_the_example_reads_as_written() -> None:
    group = Group.from_json(EXAMPLE)
    problem = group.problem()
    assert (group.topic_names, group.member_ids) == (("t1", "t2"), ("c0",))
    assert problem.previous_owner.tolist() == [0, 0] + [UNOWNED] * 10
    assert problem.lag is not None
    assert problem.lag.tolist() == [0, 0, 7] + [0] * 9
    assert Group.from_json(group.to_json()) == group


@pytest.mark.parametrize("carried", [copy.deepcopy, lambda what: pickle.loads(pickle.dumps(what))], ids=["copied", "pickled"])
def test_groups_and_plans_go_from_process_to_process(carried: Callable[[Any], Any]) -> None:
    group = Group.from_json(EXAMPLE)
    plan = assign(group, "sticky", evenness="exact")
    there, taken = carried(group), carried(plan)
    assert there == group
    assert (taken.to_json(), dict(taken.options), taken.certificate.sticky) == (plan.to_json(), dict(plan.options), True)
    assert verify(there, taken) == []


@pytest.mark.parametrize("carried", [copy.deepcopy, lambda what: pickle.loads(pickle.dumps(what))], ids=["copied", "pickled"])
def test_arrays_of_results_stay_read_only_in_a_copy_and_in_another_process(carried: Callable[[Any], Any]) -> None:
    group = Group.from_json(EXAMPLE)
    plan, outcome = assign(group, "cooperative-sticky"), simulate("leader-crash", ["range"])["range"]
    results = (plan, plan.certificate, plan.problem, group.settled, outcome.intervals, partition_lag([1], [0], [5]))
    for taken in map(carried, results):
        arrays = [getattr(taken, name) for name in dir(taken) if isinstance(getattr(taken, name), np.ndarray)]
        assert arrays
        assert not any(array.flags.writeable for array in arrays)


def test_words_and_numbers_of_other_types_are_what_they_say() -> None:
    class Word(str):
        __slots__ = ()

    count: Any = np.int32
    word: Any = Word
    unknown: Any = None
    indices: Any = np.array([0])
    topics = {word("t"): Topic(count(2), [[word("r")], [unknown]])}
    members = [Member(word("a"), [word("t")], {word("t"): indices}, count(3), word("i"), word("r"), count(2))]
    group = Group(topics, members, {word("t"): [count(1), count(2)]}, word("g"))
    said = Group({"t": Topic(2, [["r"], []])}, [Member("a", ["t"], {"t": [0]}, 3, "i", "r", 2)], lag={"t": [1, 2]}, name="g")
    assert group == said
    assert Group.from_json(group.to_json()) == said
    plans = [assign(group, "lag-sticky", tolerance=np.float64(0.25)), assign(said, "lag-sticky", tolerance=0.25)]
    assert plans[0].to_json() == plans[1].to_json()


def test_members_and_their_lists_may_be_read_only_once() -> None:
    given: Any = iter(["t"]), iter([0])
    group = Group({"t": 1}, iter([Member("a", given[0], {"t": given[1]}, 3)]))
    assert [group.to_json(), group.to_json()] == [Group({"t": 1}, [Member("a", ["t"], {"t": [0]}, 3)]).to_json()] * 2


def test_claims_on_what_does_not_exist_are_dropped_and_counted() -> None:
    group = Group({"t": 2, "u": 1}, [Member("a", ["t"], {"t": [0, 2], "gone": [1, 2, 3]}, 3)])
    assert (group.settled.vanished_partition, group.settled.unknown_topic) == (1, 3)
    assert group.problem().holder.tolist() == [0, UNOWNED, UNOWNED]
    lenient = Group.from_json('{"topics":{"t":2},"members":[{"id":"a","topics":["t"],"owned":{"t":[0,4]}}]}', strict=False)
    assert lenient.settled.vanished_partition == 1


def test_a_claim_on_a_topic_given_up_still_holds() -> None:
    problem = Group({"t": 1, "u": 1}, [Member("a", ["u"], {"t": [0]}, 3)]).problem()
    assert (problem.previous_owner.tolist(), problem.holder.tolist()) == ([UNOWNED, UNOWNED], [0, UNOWNED])


def test_json_lines_hold_one_group_each_and_errors_name_the_line() -> None:
    line = '{"topics":{"t":1},"members":[],"group":"g"}'
    assert [group.name for group in read_groups(f"{line}\n\n{line}\n")] == ["g", "g"]
    assert [group.name for group in read_groups(EXAMPLE)] == [None]
    with pytest.raises(SnapshotError, match=r"line 2: topics\.t: "):
        list(read_groups(line + '\n{"topics":{"t":-1},"members":[]}'))


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_the_order_of_members_and_topics_changes_nothing(members: list[int], topics: list[int]) -> None:
    all_members = [Member(f"m{at}", [f"t{at % 3}", "t0"], {f"t{at % 3}": [at % 2]}, at % 2) for at in range(4)]
    group = Group({f"t{at}": Topic(2) for at in topics}, [all_members[at] for at in members])
    expected = Group({f"t{at}": 2 for at in range(3)}, all_members)
    assert group == expected
    for name in ("topic_start", "subscriber", "previous_owner", "holder", "static_rank"):
        assert getattr(group.problem(), name).tolist() == getattr(expected.problem(), name).tolist()
