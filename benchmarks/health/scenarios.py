"""The scenarios of the recording: groups with planted trouble, and groups that only look as if they had some.

Each scenario is a generator: it does something, and yields the second at which it continues.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.java import jdk_home
from tests.kafka_broker import LIBS, SETTINGS

from benchmarks.health.members import KafkaPythonMember, Member, TransactionalMember
from benchmarks.health.stage import Stage

__all__ = ["END_S", "SCENARIOS", "Scenario"]

END_S = 1_320
_MAY_HANG: dict[str, Any] = {"max.poll.interval.ms": 1_800_000}
_KIP_848: dict[str, Any] = {"group.protocol": "consumer"}
_LARGE_FETCH: dict[str, Any] = {"fetch.message.max.bytes": 1_000_000}
Play: TypeAlias = Generator[float, None, None]
_LIVE_MEMBER = Path(__file__).resolve().parent.parent / "live" / "members" / "LiveMember.java"


@dataclass(frozen=True)
class Scenario:
    """A group (`name`), what happens to it, and how."""

    name: str
    words: str
    play: Callable[[Stage, str], Play]


SCENARIOS: list[Scenario] = []


def _scenario(name: str, words: str) -> Callable[[Callable[[Stage, str], Play]], Callable[[Stage, str], Play]]:
    def register(play: Callable[[Stage, str], Play]) -> Callable[[Stage, str], Play]:
        SCENARIOS.append(Scenario(name, words, play))
        return play

    return register


@_scenario("steady", "kafka-python with default settings, nothing wrong")
def _steady(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 5)
    stage.member(group, kind=KafkaPythonMember)
    yield END_S


@_scenario("quiet-topic", "a record every 80 seconds; commits only after records")
def _quiet(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 1 / 80)
    stage.member(group)
    yield END_S


@_scenario("only-at-night", "20 records every six minutes; commits only after records")
def _only_at_night(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 0)
    stage.member(group, per_second=2, commit_s=2)
    for at in range(60, END_S, 360):
        yield at
        stage.burst(group, 0, 20)


@_scenario("night-traffic", "ten times the traffic by day than by night")
def _night(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 2)
    stage.member(group, per_second=60)
    for number, at in enumerate(range(240, END_S, 240)):
        yield at
        for partition in (0, 1):
            stage.rate(group, partition, 2 if number % 2 else 20)


@_scenario("batch", "commits once a minute")
def _batch(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 3)
    stage.member(group, commit_s=60)
    yield END_S


@_scenario("long-batches", "processes each batch for 40 seconds, then commits it")
def _long_batches(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 3)
    stage.member(group, per_second=6, pause_s=40, commit_s=1, **_LARGE_FETCH)
    yield END_S


@_scenario("burst", "3,000 records at once, processed in four minutes")
def _burst(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 2)
    stage.member(group, per_second=16)
    for at in (300, 700):
        yield at
        stage.burst(group, 0, 3000 if at == 300 else 1000)


@_scenario("rolling-restart", "three members are restarted one after the other")
def _rolling_restart(stage: Stage, group: str) -> Play:
    stage.topic(group, 6, 2)
    members = [stage.member(group, f"{group}-{number}") for number in range(3)]
    for at in (300, 800):
        for number in range(3):
            yield at + 30 * number
            members[number].stop()
            yield at + 30 * number + 8
            members[number] = stage.member(group, f"{group}-{number}")


@_scenario("transactions", "reads transactions, some aborted; the Java member also commits unchanged offsets")
def _transactions(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 0)
    stage.thread(lambda done: _write_transactions(stage.broker.bootstrap, group, done))
    java = [str(Path(jdk_home()) / "bin" / "java"), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    logging = f"-Dlog4j2.configurationFile={SETTINGS / 'log4j2.properties'}"
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    given = [stage.broker.bootstrap, group, group, assignor, "45000", str(stage.folder / "java.journal")]
    stage.program(*java, logging, "-cp", f"{LIBS}/*", str(_LIVE_MEMBER), *given)
    yield END_S


@_scenario("transactions-quiet", "the same topic; members never commit past the marker at its end")
def _transactions_quiet(stage: Stage, group: str) -> Play:
    stage.member(group, topic="transactions")
    yield END_S


@_scenario("exactly-once", "commits offsets in transactions, with its output")
def _exactly_once(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 2)
    stage.topic(f"{group}-out", 1, 0)
    stage.member(group, kind=TransactionalMember, into=f"{group}-out", commit_s=10)
    yield END_S


@_scenario("compacted", "starts at the beginning of a compacted topic and reads over its gaps")
def _compacted(stage: Stage, group: str) -> Play:
    stage.topic(
        group, 2, 8, cleanup_policy="compact", segment_ms="30000", min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="0"
    )
    yield 600
    stage.member(group, per_second=40)
    yield END_S


@_scenario("slow-consumer", "KIP-848: two members, each slower than its partition for seven minutes")
def _slow(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 10)
    members = [stage.member(group, f"{group}-{number}", per_second=30, **_KIP_848) for number in range(2)]
    yield from _throttled(stage, group, members, (6, 30), (300, 720), range(2))


@_scenario("slow-in-fits", "works for 15 seconds at a time, too slow over all: the lag falls repeatedly while it grows")
def _slow_in_fits(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 8)
    member = stage.member(group, per_second=60, commit_s=1)
    yield 240
    with stage.trouble(group, "falling_behind", 0):
        member.pause_s, member.per_second = 15, 6
        yield 1_000
    member.pause_s, member.per_second = 0, 60


@_scenario("slow-again-and-again", "catches up every four minutes, and is too slow in between")
def _slow_again(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 8)
    member = stage.member(group, per_second=80)
    for at in (240, 540, 840):
        yield from _throttled(stage, group, [member], (5, 80), (at, at + 200), range(1))


@_scenario("hot-partition", "one partition gets ten times the records of the others, more than a member can process")
def _hot(stage: Stage, group: str) -> Play:
    stage.topic(group, 4, 3)
    for number in range(4):
        stage.member(group, f"{group}-{number}", per_second=20)
    stage.write(event="fact", group=group, what="capacity of a member per second", value=20)
    yield 300
    stage.rate(group, 0, 30)
    with stage.trouble(group, "falling_behind", 0):
        yield 900
        stage.rate(group, 0, 3)
    yield END_S


@_scenario("scaled-out", "one member for twice what it can process, then two more")
def _scaled_out(stage: Stage, group: str) -> Play:
    stage.topic(group, 6, 2)
    stage.member(group, f"{group}-0", per_second=24)
    stage.write(event="fact", group=group, what="capacity of a member per second", value=24)
    yield 120
    for partition in range(6):
        stage.rate(group, partition, 8)
    with stage.trouble(group, "falling_behind"):
        yield 480
        for number in (1, 2):
            stage.member(group, f"{group}-{number}", per_second=24)
        stage.write(event="fact", group=group, what="members from here on", value=3, at_ms=int(time.time() * 1000))
        yield 500  # a rebalance


@_scenario("poison-commits", "a record cannot be processed; the same offset is committed again and again")
def _poison_commits(stage: Stage, group: str) -> Play:
    yield from _poison(stage, group, "stalled", repeats=True)


@_scenario("poison-silent", "a record cannot be processed; nothing is committed for its partition")
def _poison_silent(stage: Stage, group: str) -> Play:
    yield from _poison(stage, group, "stopped", repeats=False)


@_scenario("poison-slow-topic", "the same, with a record every 20 seconds")
def _poison_slow_topic(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 1 / 20)
    member = stage.member(group, repeats=True)
    yield 400
    with stage.trouble(group, "stalled", 0):
        member.poisoned = {0}
        yield 1_000
    member.poisoned = set()


@_scenario("paused-partition", "the application pauses a partition and does not resume it")
def _paused(stage: Stage, group: str) -> Play:
    stage.topic(group, 3, 4)
    member = stage.member(group)
    yield 350
    with stage.trouble(group, "stopped", 1):
        member.paused = {1}
        yield 800
    member.paused = set()


@_scenario("hung", "one of two members hangs; its heartbeats continue")
def _hung(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 4)
    members = [stage.member(group, f"{group}-{number}", **_MAY_HANG) for number in range(2)]
    yield 400
    held = next(iter(members[0].committed))
    with stage.trouble(group, "stopped", held):
        members[0].hangs = True
        yield 900
    members[0].hangs = False


@_scenario("hung-quiet", "a member hangs whose topic gets a record every 25 seconds; it commits only after records")
def _hung_quiet(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 1 / 25)
    member = stage.member(group, **_MAY_HANG)
    yield 600
    with stage.trouble(group, "stopped", 0):
        member.hangs = True
        yield 1_250
    member.hangs = False


@_scenario("hung-batch", "a member that commits once a minute hangs")
def _hung_batch(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 3)
    member = stage.member(group, commit_s=60, **_MAY_HANG)
    yield 640
    with stage.trouble(group, "stopped", 0):
        member.hangs = True
        yield 1_250
    member.hangs = False


@_scenario("crash", "its only member is killed and returns after five minutes")
def _crash(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 4)
    member = stage.process(group, f"{group}-1")
    yield 400
    with stage.trouble(group, "unowned", 0, also=("stopped",)), stage.trouble(group, "unowned", 1, also=("stopped",)):
        member.kill()
        yield 700
    stage.process(group, f"{group}-2")
    yield END_S


@_scenario("crash-of-one", "one of two members is killed; the other takes over after the session timeout")
def _crash_of_one(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 4)
    stage.member(group, f"{group}-0")
    victim = stage.process(group, f"{group}-1")
    yield 500
    with stage.trouble(group, "stopped", also=("unowned",), brief=True):
        victim.kill()
        yield 550


@_scenario("frozen", "the process of one of two members is suspended for two minutes")
def _frozen(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 4)
    stage.member(group, f"{group}-0")
    victim = stage.process(group, f"{group}-1")
    yield 600
    with stage.trouble(group, "stopped", also=("unowned",), brief=True):
        victim.signal(signal.SIGSTOP)
        yield 650
    yield 720
    victim.signal(signal.SIGCONT)


@_scenario("shut-down", "all members leave, and records keep coming")
def _shut_down(stage: Stage, group: str) -> Play:
    stage.topic(group, 2, 4)
    member = stage.member(group)
    yield 450
    with stage.trouble(group, "unowned", 0), stage.trouble(group, "unowned", 1):
        member.stop()
        yield 850
    stage.member(group)
    yield END_S


@_scenario("retention-hung", "a hung member, until retention deletes what it has not read")
def _retention_hung(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 4, retention_ms="120000", segment_ms="10000")
    member = stage.member(group, **_MAY_HANG)
    _watch_losses(stage, group, member)
    yield 350
    with stage.trouble(group, "stopped", 0, also=("losing_data",)):
        member.hangs = True
        yield 800
    member.hangs = False


@_scenario("retention-slow", "a member so slow that retention overtakes it")
def _retention_slow(stage: Stage, group: str) -> Play:
    stage.topic(group, 1, 6, retention_ms="120000", segment_ms="10000")
    member = stage.member(group, per_second=60)
    _watch_losses(stage, group, member)
    yield 300
    with stage.trouble(group, "falling_behind", 0, also=("losing_data",)):
        member.per_second = 2
        yield 1_000
    member.per_second = 60


def _throttled(
    stage: Stage, group: str, members: list[Member], rates: tuple[float, float], span: tuple[float, float], partitions: range
) -> Play:
    """All members process the first rate of records in a span of time, and the second afterwards."""
    (slow, fast), (since, until) = rates, span
    yield since
    begin = int(time.time() * 1000)
    for member in members:
        member.per_second = slow
    yield until
    for member in members:
        member.per_second = fast
    common = {"event": "trouble", "group": group, "kind": "falling_behind", "also": [], "brief": False}
    for partition in partitions:
        stage.write(**common, partition=partition, since_ms=begin, until_ms=int(time.time() * 1000))


def _poison(stage: Stage, group: str, kind: str, *, repeats: bool) -> Play:
    stage.topic(group, 2, 4)
    member = stage.member(group, repeats=repeats)
    yield 300
    with stage.trouble(group, kind, 0):
        member.poisoned = {0}
        yield 800
    member.poisoned = set()


def _write_transactions(bootstrap: str, topic: str, done: threading.Event) -> None:
    """A transaction every 15 s, every fourth is aborted and written again; between the tenth and the sixteenth it is quiet."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    number = 0
    while not done.wait(15):
        number += 1
        if number % 30 in range(10, 17):
            continue
        for attempt in range(2 if number % 4 == 0 else 1):
            producer.begin_transaction()
            for at in range(10):
                producer.produce(topic, b"some twenty bytes of it", partition=at % 2)
            producer.flush(30)
            if number % 4 == 0 and attempt == 0:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)


def _watch_losses(stage: Stage, group: str, member: Member) -> None:
    """Write down when records of partition 0 were deleted before they were read: until none was for a minute."""

    def watch(done: threading.Event) -> None:
        own = Consumer({"bootstrap.servers": stage.broker.bootstrap, "group.id": "nobody"})
        since = last = 0.0
        while not done.wait(1):
            start, _ = own.get_watermark_offsets(TopicPartition(group, 0), timeout=30)
            if start > member.committed.get(0, start):
                since, last = since or time.time(), time.time()
            elif since and time.time() > last + 60:
                row = {"event": "trouble", "group": group, "kind": "losing_data", "also": [], "partition": 0, "brief": False}
                stage.write(**row, since_ms=int(since * 1000), until_ms=int(last * 1000))
                since = 0.0
        own.close()

    stage.thread(watch)
