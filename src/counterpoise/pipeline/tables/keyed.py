"""Keys of tables: the columns that identify a row, and joins by them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.tables.paths import PARTITIONS

__all__ = ["KEYS", "RECORDS", "check_same", "rows_not_in", "same_row", "stored"]

_PLACE = ("log_partition", "log_offset")
KEYS: Mapping[str, tuple[str, ...]] = {
    "offset_commits": _PLACE,
    "group_generations": _PLACE,
    "modern_group_records": _PLACE,
    "decode_errors": (*_PLACE, "reason", "key", "value"),
    "rebalances": _PLACE,
    "partition_lag": ("group_id", "topic", "partition", "at"),
    "health": ("scope", "group_id", "topic", "partition", "member_id", "since"),
    "replays": (*_PLACE, "strategy", "mode"),
    "metrics": (*_PLACE, "strategy", "mode"),
}
"""Columns of a row's key besides cluster and date. Tables that are not here are replaced, a cluster and date at a time."""
RECORDS = ("offset_commits", "group_generations", "modern_group_records")
"""Tables with one row per record of the log."""


def stored(name: str) -> StructType:
    """The schema of a stored table for Spark: that of `schemas.TABLES`, and `date` at the end."""
    return from_arrow_schema(TABLES[name].append(pa.field("date", pa.date32())))


def rows_not_in(old: DataFrame, new: DataFrame, name: str) -> DataFrame:
    """Rows of `new` whose key is not in `old`."""
    known = old.select(*(fn.col(column).alias(f"old_{column}") for column in (*PARTITIONS, *KEYS[name])))
    return new.join(known, same_row(name, "", "old_"), "left_anti").select(*stored(name).names)


def same_row(name: str, new: str, old: str) -> Column:
    """Whether two rows have the same key; `new` and `old` are the prefixes of their columns."""
    pairs = [(fn.col(f"{new}{column}"), fn.col(f"{old}{column}")) for column in (*PARTITIONS, *KEYS[name])]
    # A record that could not be decoded may have a null in its key, and the health of a group has no partition.
    safe = name in ("decode_errors", "health")
    return reduce(and_, (one.eqNullSafe(other) if safe else one == other for one, other in pairs))


def check_same(new: DataFrame, old: DataFrame, name: str, where: str) -> None:
    """Raise a `CaptureError` if the tables have different records at the same place in the log."""
    known = old.select(*PARTITIONS, *_PLACE, fn.col("group_id").alias("old_group"), fn.col("log_ts").alias("old_ts"))
    other = (fn.col("group_id") != fn.col("old_group")) | (fn.col("log_ts") != fn.col("old_ts"))
    row = new.join(known, [*PARTITIONS, *_PLACE]).where(other).first()
    if row is not None:
        raise CaptureError(
            f"{where}: {name} holds another record of cluster {row['cluster']} at partition {row['log_partition']}, offset "
            f"{row['log_offset']}; two clusters need two names (--cluster), hashed and plain names two folders (--out)"
        )
