"""Tables of a Spark catalog of any format: created if they do not exist, appended to or merged by key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.utils import is_remote

from counterpoise.errors import CaptureError, CounterpoiseError, OptionError
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.tables.keyed import KEYS, RECORDS, check_same, rows_not_in, same_row, stored
from counterpoise.pipeline.tables.paths import PARTITIONS

__all__ = ["Catalog", "add", "can_merge", "check", "check_lasting", "check_target", "merge"]

_WRITING: Mapping[str, str] = {
    # Timestamps that every reader of Parquet supports (microseconds, UTC) instead of Spark's old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # An overwrite replaces only the days that it has rows for.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Tables in Hive's own formats need this for inserts without a constant day.
    "hive.exec.dynamic.partition": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
}
_MISFIT = ("NoSuchMethodError", "IncompatibleClassChangeError", "NoClassDefFoundError", "AbstractMethodError", "NoSuchFieldError")
"""The JVM's errors if a catalog's jar is built for another version of Spark."""


@dataclass(frozen=True)
class Catalog:
    """Tables ``<schema>.<prefix><table>`` of a Spark catalog, created in its default format if they do not exist."""

    schema: str
    prefix: str = ""

    def table(self, name: str) -> str:
        """The quoted name of one table for Spark."""
        plain = f"{self.prefix}{name}".replace("`", "``")
        return f"{self.schema}.`{plain}`"


def check_target(spark: SparkSession, target: Catalog) -> None:
    """Raise an `OptionError` if the schema does not exist."""
    with _catalog_errors(f"--into {target.schema}", OptionError):
        if not spark.catalog.databaseExists(target.schema):
            raise OptionError(f"--into {target.schema}: no such schema in the session's catalogs; create it first")


def check_lasting(spark: SparkSession, target: Catalog) -> None:
    """Check that tables of the catalog persist when a session that the audit started has ended.

    Raises `OptionError` for Spark's own catalog without a metastore, which is in memory: files would persist without tables.
    """
    first, dot, _ = target.schema.partition(".")
    own = (first if dot else spark.catalog.currentCatalog()) == "spark_catalog"
    # A class that replaces Spark's own catalog may store its tables elsewhere; Delta's does not.
    other = spark.conf.get("spark.sql.catalog.spark_catalog", None)
    if is_remote() or not own or (other is not None and not other.endswith(".DeltaCatalog")):
        return
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise OptionError(
            f"--into {target.schema}: Spark's own catalog is kept in memory here and forgotten when the audit ends; "
            "set spark.sql.catalogImplementation to hive, or name a schema of another catalog"
        )


def check(table: DataFrame, name: str, target: Catalog) -> None:
    """Raise a `CaptureError` if the table exists with other columns, or with another record at the same place in the log."""
    spark, full = table.sparkSession, target.table(name)
    with _catalog_errors(_plain(full)):
        if not spark.catalog.tableExists(full):
            return
        if _lists_folders(spark, full):
            # Folders that a killed audit filled are added to the catalog; otherwise their rows would be added again.
            spark.catalog.recoverPartitions(full)
        old, expected = spark.table(full), stored(name).names
        absent = [column for column in expected if column not in old.columns]
        unknown = [column for column in old.columns if column not in expected]
        if absent or unknown:
            words = f"has no column {', '.join(absent)}" if absent else f"has columns of its own: {', '.join(unknown)}"
            raise CaptureError(f"{_plain(full)}: {words}; it was made otherwise: alter it, or give another --table-prefix")
        if name in RECORDS:
            check_same(table, old.where(_in_days(_days(table))), name, _plain(full))


def add(table: DataFrame, name: str, target: Catalog, ended: Collection[tuple[str, date]] = ()) -> None:
    """Add the rows that the table in the catalog does not have; create the table if it does not exist.

    Tables without a key (not in `KEYS`): stored rows of clusters and days in `ended` are deleted,
    even if there are no new ones. Raises `CaptureError` if Spark cannot write the table.
    """
    spark, full = table.sparkSession, target.table(name)
    with _catalog_errors(_plain(full)), configured(spark, _WRITING):
        _create(spark, full, name)
        old = spark.table(full)
        days = _days(table)
        if name in KEYS:
            new = rows_not_in(old.where(_in_days(days)), table, name)
            # insertInto takes columns in the order of the table.
            new.select(*old.columns).write.insertInto(full)
            return
        if days:
            table.select(*old.columns).write.insertInto(full, overwrite=True)
        for cluster, day in sorted(set(ended) - days):
            _delete_day(spark, full, cluster, day)


def can_merge(spark: SparkSession, name: str, target: Catalog) -> bool:
    """Whether the format of the table can replace rows: Spark plans a merge and does not run it. Creates the table if needed."""
    full = target.table(name)
    with _catalog_errors(_plain(full)):
        _create(spark, full, name)
        words = f"EXPLAIN MERGE INTO {full} USING {full} AS new ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        # If there is no plan, the text is an error.
        return all(row[0].startswith("== ") for row in spark.sql(words).collect())


def merge(table: DataFrame, name: str, target: Catalog, replaced: DataFrame) -> None:
    """Replace rows by those of `table` with the same key, add the others, and delete those of `replaced` that `table` lacks.

    One merge: a reader sees the table before it or after it. It reads the days of these rows. Raises `CaptureError` if Spark
    cannot write it.
    """
    spark, full = table.sparkSession, target.table(name)
    with _catalog_errors(_plain(full)), configured(spark, _WRITING):
        obsolete = rows_not_in(table, replaced, name).withColumn("obsolete", fn.lit(True))
        rows = table.withColumn("obsolete", fn.lit(False)).unionAll(obsolete).alias("new")
        days, old = _days(rows), full.removeprefix(f"{target.schema}.") + "."
        if days:
            whole = {column: fn.col(f"new.{column}") for column in stored(name).names}
            same, delete = same_row(name, "new.", old) & _in_days(days, old), fn.col("new.obsolete")
            work = rows.mergeInto(full, same).whenMatched(delete).delete()
            work.whenMatched().update(whole).whenNotMatched(~delete).insert(whole).merge()


def _create(spark: SparkSession, full: str, name: str) -> None:
    if not spark.catalog.tableExists(full):
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in stored(name).fields)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {full} ({columns}) PARTITIONED BY ({', '.join(PARTITIONS)})")


def _days(table: DataFrame) -> set[tuple[str, date | None]]:
    return {(row["cluster"], row["date"]) for row in table.select(*PARTITIONS).distinct().collect()}


def _in_days(pairs: Collection[tuple[str, date | None]], prefix: str = "") -> Column:
    """A condition that is true for rows of these clusters and days, by values, so that every format skips files of other days."""
    days = sorted({day for _, day in pairs if day is not None})
    in_days = fn.col(f"{prefix}date").isin(days) if days else fn.lit(False)
    if any(day is None for _, day in pairs):
        in_days |= fn.col(f"{prefix}date").isNull()
    return fn.col(f"{prefix}cluster").isin(sorted({cluster for cluster, _ in pairs})) & in_days


def _delete_day(spark: SparkSession, full: str, cluster: str, day: date) -> None:
    quoted = cluster.replace("\\", "\\\\").replace("'", "\\'")
    mine = f"cluster='{quoted}'", f"date=DATE'{day.isoformat()}'"
    if _lists_folders(spark, full):
        spark.sql(f"ALTER TABLE {full} DROP IF EXISTS PARTITION ({', '.join(mine)})")
    else:
        spark.sql(f"DELETE FROM {full} WHERE {' AND '.join(mine)}")  # noqa: S608 - quoted; Delta Lake binds no parameters in DELETE


def _lists_folders(spark: SparkSession, full: str) -> bool:
    """Whether the catalog has a list of the table's folders, as for plain files (Parquet, ORC, Hive's own formats)."""
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {full}").where("col_name = 'Partition Provider' AND data_type = 'Catalog'")
    return rows.first() is not None


def _plain(full: str) -> str:
    return full.replace("`", "")


@contextmanager
def _catalog_errors(where: str, kind: type[CounterpoiseError] = CaptureError) -> Iterator[None]:
    """Turn errors of Spark and of the catalog's own classes into an error of one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        thrown = getattr(error, "java_exception", None)
        words = str(error if thrown is None else thrown.toString()).splitlines()[0]
        if any(sign in str(error) for sign in _MISFIT):
            words += "; the catalog's jar is made for another version of Spark, give it the one for this"
        raise kind(f"{where}: {words}") from error
