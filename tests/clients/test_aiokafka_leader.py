"""On aiokafka a slow plan, or a slow source of lag, stops neither the event loop nor the heartbeats of the leader."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from counterpoise.clients import leader_side
from counterpoise.clients.aiokafka import LagStickyAssignor, StickyAssignor
from counterpoise.clients.leader_side import lead_group
from counterpoise.wire.consumer_protocol import decode_assignment
from tests.clients.hosts import Answer, host_member
from tests.clients.records import group_history
from tests.kafka_broker import Broker

SESSION_S = 6
SLOW_S = 9


def ready(assignor: Any, answer: Answer) -> tuple[Any, Any]:
    """A member that has joined, and the response that makes it the leader."""
    member: Any = host_member("aiokafka", "m0", ["t"], [assignor], answer)
    sent = [("m0", member.join()[assignor.name], None)]
    caught: list[Any] = []

    async def catch(response: Any) -> dict[str, bytes]:
        caught.append(response)
        return {}

    perform, member.coordinator._perform_assignment = member.coordinator._perform_assignment, catch
    member.lead(assignor.name, 1, sent)
    member.coordinator._perform_assignment = perform
    return member, caught[0]


def led_while_ticking(member: Any, response: Any, gate: threading.Event) -> tuple[Any, int]:
    """The assignments, and how often the event loop came round while the plan waited for the gate."""

    async def run() -> tuple[Any, int]:
        leading = asyncio.ensure_future(member.coordinator._perform_assignment(response))
        ticks = 0
        while ticks < 20 and not leading.done():
            await asyncio.sleep(0.01)
            ticks += 1
        gate.set()
        return await leading, ticks

    return member._run(run())


def test_the_event_loop_goes_round_while_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, threads = threading.Event(), []

    def slow(*given: Any) -> Any:
        threads.append(threading.current_thread())
        gate.wait(60)
        return lead_group(*given)

    monkeypatch.setattr(leader_side, "lead_group", slow)
    hooks: list[threading.Thread] = []
    assignor = StickyAssignor(on_lead=lambda _: hooks.append(threading.current_thread()))
    given, ticks = led_while_ticking(*ready(assignor, Answer({"t": 2})), gate)
    assert decode_assignment(given["m0"]).partitions == (("t", (0, 1)),)
    assert ticks == 20
    assert threads != [threading.main_thread()]
    assert hooks == [threading.main_thread()]


def test_the_event_loop_goes_round_while_lag_is_waited_for() -> None:
    gate = threading.Event()

    def source(_: Any) -> Any:
        gate.wait(60)
        return {"t": [1, 2]}

    assignor = LagStickyAssignor(lag=source, lag_within_s=60)
    member, response = ready(assignor, Answer({"t": 2}))
    member.coordinator._session_timeout_ms = member.coordinator._rebalance_timeout_ms = 120_000
    assert led_while_ticking(member, response, gate)[1] == 20
    assert assignor.lag_reader.outcomes == {"read": 1}


def test_a_plan_does_not_wait_for_the_threads_of_the_application() -> None:
    """An application that processes records by `asyncio.to_thread` may keep all threads of its event loop busy."""
    member, response = ready(StickyAssignor(), Answer({"t": 2}))
    busy = threading.Event()

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        working = loop.run_in_executor(None, busy.wait, 60)
        try:
            return await asyncio.wait_for(member.coordinator._perform_assignment(response), 20)
        finally:
            busy.set()
            await working

    assert decode_assignment(member._run(run())["m0"]).partitions == (("t", (0, 1)),)


def test_partitions_that_come_while_a_plan_is_made_are_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka forgets what its metadata learns between assign and SyncGroup."""
    answer, plans = Answer({"t": 2}), []

    def grows(*given: Any) -> Any:
        answer.topics["t"] = 3
        plans.append(lead_group(*given))
        return plans[-1]

    monkeypatch.setattr(leader_side, "lead_group", grows)
    gate = threading.Event()
    given, _ = led_while_ticking(*ready(StickyAssignor(), answer), gate)
    assert decode_assignment(given["m0"]).partitions == (("t", (0, 1, 2)),)
    assert [sum(each.loads.values()) for each in plans] == [2, 3]


def test_topics_that_change_with_every_plan_do_not_keep_the_group_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, plans = Answer({"t": 2}), []

    def grows(*given: Any) -> Any:
        answer.topics["t"] += 1
        plans.append(lead_group(*given))
        return plans[-1]

    monkeypatch.setattr(leader_side, "lead_group", grows)
    given, _ = led_while_ticking(*ready(StickyAssignor(), answer), threading.Event())
    assert decode_assignment(given["m0"]).partitions == (("t", (0, 1, 2, 3)),)
    assert len(plans) == 3


def test_an_error_of_a_plan_reaches_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(leader_side, "lead_group", fails)
    member, response = ready(StickyAssignor(), Answer({"t": 2}))
    with pytest.raises(ZeroDivisionError):
        led_while_ticking(member, response, threading.Event())
    assert member.coordinator._heartbeat_task is None


@pytest.mark.kafka
def test_a_plan_longer_than_the_session_expels_nobody(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine seconds of planning, a session of six: the leader's heartbeats go on, and nobody has to join twice."""
    broker.create_topic("slow-plan", 4)
    beats: list[float] = []
    plans: list[tuple[float, float]] = []

    def slow(*given: Any) -> Any:
        begin = time.monotonic()
        time.sleep(SLOW_S)
        plans.append((begin, time.monotonic()))
        return lead_group(*given)

    async def started(name: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            "slow-plan", bootstrap_servers=broker.bootstrap, group_id="slow-plan", client_id=name,
            partition_assignment_strategy=[StickyAssignor], session_timeout_ms=SESSION_S * 1000, heartbeat_interval_ms=1000,
            rebalance_timeout_ms=60_000,
        )  # fmt: skip
        await consumer.start()
        return consumer

    async def until(owned: int, *consumers: AIOKafkaConsumer) -> None:
        deadline = time.monotonic() + 60
        while [len(each.assignment()) for each in consumers] != [owned] * len(consumers):
            assert time.monotonic() < deadline, [each.assignment() for each in consumers]
            await asyncio.sleep(0.1)

    async def run() -> None:
        one = await started("one")
        await until(4, one)
        monkeypatch.setattr(leader_side, "lead_group", slow)
        coordinator = one._coordinator
        beat = coordinator._do_heartbeat

        async def counted() -> Any:
            beats.append(time.monotonic())
            return await beat()

        coordinator._do_heartbeat = counted
        member = coordinator.member_id
        two = await started("two")
        await until(2, one, two)
        assert coordinator.member_id == member
        await one.stop()
        monkeypatch.undo()
        await two.stop()

    asyncio.run(run())
    begin, end = plans[0]
    assert sum(begin < at < end for at in beats) >= SLOW_S // 3
    generations = group_history(broker, "slow-plan").generations
    assert [set(each.clients.values()) for each in generations][:2] == [{"one"}, {"one", "two"}]
    assert len(plans) == 1
