"""A real group with a skewed backlog on a real broker: how long it takes to drain under `sticky` and its kin, and `lag-sticky`.

python -m benchmarks.lag_drain        # starts a broker of its own; about three minutes

Three kafka-python members hold a topic; a backlog arrives; a fourth member joins, and the group is planned anew by
counterpoise's assignor, which reads the lag from the broker. Then all four work, each at most so many records a second.
All strategies get the same topics, the same backlogs and as many members, one after the other. Two backlogs: one member
had stalled, so that all of it lies on its partitions; and zipf over all partitions in random order, with one giant.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from kafka import ConsumerRebalanceListener, KafkaConsumer
from tests.java import java_home
from tests.kafka_broker import Broker

from counterpoise.clients.kafka_python import CooperativeStickyAssignor, LagStickyAssignor, StickyAssignor
from counterpoise.clients.lag_source import live_lag
from counterpoise.laws.lag_bound import lag_report
from counterpoise.planning.lead import Lead

__all__ = ["KINDS", "Drained", "backlog", "drain", "main", "rebalanced"]

PARTITIONS, MEMBERS = 24, 4
RECORDS, LIMIT = 8_000, 250
"""Records that wait, and how many a member works off in a second: a perfect split takes eight seconds."""
WITHIN_S, STEADY_S = 60.0, 1.0
KINDS = ("one member had stalled", "zipf")
BY_COUNT = {"sticky": StickyAssignor, "cooperative-sticky": CooperativeStickyAssignor}


@dataclass
class Drained:
    """What one run was like.

    `left` holds (seconds since the members began to work, records that still wait).
    """

    strategy: str
    kind: str
    seconds: float
    largest: int
    bound: int
    moves: int
    read_lag: bool
    left: list[tuple[float, int]] = field(default_factory=list)


class _Member(threading.Thread):
    """One consumer in a thread of its own: joins at once, works when the gate opens, at its limit."""

    def __init__(self, name: str, bootstrap: str, topic: str, group: str, assignor: Any, gate: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.owned: set[int] = set()
        self.done: Counter[int] = Counter()
        self.ending = threading.Event()
        self._gate = gate
        self._topic = topic
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, client_id=name, partition_assignment_strategy=[assignor],
            auto_offset_reset="earliest", enable_auto_commit=True, auto_commit_interval_ms=500, max_poll_records=25,
            heartbeat_interval_ms=300, session_timeout_ms=10_000, metadata_max_age_ms=2000,
        )  # fmt: skip

    def run(self) -> None:
        consumer, gate = self._consumer, self._gate

        class Pausing(ConsumerRebalanceListener):  # type: ignore[misc]
            """What is assigned before the gate opens is not read yet."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                if not gate.is_set():
                    consumer.pause(*assigned)

        consumer.subscribe([self._topic], listener=Pausing())
        free_at = 0.0
        while not self.ending.is_set():
            if gate.is_set():
                consumer.resume(*consumer.paused())
            batches = consumer.poll(timeout_ms=50)
            self.owned = {each.partition for each in consumer.assignment()}
            for partition, records in batches.items():
                self.done[partition.partition] += len(records)
            count = sum(map(len, batches.values()))
            free_at = max(free_at, time.monotonic()) + count / LIMIT
            time.sleep(max(0.0, free_at - time.monotonic()))
        consumer.close()


def backlog(kind: str, stalled: set[int], seed: int = 4) -> list[int]:
    """Records per partition, RECORDS in all; `stalled` are the partitions of the member that had stalled."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(1 / np.arange(1, PARTITIONS + 1))
    if kind == KINDS[0]:
        shares = np.zeros(PARTITIONS)
        shares[sorted(stalled)] = rng.uniform(0.5, 1.5, len(stalled))
    sizes = (shares / shares.sum() * RECORDS).astype(int)
    sizes[sizes.argmax()] += RECORDS - sizes.sum()
    return [int(size) for size in sizes]


def drain(broker: Broker, strategy: str, kind: str) -> Drained:
    """One run; raises RuntimeError when the group does not get there in a minute."""
    with rebalanced(broker, strategy, kind) as (members, gate, result):
        _work(members, gate, result)
        return result


@contextmanager
def rebalanced(broker: Broker, strategy: str, kind: str) -> Iterator[tuple[list[_Member], threading.Event, Drained]]:
    """A group with its backlog, after the rebalance and before anybody works: its members, their gate, and how it stands."""
    run = f"{strategy}-{KINDS.index(kind)}"
    topic, group = f"backlog-{run}", f"drain-{run}"
    broker.create_topic(topic, PARTITIONS)
    gate, leads = threading.Event(), list[Lead]()
    sources: list[LagStickyAssignor] = []

    def member(at: int) -> _Member:
        if strategy == "lag-sticky":
            source = live_lag({"bootstrap.servers": broker.bootstrap}, group, reset="earliest")
            assignor: Any = LagStickyAssignor(lag=source, lag_within_s=3.0, on_lead=leads.append)
            sources.append(assignor)
        else:
            assignor = BY_COUNT[strategy](on_lead=leads.append)
        return _Member(f"member-{at}", broker.bootstrap, topic, group, assignor, gate)

    members = [member(at) for at in range(MEMBERS - 1)]
    try:
        for each in members:
            each.start()
        before = _settled(members)
        sizes = backlog(kind, before[0])
        _produce(broker, topic, sizes)
        members.append(member(MEMBERS - 1))
        members[-1].start()
        _settled(members)
        result = _report(strategy, kind, sizes, members, before, leads)
        result.read_lag = any(each.lag_reader.outcomes["read"] for each in sources)
        yield members, gate, result
    finally:
        for each in members:
            each.ending.set()
        for each in members:
            if each.is_alive():
                each.join(20)


def _produce(broker: Broker, topic: str, sizes: list[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for partition, size in enumerate(sizes):
        for _ in range(size):
            producer.produce(topic, b"x" * 100, partition=partition)
        producer.poll(0)
    if producer.flush(30):
        raise RuntimeError("the backlog could not be written")


def _report(
    strategy: str, kind: str, sizes: list[int], members: list[_Member], before: list[set[int]], leads: list[Lead]
) -> Drained:
    """The assignment as it came out, measured by the backlog; the lead names the members, the consumers what they hold."""
    problem = leads[-1].joined.problem.replace(lag=sizes)
    owner = np.full(PARTITIONS, -1, np.int32)
    for code, each in enumerate(members):
        owner[sorted(each.owned)] = code
    moves = sum(len(had - each.owned) for had, each in zip(before, members, strict=False))
    report = lag_report(problem, owner, counts="balanced")
    return Drained(strategy, kind, 0.0, int(report.largest), -int(-report.bound // 1), moves, read_lag=False)


def _work(members: list[_Member], gate: threading.Event, result: Drained) -> None:
    begin = time.monotonic()
    gate.set()

    def drained() -> bool:
        left = RECORDS - sum(sum(each.done.values()) for each in members)
        result.left.append((time.monotonic() - begin, left))
        return left <= 0

    _wait(drained, "empty backlog")
    result.seconds = result.left[-1][0]


def _settled(members: list[_Member]) -> list[set[int]]:
    """What each member holds, once all hold something, together everything, and nothing has changed for a second."""
    held: list[set[int]] = []
    since = time.monotonic()

    def steady() -> bool:
        nonlocal held, since
        now = [set(each.owned) for each in members]
        if now != held or not all(now) or sorted(chain.from_iterable(now)) != list(range(PARTITIONS)):
            held, since = now, time.monotonic()
        return time.monotonic() - since > STEADY_S

    _wait(steady, f"{len(members)} members that hold everything")
    return held


def _wait(there: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not there():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {what} after {WITHIN_S:.0f} s")
        time.sleep(0.05)


def table(runs: list[Drained]) -> Iterator[str]:
    """One row per strategy."""
    at = (2, 5, 10, 20)
    times = " | ".join(f"left after {s} s" for s in at)
    yield f"| backlog | strategy | moves | largest backlog of a member | no balanced plan below | {times} | empty after |"
    yield "|" + "---|" * (6 + len(at))
    for run in runs:
        left = [next((records for seconds, records in run.left if seconds >= s), 0) for s in at]
        shown = " | ".join(f"{records:,}" for records in left)
        yield f"| {run.kind} | `{run.strategy}` | {run.moves} | {run.largest:,} | {run.bound:,} | {shown} | {run.seconds:.1f} s |"


def main() -> None:
    """Run all and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), Path(java_home()) / "bin" / "java")
        try:
            broker.start()
            runs = [drain(broker, strategy, kind) for kind in KINDS for strategy in (*BY_COUNT, "lag-sticky")]
        finally:
            broker.stop()
    if not all(run.read_lag for run in runs if run.strategy == "lag-sticky"):
        raise RuntimeError("the leader could not read the lag in time: nothing was measured")
    print(f"{RECORDS:,} records on {PARTITIONS} partitions, {MEMBERS} members of {LIMIT} records a second")
    for row in table(runs):
        print(row)


if __name__ == "__main__":
    main()
