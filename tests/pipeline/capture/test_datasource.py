"""The data source ``kafka-offsets`` against a broker: what a consumer sees, as batch and as stream, and nothing secret."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from counterpoise.pipeline import decode
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from counterpoise.pipeline.capture.datasource import KafkaOffsets
from counterpoise.pipeline.capture.source_options import read_options, warn_of_open_transactions
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from tests.kafka_broker import Broker
from tests.pipeline.capture.traffic import Where, commit, held, open_transaction, transact
from tests.pipeline.incremental.conftest import ONE_PARTITION
from tests.pipeline.incremental.pieces import comparable_rows, rows_by_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def source(spark: SparkSession, broker: Broker) -> SparkSession:
    """The session with the source registered, and some history on the broker: commits, a commit and an abort at each tail."""
    broker.create_topic("paid")
    spark.dataSource.register(KafkaOffsets)
    commit(broker, "plain", "paid", list(range(50)))
    for group in ("plain", "other"):
        transact(broker, group, "paid", 7, abort=False)
        transact(broker, group, "paid", 8, abort=True)
    return spark


def read(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    reader = spark.read.format("kafka-offsets").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


def places(frame: DataFrame) -> list[Where]:
    return sorted((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())


def test_a_batch_is_what_a_consumer_sees(source: SparkSession, broker: Broker) -> None:
    """All visible records once, none of an aborted transaction; and the audit's decoder takes them."""
    frame = read(source, broker)
    assert places(frame) == sorted(held(broker))
    everything = read(source, broker, **{"kafka.isolation.level": "read_uncommitted"})
    assert len(places(everything)) >= len(places(frame)) + 2
    commits = decode.offset_commits(frame).where("group_id = 'plain' and topic = 'paid'").collect()
    assert sorted(row["committed_offset"] for row in commits) == sorted([*range(50), 7])


def test_audits_of_the_source_give_the_tables_of_one_of_its_records_in_files(
    source: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Audited, then updated when more was committed, after an aborted transaction."""
    with configured(source, ONE_PARTITION):
        audit(source, read(source, broker), tmp_path / "out", strategies=["sticky"], since_last=True)
        transact(broker, "plain", "paid", 300, abort=True)
        commit(broker, "plain", "paid", [301, 302])
        frame = read(source, broker)
        updated = audit(source, frame, tmp_path / "out", strategies=["sticky"], since_last=True)
        frame.write.parquet(str(tmp_path / "records"))
        whole = audit(source, tmp_path / "records", tmp_path / "whole", strategies=["sticky"])
    assert updated.summary["records"] == whole.summary["records"]
    assert [name for name in TABLES if comparable_rows(updated.out, name) != comparable_rows(whole.out, name)] == []
    assert {row["committed_offset"] for row in rows_by_number(updated.out, "offset_commits", 2)} == {301, 302}


def test_values_come_through(source: SparkSession, broker: Broker) -> None:
    """Key, value, topic, time and kind of time of an ordinary topic; null keys and values stay null."""
    topic = f"values-{uuid.uuid4()}"
    broker.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", b"k", partition=0, timestamp=1_700_000_000_123)
    producer.produce(topic, None, b"gone", partition=1, timestamp=5)
    producer.produce(topic, b"", None, partition=1, timestamp=6)
    producer.flush(60)
    columns = ["key", "value", "topic", "partition", "offset", "timestampType"]
    frame = read(source, broker, subscribe=topic)
    rows = sorted((tuple(row) for row in frame.select(*columns).collect()), key=lambda row: row[3:5])
    assert rows == [(b"k", b"v", topic, 0, 0, 0), (b"gone", None, topic, 1, 0, 0), (None, b"", topic, 1, 1, 0)]
    assert frame.selectExpr("max(unix_millis(timestamp))").collect()[0][0] == 1_700_000_000_123


def test_offsets_bound_a_batch(source: SparkSession, broker: Broker) -> None:
    """Start and end per partition as JSON, and ends that lie on markers."""
    every = places(read(source, broker))
    busiest = max({p for p, _ in every}, key=lambda p: sum(q == p for q, _ in every))
    start = {str(p): -1 for p in range(8)} | {str(busiest): 3}
    for end in (5, 51, 52, 53, 54):
        ends = {str(p): -1 for p in range(8)} | {str(busiest): end}
        frame = read(
            source, broker, startingOffsets=json.dumps({OFFSETS_TOPIC: start}), endingOffsets=json.dumps({OFFSETS_TOPIC: ends})
        )
        assert places(frame) == [(p, o) for p, o in every if p == busiest and 3 <= o < end]


def test_a_stream_reads_all_there_is_and_then_only_the_news(source: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """availableNow with a limit per trigger: every record once over two runs of one checkpoint, never more than the limit.

    The topic holds what other tests of the run have left there, so the limit is a share of it.
    """
    sizes: list[int] = []
    limit = max(40, len(held(broker)) // 3)

    def run() -> None:
        stream = source.readStream.format("kafka-offsets").option("kafka.bootstrap.servers", broker.bootstrap)
        stream = stream.option("kafka.sasl.password", "hunter2").option("kafka.ssl.key.password", "hunter2")
        frame = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(limit)).load()
        out = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = out.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        sizes.extend(progress["numInputRows"] for progress in query.recentProgress)

    run()
    first = held(broker)
    assert places(source.read.parquet(str(tmp_path / "out"))) == sorted(first)
    assert max(sizes) <= limit
    assert len([size for size in sizes if size]) >= 2
    commit(broker, "plain", "paid", list(range(100, 110)))
    transact(broker, "plain", "paid", 9, abort=True)
    run()
    assert places(source.read.parquet(str(tmp_path / "out"))) == sorted(held(broker))
    assert len(held(broker)) >= len(first) + 10
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("state" in path.parts for path in stored)
    assert [path for path in stored if b"hunter2" in path.read_bytes()] == []


def test_a_hidden_tail_is_reported(broker: Broker, source: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """While a transaction is open, what follows in its partition is not read, and one warning says where and how much.

    Producers that another test killed may have left transactions open elsewhere.
    """
    before = places(read(source, broker))
    producer = open_transaction(broker, "plain", "paid", 1)
    try:
        commit(broker, "plain", "paid", [200, 201])
        assert places(read(source, broker)) == before
        options = read_options({"kafka.bootstrap.servers": broker.bootstrap}, streaming=False)
        stable = options.cluster.offsets(options.cluster.partitions([OFFSETS_TOPIC]), "stable")
        with caplog.at_level(logging.WARNING, "counterpoise.capture"):
            warned: set[str] = set()
            warn_of_open_transactions(options, stable, warned)
            warn_of_open_transactions(options, stable, warned)
        (message,) = (one for one in caplog.messages if "(3 offsets)" in one)
        assert "an open transaction hides offsets" in message
        assert len(caplog.messages) == len(set(caplog.messages))
    finally:
        producer.abort_transaction(60)
    assert len(places(read(source, broker))) == len(before) + 2


def test_no_secret_is_shown(source: SparkSession, broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    """Not in the plan, not in an error of the cluster or about the settings, not in Spark's configuration."""
    given = {"kafka.sasl.username": "jo", "kafka.sasl.password": "hunter2", "kafka.sasl.mechanism": "PLAIN"}
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="jo" password="hunter2";'
    wrong: list[dict[str, str]] = [
        {**given, "kafka.security.protocol": "nonsense"},
        {"kafka.sasl.jaas.config": jaas, "kafka.no.such.setting": "1"},
        {**given, "subscribe": "no-such-topic"},
    ]
    for options in wrong:
        with pytest.raises(Exception, match="counterpoise") as caught:
            read(source, broker, **options).count()
        assert "hunter2" not in str(caught.value)
    frame = read(source, broker, **given)
    frame.explain(True)
    printed: Any = capfd.readouterr()
    assert "hunter2" not in printed.out + printed.err
    assert "hunter2" not in str(source.sparkContext.getConf().getAll()) + str(source.sql("SET").collect())
    assert "hunter2" not in repr(read_options({**given, "kafka.bootstrap.servers": "a:1"}, streaming=False))
