"""Where tables are kept: Parquet folders (a catalog: `catalog`), by cluster and date, appended to, and no row twice.

A row of a record or of a step is never changed once it is written: what an audit finds there already, it leaves. Rows of the
state at the end of a recording (`group_report`, `findings`) are replaced if an audit ends on the same day. Files are read and
written by Arrow in Spark's tasks, at any URI.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from itertools import islice
from typing import TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from counterpoise.errors import CaptureError
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import filesystem_of, parquet_file, parquet_writer
from counterpoise.pipeline.stored import catalog
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.keyed import KEYS, RECORDS, check_same, missing, stored
from counterpoise.pipeline.stored.tables import NO_DAY, PARTITIONS, by_partition
from counterpoise.pipeline.stored.transaction import NewFiles, TableTransaction
from counterpoise.pipeline.tables.one_file import OneFile

__all__ = ["Partitions", "TableFiles", "add_to_catalog", "check", "check_names", "empty_file", "frame", "merge", "written"]

Partitions: TypeAlias = Mapping[str, Sequence[str]]
"""``cluster=<name>/date=<day>`` -> files."""
TableFiles: TypeAlias = Mapping[str, Sequence[str]]
"""Table -> files."""
_ROWS = 65_536
_RECORD = ["log_partition", "log_offset", "log_ts", "group_id"]
_SOME = 1_000


def check(spark: SparkSession, name: str, new: Partitions, work: TableTransaction) -> None:
    """Whether records that are there and new ones at the same places of the log are the same records.

    Raises
    ------
    CaptureError
    """
    there = by_partition(work.manifest.below("tables", name))
    both = new.keys() & there.keys()
    if name in RECORDS and both:
        check_same(frame(spark, name, _of(new, both)), frame(spark, name, _of(there, both)), name, work.out)


def check_names(name: str, new: Partitions, work: TableTransaction) -> None:
    """Whether a cluster that is new here has the records of another one: one capture under two names would count twice.

    Some records of each of its files are looked for in the same day of the others, by log partition, offset, time and group.

    Raises
    ------
    CaptureError
    """
    there = by_partition(work.manifest.below("tables", name))
    known = {partition.partition("/")[0] for partition in there}
    for partition, mine in sorted(new.items()):
        cluster, _, day = partition.partition("/")
        others = [other for other in sorted({*there, *new}) if other.partition("/")[2] == day and other != partition]
        if cluster in known or not others:
            continue
        some: set[tuple[int, int, int, str]] = set()
        for file in mine:
            with parquet_file(file) as opened:
                some.update(*map(_records_in, islice(opened.iter_batches(_SOME, columns=_RECORD), 1)))
        near = pc.field("log_offset").isin(pa.array([record[1] for record in some], pa.int64()))
        for other in others:
            files = [filesystem_of(one)[1] for one in {**there, **new}[other]]
            found = ds.dataset(files, filesystem=filesystem_of(mine[0])[0])
            if both := some & _records_in(found.to_table(columns=_RECORD, filter=near)):
                named, its = (unquote(one.partition("/")[0].partition("=")[2]) for one in (partition, other))
                place = "log partition {}, offset {}".format(*min(both))
                advice = f"one capture has one name: give --cluster {its}, or another --out"
                raise CaptureError(f"{work.out}: cluster {named} is cluster {its} by another name ({name}, {place}); {advice}")


def _records_in(rows: pa.RecordBatch | pa.Table) -> set[tuple[int, int, int, str]]:
    columns = [rows.column(column) for column in _RECORD]
    columns[2] = columns[2].cast(pa.int64())
    return set(zip(*(column.to_pylist() for column in columns), strict=True))


def merge(
    spark: SparkSession, name: str, new: Partitions, work: TableTransaction, ended: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Which files a transaction has to add and to remove, so that the new rows are there and none twice.

    Of a table of the state at the end, the rows of the partitions in `ended` go, whether others come or not.

    Notes
    -----
    Files of partitions that are new, or that are replaced, are taken as they are: nothing is read or written again.
    """
    there = by_partition(work.manifest.below("tables", name))
    if name not in KEYS:
        return _of(new, new), _of(there, there.keys() & {*new, *ended})
    both = new.keys() & there.keys()
    added = _of(new, new.keys() - both)
    if both:
        rest = missing(frame(spark, name, _of(new, both)), frame(spark, name, _of(there, both)), name)
        rest_files = written(rest, name, work.new_files)
        added += _of(rest_files, rest_files)
    return added, []


def _of(files: Partitions, wanted: Collection[str]) -> list[str]:
    return [file for partition in sorted(wanted) for file in files[partition]]


def frame(spark: SparkSession, name: str, files: Sequence[str]) -> DataFrame:
    """Files of a table as a DataFrame, columns as in `stored`; a task reads one of them."""
    if not files:
        return spark.createDataFrame([], stored(name))
    return spark.range(0, len(files), 1, len(files)).mapInArrow(partial(_read, name, tuple(files)), stored(name))


def _read(name: str, files: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = _arrow(name)
    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        cluster, day = (unquote(part.partition("=")[2]) for part in files[number].split("/")[-3:-1])
        known = {"cluster": cluster, "date": None if day == NO_DAY else date.fromisoformat(day)}
        with parquet_file(files[number]) as opened:
            for batch in opened.iter_batches(_ROWS):
                n = batch.num_rows
                columns = [
                    pa.array([known[field.name]] * n, field.type)
                    if field.name in known
                    else _cast(batch.column(field.name), field)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def written(table: DataFrame, name: str, files: NewFiles) -> dict[str, list[str]]:
    """Rows of a table, with `date`, in new files by partition."""
    rows = table.select(*stored(name).names).mapInArrow(partial(_write, name, files), "file string").collect()
    return by_partition(sorted(row["file"] for row in rows))


def _write(name: str, files: NewFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    writers: dict[tuple[str, date | None], OneFile] = {}
    kept = _columns(name)
    with ExitStack() as stack:
        for batch in batches:
            codes = [batch.column(column).dictionary_encode() for column in PARTITIONS]
            clusters, days = (one.dictionary.to_pylist() for one in codes)
            cluster, day = (one.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for one in codes)
            pair = cluster * (len(days) + 1) + day + 1
            for code in np.unique(pair).tolist():
                key = clusters[code // (len(days) + 1)], [None, *days][code % (len(days) + 1)]
                if key not in writers:
                    named = partial(files.table_file, name, key[0], NO_DAY if key[1] is None else key[1].isoformat())
                    writers[key] = stack.enter_context(OneFile(named, kept))
                some = batch.take(pa.array(np.flatnonzero(pair == code)))
                columns = [_cast(some.column(field.name), field) for field in kept]
                writers[key].write(pa.RecordBatch.from_arrays(columns, schema=kept))
    yield pa.RecordBatch.from_arrays([pa.array([one.file for one in writers.values()], pa.string())], names=["file"])


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    return column if column.type == field.type else column.cast(field.type)


def _arrow(name: str) -> pa.Schema:
    return arrow_schema(TABLES[name]).append(pa.field("date", pa.date32()))


def _columns(name: str) -> pa.Schema:
    """The columns that are in the files."""
    return arrow_schema(StructType([field for field in TABLES[name].fields if field.name not in PARTITIONS]))


def empty_file(name: str, cluster: str, day: str, files: NewFiles) -> str:
    """A new file without a row, from which any engine learns the columns of a table: without a file they know none."""
    file = files.table_file(name, cluster, day)
    with parquet_writer(file, _columns(name)):
        pass
    return file


def add_to_catalog(
    spark: SparkSession, target: Catalog, final: TableFiles, provisional: TableFiles, replaced: TableFiles | None = None
) -> list[str]:
    """Add rows to the tables of a catalog; none if one of these cannot take them.

    Parameters
    ----------
    spark : SparkSession
    target : Catalog
    final, provisional : mapping
        Files of the rows that no later record changes, and of the others.
    replaced : mapping, optional
        Of an update: stored files whose rows it writes again.

    Returns
    -------
    left_out : list of str
        Tables that lack provisional rows, because their format cannot replace rows: of an update they get the final rows that
        they do not have.

    Raises
    ------
    CaptureError
    """
    tables, left_out = {name: frame(spark, name, some) for name, some in final.items()}, list[str]()
    for name, table in tables.items():
        catalog.check(table, name, target)
    reported = tables["group_report"].select("cluster", "date").distinct().collect()
    ended = {(row["cluster"], row["date"]) for row in reported}
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
