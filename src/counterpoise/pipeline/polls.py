"""Members that polled too late: they left for want of a poll within `max.poll.interval.ms`, and came back.

A member's rebalance timeout in the record of a generation is that setting (Java, librdkafka, kafka-python, aiokafka send it
so). A member that leaves without having committed for that long, and whose client id joins again soon, was not stopped: it was
kicked out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

__all__ = ["poll_kicks"]

_GROUP = ("cluster", "group_id")
_BACK_MS = 60_000
"""How soon at least a client must be back to count; longer where its interval is longer."""


def poll_kicks(rebalances: DataFrame, generations: DataFrame, stops: DataFrame) -> DataFrame:
    """Per group: how often that happened, to which clients, in which generation first, and the interval they have.

    Parameters
    ----------
    rebalances, generations : DataFrame
        Tables `rebalances` and `group_generations`.
    stops : DataFrame
        As `stops.stops` gives them.

    Returns
    -------
    DataFrame
        ``cluster, group_id, poll_kicks, poll_kick_clients, poll_kick_generation, poll_interval_ms``; only groups that have any.

    Notes
    -----
    Joins steps and members, which are few, with one row per member and step of `stops`.
    """
    members = generations.select(*_GROUP, fn.explode("members").alias("m"))
    known = members.groupBy(*_GROUP, fn.col("m.member_id").alias("member_id")).agg(
        fn.max("m.client_id").alias("client_id"), fn.max("m.rebalance_timeout_ms").alias("interval_ms")
    )
    place = [*_GROUP, "generation", "log_ts"]
    gone = rebalances.select(*place, fn.explode("left").alias("member_id")).join(known, [*_GROUP, "member_id"])
    joined = rebalances.select(*_GROUP, fn.col("log_ts").alias("back_ts"), fn.explode("joined").alias("member_id"))
    back = joined.join(known, [*_GROUP, "member_id"]).select(*_GROUP, "client_id", "back_ts")
    away_ms = fn.unix_millis("back_ts") - fn.unix_millis("log_ts")
    soon = (away_ms >= 0) & (away_ms <= fn.greatest("interval_ms", fn.lit(_BACK_MS)))
    returned = gone.join(back, [*_GROUP, "client_id"]).where(soon).drop("back_ts").distinct()
    silent = stops.groupBy(*_GROUP, "log_ts", fn.col("owner_before").alias("member_id")).agg(fn.max("last_before").alias("last"))
    silence_ms = fn.unix_millis("log_ts") - fn.unix_millis("last")
    kicked = returned.join(silent, [*_GROUP, "log_ts", "member_id"]).where(silence_ms >= fn.col("interval_ms"))
    return kicked.groupBy(*_GROUP).agg(
        fn.count("*").cast("int").alias("poll_kicks"),
        fn.array_sort(fn.collect_set("client_id")).alias("poll_kick_clients"),
        fn.min_by("generation", "log_ts").alias("poll_kick_generation"),
        fn.max("interval_ms").alias("poll_interval_ms"),
    )
