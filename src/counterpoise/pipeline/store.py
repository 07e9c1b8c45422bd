"""Where tables are kept: Parquet folders or a Spark catalog, by cluster and date, appended to, and no row twice.

A row of a record or of a step is never changed once it is written: what an audit finds there already, it leaves. Rows that tell
how things stand at the end of a recording (`group_report`, `findings`) are replaced where an audit ends on the same day.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, StructField, StructType

from counterpoise.errors import CaptureError, InvariantError, OptionError
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.tables import PARTITIONS, STAGED, day_folder, days

__all__ = [
    "KEYS",
    "Catalog",
    "Folder",
    "Target",
    "check",
    "check_target",
    "dated",
    "day_of",
    "leave_columns",
    "merge",
    "put",
    "read",
    "stored",
    "write",
]

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
_RECORDS = ("offset_commits", "group_generations", "modern_group_records")
_DISTINCT = ("log_offset", "log_ts", "committed_offset", "commit_ts")
"""Another value in nearly every row: to build dictionaries of them took a third of the time to write commits."""
_DAY_US = 86_400_000_000
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"
_FOR_FILES: Mapping[str, str] = {
    # As every reader knows them (microseconds, UTC), not as Spark's old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A file for each of a few days is open at once, so nothing is sorted by day before it is written.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}


@dataclass(frozen=True)
class Folder:
    """Parquet: ``<path>/<table>/cluster=<name>/date=<day>/``, on a file system that driver and executors share."""

    path: Path


@dataclass(frozen=True)
class Catalog:
    """Tables ``<schema>.<prefix><table>`` of a Spark catalog, made in its default format where they are not there yet."""

    schema: str
    prefix: str = ""


Target: TypeAlias = Folder | Catalog


def stored(name: str) -> StructType:
    """The schema of a table as it is kept: `schemas.TABLES`, and `date` behind it."""
    return StructType([*TABLES[name].fields, StructField("date", DateType(), True)])


def write(table: DataFrame, name: str, target: Target) -> None:
    """Append the rows of `table` that the target does not have; the same rows again add nothing.

    Parameters
    ----------
    table : DataFrame
        Columns of ``TABLES[name]``, and perhaps `date` (see `dated`).
    name : str
    target : Folder or Catalog

    Raises
    ------
    CaptureError
        The target holds other records at the same places of the log.
    """
    spark = table.sparkSession
    if isinstance(target, Catalog):
        _into_catalog(dated(table, name), name, target)
        return
    staged = Folder(target.path / STAGED)
    put(table, name, staged)
    check(spark, name, staged, target)
    merge(spark, name, staged, target)


def read(spark: SparkSession, name: str, target: Target) -> DataFrame:
    """A whole table, columns as in `stored`.

    Raises
    ------
    CaptureError
        There is no such table.
    """
    schema = stored(name)
    if isinstance(target, Catalog):
        return _reading(spark, name, target).select(*schema.names)
    path = target.path / name
    if not path.is_dir():
        raise CaptureError(f"{path}: no table of an audit; run `counterpoise audit` first")
    return spark.read.schema(schema).parquet(str(path.absolute())).select(*schema.names)


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


def put(table: DataFrame, name: str, folder: Folder) -> None:
    """Write a table into a folder of one's own; what was there before goes."""
    with configured(table.sparkSession, _FOR_FILES):
        writer = dated(table, name).write.mode("overwrite").option("partitionOverwriteMode", "static")
        writer.options(**{f"parquet.enable.dictionary#{column}": "false" for column in _DISTINCT})
        writer.partitionBy(*PARTITIONS).parquet(str((folder.path / name).absolute()))


def check(spark: SparkSession, name: str, staged: Folder, target: Folder) -> None:
    """Whether the records that both folders hold are the same records.

    Raises
    ------
    CaptureError
    """
    if name in _RECORDS:
        both = days(staged.path / name) & days(target.path / name)
        if both:
            new, old = _of_days(spark, name, staged, both), _of_days(spark, name, target, both)
            _compare(new, old, name, str(target.path))


def merge(spark: SparkSession, name: str, staged: Folder, target: Folder, ended: Collection[str] = ()) -> None:
    """Append to `target` the rows of `staged` that it does not have.

    Of a table that tells how things stand at the end, the rows of the days in `ended` go, whether others come or not.

    Notes
    -----
    Days that the target does not have, or that are replaced, are moved there as they are: nothing is read or written again.
    """
    source, goal = staged.path / name, target.path / name
    goal.mkdir(parents=True, exist_ok=True)
    there = days(goal)
    both = sorted(days(source) & there) if name in KEYS else []
    if both:
        new, old = _of_days(spark, name, staged, set(both)), _of_days(spark, name, target, set(both))
        with configured(spark, _FOR_FILES):
            _missing(new, old, name).write.mode("append").partitionBy(*PARTITIONS).parquet(str(goal.absolute()))
    coming = days(source) - set(both)
    for day in sorted({*coming, *(() if name in KEYS else ended)}):
        place = goal / day
        place.parent.mkdir(exist_ok=True)
        if place.exists():
            shutil.rmtree(place)
        if day in coming:
            (source / day).rename(place)


def leave_columns(target: Folder, cluster: str, day: str | None) -> None:
    """A file without a row into each table that has no file, so that any engine finds its columns there.

    Other engines know a table by its files: a folder without one is an error to them. `day` is that of the last record; None,
    where there was no record at all.
    """
    for name, schema in TABLES.items():
        table = target.path / name
        if next(table.glob("cluster=*/date=*/*.parquet"), None) is None:
            place = table / day_folder(cluster, day or _NO_DAY)
            place.mkdir(parents=True, exist_ok=True)
            columns = StructType([field for field in schema.fields if field.name not in PARTITIONS])
            pq.write_table(arrow_schema(columns).empty_table(), place / ".none.parquet")
            (place / ".none.parquet").rename(place / "none.parquet")  # readers overlook the one, and never see half of the other


def check_target(spark: SparkSession, target: Catalog) -> None:
    """Whether the schema is there.

    Raises
    ------
    OptionError
    """
    try:
        found = spark.catalog.databaseExists(target.schema)
    except AnalysisException as error:
        raise OptionError(f"--into {target.schema}: {str(error).splitlines()[0]}") from error
    if not found:
        raise OptionError(f"--into {target.schema}: no such schema in the session's catalogs; create it first")


def _of_days(spark: SparkSession, name: str, folder: Folder, wanted: set[str]) -> DataFrame:
    root = (folder.path / name).absolute()
    paths = [str(root / day) for day in sorted(wanted)]
    return spark.read.schema(stored(name)).option("basePath", str(root)).parquet(*paths).select(*stored(name).names)


def _missing(new: DataFrame, old: DataFrame, name: str) -> DataFrame:
    """Rows of `new` whose key is not in `old`."""
    known = old.select(*(fn.col(column).alias(f"old_{column}") for column in (*PARTITIONS, *KEYS[name])))
    # Only a record that could not be read may lack its place or its time.
    safe = (*PARTITIONS, *KEYS[name]) if name == "decode_errors" else ()
    same = [
        fn.col(column).eqNullSafe(fn.col(f"old_{column}")) if column in safe else fn.col(column) == fn.col(f"old_{column}")
        for column in (*PARTITIONS, *KEYS[name])
    ]
    return new.join(known, same, "left_anti").select(*stored(name).names)


def _compare(new: DataFrame, old: DataFrame, name: str, where: str) -> None:
    known = old.select(*PARTITIONS, *_PLACE, fn.col("group_id").alias("old_group"), fn.col("log_ts").alias("old_ts"))
    other = (fn.col("group_id") != fn.col("old_group")) | (fn.col("log_ts") != fn.col("old_ts"))
    row = new.join(known, [*PARTITIONS, *_PLACE]).where(other).first()
    if row is not None:
        raise CaptureError(
            f"{where}: {name} holds another record of cluster {row['cluster']} at partition {row['log_partition']}, offset "
            f"{row['log_offset']}; two clusters need two names (--cluster), hashed and plain names two folders (--out)"
        )


def _name(name: str, target: Catalog) -> str:
    return f"{target.schema}.{target.prefix}{name}"


def _reading(spark: SparkSession, name: str, target: Catalog) -> DataFrame:
    full = _name(name, target)
    if not spark.catalog.tableExists(full):
        raise CaptureError(f"{full}: no such table; run `counterpoise audit --into {target.schema}` first")
    return spark.table(full)


def _into_catalog(table: DataFrame, name: str, target: Catalog) -> None:
    spark, full = table.sparkSession, _name(name, target)
    if not spark.catalog.tableExists(full):
        table.write.partitionBy(*PARTITIONS).saveAsTable(full)
        return
    there = spark.table(full)
    absent = [column for column in table.columns if column not in there.columns]
    if absent:
        raise CaptureError(f"{full}: has no column {', '.join(absent)}; it was made otherwise, give another --table-prefix")
    if name not in KEYS:
        # By place: insertInto takes columns in the order of the table.
        with configured(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
            table.select(*there.columns).write.insertInto(full, overwrite=True)
        return
    touched = fn.broadcast(table.select(*PARTITIONS).distinct())
    old = there.join(touched, [there[column].eqNullSafe(touched[column]) for column in PARTITIONS], "left_semi")
    if name in _RECORDS:
        _compare(table, old, name, full)
    _missing(table, old, name).write.mode("append").partitionBy(*PARTITIONS).saveAsTable(full)
