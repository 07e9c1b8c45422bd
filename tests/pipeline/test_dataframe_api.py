"""The tables as DataFrames hold the rows that the audit writes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.dataframe_api import decode, rebalances
from counterpoise.pipeline.records.place import micros
from tests.pipeline.conftest import SHOP, Audited

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLACE = ("log_partition", "log_offset")


def rows(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)


def stored(audited: Audited, name: str, *columns: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row[column] for column in columns) for row in audited.table(name, *columns)), key=repr)


def test_each_table_has_the_records_of_the_audit_and_steps_their_kind(spark: SparkSession, audited: Audited) -> None:
    records = spark.read.parquet(str(SHOP / "consumer_offsets.parquet"))
    for name in ("group_generations", "modern_group_records", "decode_errors"):
        assert rows(records.transform(getattr(decode, name)), *PLACE) == stored(audited, name, *PLACE)
    committed = ("group_id", "topic", "partition", "committed_offset", *PLACE)
    assert rows(records.transform(decode.offset_commits), *committed) == stored(audited, "offset_commits", *committed)
    steps = rebalances(records.transform(decode.group_generations), records.transform(decode.modern_group_records))
    step = ("group_id", "generation", "kind", "n_members", *PLACE)
    assert rows(steps, *step) == stored(audited, "rebalances", *step)


def test_times_without_a_zone_are_utc_in_every_session_and_a_partition_beyond_an_int_is_none(spark: SparkSession) -> None:
    records = spark.read.parquet(str(SHOP / "consumer_offsets.parquet")).limit(20)
    naive = records.withColumn("timestamp", fn.lit("2026-11-21 04:00:00").cast("timestamp_ntz"))
    beyond = records.withColumn("partition", fn.col("partition") + fn.lit(3_000_000_000))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        (row,) = naive.transform(decode.offset_commits).select(fn.unix_micros("log_ts")).distinct().collect()
        reasons = [one["reason"] for one in beyond.transform(decode.decode_errors).select("reason").distinct().collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert row[0] == micros(datetime(2026, 11, 21, 4, tzinfo=UTC))
    assert reasons == ["null partition: the record has no place in the log"]


def test_steps_of_the_broker_have_the_names_of_topics_that_are_given(spark: SparkSession, audited: Audited) -> None:
    records = spark.read.parquet(str(SHOP / "consumer_offsets.parquet"))
    known = json.loads((SHOP / "topics.json").read_text(encoding="utf-8"))
    names = {about["topic_id"]: topic for topic, about in known.items()}
    generations, modern = records.transform(decode.group_generations), records.transform(decode.modern_group_records)

    def topics(table: list[Any]) -> set[str]:
        mine = [row for row in table if row["protocol_kind"] == "server"]
        return {entry["topic"] for row in mine for member in row["assignment"] for entry in member["assigned"]}

    expected = topics(audited.table("rebalances", "protocol_kind", "assignment"))
    assert topics(rebalances(generations, modern, names).collect()) == expected
    assert topics(rebalances(generations, modern).collect()) & names.keys()


def test_a_missing_column_is_named(spark: SparkSession) -> None:
    with pytest.raises(CaptureError, match="offset"):
        decode.offset_commits(spark.createDataFrame([(b"k", b"v")], ["key", "value"]))
