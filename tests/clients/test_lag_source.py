"""Lag for a leader: read once, waited for no longer than the bound, with two ways down; each counted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from counterpoise.clients import aiokafka, kafka_python
from counterpoise.clients.lag_source import LagReader, live_lag
from counterpoise.errors import OptionError
from counterpoise.wire.consumer_protocol import decode_assignment
from tests.clients.hosts import Answer, host_member

HOSTS = [pytest.param(kafka_python, id="kafka-python"), pytest.param(aiokafka, id="aiokafka")]


def led(module: ModuleType, assignor: Any, topics: dict[str, int], members: int = 2) -> dict[str, set[int]]:
    """One round of a group of this host, the first member leading; what each got of topic t."""
    answer, host = Answer(topics), module.__name__.rpartition(".")[2]
    made = [host_member(host, f"m{at}", sorted(topics), [assignor], answer) for at in range(members)]
    sent = [(each.id, each.join()[assignor.name], None) for each in made]
    given = made[0].lead(assignor.name, 1, sent)
    return {member: {at for _, indices in decode_assignment(data).partitions for at in indices} for member, data in given.items()}


@pytest.mark.parametrize("module", HOSTS)
def test_the_leader_plans_by_the_lag_it_reads(module: ModuleType) -> None:
    """By the rule of `lag`: the largest first, then to whoever has fewest and least."""
    asked: list[dict[str, int]] = []

    def source(topics: Any) -> dict[str, list[int]]:
        asked.append(dict(topics))
        return {"t": [5, 900, 5, 5]}

    assignor = module.LagAssignor(lag=source, lag_within_s=30)
    assert led(module, assignor, {"t": 4}) == {"m0": {1, 3}, "m1": {0, 2}}
    assert asked == [{"t": 4}]
    assert assignor.lag_reader.outcomes == Counter({"read": 1})


@pytest.mark.parametrize("module", HOSTS)
def test_lag_sticky_spreads_the_partitions_that_are_behind(module: ModuleType) -> None:
    assignor = module.LagStickyAssignor(lag=lambda _: {"t": [900, 900, 0, 0]}, lag_within_s=30, tolerance=0)
    given = led(module, assignor, {"t": 4})
    assert {len(owned & {0, 1}) for owned in given.values()} == {1}
    assert {len(owned) for owned in given.values()} == {2}


def test_a_source_that_does_not_answer_costs_the_bound_and_then_the_last_lag_is_used() -> None:
    gate, release = threading.Event(), threading.Event()
    answers = iter([{"t": [1]}, {"t": [2]}])

    def source(_: Any) -> Any:
        if gate.is_set():
            release.wait(60)
        return next(answers)

    reader = LagReader(source, 5)
    assert reader.lag({"t": 1}) == {"t": [1]}
    gate.set()
    reader._within_s = 0.05
    before = time.monotonic()
    assert reader.lag({"t": 1}) == {"t": [1]}
    assert reader.lag({"t": 1}) == {"t": [1]}
    assert time.monotonic() - before < 30
    release.set()
    assert reader._under_way is not None
    reader._under_way.join(30)
    assert reader._last == {"t": [2]}
    assert reader.outcomes == Counter({"read": 1, "kept": 2})


def test_a_late_read_of_fewer_topics_is_not_taken_for_the_lag_of_now(caplog: pytest.LogCaptureFixture) -> None:
    """A topic that came meanwhile is not in it, and counts as 0 until the next read: the log says so."""
    release = threading.Event()

    def source(topics: Any) -> Any:
        release.wait(60)
        return {topic: [7] for topic in topics}

    reader = LagReader(source, 0.05)
    assert reader.lag({"old": 1}) is None
    reader._within_s = 30
    release.set()
    assert reader.lag({"old": 1, "new": 1}) == {"old": [7]}
    assert reader.outcomes == Counter({"missing": 1, "kept": 1})
    assert "the last known lag is used" in caplog.text
    assert reader.lag({"old": 1, "new": 1}) == {"old": [7], "new": [7]}
    assert reader.outcomes["read"] == 1


def with_timeouts(module: ModuleType, member: Any, session_ms: int, rebalance_ms: int) -> None:
    if module is kafka_python:
        member.coordinator.config |= {"session_timeout_ms": session_ms, "max_poll_interval_ms": rebalance_ms}
    else:
        member.coordinator._session_timeout_ms, member.coordinator._rebalance_timeout_ms = session_ms, rebalance_ms


@pytest.mark.parametrize("module", HOSTS)
@pytest.mark.parametrize(("session_ms", "rebalance_ms"), [(200, 300_000), (45_000, 200)])
def test_the_wait_is_cut_down_to_half_of_the_timeout_after_which_the_leader_is_given_up(
    module: ModuleType, session_ms: int, rebalance_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty seconds for a source that takes sixty; the log says so once, when the member joins."""
    release = threading.Event()

    def source(_: Any) -> Any:
        release.wait(60)
        return {}

    assignor = module.LagStickyAssignor(lag=source, lag_within_s=20)
    member = host_member(module.__name__.rpartition(".")[2], "m0", ["t"], [assignor], Answer({"t": 4}))
    with_timeouts(module, member, session_ms, rebalance_ms)
    for _ in range(2):
        sent = [("m0", member.join()["lag-sticky"], None)]
    (message,) = [record.getMessage() for record in caplog.records if "lag_within_s" in record.getMessage()]
    assert message == (
        "lag-sticky: lag_within_s is 20.0 s, but the group expels its leader after 0.2 s (session or rebalance timeout): "
        "the leader waits for the lag 0.1 s at most; set a longer timeout or a shorter lag_within_s"
    )
    given = member.lead("lag-sticky", 1, sent)
    release.set()
    assert "no lag (no answer within 0.1 s): counts alone decide" in caplog.text
    assert assignor.lag_reader.outcomes == Counter({"missing": 1})
    assert decode_assignment(given["m0"]).partitions == (("t", (0, 1, 2, 3)),)


@pytest.mark.parametrize("module", HOSTS)
def test_a_wait_that_fits_into_the_timeouts_is_left_alone(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    assignor = module.LagStickyAssignor(lag=lambda _: {"t": [1, 2]}, lag_within_s=3)
    member = host_member(module.__name__.rpartition(".")[2], "m0", ["t"], [assignor], Answer({"t": 2}))
    with_timeouts(module, member, 10_000, 300_000)
    member.lead("lag-sticky", 1, [("m0", member.join()["lag-sticky"], None)])
    assert "lag_within_s" not in caplog.text
    assert assignor.lag_reader.bounded(10.0) == 3
    assert assignor.lag_reader.bounded(None) == 3
    assert assignor.lag_reader.outcomes == Counter({"read": 1})


def test_a_time_limit_without_end_waits_for_the_source() -> None:
    for seconds in (float("inf"), 10**400):
        reader = LagReader(lambda topics: {topic: [5] * size for topic, size in topics.items()}, seconds)
        assert reader.lag({"t": 1}) == {"t": [5]}


@pytest.mark.parametrize("module", HOSTS)
def test_without_a_source_the_error_says_how_to_give_one(module: ModuleType) -> None:
    with pytest.raises(OptionError, match=r"LagAssignor needs a source of lag: LagAssignor\(lag=live_lag"):
        module.LagAssignor()
    with pytest.raises(OptionError, match="lag_within_s: expected more than 0 seconds"):
        module.LagStickyAssignor(lag=lambda _: {}, lag_within_s=0)


def test_the_brokers_are_asked_for_the_topics_of_the_group_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def live(config: Any, group_id: str, **given: Any) -> Any:
        assert (config, group_id, given["more_topics"]) == ({"bootstrap.servers": "b"}, "g", {"t": 1})
        return SimpleNamespace(faults=(), group=SimpleNamespace(lag={"t": [3], "old": [9]}))

    monkeypatch.setattr("counterpoise.clients.live_group.read_live_group", live)
    assert live_lag({"bootstrap.servers": "b"}, "g")({"t": 1}) == {"t": [3]}


def test_topics_that_have_other_numbers_of_partitions_by_now_cost_no_other_topic_its_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(faults=(), group=SimpleNamespace(lag={"grown": [3, 4], "smaller": [5], "same": [6]}))
    monkeypatch.setattr("counterpoise.clients.live_group.read_live_group", lambda *_, **__: found)
    reader = LagReader(live_lag({"bootstrap.servers": "b"}, "g"), 30)
    assert reader.lag({"grown": 1, "smaller": 2, "same": 1}) == {"grown": [3], "smaller": [5, 0], "same": [6]}
