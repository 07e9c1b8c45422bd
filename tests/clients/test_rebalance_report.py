"""What is plugged in ends nothing; every rebalance is a log line in the leader and in each member; settings have signatures."""

from __future__ import annotations

import inspect
import json
import logging
import math
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from counterpoise.assignors.registry import strategy
from counterpoise.cli.app import app
from counterpoise.clients import aiokafka, kafka_python
from counterpoise.clients.rebalance_report import Rebalance
from counterpoise.errors import OptionError
from counterpoise.planning.lead import Lead
from counterpoise.wire.consumer_protocol import decode_assignment
from tests.clients.hosts import Answer, HostMember, host_member

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
HOSTS = [pytest.param(kafka_python, id="kafka-python"), pytest.param(aiokafka, id="aiokafka")]
LINE = "counterpoise.clients"
DONE = "0 left for the next round; proven optimal"


class Group:
    """Members of one host; every round the first one leads."""

    def __init__(self, module: ModuleType, name: str, **settings: Any) -> None:
        self.module, self.name, self.settings = module, name, settings
        self.answer, self.generation = Answer({"t": 4}), 0
        self.members: list[HostMember] = []

    def join(self) -> None:
        assignor = getattr(self.module, self.name)(**self.settings)
        host = self.module.__name__.rpartition(".")[2]
        self.members.append(host_member(host, f"m{len(self.members)}", ["t"], [assignor], self.answer))

    def rebalance(self) -> None:
        """Rounds until nobody joins again."""
        name, again = getattr(self.module, self.name).name, [True]
        while any(again):
            self.generation += 1
            sent = [(each.id, each.join()[name], None) for each in self.members]
            given = self.members[0].lead(name, self.generation, sent)
            again = [each.complete(name, self.generation, given[each.id]) for each in self.members]


def grown(module: ModuleType, name: str, **settings: Any) -> Group:
    """A group of one member that another one joins."""
    group = Group(module, name, **settings)
    for _ in range(2):
        group.join()
        group.rebalance()
    return group


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log lines, the times left out."""
    return [record.getMessage().rpartition("; ")[0] for record in caplog.records if record.levelno == logging.INFO]


@pytest.mark.parametrize("module", HOSTS)
def test_each_rebalance_is_a_line_of_the_leader_and_one_of_each_member(
    module: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LINE):
        grown(module, "StickyAssignor")
    assert lines(caplog) == [
        "g, generation 1: led sticky (eager): 1 members, 4 partitions, 4 to 4 each; 0 moved, " + DONE,
        "g, generation 1: sticky: got t-0, t-1, t-2, t-3; gave up nothing; has 4; 0 of the group left for the next round",
        "g, generation 2: led sticky (eager): 2 members, 4 partitions, 2 to 2 each; 2 moved, " + DONE,
        "g, generation 2: sticky: got nothing; gave up t-1, t-3; has 2; 0 of the group left for the next round",
        "g, generation 2: sticky: got t-1, t-3; gave up nothing; has 2; 0 of the group left for the next round",
    ]
    assert {record.name for record in caplog.records} == {LINE}


def test_a_cooperative_leader_and_its_members_say_what_is_left_for_the_next_round(caplog: pytest.LogCaptureFixture) -> None:
    group = Group(kafka_python, "CooperativeStickyAssignor")
    group.join()
    group.rebalance()
    group.join()
    with caplog.at_level(logging.INFO, LINE):
        group.rebalance()
    first, *_, second, _, _ = lines(caplog)
    assert "(cooperative): 2 members, 4 partitions, 2 to 2 each; 2 moved, 2 left for the next round; proven optimal" in first
    assert "; 0 moved, 0 left for the next round; proven optimal" in second
    assert lines(caplog)[1].endswith("gave up t-1, t-3; has 2; 2 of the group left for the next round")
    assert lines(caplog)[-1].endswith("got t-1, t-3; gave up nothing; has 2; 0 of the group left for the next round")


@pytest.mark.parametrize("module", HOSTS)
def test_the_line_claims_no_proof_where_there_is_none(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """Two topics of three partitions and two members: range gives four and two."""
    group = Group(module, "RangeAssignor")
    group.answer.topics |= {"t": 3, "u": 3}
    for _ in range(2):
        group.join()
    for each in group.members:
        subscribe(each, ["t", "u"])
    with caplog.at_level(logging.INFO, LINE):
        group.rebalance()
    assert "6 partitions, 2 to 4 each; 0 moved, 0 left for the next round; not proven" in lines(caplog)[0]


def subscribe(member: HostMember, topics: list[str]) -> None:
    subscription: Any = vars(member)["coordinator"]._subscription
    if hasattr(member, "_run"):

        async def change() -> None:
            subscription.subscribe(set(topics))

        member._run(change())
    else:
        subscription.change_subscription(topics)


@pytest.mark.parametrize("module", HOSTS)
@pytest.mark.parametrize("name", kafka_python.__all__)
def test_every_plan_is_made_again_from_one_line(module: ModuleType, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG: racks, weights, lag, options and claims on what is gone are in the line, which `counterpoise lead` reads."""
    leads: list[Lead] = []
    shown = inspect.signature(getattr(module, name)).parameters
    given: dict[str, Any] = {
        "rack": "r2",
        "capacity": 2,
        "lag": lambda topics: {"t": [9, 0, 4, 1, 7, 0][: topics["t"]]},
        "lag_within_s": 30,
        "tolerance": 0.5,
        "evenness": "exact",
    }
    group = Group(module, name, on_lead=leads.append, **{each: value for each, value in given.items() if each in shown})
    group.answer.brokers |= {1: "r1", 2: "r2"}
    group.answer.replicas["t"] = [[1], [2], [1, 2], [2], [1], [2]]
    with caplog.at_level(logging.DEBUG, f"{LINE}.plans"):
        for count in (6, 6, 5):
            group.answer.topics["t"] = count
            group.join()
            group.rebalance()
    written = [record.getMessage() for record in caplog.records if record.name == f"{LINE}.plans"]
    answers = CliRunner().invoke(app, ["lead"], input="\n".join(written)).stdout.splitlines()
    assert len(answers) == len(written) == len(leads) >= 3
    for answer, led in zip(answers, leads, strict=True):
        again = {member: decode_assignment(bytes.fromhex(data)) for member, data in json.loads(answer)["assignments"].items()}
        sent = {member: decode_assignment(data) for member, data in led.assignments.items()}
        assert {member: each.partitions for member, each in again.items()} == {
            member: each.partitions for member, each in sent.items()
        }
    requests = [json.loads(line) for line in written]
    assert {"lag" in shown, False} == {bool(request["lag"]) for request in requests} | {False}
    assert {bool(request["capacity"]) for request in requests} == {"capacity" in shown}
    assert requests[-1]["topics"]["t"]["racks"] == [["r1"], ["r2"], ["r1", "r2"], ["r2"], ["r1"]]
    assert all(request["options"] == dict(led.options) for request, led in zip(requests, leads, strict=True))


@pytest.mark.parametrize("module", HOSTS)
def test_claims_on_what_is_gone_are_counted_and_logged(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    leads: list[Lead] = []
    group = grown(module, "StickyAssignor", on_lead=leads.append)
    group.answer.topics["t"] = 3
    with caplog.at_level(logging.INFO, LINE):
        group.rebalance()
    assert [led.dropped_claims for led in leads] == [0, 0, 1]
    assert "; 1 claims on what does not exist dropped; proven optimal; " in caplog.records[0].getMessage()


def test_log_lines_have_their_figures_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LINE):
        grown(kafka_python, "StickyAssignor")
    seen = [vars(record)["counterpoise"] for record in caplog.records]
    assert [fields["event"] for fields in seen] == ["led", "rebalanced", "led", "rebalanced", "rebalanced"]
    assert {name: seen[2][name] for name in ("generation", "members", "partitions", "least", "most", "moved", "left")} == {
        "generation": 2, "members": 2, "partitions": 4, "least": 2, "most": 2, "moved": 2, "left": 0,
    }  # fmt: skip
    assert seen[4]["gained"] == (("t", 1), ("t", 3))
    assert {name for name, value in seen[2].items() if not isinstance(value, str | int | float)} == set()


@pytest.mark.parametrize("ours", ["kafka_python", "aiokafka"])
def test_a_host_that_has_not_set_up_logging_sees_nothing(ours: str) -> None:
    """Not even a warning or an error of a hook; with `logging.basicConfig()` it sees both."""
    script = f"""
from counterpoise.clients.{ours} import CooperativeStickyAssignor
from counterpoise.clients.rebalance_report import Rebalance
made = CooperativeStickyAssignor(on_rebalance=lambda seen: 1 / 0)
made._warn_if_history_is_lost()
made._reports.rebalanced(Rebalance("g", 1, "sticky", (), (), (), 0, 0.0))
"""
    printed = [
        subprocess.run([sys.executable, "-c", head + script], capture_output=True, text=True, check=True).stderr
        for head in ("", "import logging; logging.basicConfig()")
    ]
    assert printed[0] == ""
    assert "WARNING:counterpoise.clients:cooperative-sticky" in printed[1]
    assert "ERROR:counterpoise.clients:on_rebalance failed" in printed[1]


@pytest.mark.parametrize("module", HOSTS)
def test_hooks_are_given_the_plan_and_the_change(module: ModuleType) -> None:
    leads: list[Lead] = []
    seen: list[Rebalance] = []
    grown(module, "StickyAssignor", on_lead=leads.append, on_rebalance=seen.append)
    last = leads[-1]
    assert (last.group, last.generation, last.strategy, last.protocol) == ("g", 2, "sticky", "eager")
    assert (last.loads, last.moved, last.withheld) == ({"m0": 2, "m1": 2}, 2, {})
    assert 0 < last.milliseconds < 60_000
    assert last.certificate.sticky
    assert last.assignment == {"m0": {"t": [0, 2]}, "m1": {"t": [1, 3]}}
    with pytest.raises(AttributeError):
        last.group = "other"  # type: ignore[misc]
    assert [(each.gained, each.lost) for each in seen] == [
        ((("t", 0), ("t", 1), ("t", 2), ("t", 3)), ()),
        ((), (("t", 1), ("t", 3))),
        ((("t", 1), ("t", 3)), ()),
    ]
    assert [(each.group, each.generation, each.strategy, each.left) for each in seen[1:]] == [("g", 2, "sticky", 0)] * 2
    assert all(0 <= each.milliseconds < 60_000 for each in seen)


def test_the_time_since_joining_is_that_of_this_rebalance_whichever_strategy_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each assignor of a consumer writes metadata for each rebalance; the one that was not elected hears no more of it."""
    seen: list[Rebalance] = []
    now = 0.0
    monkeypatch.setattr("counterpoise.clients.host_assignor.time", SimpleNamespace(monotonic=lambda: now))
    assignors = [kafka_python.StickyAssignor(on_rebalance=seen.append), kafka_python.RangeAssignor(on_rebalance=seen.append)]
    member = host_member("kafka_python", "m", ["t"], assignors, Answer({"t": 2}))
    for generation, elected in enumerate(["range", "sticky"], 1):
        sent = member.join()
        now += 2.0
        given = member.lead(elected, generation, [("m", sent[elected], None)])
        member.complete(elected, generation, given["m"])
        now += 600.0
    assert [(each.strategy, each.milliseconds) for each in seen] == [("range", 2000.0), ("sticky", 2000.0)]


@pytest.mark.parametrize("module", HOSTS)
def test_a_hook_that_fails_ends_nothing_and_is_logged_once(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    def fails(given: Any) -> None:
        raise ZeroDivisionError(given.problem)  # a Rebalance has no problem: an AttributeError there

    group = grown(module, "StickyAssignor", on_lead=fails, on_rebalance=fails)
    assert [len(each.owned()) for each in group.members] == [2, 2]
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    # m0 leads twice; it and m1 have a hook each.
    assert [record.getMessage().partition(" ")[0] for record in errors] == ["on_lead", "on_rebalance", "on_rebalance"]
    assert all(record.exc_info for record in errors)


@pytest.mark.parametrize("module", HOSTS)
@pytest.mark.parametrize("name", ["LagAssignor", "LagStickyAssignor"])
@pytest.mark.parametrize(
    "answer",
    [
        {"t": ["x"]}, {"t": [1]}, {"t": [1, 2, 3, 4, 5]}, {"t": [math.nan] * 4}, {"t": [-1, 0, 0, 0]}, {"t": None}, {"t": 7},
        {"t": [1.5] * 4}, {"t": [2**62] * 4}, {"t": {1, 2, 3, 4}}, None, 5, [1, 2, 3, 4], ZeroDivisionError("no"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_source_of_lag_that_answers_nonsense_ends_nothing(
    module: ModuleType, name: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as no answer: counts alone decide, with one traceback, and one line for each round."""

    def source(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    group = grown(module, name, lag=source, lag_within_s=30)
    assert [len(each.owned()) for each in group.members] == [2, 2]
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == group.generation
    assert all(": counts alone decide" in record.getMessage() for record in warned)
    assert len([record for record in caplog.records if record.exc_info]) == 1


@pytest.mark.parametrize("module", HOSTS)
def test_what_a_source_says_of_other_topics_is_left_out(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    group = grown(module, "LagAssignor", lag=lambda _: {"t": (5, 900, 5, 5), "other": ["x"]}, lag_within_s=30)
    assert [each.owned() for each in group.members] == [{("t", 1), ("t", 3)}, {("t", 0), ("t", 2)}]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("module", HOSTS)
@pytest.mark.parametrize("name", kafka_python.__all__)
def test_a_signature_names_what_the_strategy_reads_and_nothing_else(module: ModuleType, name: str) -> None:
    class_ = getattr(module, name)
    record = strategy(class_.name)
    wanted = dict.fromkeys(("on_lead", "on_rebalance")) | {option: each.default for option, each in record.options.items()}
    wanted |= {"rack": None} if "racks" in record.reads else {}
    wanted |= {"capacity": 1} if "capacity" in record.reads else {}
    wanted |= {"lag": None, "lag_within_s": 1.0} if "lag" in record.reads else {}
    shown = inspect.signature(class_).parameters
    assert {each.name: each.default for each in shown.values()} == wanted
    assert {each.kind for each in shown.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("module", HOSTS)
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("RangeAssignor", {"capacity": 2}), ("RoundRobinAssignor", {"rack": "r1"}), ("LagAssignor", {"lag": dict, "capacity": 2}),
        ("ConstrainedCooperativeStickyAssignor", {"evenness": "exact"}), ("StickyAssignor", {"on_led": print}),
    ],
    ids=repr,
)  # fmt: skip
def test_a_setting_that_would_do_nothing_is_refused(module: ModuleType, name: str, given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=rf"{name}: got an unexpected .*'{list(given)[-1]}'; its settings, by name: .*on_lead"):
        getattr(module, name)(**given)


@pytest.mark.parametrize("module", HOSTS)
def test_a_hook_that_nothing_awaits_is_refused(module: ModuleType) -> None:
    async def waits(_: Any) -> None: ...

    with pytest.raises(OptionError, match="on_rebalance: a plain function of one argument is expected"):
        module.StickyAssignor(on_rebalance=waits)


@pytest.mark.parametrize("module", HOSTS)
def test_the_prometheus_example_counts_what_members_did(module: ModuleType) -> None:
    registry = CollectorRegistry()
    metrics = runpy.run_path(str(EXAMPLES / "metrics_prometheus.py"))["PrometheusMetrics"](registry)
    group = grown(module, "StickyAssignor", on_lead=metrics.led, on_rebalance=metrics.rebalanced)
    group.answer.topics["t"] = 3
    group.rebalance()

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"counterpoise_{name}", {"group": "g", "strategy": "sticky"})

    assert [value(f"partitions_{name}_total") for name in ("gained", "lost")] == [6, 3]
    assert [value(name) for name in ("rebalances_total", "partitions_owned", "partitions_left")] == [5, 1, 0]
    assert [value(f"led_{name}") for name in ("members", "spread", "moved_total", "seconds_count")] == [2, 1, 2, 3]
    assert value("led_dropped_claims_total") == 1
    assert value("join_seconds_count") == 5


def test_the_opentelemetry_example_counts_what_members_did() -> None:
    """Against a stand-in for the meter of OpenTelemetry's API, which is not among the dependencies."""
    totals: Counter[str] = Counter()

    class Meter:
        """Instruments that add up what they are given."""

        def create(self, name: str, *, unit: str = "", description: str) -> Any:
            assert description or unit

            def add(amount: float, attributes: dict[str, str]) -> None:
                assert attributes == {"group": "g", "strategy": "sticky"}
                totals[name] += 1 if unit else int(amount)

            return SimpleNamespace(add=add, record=add)

        create_counter = create_up_down_counter = create_histogram = create

    metrics = runpy.run_path(str(EXAMPLES / "metrics_opentelemetry.py"))["OpenTelemetryMetrics"](Meter())
    group = grown(kafka_python, "StickyAssignor", on_lead=metrics.led, on_rebalance=metrics.rebalanced)
    group.answer.topics["t"] = 3
    group.rebalance()
    assert totals == {
        "counterpoise.rebalances": 5, "counterpoise.partitions.gained": 6, "counterpoise.partitions.lost": 3,
        "counterpoise.partitions.owned": 3, "counterpoise.join": 5, "counterpoise.led.moved": 2, "counterpoise.led": 3,
        "counterpoise.led.dropped_claims": 1,
    }  # fmt: skip
