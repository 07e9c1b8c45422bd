"""Table `partition_lag`: commits against log ends, as of each sample and of each of the group's steps.

A commit counts from the moment it was appended. Where nobody has committed there is no lag to know: such a row says so
(`unknown`), or follows the given reset policy, and never silently takes the end of the log.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from counterpoise.pipeline.schemas import PARTITION_LAG
from counterpoise.pipeline.timelines.log_ends import at_instant, log_lives, reached_at
from counterpoise.pipeline.timelines.timeline import CELL, KEY, cells, committed, ownership

__all__ = ["BY_SAMPLE", "Reset", "lag_at_generations", "lag_now", "partition_lag"]

STEP_SLOT_US = 300_000_000
"""Of commits between two steps of a group, the newest in every five minutes is looked at."""
BY_SAMPLE = "log_end is not null and quality != 'interpolated'"
"""What rows of `partition_lag` are of the instant of a sample."""
Reset: TypeAlias = Literal["earliest", "latest"]


def partition_lag(
    commits: DataFrame,
    rebalances: DataFrame,
    log_ends: DataFrame | None,
    aborted: DataFrame | None = None,
    reset: Reset | None = None,
    *,
    topics: DataFrame | None = None,
    since: datetime | None = None,
    anew: DataFrame | None = None,
) -> DataFrame:
    """Table `partition_lag`.

    Parameters
    ----------
    commits, rebalances : DataFrame
        Tables `offset_commits` and `rebalances`.
    log_ends : DataFrame, optional
        ``topic, partition, log_start, log_end, sampled_at``. Without it there is one row per partition, at its last
        commit, of quality `unknown`.
    aborted : DataFrame, optional
        ``log_partition, log_offset`` of commits that never took effect.
    reset : "earliest" or "latest", optional
        The members' ``auto.offset.reset``, for partitions without a commit; None: their lag is unknown.
    topics : DataFrame, optional
        ``topic, topic_id`` at the end of the recording: commits under another id are of a topic that was made anew since.
    since : datetime, optional
        Only rows after this time; `log_ends` still holds all samples.
    anew : DataFrame, optional
        ``cluster, group_id`` of groups whose rows are wanted whatever their time.

    Returns
    -------
    DataFrame
        `quality` is exact (commit and log end of that instant), interpolated (a step of the group between two samples: the end
        of the log on the straight line between them), reset_policy or unknown. As in `model.lag`, `clamped` marks a commit
        beyond the end of the log (a topic that was made anew, smaller), shown as lag 0, and one below its start (retention),
        shown as all that is still there. `time_lag_ms` says how long ago the committed offset was the end of the log, if a
        sample lies before that.
    """
    told = committed(commits, aborted)
    if log_ends is None:
        return _without_ends(told)
    owners = ownership(rebalances)
    steps = rebalances.select("cluster", "group_id", fn.col("log_ts").alias("time"), "log_offset")
    newest = _newest_commits(told if topics is None else _with_ids(told, topics), log_ends, steps)
    pairs = newest.select(*KEY).union(owners.select(*KEY)).distinct()
    ends = log_lives(log_ends)
    instants = steps.select("cluster", "group_id", "time").distinct()
    samples, asked = pairs.join(ends, ["topic", "partition"]), pairs.join(instants, ["cluster", "group_id"])
    if since is not None:
        pairs = _looked_at_after(pairs, since, anew)
        samples, asked = _seen_after(pairs, ends), pairs.join(instants, ["cluster", "group_id"]).where(_later())
    samples = samples.withColumn("last", fn.lit(1))
    events = newest.unionByName(_owner_events(owners), True).unionByName(samples, True)
    events = events.unionByName(asked.withColumn("last", fn.lit(2)), True)
    until_now = Window.partitionBy(*KEY).orderBy("time", "last", "log_offset").rowsBetween(Window.unboundedPreceding, 0)
    as_of = events.select(
        *KEY,
        *(() if since is None else ("after",)),
        "time",
        "last",
        fn.last("sample", ignorenulls=True).over(until_now).alias("sample"),
        fn.last("commit", ignorenulls=True).over(until_now).alias("commit"),
        fn.last("held", ignorenulls=True).over(until_now).alias("held"),
    )
    wanted = fn.col("last") > 0 if since is None else (fn.col("last") > 0) & _later()
    rows = at_instant(as_of.where(wanted)).withColumn("owner", _owner()).withColumn("offset", _offset())
    # Between samples only what is known is told: where nobody has committed, the next sample says so.
    known = rows.where("offset is not null or (owner is not null and not between)")
    return _columns(reached_at(known, ends), reset)


def lag_now(lag: DataFrame) -> DataFrame:
    """The last known row of every partition of a group, from `partition_lag`."""
    columns = ("at", "committed", "log_end", "lag", "owner", "quality", "clamped", "time_lag_ms")
    newest = fn.max_by(fn.struct(*columns), fn.col("at"))
    return lag.groupBy(*KEY).agg(newest.alias("now")).select(*KEY, "now.*")


def lag_at_generations(generations: DataFrame, lag: DataFrame, samples: DataFrame) -> DataFrame:
    """The lag a leader could have known: that of the last sample of its cluster's log ends at or before each generation.

    Parameters
    ----------
    generations : DataFrame
        ``cluster, group_id, log_partition, log_offset, log_ts, n_members``; those without members are left out.
    lag : DataFrame
        Table `partition_lag`.
    samples : DataFrame
        ``cluster, at``: when log ends were sampled, of whatever logs, once or more often.

    Returns
    -------
    DataFrame
        ``cluster, group_id, log_partition, log_offset, lag``, a row per generation that has a sample before it; `lag` is
        list<struct<topic, partitions, lags>> of the partitions whose lag is known.

    Notes
    -----
    A sample holds all partitions at one instant; which groups `lag` has rows of makes no difference to the others. Commits are
    not read again, and of `partition_lag` only what the generations ask for is shuffled.
    """
    place = ["cluster", "group_id", "log_partition", "log_offset"]
    instants = samples.distinct().groupBy("cluster").agg(fn.collect_list("at").alias("instants"))
    last = fn.array_max(fn.filter("instants", lambda instant: instant <= fn.col("log_ts")))
    asked = generations.where("n_members > 0").join(fn.broadcast(instants), "cluster")
    asked = asked.select(*place, last.alias("at")).where("at is not null")
    known = lag.where("lag is not null").select("cluster", "group_id", "at", "topic", "partition", "lag")
    entry = fn.sort_array(fn.collect_list(fn.struct("partition", "lag")))
    topics = known.join(asked, ["cluster", "group_id", "at"]).groupBy(*place, "topic").agg(entry.alias("of"))
    listed = fn.struct("topic", fn.col("of.partition").alias("partitions"), fn.col("of.lag").alias("lags"))
    found = topics.groupBy(*place).agg(fn.sort_array(fn.collect_list(listed)).alias("lag"))
    nothing = fn.array().cast(found.schema["lag"].dataType)
    return asked.join(found, place, "left").select(*place, fn.coalesce("lag", nothing).alias("lag"))


def _with_ids(told: DataFrame, topics: DataFrame) -> DataFrame:
    """Commits with what is the topic's id in the end, where that is another one than theirs."""
    now = topics.select("topic", fn.col("topic_id").alias("now_id"))
    other = fn.col("topic_id").isNotNull() & (fn.col("topic_id") != fn.col("now_id"))
    return told.join(fn.broadcast(now), "topic", "left").withColumn("gone", other)


def _newest_commits(told: DataFrame, log_ends: DataFrame, steps: DataFrame) -> DataFrame:
    """The newest commit of each partition between two instants that are looked at: no instant sees another one."""
    instants = log_ends.select(fn.col("sampled_at").alias("time")).distinct()
    micros = fn.unix_micros("time")
    mean_gap = (fn.max(micros) - fn.min(micros)) / fn.greatest(fn.count("*") - 1, fn.lit(1))
    width = instants.agg(fn.greatest(mean_gap, fn.lit(1.0)).alias("width")).where("width is not null")
    marks = instants.withColumn("log_offset", fn.lit(2**63 - 1)).crossJoin(fn.broadcast(width))
    between_steps = cells(told, steps, fn.lit(STEP_SLOT_US), ["cluster", "group_id"])
    told = between_steps.withColumnsRenamed({"slot": "step_slot", "cell": "step_cell"})
    placed = cells(told.crossJoin(fn.broadcast(width)), marks, fn.col("width"))
    gone = fn.coalesce(fn.col("gone"), fn.lit(False)) if "gone" in told.columns else fn.lit(False)
    offset = fn.when(~fn.col("deleted"), fn.col("committed_offset"))
    sums = placed.groupBy(*CELL, "step_slot", "step_cell").agg(
        fn.max("log_ts").alias("time"),
        fn.max_by(offset, "log_offset").alias("offset"),
        fn.max_by(gone, "log_offset").alias("gone"),
        fn.max("log_offset").alias("log_offset"),
    )
    return sums.select(*KEY, "time", "log_offset", fn.lit(0).alias("last"), fn.struct("offset", "gone").alias("commit"))


def _looked_at_after(pairs: DataFrame, since: datetime, anew: DataFrame | None) -> DataFrame:
    """Partitions of groups with the time (`after`; null: any) from which on rows are wanted."""
    if anew is None:
        return pairs.withColumn("after", fn.lit(since))
    whole = fn.broadcast(anew.select("cluster", "group_id", fn.lit(True).alias("anew")))
    marked = pairs.join(whole, ["cluster", "group_id"], "left")
    return marked.withColumn("after", fn.when(fn.col("anew").isNull(), fn.lit(since))).drop("anew")


def _later() -> Column:
    return fn.col("after").isNull() | (fn.col("time") > fn.col("after"))


def _seen_after(pairs: DataFrame, ends: DataFrame) -> DataFrame:
    """Samples that a row after `after` can see: those after it, and of each log the last one before."""
    following = fn.lead("time").over(Window.partitionBy("topic", "partition").orderBy("time"))
    both = pairs.join(ends.withColumn("following", following), ["topic", "partition"])
    return both.where(_later() | fn.col("following").isNull() | (fn.col("following") > fn.col("after"))).drop("following")


def _owner_events(owners: DataFrame) -> DataFrame:
    held = fn.struct("owner", "until").alias("held")
    return owners.select(*KEY, fn.col("log_ts").alias("time"), "log_offset", fn.lit(0).alias("last"), held)


def _owner() -> Column:
    valid = fn.col("held.until").isNull() | (fn.col("time") < fn.col("held.until"))
    return fn.when(valid, fn.col("held.owner"))


def _offset() -> Column:
    """The commit that counts: of a topic that was made anew, not those under its old id once the new one is sampled."""
    return fn.when(~(fn.col("commit.gone") & fn.col("newest_life")), fn.col("commit.offset"))


def _columns(rows: DataFrame, reset: Reset | None) -> DataFrame:
    offset = fn.col("offset")
    start = {"earliest": fn.col("log_start"), "latest": fn.col("log_end"), None: fn.lit(None).cast("bigint")}[reset]
    reached = fn.coalesce(offset, start)
    behind = fn.col("log_end") - fn.when(reached.isNotNull(), fn.greatest(reached, "log_start"))
    by_policy = fn.lit("unknown" if reset is None else "reset_policy")
    measured = fn.when(fn.col("between"), "interpolated").otherwise("exact")
    millis = fn.floor((fn.unix_micros("time") - fn.col("reached_us")) / 1000)
    return rows.select(
        *KEY,
        fn.col("time").alias("at"),
        offset.alias("committed"),
        "log_start",
        "log_end",
        fn.when(behind >= 0, behind).when(behind < 0, 0).cast("bigint").alias("lag"),
        "owner",
        fn.when(offset.isNotNull(), measured).otherwise(by_policy).alias("quality"),
        fn.coalesce((behind < 0) | (offset < fn.col("log_start")), fn.lit(False)).alias("clamped"),
        # `greatest` would take 0 where nothing is known.
        fn.when(offset >= fn.col("log_end"), 0).when(millis < 0, 0).otherwise(millis).cast("bigint").alias("time_lag_ms"),
    ).select(*PARTITION_LAG.names)


def _without_ends(told: DataFrame) -> DataFrame:
    newest = fn.max_by(fn.struct("log_ts", "committed_offset", "deleted"), fn.col("log_offset")).alias("newest")
    nothing = fn.lit(None)
    known = told.groupBy(*KEY).agg(newest).where(~fn.col("newest.deleted"))
    return known.select(
        *KEY,
        fn.col("newest.log_ts").alias("at"),
        fn.col("newest.committed_offset").alias("committed"),
        nothing.cast("bigint").alias("log_start"),
        nothing.cast("bigint").alias("log_end"),
        nothing.cast("bigint").alias("lag"),
        nothing.cast("string").alias("owner"),
        fn.lit("unknown").alias("quality"),
        fn.lit(False).alias("clamped"),
        nothing.cast("bigint").alias("time_lag_ms"),
    )
