"""What a capture holds that the last audit has not seen, and whether it is still the same capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.incremental.saved import ClusterState, moment
from counterpoise.pipeline.timelines.log_ends import log_lives

__all__ = ["SETTLED", "last_sample", "last_settled", "news", "reach", "topic_marks"]

SETTLED = timedelta(seconds=60)
"""A sample of log ends this much older than the newest record has all its commits: records are written within seconds."""


def news(records: DataFrame, positions: Mapping[str, int]) -> DataFrame:
    """The records beyond the positions; all of them where there are none."""
    if not positions:
        return records
    partition, offset = fn.col("partition"), fn.col("offset")
    beyond = [(partition == int(index)) & (offset >= at) for index, at in sorted(positions.items())]
    return records.where(reduce(or_, beyond, ~partition.isin([int(index) for index in positions])))


def reach(records: DataFrame, before: ClusterState, cluster: str) -> tuple[dict[str, int], dict[str, int]]:
    """Positions and stamps (as in `ClusterState`) after all records; one pass over three columns.

    Raises
    ------
    CaptureError
        The records up to the last audit are not those it read, or some that it did not read are not there any more.
    """
    spark = records.sparkSession
    known = [(int(index), at - 1) for index, at in before.positions.items()]
    last = spark.createDataFrame(known, "partition int, last bigint")
    seen = records.select("partition", "offset", fn.unix_micros("timestamp").alias("us")).where("partition is not null")
    with_last = seen.join(fn.broadcast(last), "partition", "left") if known else seen.withColumn("last", fn.lit(None))
    rows = with_last.groupBy("partition").agg(
        fn.max("offset").alias("end"),
        fn.max_by("us", "offset").alias("us"),
        fn.max(fn.when(fn.col("offset") == fn.col("last"), fn.col("us"))).alias("was"),
        fn.min("offset").alias("first"),
        fn.min("us").alias("first_us"),
    )
    positions, stamps = dict(before.positions), dict(before.stamps)
    found = rows.collect()
    _check_lost([row for row in found if row["first"] is not None], before, cluster)
    for row in found:
        index = str(row["partition"])
        if row["end"] is None:
            continue
        at = before.positions.get(index, 0)
        other = row["was"] is not None and row["was"] != before.stamps.get(index)
        if row["end"] < at - 1 or other:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} is not the one of the last audit (log partition {index} "
                f"{'holds another record at' if other else 'ends before'} offset {at - 1}); to audit anew, delete .since in "
                "the output folder, or give another --out"
            )
        if row["end"] >= at:
            positions[index], stamps[index] = int(row["end"]) + 1, int(row["us"] or 0)
    return positions, stamps


def _check_lost(rows: Sequence[Row], before: ClusterState, cluster: str) -> None:
    """A capture drops its oldest files: if what it begins with is newer than the last audit, what came between may be gone.

    Offsets that nobody ever sees (control records, what was compacted) look the same: then the partition goes on without a hole,
    or others still have what was read.
    """
    end = moment(before.end)
    oldest = min((row["first_us"] for row in rows if row["first_us"] is not None), default=None)
    if end is None or oldest is None or oldest <= round(end.timestamp() * 1_000_000):
        return
    for row in sorted(rows, key=lambda row: int(row["partition"])):
        at = before.positions.get(str(row["partition"]), 0)
        if row["first"] > at:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} dropped records before they were audited (log partition "
                f"{row['partition']}: offsets {at} to {row['first'] - 1}); to audit anew what is left, delete .since in the "
                "output folder, or give another --out; a longer --keep-days of the capture prevents it"
            )


def last_sample(log_ends: DataFrame | None) -> datetime | None:
    """The time of the last sample of log ends."""
    row = None if log_ends is None else log_ends.agg(fn.max("sampled_at")).first()
    return None if row is None else _utc(row[0])


def last_settled(log_ends: DataFrame | None, end: datetime | None, before: datetime | None) -> datetime | None:
    """The last sample that is settled in a cluster whose newest record is of `end`; never before `before`."""
    if log_ends is None:
        return None
    row = None if end is None else log_ends.where(fn.col("sampled_at") <= fn.lit(end - SETTLED)).agg(fn.max("sampled_at")).first()
    found = [one for one in (None if row is None else _utc(row[0]), before) if one is not None]
    return max(found, default=None)


def topic_marks(log_ends: DataFrame | None, topics: DataFrame | None) -> dict[str, str]:
    """Topic -> its id at the end, and the number of its last life in the samples: what says whether older commits still count."""
    if topics is None:
        return {}
    if log_ends is None:
        return {row["topic"]: str(row["topic_id"]) for row in sorted(topics.select("topic", "topic_id").collect())}
    lives = log_lives(log_ends).groupBy("topic").agg(fn.max("sample.life").alias("life"))
    rows = topics.join(lives, "topic").select("topic", "topic_id", "life").collect()
    return {row["topic"]: f"{row['topic_id']} {row['life']}" for row in sorted(rows)}


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
