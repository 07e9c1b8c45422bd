"""The test broker does what tests of clients rely on: it serves, survives a restart and a kill, and is gone when stopped."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer, Producer

from tests.kafka_broker import Broker

pytestmark = pytest.mark.kafka


def _consume(broker: Broker, topic: str, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": f"g-{uuid.uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        values: list[bytes] = []
        while len(values) < count:
            batch = consumer.consume(count - len(values), timeout=60)
            assert batch, f"only {len(values)} of {count} records arrived within a minute"
            values += [message.value() or b"" for message in batch if message.error() is None]
        return values
    finally:
        consumer.close()


def test_records_survive_a_restart_and_a_kill(broker: Broker) -> None:
    """What was produced and acknowledged is consumed after an orderly restart and after a crash."""
    broker.create_topic("survivors", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    wanted = [b"%d" % i for i in range(20)]
    for value in wanted:
        producer.produce("survivors", value, partition=int(value) % 2)
    assert producer.flush(60) == 0
    assert sorted(_consume(broker, "survivors", 20), key=int) == wanted
    broker.restart()
    assert sorted(_consume(broker, "survivors", 20), key=int) == wanted
    broker.kill()
    assert not broker.answers()
    broker.start()
    assert sorted(_consume(broker, "survivors", 20), key=int) == wanted
