"""Audits of the offsets topic as Spark's own Kafka source reads it. Its jars come with the Spark that they are made for."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.schemas import TABLES
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import once
from tests.pipeline.capture.traffic import commit, transact
from tests.pipeline.incremental.pieces import comparable_rows
from tests.pipeline.tables.test_catalogs import Format, user_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
JARS = ("spark-sql-kafka-", "spark-token-provider-kafka-", "kafka-clients-", "commons-pool2-")
UPDATE = """
import sys
from pyspark.sql import SparkSession
from counterpoise.pipeline.audit import audit

spark = SparkSession.builder.master("local[2]").getOrCreate()
source = spark.read.format("kafka").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", "__consumer_offsets")
records = source.option("kafka.isolation.level", "read_committed").load()
audit(spark, records, sys.argv[2], strategies=["sticky"], since_last=True)
"""


def test_updates_from_spark_s_kafka_source_give_the_tables_of_a_capture(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    """Two updates; between them more is committed, in the second one's sight also by transactions."""
    settings = {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true"}
    user, topic = user_of(tmp_path, Format(settings, jars=JARS)), f"paid-{uuid.uuid4()}"
    broker.create_topic(topic, 1)
    commit(broker, "plain", topic, [*range(20)])
    for update in range(2):
        assert user.run(UPDATE, broker.bootstrap, "updated") == 0, user.said()
        if not update:
            commit(broker, "plain", topic, [301, 302])
            transact(broker, "paying", topic, 8, abort=True)
            transact(broker, "paying", topic, 9, abort=False)
    once(broker, tmp_path / "capture")
    whole = audit(spark, tmp_path / "capture" / "consumer_offsets.parquet", tmp_path / "whole", strategies=["sticky"]).out
    assert [name for name in TABLES if comparable_rows(tmp_path / "updated", name) != comparable_rows(whole, name)] == []
    assert any('"paying"' in row for row in comparable_rows(whole, "offset_commits"))
