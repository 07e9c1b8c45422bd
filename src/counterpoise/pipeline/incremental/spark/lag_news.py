"""Rows of `partition_lag` that new samples and new records bring, from little more than what is new."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from counterpoise.pipeline.direct.groups.held import STEP_COLUMNS
from counterpoise.pipeline.lag import partition_lag
from counterpoise.pipeline.timelines.timeline import KEY

__all__ = ["lag_news"]

_GROUP = ("cluster", "group_id")
_OF_COMMITS = (*KEY, "log_ts", "log_partition", "log_offset", "committed_offset", "deleted", "topic_id")
_OF_STEPS = ("cluster", *STEP_COLUMNS)
"""What lag is read from: the rest of a row is not written down again."""
_STEPS_BEFORE = 3
"""A step tells who owns a partition until the second one after it: what an older one said is over."""


def lag_news(
    commits: DataFrame,
    steps: DataFrame,
    log_ends: DataFrame | None,
    topics: DataFrame | None,
    since: datetime | None,
    redone: DataFrame | None,
    aside: Callable[[str, DataFrame], DataFrame],
) -> DataFrame:
    """Rows of one cluster after `since`, and for the groups `redone` all rows.

    Parameters
    ----------
    commits, steps : DataFrame
        All commits that count, all steps.
    log_ends : DataFrame, optional
        All samples; without them the rows are those of the last commits, all of them.
    topics : DataFrame, optional
        As for `partition_lag`.
    since : datetime, optional
        Up to then the rows are there already; None: none are.
    redone : DataFrame, optional
        ``cluster, group_id``; None: no group.
    aside : callable
        ``aside(name, table)`` writes down what is read several times.
    """
    if log_ends is None or since is None:
        return partition_lag(commits, steps, log_ends, topics=topics)
    moment = fn.lit(since)
    commits, steps = commits.select(*_OF_COMMITS), steps.select(*_OF_STEPS)
    said, held = commits, steps
    if redone is not None:
        said, held = (table.join(fn.broadcast(redone), [*_GROUP], "left_anti") for table in (commits, steps))
    # Of what was said before, the last word counts: one aggregate over the stored commits, no sort of them.
    place = ["log_ts", "log_offset"]
    rest = [name for name in commits.columns if name not in (*KEY, *place)]
    last = fn.max_by(fn.struct(*place, *rest), fn.struct(*place)).alias("last")
    tails = said.where(fn.col("log_ts") <= moment).groupBy(*KEY).agg(last).select(*KEY, "last.*")
    recent = said.where(fn.col("log_ts") > moment).unionByName(tails.select(*said.columns))
    backwards = Window.partitionBy(*_GROUP).orderBy(fn.desc("log_partition"), fn.desc("log_offset"))
    old = held.where(fn.col("log_ts") <= moment).withColumn("back", fn.row_number().over(backwards))
    near = held.where(fn.col("log_ts") > moment).unionByName(old.where(fn.col("back") <= _STEPS_BEFORE).drop("back"))
    if redone is not None:
        whole = [table.join(fn.broadcast(redone), [*_GROUP], "left_semi") for table in (commits, steps)]
        recent, near = recent.unionByName(whole[0]), near.unionByName(whole[1])
    return partition_lag(aside("commits", recent), aside("steps", near), log_ends, topics=topics, since=since, anew=redone)
