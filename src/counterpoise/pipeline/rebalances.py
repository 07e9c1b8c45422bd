"""Table `rebalances`: every group's history folded, in log order, to the steps of its life.

One sort by group and log offset, then a streaming fold: a Python worker holds one generation of one group at a time, so
a huge group costs its own task time and nobody else's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.pipeline.arrow_types import arrow_schema
from counterpoise.pipeline.classic_fold import ClassicFold
from counterpoise.pipeline.grouped import by_group
from counterpoise.pipeline.modern_fold import NAMES, ModernFold
from counterpoise.pipeline.schemas import REBALANCES

__all__ = ["fold_batches", "rebalances", "steps_of_group", "topic_names"]

STEP_COLUMNS = arrow_schema(REBALANCES)
_PLACE = ("log_partition", "log_offset", "log_ts")
_CLASSIC = ("protocol_type", "protocol", "generation", "leader", "state_ts", "members", "leader_library")


def rebalances(generations: DataFrame, modern: DataFrame, names: DataFrame | None = None) -> DataFrame:
    """Table `rebalances` from `group_generations` and `modern_group_records`.

    Parameters
    ----------
    generations, modern : DataFrame
        The decoded tables.
    names : DataFrame, optional
        ``topic_id, topic`` (see `topic_names`); ids that it does not hold stay ids.

    Notes
    -----
    One shuffle of the group records (never of commits), one sort.
    """
    parts = [_classic_side(generations), _modern_side(modern)]
    if names is not None:
        parts.append(_name_rows(modern, names))
    history = parts[0]
    for part in parts[1:]:
        history = history.unionByName(part, allowMissingColumns=True)
    ordered = history.repartition("cluster", "group_id").sortWithinPartitions(
        "cluster", "group_id", "log_partition", "log_offset"
    )
    return ordered.mapInArrow(fold_batches, REBALANCES)


def topic_names(commits: DataFrame, topics: DataFrame | None = None) -> DataFrame:
    """``topic_id, topic``: which topic an id belongs to, by the commits (deleted topics too) and by metadata."""
    known = commits.where(fn.col("topic_id").isNotNull()).select("topic_id", "topic").distinct()
    return known if topics is None else known.union(topics.select("topic_id", "topic")).distinct()


def fold_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: records sorted by cluster, group and log offset -> rows of `REBALANCES`."""
    steps: list[dict[str, Any]] = []
    weight = 0
    for group, rows in by_group(batches):
        for step in steps_of_group(rows):
            steps.append({"cluster": group[0], "group_id": group[1], **step})
            weight += 1 + (step.get("n_partitions") or 0) // 64
            if weight >= 2000:
                yield pa.RecordBatch.from_pylist(steps, schema=STEP_COLUMNS)
                steps, weight = [], 0
    if steps:
        yield pa.RecordBatch.from_pylist(steps, schema=STEP_COLUMNS)


def steps_of_group(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The steps of one group's life, from its classic and modern records in log order.

    A group that is deleted and, in the same batch of the log, goes on under the other protocol was migrated.
    """
    classic, modern = ClassicFold(), ModernFold()
    held: dict[str, Any] | None = None
    left: list[Mapping[str, Any]] = []
    for row in rows:
        is_modern = row["record_type"] is not None
        if held is not None:
            if _crosses(held, row, is_modern):
                held |= _MIGRATED[is_modern]
                (modern if is_modern else classic).inherit(left, held["generation"])
            yield held
            held = None
        if row["deleted"]:
            left = list((modern if is_modern else classic).members)
        steps = modern.feed(row) if is_modern else [{**{name: row[name] for name in _PLACE}, **classic.feed(row)}]
        if steps and steps[-1]["kind"] == "deleted":
            held = steps.pop()
        yield from steps
    yield from modern.close()
    if held is not None:
        yield held


_MIGRATED: dict[bool, dict[str, Any]] = {
    to_modern: {"kind": "migrated", "cause": "protocol", "left": [], "detail": f"the group was {words}"}
    for to_modern, words in ((True, "upgraded to the consumer protocol"), (False, "downgraded to the classic protocol"))
}


def _crosses(step: Mapping[str, Any], following: Mapping[str, Any], to_modern: bool) -> bool:
    other = to_modern != (step["group_type"] != "classic")
    return other and not following["deleted"] and following["log_ts"] == step["log_ts"]


def _classic_side(generations: DataFrame) -> DataFrame:
    return generations.select("cluster", "group_id", *_PLACE, "deleted", *_CLASSIC, fn.lit(None).cast("int").alias("record_type"))


def _modern_side(modern: DataFrame) -> DataFrame:
    return modern.select("cluster", "group_id", *_PLACE, "deleted", "record_type", "member_id", "payload")


def _name_rows(modern: DataFrame, names: DataFrame) -> DataFrame:
    used = modern.select("cluster", "group_id", "log_partition", fn.explode(_ids("payload")).alias("topic_id")).distinct()
    known = used.join(fn.broadcast(names), "topic_id")
    entries = fn.map_from_entries(fn.collect_set(fn.struct("topic_id", "topic")))
    rows = known.groupBy("cluster", "group_id", "log_partition").agg(fn.to_json(entries).alias("payload"))
    return rows.select(
        "cluster",
        "group_id",
        "log_partition",
        fn.lit(-1).cast("bigint").alias("log_offset"),
        fn.lit(None).cast("timestamp").alias("log_ts"),
        fn.lit(False).alias("deleted"),
        fn.lit(NAMES).alias("record_type"),
        fn.lit(None).cast("string").alias("member_id"),
        "payload",
    )


def _ids(payload: str) -> Any:
    return fn.expr(f'regexp_extract_all({payload}, \'"topic_id":"([^"]+)"\', 1)')
