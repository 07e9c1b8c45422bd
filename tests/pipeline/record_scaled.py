"""Records `tests/data/recorded/scaled`: groups whose production and capacity are known, one of them scaled while it falls behind.

    python -m tests.pipeline.record_scaled FOLDER

starts a broker (tests/kafka_broker.py), a producer of `RATES`, and the groups of `GROUPS` for eleven minutes, of kafka-python
members that need `1 / CAPACITY` seconds for a record and commit every two seconds. `counterpoise capture` samples the
ends of logs every ten seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer

from tests.java import java_home
from tests.kafka_broker import Broker
from tests.pipeline.record_members import copy_capture

__all__ = ["CAPACITY", "GROUPS", "RATES", "SCALED_S"]

CAPACITY = 25
"""Records a second of a member."""
RATES = {"jobs": (10,) * 6, "keys": (40, 2, 2)}
"""Topic -> records a second into each of its partitions."""
SCALED_S, END_S, COMMIT_S = 240.0, 660.0, 2.0
GROUPS: dict[str, tuple[str, tuple[float, ...]]] = {
    "scaled": ("jobs", (0, SCALED_S, SCALED_S, SCALED_S)),
    "spare": ("jobs", (0,) * 6),
    "hot": ("keys", (0, 0)),
}
"""Group -> its topic, and the seconds at which its members start."""


def member(broker: Broker, group: str, topic: str, start: float, ending: threading.Event) -> None:
    """A consumer from its start until it is asked to end."""
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    if ending.wait(start):
        return
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        client_id=f"{group}-app",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=CAPACITY,
        heartbeat_interval_ms=1000,
    )
    committed = 0.0
    while not ending.is_set():
        begin = time.monotonic()
        records = sum(map(len, consumer.poll(timeout_ms=200).values()))
        time.sleep(max(begin + records / CAPACITY - time.monotonic(), 0))
        if records and time.monotonic() > committed + COMMIT_S:
            with suppress(KafkaError):
                consumer.commit()
            committed = time.monotonic()
    consumer.close()


def produce(broker: Broker, ending: threading.Event) -> None:
    """The records of each tenth of a second."""
    producer, begin = Producer({"bootstrap.servers": broker.bootstrap}), time.monotonic()
    made = {(topic, partition): 0 for topic, rates in RATES.items() for partition in range(len(rates))}
    while not ending.wait(0.1):
        for (topic, partition), known in made.items():
            due = int((time.monotonic() - begin) * RATES[topic][partition])
            for _ in range(due - known):
                producer.produce(topic, b"record", partition=partition)
            made[topic, partition] = due
        producer.poll(0)
    producer.flush(10)


def record(folder: Path) -> None:
    """Everything at once; then the capture's files are copied to `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch), Path(java_home()) / "bin" / "java")
        broker.start()
        try:
            for topic, rates in RATES.items():
                broker.create_topic(topic, len(rates))
            out = f"{scratch}/capture"
            words = ["capture", "--bootstrap-server", broker.bootstrap, "--out", out, "--follow", "--sample-every", "10"]
            capture = subprocess.Popen([sys.executable, "-m", "counterpoise", *words], stdout=subprocess.DEVNULL)
            ending = threading.Event()
            threads = [threading.Thread(target=produce, args=(broker, ending))]
            for group, (topic, starts) in GROUPS.items():
                threads += [threading.Thread(target=member, args=(broker, group, topic, start, ending)) for start in starts]
            for thread in threads:
                thread.start()
            time.sleep(END_S)
            capture.terminate()
            capture.wait(60)
            ending.set()
            for thread in threads:
                thread.join()
            copy_capture(Path(out), folder)
        finally:
            broker.stop()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
