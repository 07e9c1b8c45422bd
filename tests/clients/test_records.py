"""What live tests read of a group's history is all of it."""

from __future__ import annotations

import contextlib
import time

import pytest
from confluent_kafka import Consumer, KafkaException

from tests.clients.records import group_history
from tests.kafka_broker import Broker
from tests.pipeline.capture.traffic import open_transaction


@pytest.mark.kafka
def test_an_open_transaction_hides_no_generation(broker: Broker) -> None:
    broker.create_topic("hidden")
    producer = open_transaction(broker, "hidden", "hidden", 0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "hidden"})
    try:
        consumer.subscribe(["hidden"])
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        assert len(group_history(broker, "hidden").generations) == 1
    finally:
        consumer.close()
        with contextlib.suppress(KafkaException):  # the broker has ended it after its ten seconds
            producer.abort_transaction(60)
