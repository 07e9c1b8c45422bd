"""All that is known of a bucket's groups without asking a strategy: their records and steps, lag, stops and counts of commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.pipeline.direct.commits.sums_file import read_bucket
from counterpoise.pipeline.direct.files.by_day import ByDay
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile
from counterpoise.pipeline.direct.files.one_file import OneFile
from counterpoise.pipeline.direct.groups.bucket import Bucket, bucket_of
from counterpoise.pipeline.direct.groups.folding import Folded, Folding
from counterpoise.pipeline.direct.groups.group_sums import LagNow, stops_of_groups
from counterpoise.pipeline.direct.groups.handed_on import HandedOn
from counterpoise.pipeline.direct.groups.rest import in_log_order
from counterpoise.pipeline.direct.groups.stop_rows import STOPS, stop_rows
from counterpoise.pipeline.direct.lag.asked_lag import ASKED, AskedLag
from counterpoise.pipeline.direct.lag.lag_rows import LAG_COLUMNS, lag_rows
from counterpoise.pipeline.direct.lag.lives import Lives, read_lives
from counterpoise.pipeline.direct.report.reporting import PARTS
from counterpoise.pipeline.records.arrow_types import arrow_schema

__all__ = ["COUNTS", "OfCluster", "Sampled", "counts_of", "judge_buckets", "parts_of"]

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


@dataclass(frozen=True)
class OfCluster:
    """What a task needs of one cluster.

    Attributes
    ----------
    name, folder : str
        Whose, and where files go.
    aside : bool
        Whether Spark makes the report: stops and counts are then put aside for it.
    rest, sums : Marked
        As `rest.split_off` and `decoding.decode_piece` told.
    sampled : Sampled, optional
        Without it no lag is found.
    names : mapping
        Topic id -> name.
    """

    name: str
    folder: str
    rest: Marked
    sums: Marked
    sampled: Sampled | None
    names: Mapping[str, str]
    aside: bool


def judge_buckets(of: OfCluster, buckets: Sequence[int]) -> dict[str, Any]:
    """Write files of the tables up to `partition_lag` by day, of stops and counts, and of the lag that replays may ask for.

    Returns
    -------
    dict
        What the task tells.
    """
    lives = None if of.sampled is None else read_lives(of.sampled.files)
    seen: set[int] = set()
    until: int | None = None
    with (
        Folding(of.folder, of.names) as folding,
        ByDay(of.folder, "lag", LAG_COLUMNS, ("at",), ("committed",)) as lag,
        MarkedFile(of.folder, "asked", ASKED) as asked,
        OneFile(of.folder, "stops", arrow_schema(STOPS)) as stops,
        OneFile(of.folder, "counts", arrow_schema(COUNTS)) as counts,
        MarkedFile(of.folder, "groups", PARTS) as groups,
        HandedOn(of.folder) as handed,
    ):
        for number in buckets:
            folded = folding.fold(in_log_order(of.rest, number), handed.of_bucket(number))
            handed.settle(number)
            told = read_bucket(of.sums, number)
            counted = counts_of(told)
            instants = np.array(of.sampled.instants if of.sampled is not None else (), np.int64)
            bucket = bucket_of(told, folded.steps, instants, None if of.sampled is None else of.sampled.width)
            stopped, now = stop_rows(bucket), LagNow()
            if of.sampled is not None and lives is not None:
                once = _Once(bucket, lives, of.sampled.now_ids, lag, now)
                for picked in AskedLag(folded.generations, instants).pick(once.rows, seen):
                    asked.write(picked, number)
            if of.aside:
                counts.write(counted, cluster=of.name)
                stops.write(stopped, cluster=of.name)
            else:
                groups.write(parts_of(folded, counted, stopped, now), number)
            last = pc.max(counted["log_ts"].cast(pa.int64())).as_py()
            until = max((at for at in (until, last) if at is not None), default=None)
    about: dict[str, Any] = {"lag": {"days": lag.files, "rows": lag.rows}, "seen": sorted(seen)}
    about |= {"first": lag.first, "last": lag.last}
    about |= {"asked": [asked.file, asked.marks], "groups": [groups.file, groups.marks], "last_commit": until}
    about["handed"] = handed.told
    return {**folding.told, **about, "stops": stops.file, "counts": counts.file}


def parts_of(folded: Folded, counted: pa.Table, stopped: pa.RecordBatch, now: LagNow) -> pa.Table:
    """A row per group with all that is known of it before strategies are asked."""
    rows: dict[str, dict[str, Any]] = {}
    parts = [folded.figures.items(), ((row["group_id"], row) for row in counted.to_pylist())]
    for group, figures in chain(*parts, stops_of_groups(stopped), folded.kicks.groups(stopped)):
        rows.setdefault(group, {"group_id": group}).update(figures)
    for group, figures in now.groups():
        if group in rows:
            rows[group].update(figures)
    return pa.Table.from_pylist([rows[group] for group in sorted(rows)], schema=PARTS)


class _Once:
    """A bucket's rows of `partition_lag`, as often as they are asked for; written, and summed up, the first time."""

    def __init__(self, bucket: Bucket, lives: Lives, now_ids: Mapping[str, str] | None, out: ByDay, now: LagNow) -> None:
        self._about, self._out, self._now = (bucket, lives, now_ids), out, now
        self._written = False

    def rows(self) -> Iterator[pa.RecordBatch]:
        first, self._written = not self._written, True
        for found in lag_rows(*self._about):
            if first:
                self._now.add(found.newest())
                self._out.write(found.rows, found.time)
            yield found.rows


def counts_of(told: pa.Table) -> pa.Table:
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
