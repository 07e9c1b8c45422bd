"""Who owned each partition from when to when, and commits laid along it: what `lag` and `stops` are read from."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["CELL", "KEY", "cells", "committed", "looks_transactional", "ownership"]

KEY = ("cluster", "group_id", "topic", "partition")
CELL = (*KEY, "slot", "cell")
"""What commits can be summed up by: no mark lies between two commits that agree in all of it (see `cells`)."""
_UNTIL = {"until": "stays", "nobody_from": "lingers"}


def ownership(rebalances: DataFrame) -> DataFrame:
    """One row per step and partition it hands out.

    Returns
    -------
    DataFrame
        ``cluster, group_id, topic, partition, log_ts, log_offset, until, nobody_from, generation, eager, anew, owner``.

        `owner` is a member id. It has the partition until it is handed out again, or until `until` (null: no such moment):
        that is the group's next step; what a cooperative round withholds is held until the step after it, unless
        its owner left. `nobody_from` is the same for commits: the broker's members commit what they give up after the step that
        takes it, so there those count that come before the step after it. `eager`: a rebalance that stopped everything; a
        static member that is back is none. `anew`: the topic was deleted and made again since it was last handed out.

    Notes
    -----
    One window over steps, which are few; partitions are exploded after it.
    """
    order = Window.partitionBy("cluster", "group_id").orderBy("log_partition", "log_offset")
    one, two = fn.lead("log_ts").over(order), fn.lead("log_ts", 2).over(order)
    ends = fn.lead("kind").over(order).isin("emptied", "deleted", "migrated")
    waits = (fn.col("protocol_kind") == "cooperative") & (fn.coalesce(fn.lead("n_withheld").over(order), fn.lit(0)) > 0)
    lingers = waits | ((fn.col("protocol_kind") == "server") & ~fn.coalesce(ends, fn.lit(False)))
    steps = rebalances.withColumns(
        {
            "following": one,
            "stays": fn.when(waits, two).otherwise(one),
            "lingers": fn.when(lingers, two).otherwise(one),
            "gone": fn.coalesce(fn.lead("left").over(order), fn.array().cast("array<string>")),
            "eager": (fn.col("protocol_kind") == "eager") & (fn.col("kind") != "static_replacement"),
        }
    )
    place = ["cluster", "group_id", "log_ts", "log_offset", "until", "nobody_from", "generation", "eager"]
    gone = fn.array_contains("gone", fn.col("m.member_id"))
    each = steps.select("*", fn.explode("assignment").alias("m")).withColumns(
        {name: fn.when(gone, fn.col("following")).otherwise(fn.col(stays)) for name, stays in _UNTIL.items()}
    )
    topics = each.select(*place, "recreated", fn.col("m.member_id").alias("owner"), fn.explode("m.assigned").alias("a"))
    anew = fn.coalesce(fn.array_contains("recreated", fn.col("a.topic")), fn.lit(False)).alias("anew")
    return topics.select(*place, anew, "owner", fn.col("a.topic").alias("topic"), fn.explode("a.partitions").alias("partition"))


def committed(commits: DataFrame, aborted: DataFrame | None = None) -> DataFrame:
    """Commits that count: those of aborted transactions are left out where the capture says which they are."""
    if aborted is None:
        return commits
    return commits.join(fn.broadcast(aborted), ["log_partition", "log_offset"], "left_anti")


def looks_transactional() -> Column:
    """Whether a commit looks like one of a transaction: brokers that write topic ids (value version 4) give none to those.

    The transaction itself stands in the batch, which no reader of records sees. Older brokers write no ids at all: nothing
    tells such commits apart there.
    """
    return (fn.col("value_version") >= 4) & fn.col("topic_id").isNull()


def cells(commits: DataFrame, marks: DataFrame, width: Column, by: Sequence[str] = ()) -> DataFrame:
    """Commits with a `slot` of time and, within it, the number of the `cell` between two marks.

    Parameters
    ----------
    commits : DataFrame
        Table `offset_commits`, perhaps with further columns.
    marks : DataFrame
        The columns `by`, ``time`` and ``log_offset``: a commit lies before a mark if its time and log offset are not greater.
    width : Column
        Of a slot, in microseconds. About the distance of marks: a commit looks at the marks of its own slot.
    by : sequence of str
        Columns that say which marks count for a commit; none: all.

    Notes
    -----
    A look-up per commit and no sort: what is left after summing up by `CELL` is small, whatever the number of commits.
    The marks are sent to every executor (some 60 bytes each). Sum up plain numbers only: `max_by` of a struct makes Spark sort
    all commits after all.
    """
    at = fn.struct(fn.unix_micros("time").alias("time"), fn.col("log_offset").alias("log_offset"))
    slot = fn.floor(fn.unix_micros("time") / width)
    inside = (
        marks.select(*by, slot.alias("slot"), at.alias("mark")).groupBy(*by, "slot").agg(fn.collect_list("mark").alias("marks"))
    )
    time, offset = fn.unix_micros("log_ts"), fn.col("log_offset")

    def before(mark: Column) -> Column:
        return (mark["time"] < time) | ((mark["time"] == time) & (mark["log_offset"] < offset))

    placed = commits.withColumn("slot", fn.floor(time / width)).join(fn.broadcast(inside), [*by, "slot"], "left")
    return placed.withColumn("cell", fn.when(fn.col("marks").isNull(), 0).otherwise(fn.size(fn.filter("marks", before)))).drop(
        "marks"
    )
