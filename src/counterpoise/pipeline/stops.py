"""How long partitions stood still around a rebalance, as commits show it; and commits by nobody.

The offsets topic does not hold the start of a rebalance. What it shows is the time from the last commit of the old owner to
the first commit of the new one (on any of its partitions: one without traffic has nothing to commit). Members commit every
few seconds anyway, so the usual gap between commits is taken off: what is left is the stop.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from counterpoise.pipeline.timelines.timeline import CELL, KEY, cells, ownership

__all__ = ["UNOWNED_NAMED", "stops", "stops_by_group"]

_SLOT_US = 300_000_000
"""Commits are summed up over five minutes, or up to the group's next step if that is nearer."""
UNOWNED_NAMED = 5
"""So many partitions with commits by nobody are named, those with most of them."""


def stops(commits: DataFrame, rebalances: DataFrame) -> DataFrame:
    """One row per partition and step that handed it out.

    Returns
    -------
    DataFrame
        ``cluster, group_id, topic, partition, generation, log_ts, owner, owner_before, eager, last_before, first_after,
        usual_gap_s, stop_s, commits, commits_by_nobody``; `stop_s` is null where the partition did not stop (its owner
        stayed, and the protocol is not eager) or one of the two commits is missing: how long it stood still is unknown then. Nor
        did one of a topic that was deleted and made again in between, where steps tell: it is another partition.
        Interval 0, before the first step, has a null generation.

    Notes
    -----
    Commits are summed up between steps first (`timeline.cells`); what is sorted is a row per partition and step, or per partition
    and five minutes, whatever the number of commits.
    """
    spans = _spans(commits, rebalances)
    of_owner = Window.partitionBy("cluster", "group_id", "owner", "at")
    sums = spans.select(
        "*",
        fn.min("first").over(of_owner).alias("owner_first"),
        fn.max("last").over(of_owner).alias("owner_last"),
        fn.min("gap").over(of_owner).alias("owner_gap"),
    )
    up_to = Window.partitionBy(*KEY).orderBy("interval")
    sums = sums.withColumn("life", fn.count(fn.when(fn.col("anew"), 1)).over(up_to))
    before = Window.partitionBy(*KEY, "life").orderBy("interval").rowsBetween(Window.unboundedPreceding, -1)
    joined = sums.select(
        "*",
        fn.last("owner_last", ignorenulls=True).over(before).alias("last_before"),
        fn.last("owner", ignorenulls=True).over(before).alias("owner_before"),
        fn.last("owner_gap", ignorenulls=True).over(before).alias("gap_before"),
    )
    usual = fn.coalesce(fn.least("owner_gap", "gap_before"), fn.lit(0.0))
    silence = fn.col("owner_first").cast("double") - fn.col("last_before").cast("double")
    stopped = (fn.col("eager") | (fn.col("owner") != fn.col("owner_before"))) & fn.col("owner_before").isNotNull()
    return joined.where("interval > 0 or commits > 0").select(
        *KEY,
        "generation",
        fn.col("at").alias("log_ts"),
        "owner",
        "owner_before",
        "eager",
        "last_before",
        fn.col("owner_first").alias("first_after"),
        usual.alias("usual_gap_s"),
        fn.when(stopped & silence.isNotNull(), fn.greatest(silence - usual, fn.lit(0.0))).alias("stop_s"),
        "commits",
        "commits_by_nobody",
    )


def _spans(commits: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Commits summed between two steps, per partition: ``at, generation, owner, eager, first, last, gap, commits, ...``."""
    marks = rebalances.select("cluster", "group_id", fn.col("log_ts").alias("time"), "log_offset")
    live = cells(commits.where(~fn.col("deleted")), marks, fn.lit(_SLOT_US), ["cluster", "group_id"])
    summed = live.groupBy(*CELL).agg(
        fn.min("log_ts").alias("time"),
        fn.min("log_offset").alias("log_offset"),
        fn.max("log_ts").alias("until"),
        fn.count("*").alias("n"),
    )
    said = summed.drop("slot", "cell").join(marks.select("cluster", "group_id").distinct(), ["cluster", "group_id"], "left_semi")
    held = fn.struct("generation", "owner", "nobody_from", "eager", "anew").alias("held")
    owners = ownership(rebalances).select(*KEY, fn.col("log_ts").alias("time"), "log_offset", fn.lit(1).alias("step"), held)
    until_now = Window.partitionBy(*KEY).orderBy("time", "log_offset").rowsBetween(Window.unboundedPreceding, 0)
    numbered = said.unionByName(owners, allowMissingColumns=True).select(
        *KEY,
        "time",
        "until",
        "n",
        "held",
        fn.coalesce(fn.sum("step").over(until_now), fn.lit(0)).alias("interval"),
        fn.last("held", ignorenulls=True).over(until_now).alias("then"),
    )
    # What stands in the log before the step that takes the partition, in the very millisecond of it, was still its owner's.
    late = (fn.col("time") >= fn.col("then.nobody_from")) & (fn.col("until") > fn.col("then.nobody_from"))
    nobody = (fn.col("interval") > 0) & late
    is_commit = fn.col("n").isNotNull()
    time, count = fn.when(is_commit, fn.col("time")), fn.coalesce(fn.sum("n"), fn.lit(0))
    seconds = fn.max("until").cast("double") - fn.min(time).cast("double")
    sums = numbered.groupBy(*KEY, "interval").agg(
        fn.max(fn.when(~is_commit, fn.col("time"))).alias("at"),
        fn.max("held").alias("held"),
        fn.min(time).alias("first"),
        fn.max("until").alias("last"),
        fn.when(count > 1, seconds / (count - 1)).alias("gap"),
        count.alias("commits"),
        fn.coalesce(fn.sum(fn.when(nobody, fn.col("n"))), fn.lit(0)).alias("commits_by_nobody"),
    )
    return sums.select("*", "held.generation", "held.owner", "held.eager", "held.anew").drop("held")


def stops_by_group(stops: DataFrame) -> DataFrame:
    """Per group: partition-seconds stopped, the longest stop and its generation (null where none is known), commits by nobody."""
    longest = fn.when(fn.col("stop_s").isNotNull(), fn.struct(-fn.col("stop_s"), "generation", "log_ts"))
    strange = fn.when(fn.col("commits_by_nobody") > 0, fn.struct(-fn.col("commits_by_nobody"), "generation"))
    of_partitions = stops.groupBy(*KEY).agg(
        # Whole microseconds: a sum of fractions would depend on the order in which rows come.
        fn.sum(fn.round(fn.col("stop_s") * 1_000_000).cast("bigint")).alias("stopped_us"),
        fn.min(longest).alias("longest"),
        fn.sum("commits").alias("commits"),
        fn.sum("commits_by_nobody").alias("nobody"),
        fn.min(strange).alias("strange"),
    )
    entry = fn.when(fn.col("nobody") > 0, fn.struct((-fn.col("nobody")).alias("n"), "topic", "partition"))
    first = fn.slice(fn.array_sort(fn.collect_list(entry)), 1, UNOWNED_NAMED)
    return of_partitions.groupBy("cluster", "group_id").agg(
        (fn.sum("stopped_us") / 1_000_000).alias("stopped_partition_seconds"),
        (-fn.min("longest")["col1"]).alias("longest_stop_seconds"),
        fn.min("longest")["generation"].cast("int").alias("longest_stop_generation"),
        fn.min("longest")["log_ts"].alias("longest_stop_ts"),
        fn.sum("nobody").alias("commits_without_owner"),
        fn.count(fn.when(fn.col("commits") > 0, 1)).alias("committed_partitions"),
        fn.count(entry).cast("int").alias("partitions_without_owner"),
        fn.transform(first, lambda one: fn.struct(one["topic"], one["partition"], (-one["n"]).alias("commits"))).alias(
            "unowned_commits"
        ),
        fn.min("strange")["generation"].cast("int").alias("unowned_generation"),
    )
