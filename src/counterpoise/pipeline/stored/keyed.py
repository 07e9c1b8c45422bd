"""What makes a row of a table the same row: its key, its day, and which rows of one table another one does not have."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, StructField, StructType

from counterpoise.errors import CaptureError, InvariantError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.stored.tables import PARTITIONS

__all__ = ["KEYS", "RECORDS", "check_same", "dated", "day_of", "missing", "stored"]

_PLACE = ("log_partition", "log_offset")
KEYS: Mapping[str, tuple[str, ...]] = {
    "offset_commits": _PLACE,
    "group_generations": _PLACE,
    "modern_group_records": _PLACE,
    "decode_errors": (*_PLACE, "reason", "key", "value"),
    "rebalances": _PLACE,
    "partition_lag": ("group_id", "topic", "partition", "at"),
    "replays": (*_PLACE, "strategy", "mode"),
    "metrics": (*_PLACE, "strategy", "mode"),
}
"""What makes a row the same row, beside cluster and date. Tables that are not here are replaced, a cluster and date at a time."""
RECORDS = ("offset_commits", "group_generations", "modern_group_records")
"""Tables with a row per record of the log: at one place there is one record, whoever read it."""
_DAY_US = 86_400_000_000


def stored(name: str) -> StructType:
    """The schema of a table as it is kept: `schemas.TABLES`, and `date` behind it."""
    return StructType([*TABLES[name].fields, StructField("date", DateType(), True)])


def dated(table: DataFrame, name: str) -> DataFrame:
    """`table` with the column `date`: the day in UTC of a row's own time, whatever the session's time zone is.

    Raises
    ------
    InvariantError
        The table has no time of its own, and no date was given: those of `group_report` and `findings` are given by the audit.
    """
    wanted = stored(name).names
    if "date" in table.columns:
        return table.select(*wanted)
    if name not in KEYS:
        raise InvariantError(f"rows of {name} have no time of their own; their date must be given")
    return table.select(*wanted[:-1], day_of(fn.col("at" if name == "partition_lag" else "log_ts")).alias("date"))


def day_of(moment: Column) -> Column:
    """The day in UTC of a timestamp."""
    micros = fn.unix_micros(moment)
    return fn.date_from_unix_date(((micros - fn.pmod(micros, fn.lit(_DAY_US))) / _DAY_US).cast("int"))


def missing(new: DataFrame, old: DataFrame, name: str) -> DataFrame:
    """Rows of `new` whose key is not in `old`."""
    known = old.select(*(fn.col(column).alias(f"old_{column}") for column in (*PARTITIONS, *KEYS[name])))
    # Only a record that could not be read may lack its place or its time.
    safe = (*PARTITIONS, *KEYS[name]) if name == "decode_errors" else ()
    same = [
        fn.col(column).eqNullSafe(fn.col(f"old_{column}")) if column in safe else fn.col(column) == fn.col(f"old_{column}")
        for column in (*PARTITIONS, *KEYS[name])
    ]
    return new.join(known, same, "left_anti").select(*stored(name).names)


def check_same(new: DataFrame, old: DataFrame, name: str, where: str) -> None:
    """Whether the records that both tables have at one place of the log are the same records.

    Raises
    ------
    CaptureError
    """
    known = old.select(*PARTITIONS, *_PLACE, fn.col("group_id").alias("old_group"), fn.col("log_ts").alias("old_ts"))
    other = (fn.col("group_id") != fn.col("old_group")) | (fn.col("log_ts") != fn.col("old_ts"))
    row = new.join(known, [*PARTITIONS, *_PLACE]).where(other).first()
    if row is not None:
        raise CaptureError(
            f"{where}: {name} holds another record of cluster {row['cluster']} at partition {row['log_partition']}, offset "
            f"{row['log_offset']}; two clusters need two names (--cluster), hashed and plain names two folders (--out)"
        )
