"""Where tables are kept: Parquet folders (a catalog: `catalog`), by cluster and date, appended to, and no row twice.

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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.stored import catalog
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.keyed import KEYS, RECORDS, check_same, dated, missing, stored
from counterpoise.pipeline.stored.tables import NO_DAY, PARTITIONS, STAGED, day_folder, days

__all__ = ["Folder", "Target", "check", "leave_columns", "merge", "put", "read", "write"]

_DISTINCT = ("log_offset", "log_ts", "committed_offset", "commit_ts")
"""Another value in nearly every row: to build dictionaries of them took a third of the time to write commits."""
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


Target: TypeAlias = Folder | Catalog


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
        table = dated(table, name)
        catalog.check(table, name, target)
        catalog.add(table, name, target)
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
    if isinstance(target, Catalog):
        return catalog.read(spark, name, target)
    schema = stored(name)
    path = target.path / name
    if not path.is_dir():
        raise CaptureError(f"{path}: no table of an audit; run `counterpoise audit` first")
    return spark.read.schema(schema).parquet(str(path.absolute())).select(*schema.names)


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
    if name in RECORDS:
        both = days(staged.path / name) & days(target.path / name)
        if both:
            new, old = _of_days(spark, name, staged, both), _of_days(spark, name, target, both)
            check_same(new, old, name, str(target.path))


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
            missing(new, old, name).write.mode("append").partitionBy(*PARTITIONS).parquet(str(goal.absolute()))
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
            place = table / day_folder(cluster, day or NO_DAY)
            place.mkdir(parents=True, exist_ok=True)
            columns = StructType([field for field in schema.fields if field.name not in PARTITIONS])
            pq.write_table(arrow_schema(columns).empty_table(), place / ".none.parquet")
            (place / ".none.parquet").rename(place / "none.parquet")  # readers overlook the one, and never see half of the other


def _of_days(spark: SparkSession, name: str, folder: Folder, wanted: set[str]) -> DataFrame:
    root = (folder.path / name).absolute()
    paths = [str(root / day) for day in sorted(wanted)]
    return spark.read.schema(stored(name)).option("basePath", str(root)).parquet(*paths).select(*stored(name).names)
