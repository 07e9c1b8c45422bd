"""A kafka-python consumer with default settings. Arguments: one JSON object; ends on SIGTERM."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path

from kafka import KafkaConsumer


def main(given: dict[str, str]) -> None:
    """Reads until SIGTERM, then leaves the group."""
    logging.basicConfig(
        level=os.environ.get("LIVE_LOG", "WARNING"), format="%(asctime)s.%(msecs)03d %(name)s %(message)s", datefmt="%H:%M:%S"
    )
    module, name = given["assignor"].rsplit(".", 1)
    static = {"group_instance_id": given["instance"]} if given["instance"] else {}
    consumer = KafkaConsumer(
        given["topic"],
        bootstrap_servers=given["bootstrap"],
        group_id=given["group"],
        partition_assignment_strategy=[getattr(importlib.import_module(module), name)],
        session_timeout_ms=int(given["session_ms"]),
        auto_offset_reset="earliest",
        **static,
    )
    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    with Path(given["journal"]).open("a", encoding="ascii", buffering=1) as journal:
        while not ending:
            for partition, records in consumer.poll(timeout_ms=200).items():
                now = time.time()
                journal.write("".join(f"{now:.4f} {partition.partition} {record.offset}\n" for record in records))
    consumer.close()


main(json.loads(sys.argv[1]))
