"""The decoded tables as DataFrames, for ``records.transform(decode.group_generations)`` in a user's Spark job.

The audit does not use this module; both use the decoders in `records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.pipeline.records.group_records import error_rows, generation_row, modern_row, portions
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.schemas import COLUMNS
from counterpoise.pipeline.source.spark_records import check_columns
from counterpoise.wire.offsets_topic.records import Decoded, decode_record

__all__ = ["decode_errors", "decoded", "group_generations", "modern_group_records", "offset_commits"]

_AFTER_COMMITS, _AFTER_METADATA = b"\x00\x02", b"\x00\x03"
_Kernel: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def offset_commits(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `offset_commits`: one row per commit or tombstone of one.

    `records` have the columns of Spark's Kafka source; `cluster` is the value of the column of that name. Raises `CaptureError`
    if a column is missing.
    """
    return _stage(records, fn.col("key") < fn.lit(_AFTER_COMMITS), _commit_batches, "offset_commits", cluster)


def group_generations(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `group_generations`: one row per GroupMetadata record (classic groups) or tombstone of one."""
    generations = (fn.col("key") >= fn.lit(_AFTER_COMMITS)) & (fn.col("key") < fn.lit(_AFTER_METADATA))
    return _stage(records, generations, partial(decoded, generation_row, "group_generations"), "group_generations", cluster)


def modern_group_records(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `modern_group_records`: one row per record of a KIP-848, share or streams group."""
    kernel = partial(decoded, modern_row, "modern_group_records")
    return _stage(records, fn.col("key") >= fn.lit(_AFTER_METADATA), kernel, "modern_group_records", cluster)


def decode_errors(records: DataFrame, cluster: str = "default") -> DataFrame:
    """Table `decode_errors`: every record that has an unknown type or version, is damaged or has no place in the log, and why.

    A generation with damaged bytes of a member is in this table and in `group_generations`.
    """
    return _stage(records, fn.lit(True), _error_batches, "decode_errors", cluster)


def decoded(
    row_of: Callable[[Mapping[str, Any], Decoded], Mapping[str, Any] | None], table: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Raw records -> rows of a table: what `row_of` returns for a raw record and its decoded form; None: no row."""
    for batch in batches:
        for portion in portions(batch):
            rows = [row_of(raw, decode_record(raw["key"], raw["value"])) for raw in portion.to_pylist()]
            yield pa.RecordBatch.from_pylist([row for row in rows if row is not None], schema=COLUMNS[table])


def _commit_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield KeyDictionary().commits(batch)[0].cast(COLUMNS["offset_commits"])


def _error_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        suspects = batch.take(pa.array(KeyDictionary().commits(batch)[1].rest))
        rows = [row for raw in suspects.to_pylist() for row in error_rows(raw)]
        yield pa.RecordBatch.from_pylist(rows, schema=COLUMNS["decode_errors"])


def _stage(records: DataFrame, chosen: Column, kernel: _Kernel, table: str, cluster: str) -> DataFrame:
    decoded = check_columns(records).where(chosen).mapInArrow(kernel, from_arrow_schema(COLUMNS[table]))
    return decoded.select(fn.lit(cluster).alias("cluster"), *COLUMNS[table].names)
