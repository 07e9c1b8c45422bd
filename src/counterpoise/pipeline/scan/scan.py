"""One scan task: raw records to rows of `offset_commits` and `decode_errors`, and to blocks by bucket of groups.

Commits of a partition become one row, until a sample of log ends or another record of the group comes. All other records are
shuffled as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.arrays import NEVER, run_starts, slices, widened
from counterpoise.pipeline.records.commits import CODED_COLUMNS
from counterpoise.pipeline.records.group_records import error_rows
from counterpoise.pipeline.records.place import PLACE
from counterpoise.pipeline.scan.aggregation import AggregateBuffer, Aggregates, aggregate_table
from counterpoise.pipeline.scan.group_filter import GroupFilter
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.scan.offset_spans import OffsetSpans
from counterpoise.pipeline.scan.read import RAW_SCHEMA, Window, are_commits, rows_from, without_dictionaries
from counterpoise.pipeline.shuffle.blocks import COMMITS, MANIFEST, RECORDS, Block, ClusterTask, bucket_of, to_stream
from counterpoise.pipeline.tables.writers import TableWriter
from counterpoise.wire.offsets_topic.batch import CommitBatch
from counterpoise.wire.offsets_topic.keys import group_of

__all__ = ["ScanSpec", "scan"]

_DIFFERENT = 4_000_000
_RISING = ("log_offset", "log_ts", "committed_offset", "commit_ts")
_SPANNED = ("log_partition", "log_offset", "log_ts")
_RECORD_BYTES = 3 << 20
"""A task flushes its blocks when it holds more bytes of group records than this."""
_TABLE_ROWS = 16_384
"""Rows per Arrow table. A bucket is not split, so one with more rows makes a larger table."""
_SINGLE = 1 << 42
"""Cell numbers from here on are for single commits, which are not aggregated."""


@dataclass(frozen=True)
class ScanSpec:
    """The parameters of a scan task for one cluster."""

    task: ClusterTask
    instants: tuple[int, ...] = ()  # Times of samples of log ends, in microseconds, ascending: no aggregate spans one
    # Commits after this time, in microseconds, are not aggregated: a sample that is recorded later may lie between them
    aggregate_until: int = NEVER
    # (log partition, offset) of records of aborted transactions. They are in `offset_commits`, but not in the aggregates.
    aborted: frozenset[tuple[int, int]] = frozenset()
    groups: GroupFilter = field(default_factory=GroupFilter)  # All records are counted; only those of these groups are in tables
    # Log partition -> the first offset to read; of other log partitions all records are read. If it is not empty, records
    # without a place in the log are skipped: the previous update has counted them.
    begin: Mapping[int, int] = field(default_factory=dict)
    window: Window = (None, None)  # Records of other times are skipped


def scan(batches: Iterable[pa.RecordBatch], spec: ScanSpec) -> Iterator[list[Block]]:
    """Yield the blocks of the records; the last one is the task's manifest.

    The manifest holds counts, files by table and day, and names of topic ids; for each flush, its earliest time and its spans of
    offsets. `last`: the last record (offset and time) of each log partition. `before_begin`: the record at offset
    `ScanSpec.begin` - 1, if it was read. `skipped`: there are records before `begin` or outside the window. `early`: some records
    from `begin` on are before the window.
    """
    with _Scan(spec) as task:
        for batch in batches:
            yield from task.add(batch)
            del batch
        yield task.flush()
    yield [Block(MANIFEST, 0, 0, json.dumps(task.manifest).encode())]


class _Scan(ExitStack):
    """The state of a scan task."""

    def __init__(self, spec: ScanSpec) -> None:
        super().__init__()
        self._spec = spec
        self._keys = KeyDictionary(spec.groups.fitting)
        writer = partial(TableWriter, spec.task.files, spec.task.cluster, salt=spec.task.salt)
        self._commits = self.enter_context(writer("offset_commits", schema=CODED_COLUMNS, rising=_RISING, spanned=_SPANNED))
        self._errors = self.enter_context(writer("decode_errors"))
        self._held = AggregateBuffer()
        self._ids: dict[str, int] = {}
        self._records: list[pa.RecordBatch] = []
        self._record_bytes = 0
        self._seen_of_group = np.zeros(0, np.int64)
        self._spans, self._first = OffsetSpans(), NEVER
        self._rows = self._bytes = 0
        self._counts = dict.fromkeys(("errors", "tombstones", "decoded", "transactional"), 0)
        self._kinds, self._deleted = Counter[int | None](), Counter[int | None]()
        self._times: tuple[int, int] | None = None
        self._last: dict[int, tuple[int, int]] = {}
        self._before_begin: dict[int, tuple[int, int]] = {}
        self._skipped = self._early = False
        self._names: set[tuple[str, str]] = set()
        self._flushes: list[list[Any]] = []
        self._instants = np.array(spec.instants, np.int64)
        self._aborted_offsets = np.array(sorted({offset for _, offset in spec.aborted}), np.int64)

    @property
    def manifest(self) -> dict[str, Any]:
        """Complete after the last flush, when the files are closed."""
        return {
            "cluster": self._spec.task.cluster,
            **self._counts,
            "times": self._times,
            "last": [[partition, *last] for partition, last in self._last.items()],
            "before_begin": [[partition, *place] for partition, place in self._before_begin.items()],
            "skipped": self._skipped,
            "early": self._early,
            "kinds": [[kind, n, self._deleted[kind]] for kind, n in self._kinds.items()],
            "names": sorted(self._names),
            "flushes": self._flushes,
            "bytes": self._bytes,
            "tables": {"offset_commits": self._commits.manifest, "decode_errors": self._errors.manifest},
        }

    def add(self, batch: pa.RecordBatch) -> Iterator[list[Block]]:
        """Decode a batch; flush if the task holds enough."""
        if batch.num_rows:
            batch = self._rows_that_count(batch)
        if not batch.num_rows:
            return
        keys = self._keys
        good, decoded = keys.commits(batch)
        time = good.column("log_ts").cast(pa.int64()).to_numpy()
        damaged = are_commits(batch.column("key"))[decoded.rest]
        others, lost = decoded.rest[~damaged], decoded.rest[damaged]
        before = self._records_before(batch, others, decoded)
        self._add_records(batch, others)
        self._count(decoded, len(lost))
        if len(lost):
            self._write_errors(without_dictionaries(batch.take(pa.array(lost))))
        chosen = np.flatnonzero(keys.chosen[decoded.key])
        if len(chosen) < good.num_rows:
            good, time, before = good.take(pa.array(chosen)), time[chosen], before[chosen]
        if good.num_rows:
            self._commits.write(good)
            self._aggregate(good, decoded, chosen, time, before)
        del good, decoded, batch
        if self._record_bytes > _RECORD_BYTES or self._keys.full or self._held.full:
            yield self.flush()

    def _rows_that_count(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows from `begin` on and in the window; updates the spans of offsets and the positions in the manifest.

        `_last` is the last record of each log partition, `_before_begin` the record at offset `begin` - 1.
        """
        begin = self._spec.begin
        # A record without a time has a place all the same: the next update must not read it again.
        stamps = batch.column("timestamp").cast(pa.int64()).fill_null(0)
        table = pa.table([batch.column("partition"), batch.column("offset"), stamps], PLACE).drop_null()
        partition, offset = table["partition"].to_numpy(), table["offset"].to_numpy()
        if len(partition):
            low, wide = int(partition.min()), int(partition.max() - partition.min()) + 1
            if wide <= _DIFFERENT:
                time = table["timestamp"].to_numpy()
                ends = np.full(wide, -1)
                np.maximum.at(ends, partition - low, offset)
                before = np.array([begin.get(low + at, 0) - 1 for at in range(wide)] if begin else [], np.int64)
                for known, offsets in ((self._last, ends), (self._before_begin, before)):
                    rows = np.flatnonzero(offset == offsets[partition - low]) if len(offsets) else ()
                    for row in rows:
                        one = int(partition[row])
                        if known.get(one, (-1, 0))[0] <= offset[row]:
                            known[one] = int(offset[row]), int(time[row])
        since = self._spec.window[0]
        if begin and since is not None:
            self._early |= rows_from(batch, begin, (None, since)).num_rows > 0
        rows = rows_from(batch, begin, self._spec.window)
        self._skipped |= rows.num_rows < batch.num_rows
        self._spans.add(rows)
        times = pc.min_max(rows.column("timestamp").cast(pa.int64())).as_py()
        if times["min"] is not None:
            self._first = min(times["min"], self._first)
            first, last = self._times or (times["min"], times["max"])
            self._times = min(times["min"], first), max(times["max"], last)
        return rows

    def _records_before(self, batch: pa.RecordBatch, others: Int64, decoded: CommitBatch) -> Int64:
        """For each commit, the number of group records of its group that this task has read before it."""
        groups, group = self._keys.groups, self._keys.group[decoded.key]
        seen = self._seen_of_group = widened(self._seen_of_group, len(groups))
        found: Int64 = seen[group]
        if len(others):
            encoded = batch.column("key").take(pa.array(others)).cast(pa.binary()).dictionary_encode()
            names = [group_of(key).decode(errors="replace") for key in encoded.dictionary.to_pylist()]
            code = np.array([*(groups.get(name, -1) for name in names), -1], np.int64)
            of = code[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
            mine = of >= 0
            places = np.sort(of[mine] * batch.num_rows + others[mine])
            at = group * np.int64(batch.num_rows)
            found = found + np.searchsorted(places, at + decoded.row) - np.searchsorted(places, at)
            np.add.at(seen, of[mine], 1)
        return found

    def _add_records(self, batch: pa.RecordBatch, others: Int64) -> None:
        """Count the group records by type (None: the key is too short), and keep them for the next flush."""
        if not len(others):
            return
        rows = without_dictionaries(batch.take(pa.array(others)))
        keys, deleted = rows.column("key").to_pylist(), rows.column("value").is_null().to_pylist()
        types = [None if key is None or len(key) < 2 else int.from_bytes(key[:2], "big", signed=True) for key in keys]
        self._kinds.update(types)
        self._deleted.update(compress(types, deleted))
        groups = (group_of(key).decode(errors="replace") for key in keys)
        fits = pa.array(self._spec.groups.fitting(groups), pa.bool_())
        self._write_errors(rows.filter(pc.invert(fits)))
        rows = rows.filter(fits)
        self._records.append(rows)
        self._record_bytes += rows.nbytes

    def _write_errors(self, rows: pa.RecordBatch) -> None:
        for raw in rows.to_pylist():
            for error in error_rows(raw):
                self._errors.add(error, 200 + 2 * len(raw["value"] or b""))

    def _count(self, decoded: CommitBatch, lost: int) -> None:
        counts = self._counts
        counts["errors"] += lost
        counts["tombstones"] += int(np.count_nonzero(decoded.deleted))
        counts["decoded"] += len(decoded.row)
        counts["transactional"] += int(np.count_nonzero((decoded.version >= 4) & ~decoded.has_topic_id))

    def _aggregate(self, good: pa.RecordBatch, decoded: CommitBatch, chosen: Int64, time: Int64, before: Int64) -> None:
        key, offset = decoded.key[chosen], good.column("log_offset").to_numpy()
        ids = good.column("topic_id")
        listed = ids.dictionary.to_pylist()
        id_of = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        self._name(self._keys.topic[key], id_of, listed)
        topic_id = np.array([*(self._ids.setdefault(one, len(self._ids)) for one in listed), -1], np.int32)[id_of]
        cell = np.searchsorted(self._instants, time) + before
        late = np.flatnonzero(time > self._spec.aggregate_until)
        cell[late] = _SINGLE + self._rows + late
        self._rows += len(time)
        rows = Aggregates.of_commits(key, time, offset, decoded.offset[chosen], decoded.deleted[chosen], topic_id)
        if len(self._aborted_offsets):
            keep = np.flatnonzero(self._took_effect(good.column("log_partition").to_numpy(), offset))
            rows, cell = rows.take(keep), cell[keep]
        self._held.add(rows, cell)

    def _took_effect(self, partition: npt.NDArray[np.int32], offset: Int64) -> npt.NDArray[np.bool_]:
        near = np.minimum(np.searchsorted(self._aborted_offsets, offset), len(self._aborted_offsets) - 1)
        keep: npt.NDArray[np.bool_] = self._aborted_offsets[near] != offset
        for row in np.flatnonzero(~keep).tolist():
            keep[row] = (int(partition[row]), int(offset[row])) not in self._spec.aborted
        return keep

    def _name(self, topic: Int32, id_of: Any, ids: list[str]) -> None:
        """Keep the topic of each topic id."""
        if ids:
            topics = list(self._keys.topics)
            pairs = pa.array((id_of.astype(np.int64) + 1) * len(topics) + topic).unique().to_pylist()
            self._names |= {(ids[at // len(topics) - 1], topics[at % len(topics)]) for at in pairs if at >= len(topics)}

    def flush(self) -> list[Block]:
        """All blocks in memory. Together they have every record that the task read since the last flush."""
        first, blocks = self._first, list(self._record_blocks())
        if len(self._held):
            blocks += self._commit_blocks()
        if self._spans.seen:
            self._flushes.append([first, self._spans.listed])
        self._bytes += sum(len(one.payload) for one in blocks)
        self._spans, self._first = OffsetSpans(), NEVER
        if self._keys.full:
            self._keys.clear()
            self._seen_of_group = np.zeros(0, np.int64)
        return blocks

    def _record_blocks(self) -> Iterator[Block]:
        if not self._records:
            return
        rows = pa.Table.from_batches(self._records, RAW_SCHEMA).combine_chunks()
        self._records, self._record_bytes = [], 0
        encoded = rows["key"].combine_chunks().dictionary_encode(null_encoding="encode")
        of_key = [bucket_of(group_of(key), self._spec.task.buckets) for key in encoded.dictionary.to_pylist()]
        bucket = np.array(of_key, np.int64)[encoded.indices.to_numpy()]
        for number in sorted(set(bucket.tolist())):
            yield self._block(number, RECORDS, rows.take(pa.array(np.flatnonzero(bucket == number))), "zstd")

    def _commit_blocks(self) -> Iterator[Block]:
        keys, rows = self._keys, self._held.take()
        groups = list(keys.groups)
        of_group = np.array([bucket_of(name.encode(), self._spec.task.buckets) for name in groups], np.int64)
        bucket = of_group[keys.group[rows.key]]
        order = np.argsort(bucket, kind="stable")
        bucket = bucket[order]
        names = [pa.array(one, pa.string()) for one in (groups, list(keys.topics), [*self._ids, None])]
        starts = np.append(run_starts(bucket), len(bucket))
        for some in slices(np.diff(starts), _TABLE_ROWS):
            first, last = int(starts[some.start]), int(starts[some.stop])
            table = aggregate_table(rows.take(order[first:last]), keys, *names)
            for start, end in pairwise(starts[some.start : some.stop + 1].tolist()):
                yield self._block(int(bucket[start]), COMMITS, table.slice(start - first, end - start), "lz4")
        self._ids = {}

    def _block(self, bucket: int, kind: int, rows: pa.Table, compression: str) -> Block:
        return Block(self._spec.task.first_bucket + bucket, self._first, kind, to_stream(rows, compression))
