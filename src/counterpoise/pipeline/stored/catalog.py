"""Tables of a Spark catalog, whatever their format is: made where there are none, added to by key, and no row twice."""

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
from counterpoise.pipeline.stored.keyed import KEYS, RECORDS, check_same, missing, same_row, stored
from counterpoise.pipeline.stored.tables import PARTITIONS

__all__ = ["Catalog", "add", "can_merge", "check", "check_lasting", "check_target", "merge"]

_WRITING: Mapping[str, str] = {
    # Parquet as every reader knows it (microseconds, UTC), not with Spark's old INT96.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Of a table that is replaced, only the days that come.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # What tables in Hive's own formats want where the day of a row is not spelled out.
    "hive.exec.dynamic.partition": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
}
_MISFIT = ("NoSuchMethodError", "IncompatibleClassChangeError", "NoClassDefFoundError", "AbstractMethodError", "NoSuchFieldError")
"""What the JVM says of a catalog's jar that was made for another version of Spark."""


@dataclass(frozen=True)
class Catalog:
    """Tables ``<schema>.<prefix><table>`` of a Spark catalog, made in its default format where they are not there yet."""

    schema: str
    prefix: str = ""

    def table(self, name: str) -> str:
        """The name of one table, as Spark wants it."""
        plain = f"{self.prefix}{name}".replace("`", "``")
        return f"{self.schema}.`{plain}`"


def check_target(spark: SparkSession, target: Catalog) -> None:
    """Whether the schema is there.

    Raises
    ------
    OptionError
    """
    with _told(f"--into {target.schema}", OptionError):
        if not spark.catalog.databaseExists(target.schema):
            raise OptionError(f"--into {target.schema}: no such schema in the session's catalogs; create it first")


def check_lasting(spark: SparkSession, target: Catalog) -> None:
    """Whether tables of the catalog are still known when a session of our own has ended.

    Raises
    ------
    OptionError
        It is Spark's own catalog, which is kept in memory where no metastore is configured: files would stay, tables would not.
    """
    first, dot, _ = target.schema.partition(".")
    own = (first if dot else spark.catalog.currentCatalog()) == "spark_catalog"
    # A class that stands in for Spark's own catalog may keep its tables elsewhere; Delta's does not.
    other = spark.conf.get("spark.sql.catalog.spark_catalog", None)
    if is_remote() or not own or (other is not None and not other.endswith(".DeltaCatalog")):
        return
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise OptionError(
            f"--into {target.schema}: Spark's own catalog is kept in memory here and forgotten when the audit ends; "
            "set spark.sql.catalogImplementation to hive, or name a schema of another catalog"
        )


def check(table: DataFrame, name: str, target: Catalog) -> None:
    """Whether rows may be added: the table, if there is one, has our columns, and no other record where one of these is.

    Raises
    ------
    CaptureError
    """
    spark, full = table.sparkSession, target.table(name)
    with _told(_plain(full)):
        if not spark.catalog.tableExists(full):
            return
        _recover(spark, full)
        there = spark.table(full)
        wanted = stored(name).names
        absent = [column for column in wanted if column not in there.columns]
        strange = [column for column in there.columns if column not in wanted]
        if absent or strange:
            words = f"has no column {', '.join(absent)}" if absent else f"has columns of its own: {', '.join(strange)}"
            raise CaptureError(f"{_plain(full)}: {words}; it was made otherwise: alter it, or give another --table-prefix")
        if name in RECORDS:
            check_same(table, there.where(_is_of(_days(table))), name, _plain(full))


def add(table: DataFrame, name: str, target: Catalog, ended: Collection[tuple[str, date]] = ()) -> None:
    """Add the rows that the table in the catalog does not have; it is made if there is none.

    Of a table that tells how things stand at the end, the rows of the clusters and days in `ended` go, even where none come.

    Raises
    ------
    CaptureError
        Spark cannot write it.

    Notes
    -----
    It is made empty, and filled by `insertInto`, which all formats know: a table that is made and filled at once leaves, when
    that is killed, files that no catalog knows, and a name that cannot be used again.
    """
    spark, full = table.sparkSession, target.table(name)
    with _told(_plain(full)), configured(spark, _WRITING):
        _make(spark, full, name)
        there = spark.table(full)
        coming = _days(table)
        if name in KEYS:
            new = missing(table, there.where(_is_of(coming)), name)
            # By place: insertInto takes columns in the order of the table.
            new.select(*there.columns).write.insertInto(full)
            return
        if coming:
            table.select(*there.columns).write.insertInto(full, overwrite=True)
        for cluster, day in sorted(set(ended) - coming):
            _leave_out(spark, full, cluster, day)


def can_merge(spark: SparkSession, name: str, target: Catalog) -> bool:
    """Whether the format of the table can replace rows; it is made if there is none. Spark plans a merge, and does not run it."""
    full = target.table(name)
    with _told(_plain(full)):
        _make(spark, full, name)
        words = f"EXPLAIN MERGE INTO {full} USING {full} AS new ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
        # Without a plan, it is the text of an error.
        return all(row[0].startswith("== ") for row in spark.sql(words).collect())


def merge(table: DataFrame, name: str, target: Catalog, gone: DataFrame) -> None:
    """Replace rows by those of `table` with the same key, add the others, and delete those of `gone` that are not in `table`.

    Raises
    ------
    CaptureError
        Spark cannot write it.

    Notes
    -----
    One merge: a reader sees the table before it or after it. It reads the days of these rows.
    """
    spark, full = table.sparkSession, target.table(name)
    with _told(_plain(full)), configured(spark, _WRITING):
        left = missing(gone, table, name).withColumn("gone", fn.lit(True))
        rows = table.withColumn("gone", fn.lit(False)).unionAll(left).alias("new")
        days, old = _days(rows), full.removeprefix(f"{target.schema}.") + "."
        if days:
            whole = {column: fn.col(f"new.{column}") for column in stored(name).names}
            work = rows.mergeInto(full, same_row(name, "new.", old) & _is_of(days, old)).whenMatched(fn.col("new.gone")).delete()
            work.whenMatched().update(whole).whenNotMatched(~fn.col("new.gone")).insert(whole).merge()


def _make(spark: SparkSession, full: str, name: str) -> None:
    if not spark.catalog.tableExists(full):
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in stored(name).fields)
        spark.sql(f"CREATE TABLE IF NOT EXISTS {full} ({columns}) PARTITIONED BY ({', '.join(PARTITIONS)})")


def _days(table: DataFrame) -> set[tuple[str, date | None]]:
    return {(row["cluster"], row["date"]) for row in table.select(*PARTITIONS).distinct().collect()}


def _is_of(wanted: Collection[tuple[str, date | None]], of: str = "") -> Column:
    """Whether a row is of these days, and perhaps of others: by values, so that every format reads no other files."""
    days = sorted({day for _, day in wanted if day is not None})
    dated = fn.col(f"{of}date").isin(days) if days else fn.lit(False)
    if any(day is None for _, day in wanted):
        dated |= fn.col(f"{of}date").isNull()
    return fn.col(f"{of}cluster").isin(sorted({cluster for cluster, _ in wanted})) & dated


def _leave_out(spark: SparkSession, full: str, cluster: str, day: date) -> None:
    if _by_folders(spark, full):
        quoted = cluster.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ALTER TABLE {full} DROP IF EXISTS PARTITION (cluster='{quoted}', date=DATE'{day.isoformat()}')")
    else:
        given = {"full": full, "cluster": cluster, "day": day}
        spark.sql("DELETE FROM IDENTIFIER(:full) WHERE cluster = :cluster AND date = :day", given)


def _recover(spark: SparkSession, full: str) -> None:
    """Let the catalog know folders that a killed audit filled and did not get round to tell of: their rows would come again."""
    if _by_folders(spark, full):
        spark.catalog.recoverPartitions(full)


def _by_folders(spark: SparkSession, full: str) -> bool:
    """Whether the catalog keeps a list of the table's folders, as it does for plain files (Parquet, ORC, Hive's own formats)."""
    told = spark.sql(f"DESCRIBE TABLE EXTENDED {full}").where("col_name = 'Partition Provider' AND data_type = 'Catalog'")
    return told.first() is not None


def _plain(full: str) -> str:
    return full.replace("`", "")


@contextmanager
def _told(where: str, kind: type[CounterpoiseError] = CaptureError) -> Iterator[None]:
    """Turn what Spark and the catalog's own classes say into one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        thrown = getattr(error, "java_exception", None)
        words = str(error if thrown is None else thrown.toString()).splitlines()[0]
        if any(sign in str(error) for sign in _MISFIT):
            words += "; the catalog's jar is made for another version of Spark, give it the one for this"
        raise kind(f"{where}: {words}") from error
