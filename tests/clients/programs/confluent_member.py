"""A librdkafka member (confluent-kafka) with its own assignors; ends on SIGTERM. Arguments: one JSON object."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.programs.journal import Journal


def main(settings: dict[str, Any]) -> None:
    journal = Journal(settings["journal"])
    done: dict[tuple[str, int], int] = {}
    owned: set[tuple[str, int]] = set()
    consumer = Consumer(
        {
            "bootstrap.servers": settings["bootstrap"],
            "group.id": settings["group"],
            "client.id": settings["name"],
            "partition.assignment.strategy": settings["assignors"][0],
            "session.timeout.ms": settings["session_ms"],
            "heartbeat.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            "metadata.max.age.ms": 3000,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            **settings.get("config", {}),
        }
    )

    def words() -> list[str]:
        return sorted(f"{topic}-{partition}" for topic, partition in owned)

    def commit(partitions: set[tuple[str, int]]) -> None:
        offsets = [TopicPartition(*each, done[each]) for each in sorted(partitions) if each in done]
        if offsets:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                journal.write("commit failed", error=repr(error))

    def assigned(_: Any, partitions: Any) -> None:
        new = {(each.topic, each.partition) for each in partitions}
        for each in new:
            done.pop(each, None)
        owned.update(new)
        journal.write("owns", partitions=words(), member_id=consumer.memberid())

    def revoked(_: Any, partitions: Any) -> None:
        gone = {(each.topic, each.partition) for each in partitions}
        commit(gone)
        owned.difference_update(gone)
        journal.write("owns", partitions=words(), member_id=consumer.memberid())

    def lost(_: Any, partitions: Any) -> None:
        for each in partitions:
            done.pop((each.topic, each.partition), None)
            owned.discard((each.topic, each.partition))
        journal.write("owns", partitions=words(), member_id="")

    consumer.subscribe(settings["topics"], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    journal.write("started")
    while not ending:
        for record in consumer.consume(num_messages=500, timeout=0.2):
            read(record, owned, done, journal)
        commit(owned)
    consumer.close()
    journal.write("ended")


def read(record: Any, owned: set[tuple[str, int]], done: dict[tuple[str, int], int], journal: Journal) -> None:
    """Process one record: its value goes into the journal, its offset into `done`."""
    partition = (record.topic(), record.partition())
    if record.error() is None and partition in owned:
        done[partition] = record.offset() + 1
        journal.write("records", partition=f"{partition[0]}-{partition[1]}", values=[int(record.value())])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
