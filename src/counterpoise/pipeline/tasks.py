"""The functions of Spark's tasks, for `mapInArrow`: each turns record batches into record batches."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold.task import ClusterFold, fold
from counterpoise.pipeline.scan.group_filter import groups_of_topics
from counterpoise.pipeline.scan.read import RAW_SCHEMA, InputSplit, newest_of_keys, raw_batches, without_dictionaries
from counterpoise.pipeline.scan.scan import ScanSpec, scan
from counterpoise.pipeline.shuffle.blocks import STATE, Block, block_batch, blocks_in
from counterpoise.pipeline.source.parquet_rows import utc_micros
from counterpoise.pipeline.storage.files import parquet_file

__all__ = ["fold_blocks", "groups", "newest", "read_splits", "read_states", "scan_records"]


@contextmanager
def _memory_settings() -> Iterator[None]:
    gc.disable()  # rows and states are many and form no cycles
    # One heap for Arrow and NumPy: Arrow's own pool keeps some 30 MB that nothing else can use.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        gc.enable()


def scan_records(
    spec: ScanSpec, splits: Sequence[InputSplit] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Scan Spark's rows with the columns of its Kafka source or, if `splits` are given, those whose numbers are in the batches.

    Yields blocks.
    """
    with _memory_settings():
        yield from map(block_batch, filter(None, scan(_records(splits, batches), spec)))


def newest(
    before: int, aborted: frozenset[tuple[int, int]], splits: Sequence[InputSplit] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`newest_of_keys`; parameters are those of `scan_records`."""
    yield from newest_of_keys(_records(splits, batches), before, aborted)


def groups(
    topics: Sequence[str], splits: Sequence[InputSplit] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`groups_of_topics`; parameters are those of `scan_records`."""
    used = groups_of_topics(_records(splits, batches), topics)
    columns = [pa.array(list(used), pa.string()), pa.array(list(used.values()), pa.bool_())]
    yield pa.RecordBatch.from_arrays(columns, names=["group_id", "chosen"])


def _records(splits: Sequence[InputSplit] | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if splits is None:
            columns = [batch.column(name) for name in RAW_SCHEMA.names]
            columns[-1] = utc_micros(columns[-1])
            yield pa.RecordBatch.from_arrays(columns, names=RAW_SCHEMA.names)
        else:
            for number in batch.column(0).to_pylist():
                yield from raw_batches(splits[number])


def read_splits(splits: Sequence[InputSplit], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The raw records of splits as rows for Spark."""
    yield from map(without_dictionaries, _records(splits, batches))


def read_states(files: Sequence[tuple[str, int]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read states of buckets as blocks, from the files of the previous update and the first bucket of their cluster."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            file, first_bucket = files[number]
            for rows in parquet_file(file).iter_batches(4):
                pairs = zip(rows.column("bucket").to_pylist(), rows.column("state").to_pylist(), strict=True)
                yield block_batch(Block(first_bucket + bucket, -NEVER, STATE, state) for bucket, state in pairs)


def fold_blocks(clusters: Sequence[ClusterFold], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fold blocks; yields manifests."""
    with _memory_settings():
        for manifest in fold(blocks_in(batches), clusters):
            yield pa.RecordBatch.from_arrays([pa.array([manifest], pa.string())], names=["manifest"])
