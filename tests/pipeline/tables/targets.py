"""Tables written to a folder or a catalog by themselves, and read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from counterpoise.pipeline.storage.files import absolute, is_local
from counterpoise.pipeline.tables import catalog, store
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.keyed import KEYS, RECORDS, stored
from counterpoise.pipeline.tables.paths import NO_DAY, by_partition, table_files
from counterpoise.pipeline.tables.transaction import TableTransaction

__all__ = ["Folder", "Target", "read", "write"]

_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Folder:
    """Parquet: ``<path>/<table>/cluster=<name>/date=<day>/``; ``tables`` in an audit's output folder, a local path or a URI."""

    path: str | Path

    @property
    def out(self) -> str:
        """The output folder."""
        return absolute(self.path).rpartition("/")[0]


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
    spark, table = table.sparkSession, dated(table, name)
    if isinstance(target, Catalog):
        catalog.check(table, name, target)
        catalog.add(table, name, target)
        return
    work = TableTransaction(target.out)
    with work.open():
        new = by_partition(store.written(table, name, work.new_files))
        if name in RECORDS:
            store.check_cluster_is_new(name, new, work)
        store.check(spark, name, new, work)
        added, removed = store.merge(spark, name, new, work)
        if not added and not work.manifest.below("tables", name):
            added = [store.empty_file(name, NO_DAY, NO_DAY, work.new_files)]
        work.publish(added, removed, {})


def dated(table: DataFrame, name: str) -> DataFrame:
    """`table` with the column `date`: the day in UTC of a row's own time, if it has none."""
    names = stored(name).names
    if "date" in table.columns:
        return table.select(*names)
    assert name in KEYS, "rows without a time of their own need a date"
    days = fn.floor(fn.unix_micros({"partition_lag": "at", "health": "since"}.get(name, "log_ts")) / _DAY_US)
    return table.select(*names[:-1], fn.date_from_unix_date(days.cast("int")).alias("date"))


def read(spark: SparkSession, name: str, target: Target) -> DataFrame:
    """A whole table, columns as in `stored`.

    Raises
    ------
    CaptureError
        There is no such table.
    """
    if isinstance(target, Catalog):
        return spark.table(target.table(name)).select(*stored(name).names)
    place = f"{absolute(target.path)}/{name}"
    files = table_files(place)
    if not is_local(place):
        return store.frame(spark, name, files)
    # Spark's own reader leaves out partitions and columns that a query does not need.
    return spark.read.schema(stored(name)).parquet(place).select(*stored(name).names)
