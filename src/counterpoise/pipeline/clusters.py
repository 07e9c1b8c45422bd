"""Records of several clusters decoded to one table each, and what is seen of commits on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as fn

from counterpoise.pipeline import decode
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.timelines.log_ends import disagreeing
from counterpoise.pipeline.timelines.timeline import looks_transactional

__all__ = ["decode_errors", "disagreeing_samples", "group_records", "observed_commits", "samples_of", "union"]


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """All rows of one or more tables with the same columns."""
    return reduce(DataFrame.unionByName, parts)


def group_records(rests: Mapping[str, DataFrame]) -> tuple[DataFrame, DataFrame]:
    """`group_generations` and `modern_group_records` of the records that are no commits, by cluster."""
    return (
        union([decode.group_generations(rest, name) for name, rest in rests.items()]),
        union([decode.modern_group_records(rest, name) for name, rest in rests.items()]),
    )


def decode_errors(records: Mapping[str, DataFrame]) -> DataFrame:
    """`decode_errors` of records by cluster."""
    return union([decode.decode_errors(one, name) for name, one in records.items()])


def samples_of(captures: Mapping[str, Capture]) -> DataFrame | None:
    """``cluster, at``: when log ends were sampled; None where they were in no cluster."""
    ends = [(name, one.log_ends) for name, one in captures.items() if one.log_ends is not None]
    parts = [table.select(fn.lit(name).alias("cluster"), fn.col("sampled_at").alias("at")) for name, table in ends]
    return union(parts) if parts else None


def disagreeing_samples(captures: Mapping[str, Capture]) -> dict[str, int]:
    """Per cluster of how many logs and instants there are samples that differ; by Spark."""
    return {name: 0 if one.log_ends is None else disagreeing(one.log_ends) for name, one in captures.items()}


def observed_commits(records: Mapping[str, DataFrame]) -> tuple[DataFrame, Observation]:
    """Commits of records by cluster, decoded or not, and what is seen of them once the table was made.

    Returns
    -------
    DataFrame
        As `decode.decoded_commits`; `group_id` is null where a record could not be decoded.
    Observation
        ``errors, tombstones, decoded, transactional, first, last``, and ``end0``, ``end1``, .. : the last time of each cluster.
    """
    seen = Observation()
    commits = union([decode.decoded_commits(one, name) for name, one in records.items()]).observe(
        seen,
        fn.count(fn.when(fn.col("group_id").isNull(), 1)).alias("errors"),
        fn.count(fn.when(fn.col("deleted"), 1)).alias("tombstones"),
        fn.count("group_id").alias("decoded"),
        fn.count(fn.when(looks_transactional(), 1)).alias("transactional"),
        fn.min("log_ts").alias("first"),
        fn.max("log_ts").alias("last"),
        *(fn.max(fn.when(fn.col("cluster") == name, fn.col("log_ts"))).alias(f"end{at}") for at, name in enumerate(records)),
    )
    return commits, seen
