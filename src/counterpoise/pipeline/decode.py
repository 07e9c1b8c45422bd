"""Raw records of the offsets topic to the four tables that everything else is made of.

The JVM splits by record type on the bytes of the key, so each Python stage sees only its own records; commits,
more than 99 % of a real topic, go through a vectorised kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.commits import commit_batches, undecided
from counterpoise.pipeline.records.generations import generation_batches, member_faults
from counterpoise.pipeline.records.modern import modern_batches
from counterpoise.pipeline.records.place import nowhere, place_of
from counterpoise.pipeline.schemas import DECODE_ERRORS, GROUP_GENERATIONS, MODERN_GROUP_RECORDS, OFFSET_COMMITS
from counterpoise.pipeline.source.sources import check_columns
from counterpoise.wire.offsets_topic import Record, RecordType, Tombstone, Undecodable, decode_record

__all__ = [
    "decode_errors",
    "decoded_commits",
    "error_batches",
    "error_rows",
    "group_generations",
    "is_commit",
    "modern_group_records",
    "offset_commits",
]

_AFTER_COMMITS, _AFTER_METADATA = b"\x00\x02", b"\x00\x03"
ERROR_COLUMNS = arrow_schema(StructType(DECODE_ERRORS.fields[1:]))


def is_commit() -> Column:
    """Whether a raw record is an offset commit (types 0 and 1): its key sorts before those of type 2; never null.

    One comparison of bytes: cutting the type out of the key first would cost a fifth of the whole stage. A key too short
    to have a type sorts here too, and is counted among the commits that cannot be decoded.
    """
    return fn.coalesce(fn.col("key") < fn.lit(_AFTER_COMMITS), fn.lit(False))


def offset_commits(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `offset_commits`: one row per commit or tombstone of one.

    Parameters
    ----------
    records : DataFrame
        Columns of Spark's Kafka source.
    cluster : str
        What goes into the column of that name.

    Raises
    ------
    CaptureError
        A column is missing.
    """
    return _commits(records).mapInArrow(commit_batches(cluster), OFFSET_COMMITS)


def decoded_commits(records: DataFrame, cluster: str = "default") -> DataFrame:
    """As `offset_commits`, and a row with a null `group_id` for every commit record that cannot be decoded."""
    return _commits(records).mapInArrow(commit_batches(cluster, damaged=True), OFFSET_COMMITS)


def group_generations(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `group_generations`: one row per GroupMetadata record (classic groups) or tombstone of one."""
    raw = check_columns(records, "records").where(
        (fn.col("key") >= fn.lit(_AFTER_COMMITS)) & (fn.col("key") < fn.lit(_AFTER_METADATA))
    )
    return _stage(raw, generation_batches, GROUP_GENERATIONS, cluster)


def modern_group_records(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `modern_group_records`: one row per record of a KIP-848, share or streams group."""
    raw = check_columns(records, "records").where(fn.col("key") >= fn.lit(_AFTER_METADATA))
    return _stage(raw, modern_batches, MODERN_GROUP_RECORDS, cluster)


def decode_errors(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `decode_errors`: every record of an unknown type or version, damaged, or without a place in the log, and why.

    A generation whose frame can be read but whose members' bytes cannot stands here and in `group_generations`.
    """
    return _stage(check_columns(records, "records"), error_batches, DECODE_ERRORS, cluster)


def error_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: raw records -> rows of `ERROR_COLUMNS`, only for those that cannot be decoded."""
    for batch in batches:
        suspects = batch.take(pa.array(undecided(batch)))
        rows = [row for raw in suspects.to_pylist() for row in error_rows(raw, decode_record(raw["key"], raw["value"]))]
        yield pa.RecordBatch.from_pylist(rows, schema=ERROR_COLUMNS)


def error_rows(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable) -> Iterator[dict[str, Any]]:
    """Why one record cannot be decoded: nearly always nothing."""
    if isinstance(record, Undecodable):
        about = {"record_type": record.record_type, "value_version": record.value_version, "reason": record.reason}
        yield {**_as_it_is(raw), **about}
    elif reason := nowhere(raw):
        version = record.version if isinstance(record, Record) else None
        yield {**_as_it_is(raw), "record_type": int(record.record_type), "value_version": version, "reason": reason}
    elif isinstance(record, Record) and record.record_type == RecordType.GROUP_METADATA:
        for fault in member_faults(record.value):
            yield {**_as_it_is(raw), "record_type": 2, "value_version": record.version, "reason": fault}


def _as_it_is(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {**place_of(raw), "key": raw["key"], "value": raw["value"]}


def _commits(records: DataFrame) -> DataFrame:
    return check_columns(records, "records").where(fn.col("key") < fn.lit(_AFTER_COMMITS))


def _stage(raw: DataFrame, kernel: Any, schema: StructType, cluster: str) -> DataFrame:
    decoded = raw.mapInArrow(kernel, StructType(schema.fields[1:]))
    return decoded.select(fn.lit(cluster).alias("cluster"), *schema.names[1:])
