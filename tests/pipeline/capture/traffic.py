"""Traffic on a broker's offsets topic: commits, members that come and go, transactions; and what the topic then holds."""

from __future__ import annotations

import random
import threading
import uuid
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC, Cluster
from counterpoise.pipeline.capture.fetch import read_range
from counterpoise.pipeline.capture.settings import Settings
from tests.kafka_broker import Broker

__all__ = ["Busy", "commit", "held", "open_transaction", "transact"]

Where = tuple[int, int]


def commit(broker: Broker, group: str, topic: str, offsets: list[int]) -> None:
    """One commit per offset, by a group without members, all partitions 0."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        for offset in offsets:
            _patiently(lambda at=offset: consumer.commit(offsets=[TopicPartition(topic, 0, at)], asynchronous=False))
    finally:
        consumer.close()


def _patiently(act: Any) -> None:
    for last in (*[False] * 20, True):
        try:
            act()
        except KafkaException:
            if last:
                raise
        else:
            return


def open_transaction(broker: Broker, group: str, topic: str, offset: int) -> Producer:
    """A transaction that has committed an offset and is still open; end it by `commit_transaction` or `abort_transaction`."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": f"t-{uuid.uuid4()}", "transaction.timeout.ms": 10_000}
    )
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 60)
    finally:
        consumer.close()
    return producer


def transact(broker: Broker, group: str, topic: str, offset: int, *, abort: bool) -> None:
    """A whole transaction around one commit."""
    producer = open_transaction(broker, group, topic, offset)
    (producer.abort_transaction if abort else producer.commit_transaction)(60)


def held(broker: Broker, isolation: str = "read_committed") -> set[Where]:
    """Partition and offset of every record that the offsets topic shows now."""
    settings = Settings({"bootstrap.servers": broker.bootstrap, "isolation.level": isolation})
    cluster = Cluster(settings)
    places = cluster.partitions([OFFSETS_TOPIC])
    start = cluster.offsets(places, "start")
    end = cluster.offsets(places, "stable" if isolation == "read_committed" else "end")
    found: set[Where] = set()
    for place in places:
        for batch in read_range(settings, place, start[place], end[place]):
            found |= {(place[1], offset) for offset in batch.column("offset").to_pylist()}
    return found


class Busy:
    """Groups that commit, rebalance and transact on a broker until `stop`, by a seeded plan; an absent broker is waited for.

    With `calm` they only rebalance, which takes hardly any processor time.
    """

    def __init__(self, broker: Broker, topic: str, seed: int, *, calm: bool = False) -> None:
        self._broker, self._topic = broker, topic
        self._done = threading.Event()
        self.failed: list[BaseException] = []
        self.commits = 0
        makers = [self._joiner] if calm else [self._committer, self._joiner, self._transactor]
        self._threads = [
            threading.Thread(target=self._run, args=(make, random.Random(seed + n))) for n, make in enumerate(makers)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all traffic; raises what went wrong in it."""
        self._done.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()
        if self.failed:
            raise self.failed[0]

    def _run(self, work: Any, rng: random.Random) -> None:
        try:
            work(rng)
        except BaseException as error:  # noqa: BLE001
            self.failed.append(error)

    def _committer(self, rng: random.Random) -> None:
        consumers = [
            Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": f"steady-{n}", "enable.auto.commit": False})
            for n in range(4)
        ]
        while not self._done.is_set():
            try:
                rng.choice(consumers).commit(offsets=[TopicPartition(self._topic, 0, rng.randrange(10**6))], asynchronous=False)
                self.commits += 1
            except KafkaException:
                self._done.wait(0.2)
            self._done.wait(0.003)
        for consumer in consumers:
            consumer.close()

    def _joiner(self, rng: random.Random) -> None:
        settings = {"bootstrap.servers": self._broker.bootstrap, "session.timeout.ms": 6000, "auto.offset.reset": "earliest"}
        while not self._done.is_set():
            consumer = Consumer({**settings, "group.id": f"restless-{rng.randrange(3)}"})
            consumer.subscribe([self._topic])
            consumer.consume(10, rng.uniform(0.5, 2.0))
            consumer.close()

    def _transactor(self, rng: random.Random) -> None:
        while not self._done.is_set():
            try:
                transact(self._broker, f"exact-{rng.randrange(2)}", self._topic, rng.randrange(10**6), abort=rng.random() < 0.4)
            except KafkaException:
                self._done.wait(0.5)
            self._done.wait(rng.uniform(0.1, 0.6))
