"""Lag, stops and counts of commits from sums, a bucket of groups at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.pipeline.direct.bucket import bucket_of
from counterpoise.pipeline.direct.by_day import ByDay
from counterpoise.pipeline.direct.held import STEP_COLUMNS
from counterpoise.pipeline.direct.lag_rows import LAG_COLUMNS, lag_rows
from counterpoise.pipeline.direct.lives import read_lives
from counterpoise.pipeline.direct.stop_rows import STOPS, stop_rows
from counterpoise.pipeline.direct.sums_file import BUCKETS, read_bucket
from counterpoise.pipeline.direct.tasks import scratch, told_by, told_column
from counterpoise.pipeline.records.arrow_types import arrow_schema

__all__ = ["COUNTS", "Sampled", "judge"]

COUNTS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("group_id", StringType()),
        StructField("commits", LongType()),
        StructField("commit_tombstones", LongType()),
        StructField("first_commit", TimestampType()),
        StructField("last_commit", TimestampType()),
        StructField("commits_gone", BooleanType()),
        StructField("log_ts", TimestampType()),
    ]
)
"""The columns of `group_report.commit_counts`, and the time of the group's last record of a commit."""
_PARTITIONED = ("bucket", "group_id", "log_partition", "log_offset")


@dataclass(frozen=True)
class Sampled:
    """The samples of one cluster's log ends.

    Attributes
    ----------
    files : tuple of str
    instants : tuple of int
        At which was sampled, in microseconds, ascending.
    width : float
        Mean time between two of them.
    now_ids : dict, optional
        Topic -> its id at the end.
    """

    files: tuple[str, ...]
    instants: tuple[int, ...]
    width: float
    now_ids: Mapping[str, str] | None


def judge(
    steps: DataFrame, cluster: str, sums: Sequence[tuple[str, Sequence[int]]], sampled: Sampled | None, folder: str, tasks: int
) -> list[dict[str, Any]]:
    """Write files of `partition_lag` by day (with samples), stops and counts; what each task told.

    Parameters
    ----------
    steps : DataFrame
        `rebalances` of one cluster.
    cluster : str
    sums : sequence of (file, buckets)
        As tasks that decoded told.
    sampled : Sampled, optional
    folder : str
    tasks : int

    Notes
    -----
    The shuffle is one of steps; sums are read from their files, each once.
    """
    spark = steps.sparkSession
    bucket = fn.pmod(fn.crc32(fn.col("group_id").cast("binary")), fn.lit(BUCKETS)).cast("int").alias("bucket")
    mine = steps.select(bucket, *STEP_COLUMNS)
    every = spark.range(0, BUCKETS, 1, 1).select(fn.col("id").cast("int").alias("bucket"))
    rows = mine.unionByName(every, allowMissingColumns=True).repartition(tasks, "bucket").sortWithinPartitions(*_PARTITIONED)
    run = _kernel(cluster, tuple((file, tuple(buckets)) for file, buckets in sums), sampled, folder)
    return told_by(rows.mapInArrow(run, "told string").collect())


def _kernel(
    cluster: str, sums: Sequence[tuple[str, Sequence[int]]], sampled: Sampled | None, folder: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        instants = np.array(sampled.instants if sampled is not None else (), np.int64)
        lives = None if sampled is None else read_lives(sampled.files)
        with (
            ByDay(folder, "lag", LAG_COLUMNS, ("at",), ("committed",)) as lag,
            _File(folder, "stops", STOPS) as stops,
            _File(folder, "counts", COUNTS) as counts,
        ):
            number = -1
            for number, steps in _buckets(batches):
                told = read_bucket(sums, number)
                counts.write(_counts(told), cluster)
                bucket = bucket_of(told, steps, instants, None if sampled is None else sampled.width)
                if sampled is not None and lives is not None:
                    for batch in lag_rows(bucket, lives, sampled.now_ids):
                        lag.write(batch, batch.column("at").cast(pa.int64()).to_numpy())
                stops.write(stop_rows(bucket), cluster)
        about = {"lag": lag.files, "rows": lag.rows, "first": lag.first, "last": lag.last}
        yield told_column({"task": number, **about, "stops": stops.file, "counts": counts.file})

    return run


def _buckets(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Bucket by bucket the rows of its steps; each begins with a row that has nothing but its number."""
    held: list[pa.RecordBatch] = []
    number = -1
    for batch in batches:
        code = batch.column("bucket").to_numpy()
        cuts = [0, *(np.flatnonzero(code[1:] != code[:-1]) + 1).tolist(), len(code)]
        for begin, end in pairwise(cuts):
            if end > begin:
                if held and int(code[begin]) != number:
                    yield number, _steps(held)
                    held = []
                number = int(code[begin])
                held.append(batch.slice(begin, end - begin))
    if held:
        yield number, _steps(held)


def _steps(parts: Sequence[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(parts)
    return table.filter(pc.is_valid(table["group_id"])).combine_chunks()


def _counts(told: pa.Table) -> pa.Table:
    """Per group: commits, deletions, first and last time; whether the last of all deletes."""
    in_order = told.sort_by("offset").group_by("group_id", use_threads=False)
    figures = [
        ("live", "sum"),
        ("dead", "sum"),
        ("live_ts", "min"),
        ("live_until", "max"),
        ("max_ts", "max"),
        ("deleted", "last"),
    ]
    sums = in_order.aggregate(figures)
    some = pc.greater(sums["live_sum"], 0)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "group_id": sums["group_id"],
            "commits": sums["live_sum"],
            "commit_tombstones": sums["dead_sum"],
            "first_commit": pc.if_else(some, sums["live_ts_min"], None).cast(stamp),
            "last_commit": pc.if_else(some, sums["live_until_max"], None).cast(stamp),
            "commits_gone": sums["deleted_last"],
            "log_ts": sums["max_ts_max"].cast(stamp),
        }
    )


class _File:
    """A file with the column `cluster` before the others, made when there is a row."""

    def __init__(self, folder: str, kind: str, schema: StructType) -> None:
        self._folder, self._kind, self._schema = folder, kind, arrow_schema(schema)
        self._writer: pq.ParquetWriter | None = None
        self.file: str | None = None

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.RecordBatch | pa.Table, cluster: str) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            place = scratch(self._folder, self._kind)
            self.file, self._writer = str(place), pq.ParquetWriter(place, self._schema, store_schema=False)
        names = pa.array([cluster] * rows.num_rows, pa.string())
        self._writer.write_table(pa.table([names, *rows.columns], schema=self._schema))
