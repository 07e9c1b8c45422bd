"""A kafka-python member with counterpoise's assignors and listener; ends on SIGTERM. Arguments: one JSON object."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from typing import Any

import kafka
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from counterpoise.clients import kafka_python
from counterpoise.clients.rebalance_listener import rebalance_listener
from tests.clients.programs.journal import Journal, names
from tests.clients.programs.own import own_assignors
from tests.clients.programs.watched import watched


def main(settings: dict[str, Any]) -> None:
    journal = Journal(settings["journal"])

    own = settings.get("own")
    assignors = own_assignors("kafka_python", settings["assignors"]) if own else watched(kafka_python, settings, journal)
    consumer = KafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        client_id=settings["name"],
        partition_assignment_strategy=assignors,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=500,
        metadata_max_age_ms=1000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        retry_backoff_ms=200,
        **settings.get("config", {}),
    )

    def lost(partitions: Any) -> None:
        journal.write("lost", partitions=names(partitions))

    def gained(partitions: Any) -> None:
        journal.write("gained", partitions=names(partitions))

    listener = rebalance_listener(consumer, on_lost=lost, on_gained=gained)
    if settings.get("pattern"):
        consumer.subscribe(pattern=settings["pattern"], listener=listener)
    else:
        consumer.subscribe(settings["topics"], listener=listener)
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    faulthandler.register(signal.SIGUSR1)
    journal.write("started")
    before: Any = None
    # In 2.2.0 to 2.2.5, of which 2.2.0 is tested, the heartbeat thread may not start again after a join that outlasts a poll:
    # see docs/clients.md.
    poll_ms = 2_000 if kafka.__version__ == "2.2.0" else 200
    while not ending:
        try:
            batch = consumer.poll(timeout_ms=poll_ms)
        except KafkaConnectionError as error:
            # kafka-python lets a refused connection through while the broker is away.
            journal.write("poll failed", error=repr(error))
            continue
        now = names(listener.owned)
        if now != before:
            journal.write("owns", partitions=now)
            before = now
        for partition, records in batch.items():
            for record in records if not settings.get("idle") else ():
                listener.processed(record)
            journal.write("records", partition=f"{partition[0]}-{partition[1]}", values=[int(each.value) for each in records])
        offsets = listener.offsets()
        if batch and offsets:
            try:
                consumer.commit(offsets)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs into the journal
                journal.write("commit failed", error=repr(error))
    consumer.close()
    listener.close()
    journal.write("ended")
    if kafka.__version__ == "2.2.0":  # its finalizer may wait for a lock that a heartbeat thread held when the interpreter ended
        os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
