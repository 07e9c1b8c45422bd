"""An aiokafka consumer with default settings. Arguments: one JSON object; ends on SIGTERM."""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer


async def main(given: dict[str, str]) -> None:
    """Reads until SIGTERM, then leaves the group."""
    module, name = given["assignor"].rsplit(".", 1)
    static = {"group_instance_id": given["instance"]} if given["instance"] else {}
    consumer = AIOKafkaConsumer(
        given["topic"],
        bootstrap_servers=given["bootstrap"],
        group_id=given["group"],
        partition_assignment_strategy=[getattr(importlib.import_module(module), name)],
        session_timeout_ms=int(given["session_ms"]),
        auto_offset_reset="earliest",
        **static,
    )
    await consumer.start()
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    with Path(given["journal"]).open("a", encoding="ascii", buffering=1) as journal:
        while not ending.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                now = time.time()
                journal.write("".join(f"{now:.4f} {partition.partition} {record.offset}\n" for record in records))
    await consumer.stop()


asyncio.run(main(json.loads(sys.argv[1])))
