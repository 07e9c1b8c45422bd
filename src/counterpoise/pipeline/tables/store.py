"""Rows added to stored tables: Parquet folders by cluster and date, or a catalog (`catalog`).

Tables of records and steps are appended to by key: an audit does not change stored rows. Tables that describe the end of a
recording (those not in `KEYS`, such as `group_report`) are replaced if an audit ends on the same day. Arrow reads and writes the
files in Spark's tasks, at any URI.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from itertools import islice
from typing import TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from counterpoise.errors import CaptureError
from counterpoise.pipeline.schemas import COLUMNS, TABLES
from counterpoise.pipeline.storage.files import filesystem_of, parquet_file, parquet_writer
from counterpoise.pipeline.tables import catalog
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.keyed import KEYS, RECORDS, check_same, rows_not_in, stored
from counterpoise.pipeline.tables.paths import NO_DAY, by_partition
from counterpoise.pipeline.tables.transaction import NewFiles, TableTransaction
from counterpoise.pipeline.tables.writers import TableWriter

__all__ = [
    "TableFiles", "TablePartitions", "add_to_catalog", "check", "check_cluster_is_new", "empty_file", "frame", "merge", "written",
]  # fmt: skip

TablePartitions: TypeAlias = Mapping[str, Sequence[str]]
"""Table partition ``cluster=<name>/date=<day>`` -> files."""
TableFiles: TypeAlias = Mapping[str, Sequence[str]]
"""Table -> files."""
_ROWS = 65_536
_RECORD = ["log_partition", "log_offset", "log_ts", "group_id"]
_SAMPLE = 1_000


def check(spark: SparkSession, name: str, new: TablePartitions, work: TableTransaction) -> None:
    """Raise a `CaptureError` if stored and new records at the same place in the log are different records."""
    old = by_partition(work.manifest.below("tables", name))
    both = new.keys() & old.keys()
    if name in RECORDS and both:
        check_same(frame(spark, name, _files_of(new, both)), frame(spark, name, _files_of(old, both)), name, work.out)


def check_cluster_is_new(name: str, new: TablePartitions, work: TableTransaction) -> None:
    """Check that a new cluster does not have the records of another one: a capture under two names would be counted twice.

    A sample of the records of its files is searched in the same day of other clusters, by log partition, offset, time and group.
    Raises `CaptureError` if one is found.
    """
    old = by_partition(work.manifest.below("tables", name))
    known = {partition.partition("/")[0] for partition in old}
    for partition, mine in sorted(new.items()):
        cluster, _, day = partition.partition("/")
        others = [other for other in sorted({*old, *new}) if other.partition("/")[2] == day and other != partition]
        if cluster in known or not others:
            continue
        sample: set[tuple[int, int, int, str]] = set()
        for file in mine:
            with parquet_file(file) as opened:
                sample.update(*map(_records_in, islice(opened.iter_batches(_SAMPLE, columns=_RECORD), 1)))
        same_offset = pc.field("log_offset").isin(pa.array([record[1] for record in sample], pa.int64()))
        for other in others:
            files = [filesystem_of(one)[1] for one in {**old, **new}[other]]
            dataset = ds.dataset(files, filesystem=filesystem_of(mine[0])[0])
            if both := sample & _records_in(dataset.to_table(columns=_RECORD, filter=same_offset)):
                named, its = (unquote(one.partition("/")[0].partition("=")[2]) for one in (partition, other))
                place = "log partition {}, offset {}".format(*min(both))
                advice = f"one capture has one name: give --cluster {its}, or another --out"
                raise CaptureError(f"{work.out}: cluster {named} is cluster {its} by another name ({name}, {place}); {advice}")


def _records_in(rows: pa.RecordBatch | pa.Table) -> set[tuple[int, int, int, str]]:
    columns = [rows.column(column) for column in _RECORD]
    columns[2] = columns[2].cast(pa.int64())
    return set(zip(*(column.to_pylist() for column in columns), strict=True))


def merge(
    spark: SparkSession, name: str, new: TablePartitions, work: TableTransaction, ended: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """The files that a transaction adds and removes, so that the table has the new rows and none twice.

    Tables without a key (not in `KEYS`): stored rows of partitions in `ended` are deleted, even if there
    are no new ones. Files of new or replaced partitions are added unchanged: their rows are not read or written again.
    """
    old = by_partition(work.manifest.below("tables", name))
    if name not in KEYS:
        return _files_of(new, new), _files_of(old, old.keys() & {*new, *ended})
    both = new.keys() & old.keys()
    added = _files_of(new, new.keys() - both)
    if both:
        rest = rows_not_in(frame(spark, name, _files_of(old, both)), frame(spark, name, _files_of(new, both)), name)
        added += written(rest, name, work.new_files)
    return added, []


def _files_of(files: TablePartitions, partitions: Collection[str]) -> list[str]:
    return [file for partition in sorted(partitions) for file in files[partition]]


def frame(spark: SparkSession, name: str, files: Sequence[str]) -> DataFrame:
    """Files of a table as a DataFrame with the columns of `stored`; a task reads one file."""
    if not files:
        return spark.createDataFrame([], stored(name))
    return spark.range(0, len(files), 1, len(files)).mapInArrow(partial(_read, name, tuple(files)), stored(name))


def _read(name: str, files: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = TABLES[name].append(pa.field("date", pa.date32()))
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        cluster, day = (unquote(part.partition("=")[2]) for part in files[number].split("/")[-3:-1])
        known = {"cluster": cluster, "date": None if day == NO_DAY else date.fromisoformat(day)}
        with parquet_file(files[number]) as opened:
            for batch in opened.iter_batches(_ROWS):
                n = batch.num_rows
                columns = [
                    pa.array([known[field.name]] * n, field.type)
                    if field.name in known
                    else batch.column(field.name).cast(field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def written(table: DataFrame, name: str, files: NewFiles) -> list[str]:
    """Write rows of a table, with `date`, to new files; returns them."""
    rows = table.select(*stored(name).names).mapInArrow(partial(_write, name, files), "file string").collect()
    return sorted(row["file"] for row in rows)


def _write(name: str, files: NewFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    writers: dict[str, TableWriter] = {}
    schema = COLUMNS[name].append(pa.field("date", pa.date32()))
    with ExitStack() as stack:
        for batch in batches:
            for cluster in batch.column("cluster").unique().to_pylist():
                if cluster not in writers:
                    writers[cluster] = stack.enter_context(TableWriter(files, cluster, name, "date"))
                mine = batch.filter(pc.equal(batch.column("cluster"), cluster))
                columns = [mine.column(field.name).cast(field.type) for field in schema]
                writers[cluster].write(pa.RecordBatch.from_arrays(columns, schema=schema))
    added = [file for one in writers.values() for file in one.manifest["days"].values()]
    yield pa.RecordBatch.from_arrays([pa.array(added, pa.string())], names=["file"])


def empty_file(name: str, cluster: str, day: str, files: NewFiles) -> str:
    """Write a file without rows, from which other engines read the columns of an empty table."""
    file = files.table_file(name, cluster, day)
    with parquet_writer(file, COLUMNS[name]):
        pass
    return file


def add_to_catalog(
    spark: SparkSession, target: Catalog, final: TableFiles, provisional: TableFiles, replaced: TableFiles | None = None
) -> list[str]:
    """Add rows to the tables of a catalog, after all tables are checked.

    `final` and `provisional` are files of final and of provisional rows; `replaced`, in an update, are the stored files that it
    replaces. Returns the tables whose format cannot replace rows: they get new final rows, and no provisional rows. Raises
    `CaptureError` as `catalog.check` and `catalog.add`.
    """
    tables, left_out = {name: frame(spark, name, files) for name, files in final.items()}, list[str]()
    for name, table in tables.items():
        catalog.check(table, name, target)
    ended = {(row["cluster"], row["date"]) for row in tables["group_report"].select("cluster", "date").distinct().collect()}
    for name, table in tables.items():
        # Several rows of `decode_errors` may have one key; they never change.
        update = replaced if name in KEYS and name != "decode_errors" else None
        if update is not None and catalog.can_merge(spark, name, target):
            rows = frame(spark, name, [*final[name], *provisional[name]])
            catalog.merge(rows, name, target, frame(spark, name, update[name]))
        else:
            left_out += [name] if update is not None and provisional[name] else []
            catalog.add(table, name, target, ended)
    return left_out
