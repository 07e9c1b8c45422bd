"""Who owned each partition from when to when, and commits laid along it: what `lag` and `stops` are read from."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["KEY", "committed", "ownership"]

KEY = ("cluster", "group_id", "topic", "partition")


def ownership(rebalances: DataFrame) -> DataFrame:
    """One row per step and partition it hands out.

    Returns
    -------
    DataFrame
        ``cluster, group_id, topic, partition, log_ts, log_offset, until, generation, eager, owner``; `until` is when the
        group's next step came (null: it never did), `owner` a member id. A cooperative member holds what the next step
        withholds until the step after that.

    Notes
    -----
    One window over steps, which are few; partitions are exploded after it.
    """
    order = Window.partitionBy("cluster", "group_id").orderBy("log_partition", "log_offset")
    ends = fn.lead("kind").over(order).isin("emptied", "deleted", "migrated")
    eager = fn.col("protocol_kind") == "eager"
    until = fn.lead("log_ts").over(order)
    held_on = fn.when(eager | ends, until).otherwise(fn.lead("log_ts", 2).over(order))
    steps = rebalances.withColumn("until", held_on).withColumn("eager", eager)
    place = ["cluster", "group_id", "log_ts", "log_offset", "until", "generation", "eager"]
    members = steps.select(*place, fn.explode("assignment").alias("m"))
    topics = members.select(*place, fn.col("m.member_id").alias("owner"), fn.explode("m.assigned").alias("a"))
    return topics.select(*place, "owner", fn.col("a.topic").alias("topic"), fn.explode("a.partitions").alias("partition"))


def committed(commits: DataFrame, aborted: DataFrame | None = None) -> DataFrame:
    """Commits that count: those of aborted transactions are left out where the capture says which they are."""
    if aborted is None:
        return commits
    return commits.join(fn.broadcast(aborted), ["log_partition", "log_offset"], "left_anti")
