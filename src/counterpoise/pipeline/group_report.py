"""Table `group_report`: one row per group, everything the findings and the page say about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from counterpoise.pipeline.findings.advice import advice, fidelity_note
from counterpoise.pipeline.folds.history import history_of
from counterpoise.pipeline.lag import lag_now
from counterpoise.pipeline.polls import poll_kicks
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.grouped import by_group
from counterpoise.pipeline.schemas import GROUP_REPORT
from counterpoise.pipeline.standstill import with_standstill
from counterpoise.pipeline.stops import stops_by_group

__all__ = [
    "JUDGED",
    "LAG_NAMED",
    "WITH_COMMIT",
    "advise_batches",
    "commit_counts",
    "fidelity",
    "finished_report",
    "group_report",
    "histories",
    "lag_by_group",
    "latest_figures",
    "libraries",
    "mean_ratio",
    "report_parts",
    "strategy_runs",
]

_KEY = ["cluster", "group_id"]
_BEFORE_COMMITS = GROUP_REPORT.fields[: GROUP_REPORT.names.index("commits")]
_OF_STEPS = [field for field in _BEFORE_COMMITS if field.name not in ("libraries", "rebalances_per_day")]
_LATER = (
    *("polled", "generation_now", "failed_generation", "restart_clients", "leave_clients"),
    *("sync_latency_ts", "failed_ts", "busiest_clients"),
)
HISTORY = StructType([*_OF_STEPS, *(GROUP_REPORT[name] for name in _LATER)])
_SAMPLED = "sampled_partitions"
_COUNTS = ("judged", "matched", "ties", "worse", "lives")
LAG_NAMED = 5
"""So many partitions of the member with most lag are named, those with most of it."""
WITH_COMMIT = ("exact", "interpolated")
"""The qualities of a row of `partition_lag` that has a commit."""
JUDGED = StructType([*GROUP_REPORT.fields, *(StructField(name, GROUP_REPORT["generations"].dataType) for name in _COUNTS[1:])])
"""What advice is given on: `GROUP_REPORT`, how generations that do not match differ, under how many protocols it has lived."""


def group_report(
    rebalances: DataFrame,
    generations: DataFrame,
    modern: DataFrame,
    metrics: DataFrame,
    commits: DataFrame,
    lag: DataFrame,
    stops: DataFrame,
    counts: DataFrame | None = None,
) -> DataFrame:
    """Table `group_report` from the tables before it; joins per-group sums only.

    `counts` are those of `commit_counts`, if they are known already; of `commits` then only the last `log_ts` matters.
    """
    joined = report_parts(rebalances, generations, modern, metrics, commits, stops, counts)
    return finished_report(joined, lag, rebalances, commits)


def report_parts(
    rebalances: DataFrame,
    generations: DataFrame,
    modern: DataFrame,
    metrics: DataFrame,
    commits: DataFrame,
    stops: DataFrame,
    counts: DataFrame | None = None,
) -> DataFrame:
    """Per group: all that `group_report` is made of but lag and what depends on how long the others were recorded."""
    parts = [
        commit_counts(commits) if counts is None else counts,
        libraries(generations),
        strategy_runs(metrics),
        latest_figures(metrics),
        fidelity(metrics),
        stops_by_group(stops),
        poll_kicks(rebalances, generations, modern, stops),
    ]
    return _side_by_side([histories(rebalances), *parts])


def finished_report(parts: DataFrame, lag: DataFrame, rebalances: DataFrame, commits: DataFrame) -> DataFrame:
    """Table `group_report` from `report_parts` of all groups, `partition_lag`, and the tables that say when recordings end."""
    joined = parts.join(lag_by_group(lag), _KEY, "left")
    ends = rebalances.select("cluster", "log_ts").unionByName(commits.select("cluster", "log_ts"))
    span = ends.groupBy("cluster").agg(fn.max("log_ts").alias("to"))
    known = set(joined.columns)
    columns = [_column(field, known) for field in JUDGED.fields]
    rows = joined.join(fn.broadcast(span), "cluster").select(*columns)
    return rows.mapInArrow(advise_batches, GROUP_REPORT)


def _side_by_side(parts: Sequence[DataFrame]) -> DataFrame:
    """Parts with at most one row per group as one row per group: a union and one shuffle, not a join for each part."""
    tagged = []
    for at, part in enumerate(parts):
        about = fn.struct(*(name for name in part.columns if name not in _KEY)).alias(f"part{at}")
        tagged.append(part.select(*_KEY, about))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tagged)
    firsts = [fn.first(f"part{at}", ignorenulls=True).alias(f"part{at}") for at in range(len(parts))]
    return rows.groupBy(*_KEY).agg(*firsts).select(*_KEY, *(f"part{at}.*" for at in range(len(parts))))


def histories(rebalances: DataFrame) -> DataFrame:
    """Per group: its steps summed up (`history.history_of`)."""
    first_only = "transform(m.assigned, a -> struct(a.topic, slice(a.partitions, 1, 1) as partitions, size(a.partitions) as n))"
    slim = f"transform(assignment, m -> struct(m.member_id, m.client_id, {first_only} as assigned))"
    rows = rebalances.withColumn("assignment", fn.expr(slim)).drop("detail", "n_kept", "subscriptions")
    ordered = rows.repartition(*_KEY).sortWithinPartitions(*_KEY, "log_partition", "log_offset")
    return ordered.mapInArrow(_history_batches, HISTORY)


def commit_counts(commits: DataFrame) -> DataFrame:
    """Per group: commits, tombstones, first and last commit."""
    live = ~fn.col("deleted")
    return commits.groupBy(*_KEY).agg(
        fn.count(fn.when(live, 1)).alias("commits"),
        fn.count(fn.when(fn.col("deleted"), 1)).alias("commit_tombstones"),
        fn.min(fn.when(live, fn.col("log_ts"))).alias("first_commit"),
        fn.max(fn.when(live, fn.col("log_ts"))).alias("last_commit"),
        fn.max_by("deleted", "log_offset").alias("commits_gone"),
    )


def libraries(generations: DataFrame) -> DataFrame:
    """Per group: the client libraries of its members."""
    one = generations.select(*_KEY, fn.explode(fn.expr("array_distinct(transform(members, m -> m.library))")).alias("library"))
    return one.groupBy(*_KEY).agg(fn.array_sort(fn.collect_set("library")).alias("libraries"))


def _by_broker() -> Column:
    """A group is judged by its life under the protocol it has now: what it left behind is no longer to be changed."""
    return (fn.col("protocol_kind") == "server").alias("by_broker")


def strategy_runs(metrics: DataFrame) -> DataFrame:
    """Per group: the sums of every strategy and mode, observed first, and under how many protocols it has lived."""
    sums = metrics.groupBy(*_KEY, _by_broker(), "strategy", "mode").agg(
        fn.max("log_offset").alias("last"),
        fn.sum("moved").alias("moved"),
        fn.sum("revoked").alias("revoked"),
        fn.max("spread").alias("spread_peak"),
        fn.max("max_topic_spread").alias("topic_spread_peak"),
        fn.sum(fn.col("balanced").cast("bigint")).alias("balanced"),
        fn.count("*").alias("generations"),
        fn.max("max_member_lag").alias("lag_peak"),
        mean_ratio().alias("makespan_ratio"),
        fn.lit(None).cast("double").alias("stopped_seconds"),  # known when the stops are: `with_standstill`
    )
    names = ["strategy", "mode", "moved", "revoked", "spread_peak", "topic_spread_peak", "balanced", "generations"]
    names += ["lag_peak", "makespan_ratio", "stopped_seconds"]
    runs = fn.array_sort(fn.collect_list(fn.struct(*names))).alias("strategies")
    lives = sums.groupBy(*_KEY, "by_broker").agg(runs, fn.max("last").alias("last"))
    return lives.groupBy(*_KEY).agg(fn.max_by("strategies", "last").alias("strategies"), fn.count("*").alias("lives"))


def mean_ratio() -> Column:
    """The mean of `makespan_ratio`, of whole millionths: a sum of fractions would depend on the order in which rows come."""
    ratio = fn.col("makespan_ratio")
    return fn.sum(fn.round(ratio * 1_000_000).cast("bigint")) / 1_000_000 / fn.count(ratio)


def latest_figures(metrics: DataFrame) -> DataFrame:
    """Per group: observed spread now and at its worst, moves, and moves that a plan at least as balanced did not need."""
    seen = metrics.where("strategy = 'observed'")
    excess = fn.greatest(fn.col("moved") - fn.col("min_moves"), fn.lit(0))
    lives = seen.groupBy(*_KEY, _by_broker()).agg(
        fn.max("log_offset").alias("last"),
        fn.max_by("spread", "log_offset").alias("spread_now"),
        fn.max("spread").alias("spread_peak"),
        fn.max_by("max_topic_spread", "log_offset").alias("topic_spread_now"),
        fn.max_by("n_skewed_topics", "log_offset").alias("n_skewed_topics"),
        fn.max_by("skewed_topics", "log_offset").alias("skewed_topics"),
        fn.sum("moved").cast("int").alias("observed_moved"),
        fn.sum("revoked").cast("int").alias("observed_revoked"),
        fn.sum(excess).cast("int").alias("needless_moves"),
        fn.min_by("generation", fn.struct(-excess, "log_offset")).alias("needless_generation"),  # of equals the first
        fn.min_by("log_ts", fn.struct(-excess, "log_offset")).alias("needless_ts"),
    )
    figures = [name for name in lives.columns if name not in (*_KEY, "by_broker", "last")]
    return lives.groupBy(*_KEY).agg(fn.max_by(fn.struct(*figures), "last").alias("now")).select(*_KEY, "now.*")


def fidelity(metrics: DataFrame) -> DataFrame:
    """Per group: in how many generations the declared strategy reproduces the record, and what the others are."""
    key = [*_KEY, "incarnation", "generation", "log_offset"]
    seen = metrics.where("strategy = 'observed'").select(*key, fn.struct("kip54_score", "moved", "unassigned").alias("seen"))
    ours = metrics.where("declared and mode = 'replay'").join(seen, key)
    score, moved = fn.col("seen.kip54_score"), fn.col("seen.moved")
    differs = ~fn.col("matches_observed")
    tie = differs & (score == fn.col("kip54_score")) & (moved == fn.col("moved"))
    worse = differs & ((score > fn.col("kip54_score")) | ((score == fn.col("kip54_score")) & (moved > fn.col("moved"))))
    by_library = ours.groupBy(*_KEY, fn.coalesce("leader_library", fn.lit("unknown")).alias("by")).agg(
        fn.count("*").alias("n"),
        fn.count(fn.when(fn.col("matches_observed"), 1)).alias("m"),
        fn.count(fn.when(tie, 1)).alias("t"),
        fn.count(fn.when(worse, 1)).alias("w"),
    )
    share = fn.map_from_entries(fn.array_sort(fn.collect_list(fn.struct("by", (fn.col("m") / fn.col("n")).alias("share")))))
    return by_library.groupBy(*_KEY).agg(
        fn.sum("n").cast("int").alias("judged_generations"),
        fn.sum("m").cast("int").alias("matched"),
        fn.sum("t").cast("int").alias("ties"),
        fn.sum("w").cast("int").alias("worse"),
        (fn.sum("m") / fn.sum("n")).alias("replay_fidelity"),
        share.alias("fidelity_by_library"),
    )


def lag_by_group(lag: DataFrame) -> DataFrame:
    """Per group: lag at the last sample, its quality, the member that owns most of it, and its partitions with a commit."""
    now = lag_now(lag)
    behind = fn.when(fn.col("lag") > 0, fn.struct((-fn.col("lag")).alias("n"), "topic", "partition"))
    worst = fn.slice(fn.array_sort(fn.collect_list(behind)), 1, LAG_NAMED)
    owners = now.groupBy(*_KEY, "owner").agg(
        fn.sum("lag").alias("lag"),
        fn.min(fn.when(fn.col("quality") == "exact", 1).otherwise(0)).alias("exact"),
        fn.transform(worst, lambda one: fn.struct(one["topic"], one["partition"], (-one["n"]).alias("lag"))).alias("worst"),
        fn.count(fn.when(fn.col("quality").isin(*WITH_COMMIT), 1)).alias("committed"),
    )
    total = fn.sum("lag")
    most = fn.when(fn.col("owner").isNotNull() & fn.col("lag").isNotNull(), fn.struct(-fn.col("lag"), "owner"))
    return owners.groupBy(*_KEY).agg(
        total.alias("lag_now"),
        fn.when(fn.min("exact") == 1, "exact").otherwise("unknown").alias("lag_quality"),
        fn.min_by("owner", most).alias("lag_owner"),
        fn.min_by("worst", most).alias("lag_partitions"),
        (fn.max(fn.when(fn.col("owner").isNotNull(), fn.col("lag"))) / fn.when(total > 0, total)).alias("lag_owner_share"),
        fn.expr("nullif(sum(committed), 0)").alias(_SAMPLED),
    )


def advise_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of `JUDGED` -> rows of `GROUP_REPORT` with advice and the reason for a low fidelity."""
    schema = arrow_schema(GROUP_REPORT)
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            matched, ties, worse, lives = (row.pop(name) or 0 for name in _COUNTS[1:])
            note = fidelity_note(row["judged_generations"] or 0, matched, ties, worse, row["leader_libraries"] or [])
            row["strategies"] = with_standstill(row, lives)
            rows.append({**row, "fidelity_note": note, **advice(row)})
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _history_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(HISTORY)
    pending: list[dict[str, Any]] = []
    for (cluster, group), steps in by_group(batches):
        row = history_of(steps)
        row["causes"] = list(row["causes"].items())
        pending.append({"cluster": cluster, "group_id": group, **row})
        if len(pending) >= 1000:
            yield pa.RecordBatch.from_pylist(pending, schema=schema)
            pending = []
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=schema)


def _column(field: StructField, known: set[str]) -> Column:
    if field.name == "rebalances_per_day":
        seconds = fn.col("to").cast("double") - fn.least("first_ts", "first_commit").cast("double")
        rate = fn.when(seconds >= 3600, fn.col("rebalances") * 86400 / seconds)
        return rate.alias(field.name)
    # A group of which only its tombstone was recorded has no type; commits say that it was none with members (docs/audit.md).
    simple = fn.col("group_type").isNull() & (fn.col("first_ts").isNull() | (fn.col("commits") > 0))
    if field.name == "group_type":
        return fn.when(simple, "simple").otherwise(fn.coalesce("group_type", fn.lit("classic"))).alias(field.name)
    if field.name == "state":
        gone = fn.when(fn.col("commits_gone"), "deleted").otherwise("commits_only")
        return fn.when(simple, gone).otherwise(fn.col("state")).alias(field.name)
    if field.name == "complete":
        return fn.when(~simple, fn.col("complete")).alias(field.name)
    if field.name == "committed_partitions":
        # Stops are told between steps: of a group without any there are none.
        return fn.coalesce("committed_partitions", _SAMPLED).alias(field.name)
    if field.name not in known:
        return fn.lit(None).cast(field.dataType).alias(field.name)
    return fn.col(field.name).cast(field.dataType).alias(field.name)
