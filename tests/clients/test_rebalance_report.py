"""What is plugged in ends nothing; every rebalance is a log line in the leader and in each member; settings have signatures."""

from __future__ import annotations

import inspect
import logging
import math
import runpy
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from counterpoise.assignors.registry import strategy
from counterpoise.clients import aiokafka, kafka_python
from counterpoise.clients.rebalance_report import Rebalance
from counterpoise.errors import OptionError
from counterpoise.planning.lead import Lead
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
    grown(module, "StickyAssignor", on_lead=metrics.led, on_rebalance=metrics.rebalanced)

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"counterpoise_{name}", {"group": "g", "strategy": "sticky"})

    assert [value(f"partitions_{name}_total") for name in ("gained", "lost")] == [6, 2]
    assert [value(name) for name in ("rebalances_total", "partitions_owned", "partitions_left")] == [3, 2, 0]
    assert [value(f"led_{name}") for name in ("members", "spread", "moved_total", "seconds_count")] == [2, 0, 2, 2]
    assert value("join_seconds_count") == 3


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
    grown(kafka_python, "StickyAssignor", on_lead=metrics.led, on_rebalance=metrics.rebalanced)
    assert totals == {
        "counterpoise.rebalances": 3, "counterpoise.partitions.gained": 6, "counterpoise.partitions.lost": 2,
        "counterpoise.partitions.owned": 4, "counterpoise.join": 3, "counterpoise.led.moved": 2, "counterpoise.led": 2,
    }  # fmt: skip
