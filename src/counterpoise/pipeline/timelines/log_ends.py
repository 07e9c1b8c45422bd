"""Sampled log ends as a line in time: where a log ended between two samples, and when it had come to an offset.

A log that ends lower than before was made anew: samples before and after that are two lives, and no line joins them.
Of samples of one log and instant (two recordings of one time in one folder) the one with the largest end counts: logs grow.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["at_instant", "disagreeing", "log_lives", "reached_at"]

_LOG = ("topic", "partition")


def log_lives(log_ends: DataFrame) -> DataFrame:
    """``topic, partition, time, sample``: each sample with its life, whether that is the last one, and the sample after it.

    Parameters
    ----------
    log_ends : DataFrame
        ``topic, partition, log_start, log_end, sampled_at``.
    """
    order = Window.partitionBy(*_LOG).orderBy("sampled_at")
    # Ordered further than need be for one pass over the same sort: the last one of an instant stays.
    following = fn.lead("sampled_at").over(Window.partitionBy(*_LOG).orderBy("sampled_at", "log_end", "log_start"))
    once = log_ends.withColumn("following", following)
    log_ends = once.where("following is null or following != sampled_at").drop("following")
    shrunk = fn.coalesce((fn.col("log_end") < fn.lag("log_end").over(order)).cast("int"), fn.lit(0))
    # A topic is made anew as a whole: its other partitions may have grown beyond their old ends by the next sample.
    anew = fn.max("shrunk").over(Window.partitionBy("topic", "sampled_at"))
    numbered = log_ends.withColumn("shrunk", shrunk).withColumn("anew", anew).withColumn("life", fn.sum("anew").over(order))
    same = fn.lead("life").over(order) == fn.col("life")
    # Partitions that the new topic does not have were not sampled again: their last life is an old one.
    whole = Window.partitionBy("topic")
    told = fn.struct(
        "log_start",
        "log_end",
        fn.unix_micros("sampled_at").alias("us"),
        "life",
        (fn.col("life") == fn.max("life").over(whole)).alias("newest_life"),
        fn.when(same, fn.lead("log_end").over(order)).alias("next_end"),
        fn.when(same, fn.unix_micros(fn.lead("sampled_at").over(order))).alias("next_us"),
    )
    return numbered.select(*_LOG, fn.col("sampled_at").alias("time"), told.alias("sample"))


def disagreeing(log_ends: DataFrame) -> int:
    """Of how many logs and instants there are samples that differ."""
    told = fn.struct("log_end", "log_start")
    apart = log_ends.groupBy(*_LOG, "sampled_at").agg(fn.min(told).alias("one"), fn.max(told).alias("other"))
    return apart.where("one != other").count()


def at_instant(rows: DataFrame) -> DataFrame:
    """Rows with `time` and the `sample` at or before it, with ``log_start, log_end, life, newest_life, between``.

    `last` tells a sample (1) from an instant that is asked for (2). An instant that is a sample's too, or that has no sample on
    both sides of it, is left out.
    """
    asked = fn.col("last") == 2
    passed = fn.unix_micros("time") - fn.col("sample.us")
    share = passed / (fn.col("sample.next_us") - fn.col("sample.us"))
    grown = fn.floor((fn.col("sample.next_end") - fn.col("sample.log_end")) * share)
    line = (fn.col("sample.log_end") + grown).cast("bigint")
    inside = (passed > 0) & fn.col("sample.next_us").isNotNull()
    return rows.where(~asked | inside).select(
        "*",
        fn.col("sample.log_start").alias("log_start"),
        fn.when(asked, line).otherwise(fn.col("sample.log_end")).alias("log_end"),
        fn.col("sample.life").alias("life"),
        fn.col("sample.newest_life").alias("newest_life"),
        asked.alias("between"),
    )


def reached_at(rows: DataFrame, lives: DataFrame) -> DataFrame:
    """Rows with `reached_us`: the last instant, in microseconds, at which the log had not yet grown beyond `offset`.

    Parameters
    ----------
    rows : DataFrame
        ``topic, partition, life, offset`` and more.
    lives : DataFrame
        As `log_lives` gives them.

    Notes
    -----
    Null where no sample of that life lies at or before it. One sort by log and offset: samples lie among the rows, so the sample
    that counts is the last one at or below.
    """
    marks = lives.select(
        *_LOG, fn.col("sample.life").alias("life"), fn.col("sample.log_end").alias("offset"), fn.col("sample").alias("mark")
    )
    both = rows.unionByName(marks.withColumn("is_mark", fn.lit(True)), True)
    order = Window.partitionBy(*_LOG, "life").orderBy("offset", fn.col("mark.us").asc_nulls_last())
    below = fn.last("mark", ignorenulls=True).over(order.rowsBetween(Window.unboundedPreceding, 0))
    found = both.withColumn("below", below).where("is_mark is null")
    return found.withColumn("reached_us", _crossing(fn.col("below"), fn.col("offset"))).drop("below", "mark", "is_mark")


def _crossing(mark: Column, offset: Column) -> Column:
    share = (offset - mark["log_end"]) / (mark["next_end"] - mark["log_end"])
    line = mark["us"] + fn.floor(share * (mark["next_us"] - mark["us"]))
    return fn.when(offset.isNotNull(), fn.when(mark["next_end"] > mark["log_end"], line).otherwise(mark["us"]))
