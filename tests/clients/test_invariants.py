"""Each invariant of a run finds its planted fault, and a clean run has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoise.planning.lead import lead_plan
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, decode_assignment, encode_subscription
from tests.clients.fleet import Fleet
from tests.clients.invariants import came_and_went, check_run
from tests.clients.programs.watched import lead_event
from tests.clients.records import Generation, GroupHistory

DELIVERED = {"t-0": {1, 2}, "t-1": {3}}
SUBSCRIPTION = encode_subscription(Subscription(("t",), owned=(("t", (0, 1)),), generation=3))
JOINS = encode_subscription(Subscription(("t",)))


def run(tmp_path: Path) -> tuple[Fleet, dict[str, list[dict[str, Any]]], GroupHistory]:
    """A clean cooperative run of two members: a has both partitions, b joins, t-1 goes to b one generation later."""
    members = Fleet(None, tmp_path, "g")  # type: ignore[arg-type]
    events: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    generations = []
    for number, (held, newer) in enumerate([((0, 1), ()), ((0,), ()), ((0,), (1,))], start=4):
        owned = {"a": (0, 1) if number == 4 else held, "b": newer}
        sent = [
            ("a", SUBSCRIPTION if number < 6 else encode_subscription(Subscription(("t",), owned=(("t", (0,)),), generation=5)))
        ]
        sent += [("b", JOINS)] if number > 4 else []
        led = lead_plan("cooperative-sticky", {"t": Topic(2)}, [JoinMember(*each) for each in sent])
        events["a"].append({"event": "lead", **lead_event(led)})
        assigned = {
            member: {f"t-{at}" for _, indices in decode_assignment(data).partitions for at in indices}
            for member, data in led.assignments.items()
        }
        assert assigned["a"] == {f"t-{at}" for at in owned["a"]}
        for member, names in assigned.items():
            events[member].append({"event": "assigned", "partitions": sorted(names), "generation": number})
        generations.append(
            Generation(number, "a", "cooperative-sticky", {each: each for each in assigned}, assigned, dict(led.assignments))
        )
    events["a"].append({"event": "records", "partition": "t-0", "values": [1, 2]})
    events["b"].append({"event": "records", "partition": "t-1", "values": [3]})
    members.kinds.update(a="kafka_python", b="kafka_python")
    return members, events, GroupHistory(generations, {"t-0": [1, 2, 2], "t-1": [1]})


def check(members: Fleet, events: dict[str, list[dict[str, Any]]], history: GroupHistory) -> None:
    for name, listed in events.items():
        members.journals[name] = members.folder / f"{name}.jsonl"
        lines = [json.dumps({"time": at, **event}) + "\n" for at, event in enumerate(listed)]
        members.journals[name].write_text("".join(lines) + '{"time": 9, "event": "cut o')
    check_run(members, DELIVERED, history)


def test_a_clean_run_passes(tmp_path: Path) -> None:
    check(*run(tmp_path))


def lost_record(events: Any, _: GroupHistory) -> None:
    events["b"].pop()


def commit_goes_back(_: Any, history: GroupHistory) -> None:
    history.commits["t-0"].append(1)


def recorded_twice(_: Any, history: GroupHistory) -> None:
    history.generations[2].assigned["b"].add("t-0")


def given_twice(events: Any, _: GroupHistory) -> None:
    events["b"][1]["partitions"].append("t-0")


def taken_while_held(events: Any, history: GroupHistory) -> None:
    history.generations[1].assigned["b"].add("t-1")
    events["b"][0]["partitions"].append("t-1")


def taken_without_a_plan(_: Any, history: GroupHistory) -> None:
    history.generations[2].assigned["b"].clear()


def recorded_otherwise(_: Any, history: GroupHistory) -> None:
    history.generations[2].raw["b"] = history.generations[2].raw["a"]


def planned_otherwise(events: Any, _: GroupHistory) -> None:
    events["a"][0]["target"][0] = -1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lost_record, "processed by nobody"),
        (commit_goes_back, "t-0: committed 2 and then 1"),
        (recorded_twice, r"\(6, \[\('t-0', 2\)"),
        (given_twice, "generation 6: t-0 at b and a"),
        (taken_while_held, "generation 5: b gets {'t-1'} from a at once"),
        (taken_without_a_plan, "generation 6: b took \\['t-1'\\], recorded is \\[set\\(\\)\\]"),
        (recorded_otherwise, "generation 6 was recorded otherwise than its leader planned it"),
        (planned_otherwise, "planning again gives another target"),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, fault: Any, message: str) -> None:
    members, events, history = run(tmp_path)
    fault(events, history)
    with pytest.raises(AssertionError, match=message):
        check(members, events, history)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["a b", "a b", "a b c"], False),  # c joins
        (["a b", "b c"], False),  # a crashes, c joins
        (["a b", "a", "a b c"], True),  # b is expelled, comes back when c joins
        (["a b", "a b c", "a b", "a b c"], True),
        (["a b", "a b2 c"], True),  # b comes back at once, without claims
    ],
)
def test_members_that_came_and_went_are_found(members: list[str], expected: bool) -> None:
    clients = [{each: each[0] for each in present.split()} for present in members]
    assert came_and_went([Generation(at, "a", "sticky", each, {}, {}) for at, each in enumerate(clients)]) is expected
