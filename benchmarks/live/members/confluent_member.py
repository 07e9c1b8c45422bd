"""A confluent-kafka consumer (librdkafka) with default settings. Arguments: one JSON object; ends on SIGTERM."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer


def main(given: dict[str, str]) -> None:
    """Reads until SIGTERM, then leaves the group."""
    group = {"bootstrap.servers": given["bootstrap"], "group.id": given["group"], "auto.offset.reset": "earliest"}
    if given["assignor"] == "consumer":
        group["group.protocol"] = "consumer"
    else:
        group |= {"partition.assignment.strategy": given["assignor"], "session.timeout.ms": given["session_ms"]}
    if given["instance"]:
        group["group.instance.id"] = given["instance"]
    consumer = Consumer(group)
    consumer.subscribe([given["topic"]])
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with Path(given["journal"]).open("a", encoding="ascii", buffering=1) as journal:
        while not ending:
            record = consumer.poll(0.2)
            if record is not None and not record.error():
                journal.write(f"{time.time():.4f} {record.partition()} {record.offset()}\n")
    consumer.close()


main(json.loads(sys.argv[1]))
