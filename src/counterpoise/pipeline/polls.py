"""Members that polled too late: they left for want of a poll within `max.poll.interval.ms`, and came back.

A member's rebalance timeout in its record is that setting (Java, librdkafka, kafka-python, aiokafka send it so). Who leaves
without having committed for that long was not stopped, if it comes back: it was kicked out. In a classic group it comes back
under a new id, so its client id tells, if that joins again soon. Under KIP-848 a process keeps its member id as long as it lives,
so the id itself tells, whenever it comes back; it left at the time of its own record, because the next step may be much later.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["AWAY", "CURRENT", "ENDED", "MEMBER", "MODERN", "NOBODY_LEFT", "departures", "poll_kicks"]

_GROUP = ("cluster", "group_id")
_PLACE = ("log_partition", "log_offset")
_BACK_MS = 60_000
"""How soon at least a client must be back to count; longer where its interval is longer."""
MODERN = "consumer"
"""Type of the groups whose members keep their ids."""
MEMBER, CURRENT = 5, 8
"""Record types of KIP-848 that tell who is a member, and at which epoch it is."""
AWAY = -2
"""The epoch of a static member that left and may come back within its session: its record stays until that is over."""
ENDED = ("deleted", "migrated")
"""Steps at which all members leave together."""
NOBODY_LEFT = "emptied"
"""A step that hands out nothing: stops are told at the next one."""


def poll_kicks(rebalances: DataFrame, generations: DataFrame, modern: DataFrame, stops: DataFrame) -> DataFrame:
    """Per group: how often that happened, to which clients, in which generation and when first, and the interval they have.

    Parameters
    ----------
    rebalances, generations, modern : DataFrame
        Tables `rebalances`, `group_generations` and `modern_group_records`.
    stops : DataFrame
        As `stops.stops` gives them.

    Returns
    -------
    DataFrame
        ``cluster, group_id, poll_kicks, poll_kick_clients, poll_kick_generation, poll_interval_ms, poll_kick_ts``; only groups
        that have any.

    Notes
    -----
    Joins steps and members, which are few, with one row per member and step of `stops`.
    """
    known = _known(generations, modern)
    returned = _of_clients(rebalances, known).unionByName(_of_members(rebalances, modern, known)).distinct()
    silent = stops.groupBy(*_GROUP, "log_ts", fn.col("owner_before").alias("member_id")).agg(fn.max("last_before").alias("last"))
    silence_ms = fn.unix_millis("left_ts") - fn.unix_millis("last")
    kicked = returned.join(silent, [*_GROUP, "log_ts", "member_id"]).where(silence_ms >= fn.col("interval_ms"))
    first = fn.min(fn.struct("log_ts", "generation", "left_ts"))
    return kicked.groupBy(*_GROUP).agg(
        fn.count("*").cast("int").alias("poll_kicks"),
        fn.array_sort(fn.collect_set("client_id")).alias("poll_kick_clients"),
        first["generation"].alias("poll_kick_generation"),
        fn.max("interval_ms").alias("poll_interval_ms"),
        first["left_ts"].alias("poll_kick_ts"),
    )


def _known(generations: DataFrame, modern: DataFrame) -> DataFrame:
    """The client id and the interval of every member."""
    members = generations.select(*_GROUP, fn.explode("members").alias("m"))
    classic = members.select(*_GROUP, "m.member_id", "m.client_id", "m.rebalance_timeout_ms")
    others = modern.where((fn.col("record_type") == MEMBER) & ~fn.col("deleted"))
    both = classic.unionByName(others.select(*_GROUP, "member_id", "client_id", "rebalance_timeout_ms"))
    return both.groupBy(*_GROUP, "member_id").agg(
        fn.max("client_id").alias("client_id"), fn.max("rebalance_timeout_ms").alias("interval_ms")
    )


def _of_clients(rebalances: DataFrame, known: DataFrame) -> DataFrame:
    """Members of classic groups that left and whose client joined again soon."""
    steps = rebalances.where(fn.col("group_type") != MODERN)
    gone = steps.select(*_GROUP, "generation", "log_ts", fn.explode("left").alias("member_id")).join(
        known, [*_GROUP, "member_id"]
    )
    joined = steps.select(*_GROUP, fn.col("log_ts").alias("back_ts"), fn.explode("joined").alias("member_id"))
    back = joined.join(known, [*_GROUP, "member_id"]).select(*_GROUP, "client_id", "back_ts")
    away_ms = fn.unix_millis("back_ts") - fn.unix_millis("log_ts")
    soon = (away_ms >= 0) & (away_ms <= fn.greatest("interval_ms", fn.lit(_BACK_MS)))
    returned = gone.join(back, [*_GROUP, "client_id"]).where(soon).drop("back_ts")
    return returned.withColumn("left_ts", fn.col("log_ts"))


def _of_members(rebalances: DataFrame, modern: DataFrame, known: DataFrame) -> DataFrame:
    """Members of KIP-848 groups that left and came back, with the step that followed."""
    gone = departures(modern).join(known, [*_GROUP, "member_id"]).where("client_id is not null and interval_ms > 0")
    steps = rebalances.where((fn.col("group_type") == MODERN) & (fn.col("kind") != NOBODY_LEFT)).select(
        *_GROUP, fn.struct(*_PLACE).alias("place"), fn.struct("kind", "generation", "log_ts").alias("step")
    )
    after = gone.join(steps, list(_GROUP)).where(fn.col("place") > fn.col("left_at"))
    key = [*_GROUP, "member_id", "client_id", "interval_ms", "left_at", "left_ts"]
    followed = after.groupBy(*key).agg(fn.min_by("step", "place").alias("step")).where(~fn.col("step.kind").isin(*ENDED))
    return followed.select(*key[:5], "left_ts", "step.generation", "step.log_ts").drop("left_at")


def departures(modern: DataFrame) -> DataFrame:
    """``cluster, group_id, member_id, left_at, left_ts``: a KIP-848 member left at that place and time, and came back later."""
    order = Window.partitionBy(*_GROUP, "member_id").orderBy(*_PLACE).rowsBetween(Window.unboundedPreceding, -1)
    is_member, is_current = fn.col("record_type") == MEMBER, (fn.col("record_type") == CURRENT) & ~fn.col("deleted")
    rows = modern.where(fn.col("record_type").isin(MEMBER, CURRENT)).select(
        *_GROUP,
        "member_id",
        "log_ts",
        fn.struct(*_PLACE).alias("place"),
        fn.when(is_member, fn.col("deleted")).alias("gone"),
        fn.coalesce(fn.last(fn.when(is_member, fn.col("deleted")), ignorenulls=True).over(order), fn.lit(True)).alias("was_gone"),
        fn.last(fn.when(is_current, fn.struct("epoch", "log_ts")), ignorenulls=True).over(order).alias("told"),
    )
    back = rows.where("not gone and was_gone").groupBy(*_GROUP, "member_id").agg(fn.max("place").alias("back"))
    left = rows.where("gone and not was_gone").select(
        *_GROUP,
        "member_id",
        fn.col("place").alias("left_at"),
        fn.when(fn.col("told.epoch") == AWAY, fn.col("told.log_ts")).otherwise(fn.col("log_ts")).alias("left_ts"),
    )
    return left.join(back, [*_GROUP, "member_id"]).where("back > left_at").drop("back")
