"""Consumers that can be made to misbehave while they run, for recordings whose trouble is known.

    python -m benchmarks.health.members '{"bootstrap": ..., "group": ..., "topic": ..., "name": ...}'

runs one as a process, which can be killed or frozen.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer

__all__ = ["KafkaPythonMember", "Member", "ProcessMember", "TransactionalMember"]

ROOT = Path(__file__).resolve().parent.parent.parent
_POLL_S = 0.5
_SMALL_FETCH = {"queued.min.messages": 1, "fetch.message.max.bytes": 2_000, "fetch.wait.max.ms": 250}
"""A member reads little ahead: what it has not processed is still in the log, and its partitions take turns."""


class Member(threading.Thread):
    """A librdkafka consumer in a thread; the attributes may be changed while it runs.

    Attributes
    ----------
    per_second : float
        Records it processes at most.
    pause_s : float
        How long it works on each batch of `per_second` times so many seconds; 0: record by record.
    commit_s : float
        Seconds between two commits.
    repeats : bool
        Commits offsets that have not changed too, as Kafka's Java consumer does.
    poisoned : set of int
        Partitions whose next record it cannot process; it reads the others.
    paused : set of int
        Partitions that the application pauses.
    hangs : bool
        It neither polls nor commits; its heartbeats go on.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, **settings: Any) -> None:
        super().__init__(name=name, daemon=True)
        self._topic, self._done = topic, threading.Event()
        self.per_second: float = settings.pop("per_second", 1000.0)
        self.pause_s: float = settings.pop("pause_s", 0.0)
        self.commit_s: float = settings.pop("commit_s", 5.0)
        self.repeats: bool = settings.pop("repeats", False)
        self.poisoned: set[int] = set()
        self.paused: set[int] = set()
        self.hangs = False
        own = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": name, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**own, "enable.auto.commit": False, **_SMALL_FETCH, **settings})
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._stuck: set[int] = set()
        self._paused: set[int] = set()
        self._due = time.monotonic() + self.commit_s

    @property
    def committed(self) -> dict[int, int]:
        """The committed offsets by partition."""
        return dict(self._committed)

    def run(self) -> None:
        """Read until `stop`."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._assigned)
        while not self._done.is_set():
            if self.hangs:
                self._done.wait(_POLL_S)
                continue
            begin, span = time.monotonic(), self.pause_s or _POLL_S
            read = 0
            for record in self._consumer.consume(max(1, int(self.per_second * span)), 4 * _POLL_S if self.pause_s else _POLL_S):
                read += self._process(record)
            self._go_back()
            self._pause()
            self._done.wait(max(0.0, begin + read / self.per_second - time.monotonic(), self.pause_s if read else 0.0))
            if time.monotonic() >= self._due and not self.hangs:
                self._due = time.monotonic() + self.commit_s
                self.commit(self._next)
        self._consumer.close()

    def stop(self) -> None:
        """Leave the group in good order."""
        self._done.set()
        self.join(60)

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit what has changed, or all with `repeats`."""
        given = [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in sorted(offsets.items())
            if self.repeats or self._committed.get(partition) != offset
        ]
        if given:
            with contextlib.suppress(KafkaException):  # a rebalance
                self._write(given)
                self._committed |= {one.partition: one.offset for one in given}

    def _write(self, offsets: list[TopicPartition]) -> None:
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def _process(self, record: Message) -> int:
        partition, offset = record.partition(), record.offset()
        if record.error() is not None or partition is None or offset is None:
            return 0
        if partition in self.poisoned:
            self._stuck.add(partition)
            return 0
        self._next[partition] = offset + 1
        return 1

    def _go_back(self) -> None:
        """Read again from the record that could not be processed, once it can be."""
        for partition in self._stuck - self.poisoned:
            if partition in self._next:
                self._consumer.seek(TopicPartition(self._topic, partition, self._next[partition]))
        self._stuck &= self.poisoned

    def _pause(self) -> None:
        for paused, partitions in ((True, self.paused - self._paused), (False, self._paused - self.paused)):
            listed = [TopicPartition(self._topic, partition) for partition in partitions]
            if listed:
                (self._consumer.pause if paused else self._consumer.resume)(listed)
        self._paused = set(self.paused)

    def _assigned(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._next.clear()
        self._committed.clear()

    def _revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self.commit(self._next)
        self._next.clear()


class TransactionalMember(Member):
    """A member that writes a record for each it reads, and commits both in one transaction."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str, *, into: str, **settings: Any) -> None:
        super().__init__(bootstrap, group, topic, name, **settings)
        self._into = into
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 50})
        self._producer.init_transactions(60)

    def _write(self, offsets: list[TopicPartition]) -> None:
        self._producer.begin_transaction()
        for one in offsets:
            self._producer.produce(self._into, f"up to {one.offset}".encode(), partition=0)
        self._producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), 30)
        self._producer.commit_transaction(30)


class KafkaPythonMember(threading.Thread):
    """A kafka-python consumer with its default settings: it commits every five seconds."""

    def __init__(self, bootstrap: str, group: str, topic: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._settings = {"bootstrap_servers": bootstrap, "group_id": group, "client_id": name, "auto_offset_reset": "earliest"}
        self._topic, self._done = topic, threading.Event()

    def run(self) -> None:
        """Read until `stop`."""
        consumer = KafkaConsumer(self._topic, **self._settings)
        while not self._done.is_set():
            consumer.poll(500)
        consumer.close()

    def stop(self) -> None:
        """Leave the group in good order."""
        self._done.set()
        self.join(60)


class ProcessMember:
    """A `Member` as a process of its own."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    @classmethod
    def of(cls, log: Path, **settings: Any) -> ProcessMember:
        """Start a member with the settings of `Member`."""
        return cls([sys.executable, "-m", "benchmarks.health.members", json.dumps(settings)], log)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Leave the group in good order."""
        self.signal(signal.SIGTERM)
        self._process.wait(60)


def main() -> None:
    """One member, until SIGTERM."""
    member = Member(**json.loads(sys.argv[1]))
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    member.start()
    done.wait()
    member.stop()


if __name__ == "__main__":
    main()
