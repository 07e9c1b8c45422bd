"""Scenarios: what is read, and one clear error for everything wrong; the ledger's arithmetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from counterpoise.errors import ScenarioError
from counterpoise.simulation.ledger import ABSENT, Ledger
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario
from counterpoise.simulation.scenario_file import load, read_scenario, ready_scenarios
from counterpoise.simulation.simulate import simulate

GOOD: dict[str, Any] = {"name": "s", "topics": {"t": 4}, "members": [{"name": "m", "topics": ["t"], "count": 2}]}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topic": {}}, "top level: Object contains unknown field `topic`; docs/simulate.md has the fields"),
    ({"topics": {"t": -1}}, "topics.t: -1; expected at least 0"),
    ({"topics": {"t": "x"}}, "topics.t: Expected `int`, got `str`"),
    ({"duration": -1}, "duration: -1.0 is negative"),
    ({"timing": {"session": 1}}, "timing: Object contains unknown field `session`"),
    ({"timing": {"revoke": -1}}, "timing.revoke: -1.0 is negative"),
    ({"timing": {"session_timeout": 0}}, "timing.session_timeout: 0; expected at least 0.001, a millisecond"),
    ({"timing": {"max_poll_interval": 0.0004}}, "timing.max_poll_interval: 0.0004; expected at least 0.001, a millisecond"),
    ({"members": [{"name": "m", "topics": ["t"], "cuont": 1}]}, "members[0]: Object contains unknown field `cuont`"),
    ({"members": [{"name": "m", "topics": ["t"], "count": 0}]}, "members[0].count: 0; expected at least 1"),
    (
        {"members": [{"name": "m", "topics": ["t"], "count": 10**9}]},
        "members[0].count: 1000000000; expected at least 1, at most",
    ),
    ({"members": [{"name": "m", "topics": ["t"], "capacity": 2**31}]}, "members[0].capacity: 2147483648; expected at least 1"),
    ({"members": [{"name": "m", "topics": ["t"], "join_at": 1e300}]}, "members[0].join_at: 1e+300; at most"),
    ({"topics": {"t": 10**12}}, "topics: 1000000000000 partitions in all; at most 10000000 can be simulated"),
    ({"duration": 1e300}, "duration: 1e+300; at most 316224000 seconds can be simulated"),
    ({"timing": {"revoke": 1e300}}, "timing.revoke: 1e+300; at most"),
    ({"members": [{"name": "m", "topics": ["u"]}]}, "members[0].topics: u is no topic of the scenario"),
    ({"members": [{"name": "m", "topics": ["t"], "library": "go"}]}, "members[0].library: 'go' is unknown"),
    ({"members": [{"name": "m", "topics": ["t"], "strategies": ["x"]}]}, "members[0].strategies: strategy 'x' is unknown"),
    ({"members": [{"name": "m", "topics": ["t"]}] * 2}, "members[1].name: m is taken by m"),
    ({"members": [{"name": "m", "topics": ["t"], "count": n} for n in (3, 1)]}, "members[1].name: m is taken by m"),
    (
        {"members": [{"name": name, "topics": ["t"], "count": 2} for name in ("m", "m-01")]},
        "members[1].name: m-01 is taken by m",
    ),
    ({"members": 5}, "members: Expected `array`, got `int`"),
]
WRONG_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"do": "dance"}, "do: 'dance' is unknown; there are: join"),
    ({"do": "join"}, "members: nobody is not among"),
    ({"do": "join", "members": "x"}, "members: x is not among the scenario's members"),
    ({"do": "join", "members": "m", "down": 3}, "down: join reads only members"),
    ({"do": "pause", "members": "m", "seconds": -1}, "seconds: -1.0 is negative"),
    ({"do": "join", "members": "m", "at": -1}, "at: -1.0 is negative"),
    ({"do": "join", "members": "m", "at": 1e300}, "at: 1e+300; at most"),
    ({"do": "scale", "members": "m", "count": 10**9}, "count: 1000000000; at most 100000 can be simulated"),
    ({"do": "grow", "topic": "t", "partitions": 10**9}, "partitions: 1000000000; at most 10000000 can be simulated"),
    ({"do": "scale", "members": ["m"], "count": 1}, "members: ['m'] is no member group; scale takes the name of one"),
    ({"do": "scale", "members": "m-00", "count": 1}, "members: 'm-00' is no member group"),
    ({"do": "grow", "topic": "u", "partitions": 3}, "topic: 'u' is no topic of the scenario"),
    ({"do": "grow", "topic": "t", "partitions": 4}, "partitions: t has 4 then; a topic only grows"),
    ({"do": "create", "topic": "t", "partitions": 4}, "partitions: t has 4 then; delete it first"),
    ({"do": "create", "partitions": 4}, "topic: expected a name"),
    ({"do": "subscribe", "members": "m", "topics": ["u"]}, "topics: u is no topic"),
    ({"do": "reconfigure", "members": "m"}, "strategies: expected at least one"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_scenario_is_one_error_that_names_the_field(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenario(json.dumps({**GOOD, **change}), toml=False)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize(("event", "words"), WRONG_EVENTS, ids=[words for _, words in WRONG_EVENTS])
def test_a_wrong_event_is_one_error_that_names_the_field(event: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenario(json.dumps({**GOOD, "events": [{"at": 1, **event}]}), toml=False)
    assert str(raised.value).startswith(f"events[0].{words}")


def test_an_event_after_the_end_and_a_second_delete_are_errors() -> None:
    late = {**GOOD, "duration": 5, "events": [{"at": 9, "do": "join", "members": "m"}]}
    with pytest.raises(ScenarioError, match=r"events\[0\].at: 9.0 is after the end"):
        read_scenario(json.dumps(late), toml=False)
    twice = {**GOOD, "events": [{"at": 1, "do": "delete", "topic": "t"}, {"at": 2, "do": "delete", "topic": "t"}]}
    with pytest.raises(ScenarioError, match=r"events\[1\].topic: t does not exist then"):
        read_scenario(json.dumps(twice), toml=False)


@pytest.mark.parametrize("do", ["join", "crash", "subscribe", "reconfigure"])
def test_a_member_that_a_later_scale_adds_is_not_there_yet(do: str) -> None:
    more = {"subscribe": {"topics": ["t"]}, "reconfigure": {"strategies": ["range"]}}.get(do, {})
    early = {"at": 1, "do": do, "members": ["m-00", "m-07"], **more}
    scale = {"at": 60, "do": "scale", "members": "m", "count": 8}
    for events in ([early, scale], [scale, early]):
        with pytest.raises(
            ScenarioError, match=rf"^events\[{events.index(early)}\].members: m-07 is not among the scenario's members then$"
        ):
            read_scenario(json.dumps({**GOOD, "events": events}), toml=False)
    found = simulate(read_scenario(json.dumps({**GOOD, "events": [scale, early | {"at": 61}]}), toml=False), ["sticky"])
    assert found["sticky"].settled


def test_files_that_are_not_there_or_not_readable_say_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"neither a .toml or .json file nor a ready scenario; ready are: autoscale-day"):
        load("rolling")
    with pytest.raises(ScenarioError, match="No such file"):
        load("nowhere.toml")
    with pytest.raises(ScenarioError, match="duration: nan; at most"):
        read_scenario('name = "s"\nduration = nan\ntopics = {}\nmembers = []', toml=True)
    for text, toml in (("x =", True), ("{", False), ("[" * 100_000, False), ("x = " + "[" * 100_000, True)):
        with pytest.raises(ScenarioError, match=r"not (TOML|JSON)"):
            read_scenario(text, toml=toml)
    (tmp_path / "s.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ScenarioError, match="byte 8 is not UTF-8; save it as UTF-8 text"):
        load(str(tmp_path / "s.toml"))


def test_simulate_takes_the_path_of_a_file_and_nothing_that_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(GOOD))
    assert simulate(path, ["range"])["range"].figures() == simulate(str(path), ["range"])["range"].figures()
    wrong: Any = GOOD
    with pytest.raises(ScenarioError, match="scenario: expected a Scenario, a file or the name of a ready one, not dict"):
        simulate(wrong, ["range"])


def test_one_topic_is_no_list_of_topics() -> None:
    """A text is a sequence of texts, too: without a check its letters would be the topics."""
    for member, events in ((MemberGroup("m", "t"), []), (MemberGroup("m", ["t"]), [Event(1, "subscribe", "m", topics="t")])):
        with pytest.raises(ScenarioError, match=r"^(members|events)\[0\].topics: expected a list of names, not 't'$"):
            Scenario("s", {"t": 1}, [member], events)


def test_every_ready_scenario_says_what_it_is_about() -> None:
    assert all(load(name).about.endswith((".", ")")) for name in ready_scenarios())


def test_names_continue_counting_when_a_group_outgrows_its_width() -> None:
    assert MemberGroup("pod", [], count=3).names(101)[::50] == ["pod-00", "pod-50", "pod-100"]
    assert MemberGroup("one", []).names(2) == ["one", "one-01"]


def keys(*listed: int) -> Any:
    return np.array(listed, np.int64)


def test_the_ledger_counts_gaps_and_overlaps_by_hand() -> None:
    ledger = Ledger()
    ledger.gain(0, 1, keys(7, 8))
    ledger.lose(10, 1, keys(7))
    ledger.gain(15, 2, keys(7))  # a gap of 5
    ledger.gain(20, 3, keys(8))  # an overlap of 10: member 1 has it until 30
    ledger.lose(30, 1, keys(8))
    ledger.lose(35, 3, keys(8))  # ownerless from 35 to the horizon
    found = ledger.intervals(40)
    assert (found.time_without_owner(40), found.double_owned()) == (5 + 5, 10)


def test_time_in_which_a_partition_does_not_exist_is_no_time_without_owner() -> None:
    ledger = Ledger()
    ledger.gain(0, 1, keys(7))
    ledger.lose(10, 1, keys(7))
    ledger.gain(10, ABSENT, keys(7, 9))
    ledger.lose(20, ABSENT, keys(7, 9))
    ledger.gain(24, 2, keys(7))
    found = ledger.intervals(30)
    assert (found.time_without_owner(30), found.double_owned(), len(found.of_members().start)) == (4, 0, 2)


def test_an_empty_ledger_is_no_trouble() -> None:
    found = Ledger().intervals(10)
    assert (found.time_without_owner(10), found.double_owned()) == (0, 0)


def test_a_group_that_never_comes_to_rest_is_reported_and_a_duration_ends_it() -> None:
    # A rebalance that waits shorter than members take to hear of it: whoever did not join is expelled, comes back, and so on.
    restless = {
        **GOOD,
        "members": [{"name": "m", "topics": ["t"], "count": 4}],
        "timing": {"max_poll_interval": 1},
        "events": [{"at": 60, "do": "pause", "members": "m-00", "seconds": 20}],
    }
    scenario = read_scenario(json.dumps(restless), toml=False)
    with pytest.raises(ScenarioError, match=r"^after \d+ s and 1160 generations the group has not settled: "):
        simulate(scenario, ["sticky"])
    assert simulate(replace(scenario, duration=120.0), ["sticky"])["sticky"].duration == 120


def played(*events: dict[str, Any], strategy: str = "sticky", **member: Any) -> Any:
    about = {"name": "m", "topics": ["t"], "count": 1} | member
    scenario = {"name": "s", "topics": {"t": 12, "u": 12}, "members": [about], "events": list(events)}
    return simulate(read_scenario(json.dumps(scenario), toml=False), [strategy])[strategy]


def test_a_group_of_one_member_that_was_scaled_out_is_restarted_as_a_whole() -> None:
    more, restart = {"at": 60, "do": "scale", "members": "m", "count": 4}, {"at": 200, "do": "restart", "members": "m"}
    names = played(more, restart).member_names
    assert sorted(names) == sorted([*["m"] * 2, *[f"m-0{at}" for at in (1, 2, 3)] * 2])


def test_members_that_are_added_are_configured_as_the_group_is_by_then() -> None:
    more = {"at": 200, "do": "scale", "members": "m", "count": 4}
    wider = played({"at": 60, "do": "subscribe", "members": "m", "topics": ["t", "u"]}, more)
    assert wider.spread == 0
    other = played({"at": 60, "do": "reconfigure", "members": "m", "strategies": ["sticky"]}, more, strategies=["range"])
    assert (other.refused, other.spread) == (0, 0)


def test_the_protocol_is_what_the_library_speaks() -> None:
    for library, protocol in (("java", "cooperative"), ("aiokafka", "eager")):
        for events in ([], [{"at": 60, "do": "leave", "members": "m"}]):
            assert played(*events, strategy="cooperative-sticky", library=library).protocol == protocol
