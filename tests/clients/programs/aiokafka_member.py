"""An aiokafka member with counterpoise's assignors and listener; ends on SIGTERM. Arguments: one JSON object."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import signal
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer

from counterpoise.clients import aiokafka
from counterpoise.clients.rebalance_listener import rebalance_listener
from tests.clients.programs.journal import Journal, names
from tests.clients.programs.own import own_assignors
from tests.clients.programs.watched import watched


async def main(settings: dict[str, Any]) -> None:
    journal = Journal(settings["journal"])

    own = settings.get("own")
    assignors = own_assignors("aiokafka", settings["assignors"]) if own else watched(aiokafka, settings, journal)
    consumer = AIOKafkaConsumer(
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
    await consumer.start()
    if settings.get("pattern"):
        consumer.subscribe(pattern=settings["pattern"], listener=listener)
    else:
        consumer.subscribe(settings["topics"], listener=listener)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    faulthandler.register(signal.SIGUSR1)
    journal.write("started")
    before: Any = None
    while not ending.is_set():
        batch = await consumer.getmany(timeout_ms=200)
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
                await consumer.commit(offsets)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs into the journal
                journal.write("commit failed", error=repr(error))
    await consumer.stop()
    await listener.close()
    journal.write("ended")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
