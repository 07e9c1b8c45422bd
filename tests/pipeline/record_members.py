"""Records `tests/data/recorded/members`: groups of kafka-python and aiokafka, some of them with counterpoise's assignors.

    python -m tests.pipeline.record_members FOLDER

starts a broker (tests/kafka_broker.py), a topic of six partitions with a record a second in each, and the groups of `GROUPS`: two
members, a third after 15 s, and after 30 s the first one leaves. Members commit what each poll returned. `counterpoise capture`
reads the cluster while they run. All settings are the libraries' defaults; members named `None` have the default client id.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.java import java_home
from tests.kafka_broker import Broker

__all__ = ["GROUPS", "PARTITIONS", "copy_capture"]

_OWN, _AIO = "kafka.coordinator.assignors", "aiokafka.coordinator.assignors"
_OURS, _OURS_AIO = "counterpoise.clients.kafka_python", "counterpoise.clients.aiokafka"
GROUPS: dict[str, tuple[str, str, str | None]] = {
    "own-range": (f"{_OWN}.range", "RangePartitionAssignor", None),
    "own-cooperative": (f"{_OWN}.cooperative_sticky", "CooperativeStickyAssignor", "app"),
    "ours-range": (_OURS, "RangeAssignor", "app"),
    "ours-sticky": (_OURS, "StickyAssignor", "app"),
    "ours-cooperative": (_OURS, "CooperativeStickyAssignor", "app"),
    "aio-own-roundrobin": (f"{_AIO}.roundrobin", "RoundRobinPartitionAssignor", None),
    "aio-ours-sticky": (_OURS_AIO, "StickyAssignor", "app"),
}
"""Group -> where its assignor is, and its members' client id."""
TOPIC, PARTITIONS = "orders", 6
JOIN_S, LEAVE_S, END_S = 15.0, 30.0, 45.0


def settings(broker: Broker, group: str) -> dict[str, Any]:
    """What all consumers of a group are made with."""
    module, name, client = GROUPS[group]
    given: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": group,
        "partition_assignment_strategy": [getattr(import_module(module), name)],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }
    return given if client is None else given | {"client_id": client}


def member(broker: Broker, group: str, ending: threading.Event) -> None:
    """A kafka-python consumer until it is asked to end."""
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(TOPIC, **settings(broker, group))
    while not ending.is_set():
        if consumer.poll(timeout_ms=200):
            with suppress(KafkaError):
                consumer.commit()
    consumer.close()


async def aio_member(broker: Broker, group: str, ending: asyncio.Event) -> None:
    """The same in aiokafka."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(TOPIC, **settings(broker, group))
    await consumer.start()
    while not ending.is_set():
        if await consumer.getmany(timeout_ms=200):
            with suppress(KafkaError):
                await consumer.commit()
    await consumer.stop()


def live(broker: Broker, group: str) -> None:
    """The life of a kafka-python group."""
    endings = [threading.Event() for _ in range(3)]
    threads = [threading.Thread(target=member, args=(broker, group, ending)) for ending in endings]
    threads[0].start()
    threads[1].start()
    time.sleep(JOIN_S)
    threads[2].start()
    time.sleep(LEAVE_S - JOIN_S)
    endings[0].set()
    time.sleep(END_S - LEAVE_S)
    for ending in endings:
        ending.set()
    for thread in threads:
        thread.join()


async def aio_live(broker: Broker, group: str) -> None:
    """The life of an aiokafka group."""
    endings = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(aio_member(broker, group, ending)) for ending in endings[:2]]
    await asyncio.sleep(JOIN_S)
    tasks.append(asyncio.create_task(aio_member(broker, group, endings[2])))
    await asyncio.sleep(LEAVE_S - JOIN_S)
    endings[0].set()
    await asyncio.sleep(END_S - LEAVE_S)
    for ending in endings:
        ending.set()
    await asyncio.gather(*tasks)


def produce(broker: Broker, ending: threading.Event) -> None:
    """A record a second into each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    while not ending.wait(1.0):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"record", partition=partition)
        producer.poll(0)
    producer.flush(10)


def record(folder: Path) -> None:
    """Everything at once; then the capture's files are copied to `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch), Path(java_home()) / "bin" / "java")
        broker.start()
        try:
            broker.create_topic(TOPIC, PARTITIONS)
            words = [
                "capture",
                "--bootstrap-server",
                broker.bootstrap,
                "--out",
                f"{scratch}/capture",
                "--follow",
                "--sample-every",
                "2",
            ]
            capture = subprocess.Popen([sys.executable, "-m", "counterpoise", *words], stdout=subprocess.DEVNULL)
            done = threading.Event()
            producing = threading.Thread(target=produce, args=(broker, done))
            producing.start()
            groups = [threading.Thread(target=live, args=(broker, group)) for group in GROUPS if not group.startswith("aio")]
            groups += [
                threading.Thread(target=asyncio.run, args=(aio_live(broker, group),))
                for group in GROUPS
                if group.startswith("aio")
            ]
            for thread in groups:
                thread.start()
            for thread in groups:
                thread.join()
            done.set()
            producing.join()
            time.sleep(3)
            capture.terminate()
            capture.wait(60)
            copy_capture(Path(scratch) / "capture", folder)
        finally:
            broker.stop()


def copy_capture(capture: Path, folder: Path) -> None:
    """Each table as one file, which a capture has under a symbolic link to several."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("consumer_offsets.parquet", "log_offsets.parquet"):
        pq.write_table(pq.read_table(capture / name), folder / name, compression="zstd")
    shutil.copy(capture / "topics.json", folder / "topics.json")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
