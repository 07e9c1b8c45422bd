"""One fold task: the blocks of its buckets, one bucket at a time, to rows of tables and states of the buckets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.bucket import Bucket, Chunk, FoldSpec
from counterpoise.pipeline.fold.ends_file import EndsFile
from counterpoise.pipeline.fold.log_ends import mapped_log_ends
from counterpoise.pipeline.fold.strategy_figures import StrategyFigures, totals
from counterpoise.pipeline.fold.table_rows import TableRows
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.scan.aggregation import AGGREGATE_COLUMNS
from counterpoise.pipeline.scan.read import RAW_SCHEMA
from counterpoise.pipeline.shuffle.blocks import COMMITS, RECORDS, STATE, Block, ClusterTask, read_stream
from counterpoise.pipeline.tables.writers import FileWriter

__all__ = ["STATES", "ClusterFold", "fold"]

_CHUNK = 4 << 20
"""About the uncompressed size of a chunk, in bytes. 12 MB cost 20 MB more per worker and save no CPU time."""
STATES = pa.schema([("bucket", pa.int32()), ("state", pa.binary())])


@dataclass(frozen=True)
class ClusterFold:
    """The parameters of a fold task for one cluster."""

    task: ClusterTask
    ends: str  # The file of its log end offsets (`EndsFile`)
    spec: FoldSpec
    chunk_starts: frozenset[int] = frozenset()  # Times of blocks at which a new chunk may begin (`offset_spans.chunk_starts`)
    end: int = 0  # The time of its last record, in microseconds
    write_states: bool = False  # Whether states are written for the next update. If not, all rows are final.


def fold(blocks: Iterable[Block], clusters: Sequence[ClusterFold]) -> Iterator[str]:
    """Fold sorted blocks. Yields one manifest (JSON) per cluster that has blocks."""
    plans = PlanCache()
    of_bucket = [one for one in clusters for _ in range(one.task.buckets)]  # buckets are numbered over all clusters
    for cluster, mine in groupby(blocks, key=lambda block: of_bucket[block.bucket]):
        with _Task(cluster, plans) as task:
            for number, its_blocks in groupby(mine, key=lambda block: block.bucket):
                task.fold(number - cluster.task.first_bucket, its_blocks)
        yield json.dumps(task.manifest)


class _Task(ExitStack):
    """The part of a fold task that belongs to one cluster."""

    def __init__(self, cluster: ClusterFold, plans: PlanCache) -> None:
        super().__init__()
        self._cluster, self._plans = cluster, plans
        self._ends = mapped_log_ends(EndsFile.load(cluster.ends))
        self._rows = self.enter_context(TableRows(cluster.task, cluster.end, cluster.spec.scope.policy))
        self._states = self.enter_context(FileWriter(cluster.task.files.state_file("states"), STATES))
        self._kinds: Counter[tuple[str, str, int]] = Counter()
        self._strategies: list[StrategyFigures] = []
        self._unnamed: set[str] = set()

    @property
    def manifest(self) -> dict[str, Any]:
        """Files and figures; complete when the task is closed."""
        steps = [[kind, cause or None, n, n * missed] for (kind, cause, missed), n in sorted(self._kinds.items())]
        about = {"steps": steps, "states": self._states.file, "unnamed": sorted(self._unnamed)}
        return {**self._rows.manifest, **totals(self._strategies), **about}

    def fold(self, number: int, blocks: Iterable[Block]) -> None:
        """Fold the blocks of one bucket."""
        rows = self._rows
        chunks = _Chunks(blocks, self._cluster.chunk_starts, rows.decoded)
        bucket = Bucket(self._cluster.spec, self._ends, self._plans, chunks.state)
        rows.provisional = False
        for chunk in chunks:
            if chunks.ended and not self._cluster.write_states:
                self._finish(bucket, chunk)
                return
            bucket.advance(chunk, rows)
            pa.default_memory_pool().release_unused()
        if self._cluster.write_states:
            state = [pa.array([number], pa.int32()), pa.array([bucket.state()], pa.binary())]
            self._states.write(pa.table(state, schema=STATES))
            rows.provisional = True
        self._finish(bucket, Chunk((), AGGREGATE_COLUMNS.empty_table()))

    def _finish(self, bucket: Bucket, chunk: Chunk) -> None:
        for figures in bucket.finish(chunk, self._rows, self._cluster.end):
            self._rows.add_group(figures)
        for group in bucket.groups.values():
            self._kinds.update(group.kinds)
            self._unnamed.update(group.steps.unnamed)
            self._strategies.append(group.strategies)


class _Chunks:
    """The chunks of one bucket: its blocks, joined to some megabytes; `decoded` decodes raw records lazily."""

    def __init__(
        self, blocks: Iterable[Block], starts: frozenset[int], decoded: Callable[[pa.Table], Iterable[Mapping[str, Any]]]
    ) -> None:
        self._blocks, self._starts, self._decoded = iter(blocks), starts, decoded
        self.ended = False  # whether the last chunk was returned
        first = next(self._blocks, None)
        self.state = first.payload if first is not None and first.kind == STATE else None
        self._next = next(self._blocks, None) if self.state is not None else first

    def __iter__(self) -> Iterator[Chunk]:
        parts: dict[int, list[pa.Table]] = {RECORDS: [], COMMITS: []}
        size, at = 0, -NEVER
        while (block := self._next) is not None:
            if size > _CHUNK and block.first_time > at and block.first_time in self._starts:
                yield self._chunk(parts, block.first_time)
                parts, size = {RECORDS: [], COMMITS: []}, 0
            table = read_stream(block.payload)
            parts[block.kind].append(table)
            size, at = size + table.nbytes, block.first_time
            del table, block
            self._next = next(self._blocks, None)
        self.ended = True
        # Rows of lag may become final in a bucket without new records.
        if size or self.state is not None:
            yield self._chunk(parts, NEVER)

    def _chunk(self, parts: Mapping[int, list[pa.Table]], until: int) -> Chunk:
        records = pa.concat_tables([RAW_SCHEMA.empty_table(), *parts[RECORDS]])
        return Chunk(self._decoded(records), pa.concat_tables([AGGREGATE_COLUMNS.empty_table(), *parts[COMMITS]]), until)
