"""What somebody tries first in Python works, or says in one line what to write instead."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterpoise as cp
from counterpoise.assignors import registry
from counterpoise.errors import OptionError, ProblemError, SnapshotError, SubscriptionWarning
from counterpoise.planning.lead import lead_plan
from counterpoise.snapshot.frozen import FrozenDict, FrozenList, frozen
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, encode_subscription

ANY: Any = cp
PAIR = cp.Group({"t": 4}, [cp.Member("a", ["t"], {"t": [0, 1, 2, 3]}, 1), cp.Member("b", ["t"])])


def test_a_topic_may_be_written_as_in_json() -> None:
    racks: list[list[str | None]] = [["a", None], [""]]
    group = cp.Group({"t": {"partitions": 2, "racks": racks}, "u": {"partitions": 1}}, [])
    assert group == cp.Group({"t": cp.Topic(2, racks), "u": 1}, []) == cp.Group({"t": cp.Topic(2, racks), "u": 1})
    assert cp.Group.from_json(json.dumps({"topics": {"t": {"partitions": 2, "racks": racks}, "u": 1}, "members": []})) == group


@pytest.mark.parametrize(
    ("topic", "message"),
    [({}, "topics.t: .*required field `partitions`"), ({"partitions": 1, "rack": []}, "topics.t: .*unknown field `rack`")],
)
def test_a_topic_that_is_written_wrongly_names_the_field(topic: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        cp.Group({"t": topic}, [])


def test_replicas_without_a_rack_match_nobody() -> None:
    """Kafka has such replicas; only the second partition has a replica beside the member in rack b."""
    topics = {"t": {"partitions": 2, "racks": [[None, ""], [None, "b"]]}}
    members = [{"id": "x", "topics": ["t"], "rack": "a"}, {"id": "y", "topics": ["t"], "rack": "b"}]
    group = cp.Group.from_json(json.dumps({"topics": topics, "members": members}))
    assert cp.assign(group).target == {"x": {"t": [0]}, "y": {"t": [1]}}


def test_assign_and_compare_have_the_defaults_of_the_command_line() -> None:
    assert cp.assign(PAIR).strategy == "sticky"
    assert list(cp.compare(PAIR)) == [name for name in cp.strategies() if not name.startswith("lag")]
    with_lag = cp.Group(PAIR.topics, PAIR.members, {"t": [1, 2, 3, 4]})
    assert list(cp.compare(with_lag)) == list(cp.strategies())


def test_compare_measures_every_strategy_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names from a generator, and one of another package that begins like those that need lag."""
    assert list(cp.compare(PAIR, (name for name in ("range", "sticky")))) == ["range", "sticky"]
    mine = replace(registry.strategy("sticky"), name="lagoon")
    monkeypatch.setattr(registry, "_BY_NAME", registry._BY_NAME | {"lagoon": mine})
    assert "lagoon" in cp.compare(PAIR)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("sticky", "Plan('sticky', eager: 4 partitions, loads 2 to 2, 2 moved, proven optimal)"),
        (
            "cooperative-sticky",
            "Plan('cooperative-sticky', cooperative: 4 partitions, loads 2 to 2, 2 moved, 2 withheld, proven optimal)",
        ),
        ("sticky-first", "Plan('sticky-first', eager: 4 partitions, loads 0 to 4, 0 moved, not balanced)"),
    ],
)  # fmt: skip
def test_a_plan_shows_its_loads_its_moves_and_whether_it_is_proven(strategy: str, words: str) -> None:
    assert repr(cp.assign(PAIR, strategy)) == repr(cp.assign(PAIR, np.str_(strategy))) == words


def test_a_plan_of_a_group_whose_lag_is_known_shows_how_near_its_lag_is_to_the_bound() -> None:
    """One member has a lag of 6 records of 10; no plan has less than 5."""
    members = [cp.Member("a", ["t"]), cp.Member("b", ["t"])]
    plan = cp.assign(cp.Group({"t": 2}, members, lag={"t": [6, 4]}), "lag-sticky")
    assert repr(plan).endswith("0 moved, largest lag 0.0% above its bound, counts and moves proven optimal)")
    uneven = cp.assign(cp.Group({"t": 4}, members, lag={"t": [9, 9, 1, 1]}), "range")
    assert "largest lag 80.0% above its bound, counts and moves proven optimal" in repr(uneven)


def test_a_large_plan_is_not_proven_only_to_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterpoise.snapshot.plan._CHECKED_IN_REPR", 3)
    plan = cp.assign(PAIR)
    assert "not checked" in repr(plan)
    assert plan.certificate.sticky
    assert "proven optimal" in repr(plan)


def change(plan: cp.Plan) -> list[Callable[[], object]]:
    """Everything that somebody may try to change in a plan."""
    return [
        lambda: plan.assignment.pop("a"),
        lambda: plan.target["a"].update(t=[]),
        lambda: plan.target["a"]["t"].append(7),
        lambda: plan.loads.__setitem__("a", 0),
        lambda: plan.withheld["t"].insert(0, 1),
        lambda: plan.moves.remove(plan.moves[0]),
        lambda: plan.owner.__setitem__(0, 1),
        lambda: plan.target_owner.fill(0),
        lambda: plan.certificate.member_label.fill(0),
        lambda: setattr(plan, "strategy", "range"),
    ]


@pytest.mark.parametrize("number", range(10))
def test_nothing_of_a_plan_can_be_changed(number: int) -> None:
    plan = cp.assign(PAIR, "cooperative-sticky")
    before = plan.to_json()
    with pytest.raises((TypeError, ValueError, AttributeError)):
        change(plan)[number]()
    assert plan.to_json() == before


def test_no_other_result_can_be_changed() -> None:
    compared, behind = cp.compare(PAIR), cp.partition_lag([1], [0], [5])
    outcomes = cp.simulate("leader-crash", ["range"])
    led = lead_plan("sticky", {"t": cp.Topic(2)}, [JoinMember("a", encode_subscription(Subscription(("t",))))])
    for change in (
        lambda: led.assignments.pop("a"),
        led.known.clear,  # type: ignore[attr-defined]
        lambda: compared.pop("range"),
        lambda: behind.lag.fill(0),
        lambda: PAIR.settled.claim_partition.fill(0),
        outcomes.clear,
        lambda: outcomes["range"].intervals.start.fill(0),
    ):
        with pytest.raises((TypeError, ValueError), match="read-only"):
            change()
    assert isinstance(outcomes["range"].member_names, tuple)


def test_nothing_of_a_group_can_be_changed() -> None:
    topics: dict[str, Any] = {"t": {"partitions": 1, "racks": [["r"]]}}
    group = cp.Group(topics, [cp.Member("a", ["t"], {"t": [0]})], {"t": [5]})
    parts: Any = group.topics, group.topics["t"].racks, group.members[0].topics, group.members[0].owned, group.lag
    for part in (*parts, parts[1][0], parts[3]["t"], parts[4]["t"]):
        with pytest.raises(TypeError, match="groups, plans and results are read-only"):
            part.clear()
    with pytest.raises(TypeError, match=r"read-only; copy what you want to change: Group\(\.\.\.\)"):
        group.topics = {}


def test_what_a_plan_hands_out_is_json_and_can_be_copied() -> None:
    plan = cp.assign(PAIR, "cooperative-sticky")
    assert json.loads(json.dumps(plan.assignment)) == plan.assignment
    assert json.loads(plan.to_json())["withheld"] == plan.withheld
    for carried in (copy.deepcopy(plan.target), pickle.loads(pickle.dumps(plan.target))):
        assert carried == plan.target
        with pytest.raises(TypeError, match=r"results are read-only; copy what you want to change: dict\(\.\.\.\)"):
            carried.clear()
    mine = dict(plan.target)
    mine["c"] = {}
    assert "c" not in plan.target


@pytest.mark.parametrize("kind", [FrozenDict, FrozenList])
def test_every_method_that_changes_a_dict_or_a_list_is_refused(kind: type) -> None:
    """By trial: whatever changes a plain one with some arguments must raise."""
    plain: Any = kind.__mro__[1]
    start: Any = {1: 2} if plain is dict else [2, 1]
    tries: list[tuple[Any, ...]] = [(), (0,), (1,), (0, 5), ({3: 4},), ([7],), (slice(0, 1), [])]
    for name in dir(plain):
        if name in {"__init__", "__setattr__", "__class__", "__setstate__", "__delattr__"}:
            continue
        for words in tries:
            with warnings.catch_warnings():
                tried, held = plain(start), frozen(start)
                try:
                    getattr(tried, name)(*words)
                except (TypeError, ValueError, KeyError, IndexError, AttributeError):
                    continue
                if tried != start:
                    with pytest.raises(TypeError, match="read-only"):
                        getattr(held, name)(*words)
                assert held == start


@pytest.mark.parametrize(
    ("strategy", "option", "value", "same"),
    [
        ("lag-sticky", "tolerance", np.float64(0.25), 0.25),
        ("lag-sticky", "tolerance", np.int64(1), 1),
        ("sticky", "racks", np.str_("before"), "before"),
        ("lag", "scope", np.array(["total"])[0], "total"),
    ],
)
def test_numpy_scalars_are_options(strategy: str, option: str, value: Any, same: object) -> None:
    group = cp.Group(PAIR.topics, PAIR.members, {"t": [9, 2, 3, 4]})
    plan = cp.assign(group, strategy, **{option: value})
    assert type(plan.options[option]) is type(same)
    assert plan.to_json() == cp.assign(group, strategy, **{option: same}).to_json()  # type: ignore[arg-type]


@pytest.mark.parametrize(("strategy", "option"), [("sticky", "racks"), ("lag-sticky", "counts"), ("lag-sticky", "tolerance")])
def test_an_array_is_no_option(strategy: str, option: str) -> None:
    with pytest.raises(OptionError, match=rf"option '{option}': \[1, 2\] does not fit; expected"):
        ANY.assign(PAIR, strategy, **{option: np.array([1, 2])})


@pytest.mark.parametrize("laws", [[None, 1], [["valid"]], ["valid", "vlaid"]])
def test_what_is_no_law_is_named(laws: Any) -> None:
    with pytest.raises(OptionError, match=r"^laws: .* is no law; there are: valid, complete"):
        cp.verify(PAIR, cp.assign(PAIR), laws)


def test_a_plan_written_as_json_is_verified() -> None:
    plan = cp.assign(PAIR, "cooperative-sticky")
    stated = json.loads(plan.to_json())
    assert cp.verify(PAIR, stated) == cp.verify(PAIR, plan.to_object()) == cp.verify(PAIR, plan) == []
    assert cp.explain(PAIR, stated, "t", 0) == cp.explain(PAIR, plan, "t", 0)
    assert [fault.law for fault in cp.verify(PAIR, stated | {"kept": 1})] == ["sticky"]
    uneven = stated | {"target": {"a": {"t": [0, 1, 2]}, "b": {"t": [3]}}}
    assert cp.verify(PAIR, uneven)[0].law == "balanced"


def test_a_plan_of_another_group_is_not_measured() -> None:
    members = [cp.Member("a", ["t", "u", "v"])]
    plan = cp.assign(cp.Group({"t": 2, "u": 2}, members))
    with pytest.raises(ProblemError, match="owner: the plan is of another group"):
        cp.measure(cp.Group({"u": 2, "v": 2}, members), plan)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ANY.assignor("sticky")(PAIR), r"^problem: expected a Problem, not Group; a Group has one: group\.problem\(\)$"),
        (lambda: ANY.assignor("lag")("t"), "^problem: expected a Problem, not str$"),
        (lambda: ANY.certify(PAIR, cp.assign(PAIR)), "^problem: expected a Problem, not Group"),
        (lambda: ANY.certify(PAIR.problem(), cp.assign(PAIR)), r"not Plan; a Plan has one: plan\.target_owner$"),
        (lambda: ANY.measure("t", cp.assign(PAIR)), "^problem: expected a Problem, not str$"),
        (lambda: ANY.lag_report(PAIR, cp.assign(PAIR)), "^problem: expected a Problem, not Group"),
    ],
)  # fmt: skip
def test_functions_of_arrays_say_where_a_group_has_them(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        call()


@pytest.mark.parametrize("name", ["group.json", "/data/orders.jsonl", "group", "group[1].json", "group.json\n"])
def test_the_name_of_a_file_is_answered_with_how_to_read_it(name: str) -> None:
    with pytest.raises(SnapshotError, match=r"pass its text: Group\.from_json\(Path\('.*'\)\.read_text\(\)\)"):
        cp.Group.from_json(name)
    with pytest.raises(SnapshotError, match=r"pass its text: Group\.from_json\(Path\('.*'\)\.read_text\(\)\)"):
        ANY.Group.from_json(Path(name))
    with pytest.raises(SnapshotError, match=r"pass its text: Group\.from_json\(Path\('.*'\)\.read_text\(\)\)"):
        cp.Group.from_json(name.encode())
    with pytest.raises(SnapshotError, match=r"give JSON text: Group\.from_json\(json\.dumps\(\.\.\.\)\)"):
        ANY.Group.from_json({"topics": {}, "members": []})
    with pytest.raises(SnapshotError, match="a snapshot is one JSON object"):
        cp.Group.from_json('{"topics": {"t": 1}')


def test_subscriptions_to_topics_that_are_not_there_are_warned_of_and_counted() -> None:
    members = [cp.Member("a", ["t", "ordres"]), cp.Member("b", ["ordres", "ordres"]), cp.Member("c", ["u"])]
    group = cp.Group({"t": 1}, members)
    assert group.missing_topics == {"ordres": 2, "u": 1}
    with pytest.warns(SubscriptionWarning, match=r"do not exist: ordres \(2 members\), u \(1 member\)$"):
        plan = cp.assign(group)
    assert plan.loads == {"a": 1, "b": 0, "c": 0}
    assert PAIR.missing_topics == {}
    many = SubscriptionWarning({f"t{at}": 1 for at in range(7)})
    assert str(many).endswith("t4 (1 member) and 2 more")
    assert str(pickle.loads(pickle.dumps(many))) == str(many)


def test_a_comparison_warns_once_and_names_the_line_of_its_caller() -> None:
    group = cp.Group({"t": 1}, [cp.Member("a", ["t", "ordres"])])
    for use in (lambda: cp.compare(group, ["range", "sticky", "fair"]), lambda: cp.assign(group)):
        with pytest.warns(SubscriptionWarning) as seen:
            use()
        assert [warning.filename for warning in seen] == [__file__]


def returns(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the strategy `mine`, which gives this answer to every group."""
    mine = replace(registry.strategy("sticky"), name="mine", kernel=lambda *_: owner, prepare=None)
    monkeypatch.setattr(registry, "_BY_NAME", registry._BY_NAME | {"mine": mine})


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ([0, 0, 1, 1], "owner: expected an array of integers, not list"),
        (None, "owner: expected an array of integers, not NoneType"),
        (np.zeros(3, np.int32), r"owner: expected signed integers of shape \(4,\), got int32 \(3,\)"),
        (np.zeros(4), r"owner: expected signed integers of shape \(4,\), got float64 \(4,\)"),
        (np.array([0, 1, 2, 0], np.int32), r"owner\[2\]: 2 is no member; codes are 0 to 1, or -1 for nobody"),
        (np.full(4, cp.CONTESTED, np.int32), r"owner\[0\]: -2 is no member"),
    ],
)
def test_what_a_strategy_returns_instead_of_owners_is_one_clear_error(
    owner: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the strategy; a leader hands out nothing."""
    returns(owner, monkeypatch)
    metadata = {"a": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", "b": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}
    for use in (lambda: cp.assign(PAIR, "mine"), lambda: cp.compare(PAIR, ["mine"]), lambda: cp.lead("mine", {"t": 4}, metadata)):
        with pytest.raises(ProblemError, match=f"^strategy 'mine', {words}"):
            use()


def test_a_partition_that_a_strategy_leaves_without_an_owner_moves_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    returns(np.array([0, 1, -1, -1], np.int32), monkeypatch)
    group = cp.Group(PAIR.topics, PAIR.members, {"t": [1, 1, 1, 1]})
    plan = cp.assign(group, "mine")
    assert plan.moves == [("t", 1, "a", "b")]
    assert plan.moved == plan.lag_report.moves == cp.measure(group, plan).moved == 1


@pytest.mark.parametrize("generation", [-2, -(2**31)])
def test_a_generation_below_none_is_refused(generation: int) -> None:
    with pytest.raises(SnapshotError, match=r"^members\[0\]\.generation: Expected `int` >= -1"):
        cp.Group({"t": 1}, [cp.Member("a", ["t"], {"t": [0]}, generation)])
