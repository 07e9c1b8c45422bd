"""The cluster in which scenarios play: topics with their producers, members, and the truth that is written down."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer
from tests.kafka_broker import Broker

from benchmarks.health.members import Member, ProcessMember

__all__ = ["BROKER", "Leaves", "Stage"]

BROKER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "5000",
    "log.cleaner.min.compaction.lag.ms": "86400000",  # the offsets topic stays whole
    "log.retention.check.interval.ms": "5000",
    "transaction.max.timeout.ms": "900000",
}
_TICK_S = 0.25


class Leaves(Protocol):
    """What is ended with the recording."""

    def stop(self) -> None:
        """End it."""


class Stage:
    """What a scenario may do; times are seconds since the recording began."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.begin = time.time()
        self._truth = (folder / "truth.jsonl").open("w", encoding="utf-8")
        self._flows: list[_Flow] = []
        self._leaves: list[Leaves] = []
        self._done = threading.Event()
        self._producers = threading.Thread(target=self._produce, daemon=True)
        self._producers.start()

    @property
    def now(self) -> float:
        """Seconds since the begin."""
        return time.time() - self.begin

    def topic(self, name: str, partitions: int, per_second: float, **config: str) -> None:
        """Create a topic; each partition gets so many records a second."""
        self.broker.create_topic(name, partitions, **{key.replace("_", "."): value for key, value in config.items()})
        for partition in range(partitions):
            self.rate(name, partition, per_second)

    def rate(self, topic: str, partition: int, per_second: float) -> None:
        """Change the rate of a partition from here on."""
        self._flows = [one for one in self._flows if (one.topic, one.partition) != (topic, partition)]
        self._flows.append(_Flow(topic, partition, per_second))

    def burst(self, topic: str, partition: int, records: int) -> None:
        """Write records at once."""
        for flow in self._flows:
            if (flow.topic, flow.partition) == (topic, partition):
                flow.owed += records

    def member(self, group: str, name: str | None = None, kind: Callable[..., Any] = Member, **settings: Any) -> Any:
        """Start a member of a group that reads the topic of the same name."""
        topic = settings.pop("topic", group)
        one = kind(self.broker.bootstrap, group, topic, name or f"{group}-1", **settings)
        one.start()
        self._leaves.append(one)
        return one

    def process(self, group: str, name: str, **settings: Any) -> ProcessMember:
        """Start a member as a process."""
        given = {"bootstrap": self.broker.bootstrap, "group": group, "topic": group, "name": name}
        one = ProcessMember.of(self.folder / "members.log", **given, **settings)
        self._leaves.append(one)
        return one

    def program(self, *command: str) -> None:
        """Start a member that is another program."""
        self._leaves.append(ProcessMember(list(command), self.folder / "members.log"))

    def thread(self, work: Callable[[threading.Event], None]) -> None:
        """Run something until the end."""
        threading.Thread(target=work, args=(self._done,), daemon=True).start()

    def write(self, **row: object) -> None:
        """Add a line to the truth."""
        self._truth.write(json.dumps(row) + "\n")
        self._truth.flush()

    @contextlib.contextmanager
    def trouble(
        self, group: str, kind: str, partition: int | None = None, *, also: tuple[str, ...] = (), brief: bool = False
    ) -> Iterator[None]:
        """Something is wrong with a partition (None: some partition of the group) until the context ends.

        `also` are other states that say so as well; `brief` trouble may end before anybody can know.
        """
        since = time.time()
        yield
        row = {"group": group, "kind": kind, "also": list(also), "partition": partition, "brief": brief}
        self.write(event="trouble", **row, since_ms=int(since * 1000), until_ms=int(time.time() * 1000))

    def close(self) -> None:
        """End producers and members."""
        self._done.set()
        self._producers.join()
        for one in self._leaves:
            if isinstance(one, ProcessMember):
                one.signal(signal.SIGCONT)
            one.stop()
        self._truth.close()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 20})
        last = time.monotonic()
        while not self._done.wait(_TICK_S):
            passed, last = time.monotonic() - last, time.monotonic()
            for flow in self._flows:
                for _ in range(flow.due(passed)):
                    producer.produce(flow.topic, b"some twenty bytes of it", key=b"one of few", partition=flow.partition)
            producer.poll(0)
        producer.flush(10)


class _Flow:
    """The records of one partition that are not written yet."""

    def __init__(self, topic: str, partition: int, per_second: float) -> None:
        self.topic, self.partition, self.per_second, self.owed = topic, partition, per_second, 0.0

    def due(self, passed: float) -> int:
        self.owed += passed * self.per_second
        whole = int(self.owed)
        self.owed -= whole
        return whole
