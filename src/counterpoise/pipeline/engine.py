"""The one path of every audit: scan, Spark's shuffle by bucket of groups, fold, rank.

A whole audit is an update from no state. Tasks write the files of tables and return manifests; a file that no manifest names (of
a task that failed or ran twice) is ignored.

Long because the stages share one plan of splits, buckets and manifests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import accumulate
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.findings.ranking import rank_all
from counterpoise.pipeline.fold.bucket import FoldSpec
from counterpoise.pipeline.fold.ends_file import EndsFile
from counterpoise.pipeline.fold.task import ClusterFold
from counterpoise.pipeline.incremental.saved import ClusterState
from counterpoise.pipeline.scan.group_filter import GroupFilter
from counterpoise.pipeline.scan.offset_spans import Flush, chunk_starts, overlapping
from counterpoise.pipeline.scan.read import InputSplit, plan_splits, splits_before
from counterpoise.pipeline.scan.scan import ScanSpec
from counterpoise.pipeline.session import configured
from counterpoise.pipeline.shuffle.blocks import BLOCKS, MANIFEST, ClusterTask, bucket_count
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.source.spark_records import in_window, new_records
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.transaction import TableTransaction
from counterpoise.pipeline.tasks import fold_blocks, groups, newest, read_splits, read_states, scan_records

__all__ = ["ClusterInput", "Engine", "Job"]

_RAW_ROWS = "key binary, value binary, partition int, offset long, timestamp timestamp"
_GROUPS = "group_id string, chosen boolean"
_SMALL_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
    "spark.sql.execution.arrow.maxBytesPerBatch": "4194304",
}
"""For blocks, which may have some megabytes each."""
_FOLD_BYTES = 8 << 20
"""Bytes of blocks per fold task."""


@dataclass(frozen=True)
class Job:
    """One audit of one or more clusters."""

    captures: Mapping[str, Capture]  # By cluster name
    transaction: TableTransaction  # It is open
    strategies: Sequence[str]
    scope: AuditScope
    salt: str | None  # Names in tables are hashed with it; None: they are not
    into: Catalog | None  # Tables of a catalog that get the same rows


@dataclass(frozen=True)
class ClusterInput:
    """The input of one cluster."""

    record_files: tuple[str, ...]  # The files of the capture's records to read
    ends: EndsFile  # Its samples of log ends
    last: ClusterState = field(default_factory=ClusterState)  # What the previous update saved


class Engine:
    """The stages of an audit, in the order `scan`, `fold`, `rank`.

    `work` is a folder for files that tasks share, a path or a URI; the caller deletes it. `write_states`: states for the next
    update are written.
    """

    def __init__(
        self, spark: SparkSession, job: Job, clusters: Mapping[str, ClusterInput], work: str, *, write_states: bool
    ) -> None:
        self._spark, self._job, self._work, self._scope, self._write_states = spark, job, work, job.scope, write_states
        self._files = job.transaction.new_files
        self._parallelism = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        files = {name: one.record_files for name, one in clusters.items()}
        begins = {name: one.last.positions for name, one in clusters.items()}
        self._splits, records = plan_splits(files, self._parallelism, begins)
        counts = {name: None if one.records is not None else records for name, one in job.captures.items()}
        self.clusters = clusters
        buckets = [one.last.buckets or bucket_count(counts[name]) for name, one in clusters.items()]
        numbered = zip(clusters, accumulate(buckets, initial=0), buckets, strict=False)
        self.tasks = {name: ClusterTask(name, self._files, first, n, job.salt) for name, first, n in numbered}
        self.groups: dict[str, dict[str, bool]] = {}  # cluster name -> `ClusterState.groups` after `scan`
        self.scanned: list[dict[str, Any]] = []  # manifests of scan tasks
        self.folded: list[dict[str, Any]] = []  # manifests of fold tasks
        self.ranked: dict[str, Any] = {}  # the result of `rank_all`
        self._blocks: DataFrame | None = None

    def scan(self) -> None:
        """Decode all records; persists the blocks for `fold`. Raises `CaptureError` if a capture has a record twice."""
        specs = self._scan_specs()
        unsorted = self._scan(specs, set())
        if unsorted:
            self.close()
            # They are not in the order of the log: Spark sorts them first. What is still not in order is there twice.
            for name, partitions in sorted(self._scan(specs, set(unsorted)).items()):
                self._refuse_duplicates(name, partitions)

    def _scan(self, specs: Mapping[str, ScanSpec], sort: set[str]) -> dict[str, list[int]]:
        """Scan all clusters, those in `sort` sorted. Returns cluster -> log partitions that are out of order in the window."""
        blocks = self._blocks_of(specs, sort).persist(StorageLevel.DISK_ONLY)
        self._blocks = blocks
        rows = blocks.where(fn.col("bucket") == MANIFEST).select("payload").collect()
        self.scanned = [json.loads(bytes(row["payload"])) for row in rows]
        # Earlier flushes are compacted: they have no record twice, but later offsets if a broker's clock fell.
        since = -NEVER if self._scope.window[0] is None else self._scope.window[0]
        unsorted = {name: overlapping(one for one in self._flushes(name) if one[0] >= since) for name in self.clusters}
        return {name: partitions for name, partitions in unsorted.items() if partitions}

    def _flushes(self, name: str) -> list[Flush]:
        return [(time, spans) for one in self.scanned if one["cluster"] == name for time, spans in one["flushes"]]

    def _blocks_of(self, specs: Mapping[str, ScanSpec], sort: set[str]) -> DataFrame:
        parts, since = [], self._scope.window[0]
        place_of, clusters = self._job.transaction.place_of, self.clusters.items()
        if states := [(place_of(file), self.tasks[name].first_bucket) for name, one in clusters for file in one.last.states]:
            parts.append(self._range(len(states)).mapInArrow(partial(read_states, states), BLOCKS))
        for name in self.clusters:
            records, splits = self._rows_or_numbers(name, self._splits[name])
            if name in sort:
                count = max(self._parallelism, len(self._splits[name]))
                records, splits = self._raw_records(name).repartitionByRange(count, "partition", "offset"), None
                records = records.sortWithinPartitions("partition", "offset")
            parts.append(records.mapInArrow(partial(scan_records, specs[name], splits), BLOCKS))
            if since is not None and not self.clusters[name].last.positions:
                spec = replace(specs[name], window=(None, None))
                parts.append(self._compacted(name, since).mapInArrow(partial(scan_records, spec, None), BLOCKS))
        return reduce(DataFrame.unionAll, parts)

    def _compacted(self, name: str, since: int) -> DataFrame:
        """The records before the window, compacted: the newest record of each key, sorted.

        So groups without records in the window are known, with their members.
        """
        aborted = self._job.captures[name].files.aborted_records or frozenset()
        records, splits = self._rows_or_numbers(name, splits_before(self._splits[name], since))
        rows = records.mapInArrow(partial(newest, since, aborted, splits), _RAW_ROWS)
        last = fn.max_by(fn.struct("value", "offset", "timestamp"), "offset").alias("newest")
        kept = rows.groupBy("partition", "key").agg(last).where("newest.value is not null")
        kept = kept.select("key", "newest.value", "partition", "newest.offset", "newest.timestamp")
        return kept.repartitionByRange(self._parallelism, "partition", "offset").sortWithinPartitions("partition", "offset")

    def _raw_records(self, name: str) -> DataFrame:
        """The raw records of a cluster as a DataFrame."""
        records, splits = self._rows_or_numbers(name, self._splits[name])
        return records if splits is None else records.mapInArrow(partial(read_splits, splits), _RAW_ROWS)

    def _rows_or_numbers(self, name: str, splits: list[InputSplit]) -> tuple[DataFrame, list[InputSplit] | None]:
        """The rows of a cluster whose source is a DataFrame, and None; otherwise the numbers of the splits, and the splits."""
        given, begin = self._job.captures[name].records, self.clusters[name].last.positions
        return (self._range(len(splits)), splits) if given is None else (new_records(given, begin), None)

    def _refuse_duplicates(self, name: str, partitions: Sequence[int]) -> None:
        rows = self._raw_records(name).where(fn.col("partition").isin(*partitions))
        counted = in_window(rows, self._scope).groupBy("partition", "offset").count().where("count > 1")
        first = fn.min(fn.struct("partition", "offset")).alias("first")
        repeats = counted.agg(fn.sum(fn.col("count") - 1).alias("n"), first).collect()[0]
        if repeats["n"]:
            partition, offset = repeats["first"]
            words = f"records there more than once: {repeats['n']:,}, the first at offset {offset} of log partition {partition}"
            place = "drop the repeats, or give overlapping recordings one by one"
            source = self._job.captures[name]
            where = source.place if source.records is None else f"cluster {name}"
            raise CaptureError(f"{where}: {words}; {place}")

    def _range(self, count: int) -> DataFrame:
        return self._spark.range(0, count, 1, max(count, 1))

    def _scan_specs(self) -> dict[str, ScanSpec]:
        filters = self._filters()
        return {
            name: ScanSpec(
                self.tasks[name],
                instants=tuple(one.ends.instants.tolist()),
                aggregate_until=int(one.ends.instants[-1]) if self._write_states and len(one.ends.instants) else NEVER,
                aborted=self._job.captures[name].files.aborted_records or frozenset(),
                groups=filters[name],
                begin=one.last.positions,
                window=self._scope.window,
            )
            for name, one in self.clusters.items()
        }

    def _filters(self) -> dict[str, GroupFilter]:
        """The filter of groups per cluster; if the scope has topics, all records are decoded to find their groups."""
        patterns, topics = self._scope.groups, self._scope.topics
        if not topics:
            return {name: GroupFilter(patterns) for name in self.clusters}
        for name, one in self.clusters.items():
            records, splits = self._rows_or_numbers(name, self._splits[name])
            used = records.mapInArrow(partial(groups, topics, splits), _GROUPS)
            rows = used.groupBy("group_id").agg(fn.max("chosen").alias("chosen")).collect()
            new, known = {row["group_id"]: row["chosen"] for row in rows}, one.last.groups
            self.groups[name] = {group: new.get(group, False) or known.get(group, False) for group in {**known, **new}}
        return {
            name: GroupFilter(patterns, frozenset(group for group, chosen in known.items() if chosen))
            for name, known in self.groups.items()
        }

    def last_record_time(self, cluster: str) -> int | None:
        """The time of the last scanned record of a cluster, in microseconds; None: it has no record."""
        mine = [one for one in self.scanned if one["cluster"] == cluster]
        return max((one["times"][1] for one in mine if one["times"]), default=None)

    def topic_names(self) -> dict[str, str]:
        """Topic id -> name, by the commits of all clusters and by metadata."""
        names: dict[str, str] = {}
        for one in self.clusters.values():
            names |= one.last.names
        names |= dict(sorted(tuple(pair) for about in self.scanned for pair in about["names"]))
        for capture in self._job.captures.values():
            names |= {topic_id: topic for topic, topic_id in sorted((capture.files.topic_ids or {}).items())}
        return names

    def fold(self, last_times: Mapping[str, int], watermarks: Mapping[str, int]) -> None:
        """Fold the blocks of `scan`, and unpersist them.

        `last_times`: cluster name -> time of its last record, in microseconds. `watermarks`: cluster name -> the
        watermark, in microseconds (`positions.watermark_of`); without one no sample or record follows.
        """
        blocks = self._blocks
        assert blocks is not None, "scan first"
        names = self.topic_names()
        clusters = [
            ClusterFold(
                self.tasks[name],
                ends=one.ends.share(self._work),
                spec=FoldSpec(
                    strategies=tuple(self._job.strategies),
                    names=names,
                    ids_at_end=one.ends.ids_at_end(self._job.captures[name].files, self._scope.window[1]),
                    scope=self._scope,
                    watermark=watermarks.get(name, NEVER),
                    gaps=self._job.captures[name].gaps,
                ),
                chunk_starts=frozenset(chunk_starts(self._flushes(name))),
                end=last_times[name],
                write_states=self._write_states,
            )
            for name, one in self.clusters.items()
        ]
        data = blocks.where(fn.col("bucket") != MANIFEST)
        size = sum(about["bytes"] for about in self.scanned)
        tasks = min(sum(one.buckets for one in self.tasks.values()), max(self._parallelism, size // _FOLD_BYTES))
        with configured(self._spark, _SMALL_BATCHES):
            sorted_ = data.repartition(tasks, "bucket").sortWithinPartitions("bucket", "first_time", "kind")
            rows = sorted_.mapInArrow(partial(fold_blocks, clusters), "manifest string").collect()
        self.folded = [json.loads(row["manifest"]) for row in rows]
        self.close()

    def close(self) -> None:
        """Unpersist the blocks of `scan`."""
        if self._blocks is not None:
            self._blocks.unpersist()
            self._blocks = None

    def rank(self, last_times: Mapping[str, int]) -> None:
        """Write `findings` and `actions`, after `fold`. `last_times` is that of `fold`."""
        self.ranked = rank_all(self.folded, self._files, last_times)

    def tables(self, kind: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield table, cluster, and the manifest of its files: with final rows ("tables") or provisional ones ("provisional")."""
        of_table = self.ranked["tables"].items() if kind == "tables" else ()
        ranked = [{"cluster": name, kind: {table: one}} for table, of in of_table for name, one in of.items()]
        for manifest in (*self.scanned, *self.folded, *ranked):
            for table, one in manifest.get(kind, {}).items():
                yield table, manifest["cluster"], one
