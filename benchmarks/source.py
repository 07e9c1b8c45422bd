"""Throughput of the data source's reader beside plain loops and Kafka's console consumer, on the same million records.

    python -m benchmarks.source [--bootstrap-server H:P] [--records N] [--rounds N]

Starts a broker unless one is named, keeps itself and its children to one core, and fills a topic of one partition with the
records of benchmarks/data/commits-1m.parquet (once; found again by its name). Reads it in turns: by `poll`, record by record
into lists, with librdkafka's defaults and without its pauses; by `consume(10000)` into lists; by the reader behind
``kafka-offsets``, into Arrow. All these end with key, value, partition, offset and time of every record in memory. Kafka's
console consumer prints them into nothing, as they are and by its OffsetsMessageFormatter; its times hold the start of a JVM.
Records per second of wall time and of CPU time (all threads and children), medians; look at ratios.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.java import java_home
from tests.kafka_broker import Broker

from counterpoise.pipeline.capture.fetch import read_range
from counterpoise.pipeline.capture.settings import Settings

__all__ = ["main"]

TUNED = {"fetch.queue.backoff.ms": "5"}
ROOT = Path(__file__).parent.parent
COMMITS = ROOT / "benchmarks" / "data" / "commits-1m.parquet"
LIBS = ROOT / ".kafka" / "libs"
FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


def by_poll(bootstrap: str, topic: str, count: int, **settings: str) -> int:
    """The loop everybody writes first."""
    consumer = _plain(bootstrap, topic, settings)
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            rows.append((message.key(), message.value(), message.partition(), message.offset(), message.timestamp()))
    consumer.close()
    return len(rows)


def by_poll_tuned(bootstrap: str, topic: str, count: int) -> int:
    """The same without librdkafka's pause of a second whenever its queue is full."""
    return by_poll(bootstrap, topic, count, **TUNED)


def by_consume(bootstrap: str, topic: str, count: int) -> int:
    """The same, ten thousand at a time."""
    consumer = _plain(bootstrap, topic, TUNED)
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                rows += [(message.key(), message.value(), message.partition(), message.offset(), message.timestamp())]
    consumer.close()
    return len(rows)


def by_source(bootstrap: str, topic: str, count: int) -> int:
    """The reader behind ``kafka-offsets``."""
    batches = list(read_range(Settings({"bootstrap.servers": bootstrap}), (topic, 0), 0, count))
    return int(pa.Table.from_batches(batches).num_rows)


def by_console(bootstrap: str, topic: str, count: int, *more: str) -> int:
    """Kafka's own console consumer, into nothing; it says how many records it has processed."""
    java = subprocess.run([ROOT / "scripts" / "find_java.sh"], capture_output=True, text=True, check=True).stdout.strip()
    tool = [f"{java}/bin/java", "-Xmx512m", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    with Path(os.devnull).open("wb") as nothing:
        done = subprocess.run(
            [*tool, *where, "--max-messages", str(count), *more], stdout=nothing, stderr=subprocess.PIPE, text=True, check=True
        )
    return count if f"Processed a total of {count} messages" in done.stderr else 0


def cpu_time() -> float:
    """Seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _plain(bootstrap: str, topic: str, settings: dict[str, str]) -> Consumer:
    own = {"bootstrap.servers": bootstrap, "group.id": f"bench-{uuid.uuid4()}", "enable.auto.commit": False}
    consumer = Consumer({**own, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def fill(bootstrap: str, topic: str, count: int) -> None:
    """The records into the topic, unless it is there."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic in admin.list_topics(timeout=30).topics:
        return
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for batch in pq.ParquetFile(COMMITS).iter_batches(50_000, columns=["key", "value"]):
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            if count:
                producer.produce(topic, value, key)
                count -= 1
        producer.flush(120)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description="Read one topic in several ways.")
    options.add_argument("--bootstrap-server")
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    if not LIBS.is_dir():
        raise SystemExit(f"{LIBS}: the console consumer's jars are missing: run `make kafka`")
    if given.bootstrap_server:
        measure(given.bootstrap_server, given.records, given.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), Path(java_home()) / "bin" / "java")
        broker.start()
        try:
            measure(broker.bootstrap, given.records, given.rounds)
        finally:
            broker.stop()


def measure(bootstrap: str, records: int, rounds: int) -> None:
    """All ways in turns, on one core; prints a line for each."""
    topic = f"bench-source-{records}"
    fill(bootstrap, topic, records)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ways: dict[str, Callable[[str, str, int], int]] = {
        "poll": by_poll,
        "poll, tuned": by_poll_tuned,
        "consume, tuned": by_consume,
        "source": by_source,
        "console": by_console,
        "console, decoded": lambda *of: by_console(*of, "--formatter", FORMATTER),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            wall, cpu = time.perf_counter(), cpu_time()
            if way(bootstrap, topic, records) != records:
                raise SystemExit(f"{name}: records are missing")
            taken[name].append((time.perf_counter() - wall, cpu_time() - cpu))
    rates = {name: [records / statistics.median(each) for each in zip(*times, strict=True)] for name, times in taken.items()}
    print(f"{records:,} records, medians of {rounds} rounds on one core: records/s of wall and of CPU time, both against poll")
    for name, (wall, cpu) in rates.items():
        print(f"{name:16} {wall:12,.0f} {cpu:12,.0f} {wall / rates['poll'][0]:8.2f}x {cpu / rates['poll'][1]:8.2f}x")


if __name__ == "__main__":
    main()
