"""Functions from DataFrame to DataFrame for Spark jobs: those of `decode`, and `rebalances`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from counterpoise.pipeline import decode
from counterpoise.pipeline.history.modern_fold import NAMES
from counterpoise.pipeline.history.steps import steps_of_group
from counterpoise.pipeline.records.group_records import portions
from counterpoise.pipeline.schemas import TABLES

__all__ = ["decode", "rebalances"]

_CLASSIC = ("protocol_type", "protocol", "generation", "leader", "state_ts", "members", "leader_library")


def rebalances(generations: DataFrame, modern: DataFrame, names: Mapping[str, str] | None = None) -> DataFrame:
    """Table `rebalances` from the tables `group_generations` and `modern_group_records` of `decode`.

    `names`: topic id -> topic; steps of KIP-848 groups have the id of a topic without a name. One shuffle and one sort of the
    group records, none of commits.
    """
    common = ("cluster", "group_id", "log_partition", "log_offset", "log_ts", "deleted")
    classic = generations.select(*common, *_CLASSIC, fn.lit(None).cast("int").alias("record_type"))
    others = modern.select(*common, "record_type", "member_id", "payload")
    ordered = (
        classic.unionByName(others, allowMissingColumns=True)
        .repartition("cluster", "group_id")
        .sortWithinPartitions("cluster", "group_id", "log_partition", "log_offset")
    )
    return ordered.mapInArrow(partial(_fold_batches, names or {}), from_arrow_schema(TABLES["rebalances"]))


def _fold_batches(names: Mapping[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Records sorted by cluster, group and log offset -> rows of table `rebalances`."""
    rows = (row for batch in batches for portion in portions(batch) for row in portion.to_pylist())
    steps: list[dict[str, Any]] = []
    weight = 0
    for (cluster, group), mine in groupby(rows, key=lambda row: (row["cluster"], row["group_id"])):
        for step in steps_of_group(chain([{"record_type": NAMES, "value": names}], mine)):
            steps.append({"cluster": cluster, "group_id": group, **step})
            topics = sum(len(one["topics"]) for one in step.get("subscriptions") or ())
            weight += 1 + ((step.get("n_partitions") or 0) + 4 * topics) // 64
            if weight >= 2000:  # fewer rows if they are large
                yield pa.RecordBatch.from_pylist(steps, schema=TABLES["rebalances"])
                steps, weight = [], 0
    if steps:
        yield pa.RecordBatch.from_pylist(steps, schema=TABLES["rebalances"])
