"""Blocks: rows of the shuffle, each with records or a state of one bucket of groups as bytes; and the bucket of a group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import pyarrow as pa

from counterpoise.pipeline.tables.transaction import NewFiles

__all__ = [
    "BLOCKS",
    "COMMITS",
    "MANIFEST",
    "RECORDS",
    "STATE",
    "Block",
    "ClusterTask",
    "block_batch",
    "blocks_in",
    "bucket_count",
    "bucket_of",
    "read_stream",
    "to_stream",
]

BLOCKS = "bucket int, first_time long, kind int, payload binary"
"""Sorted by the first three columns, the blocks of a bucket are in log order: the state, then flush by flush."""
_SCHEMA = pa.schema([("bucket", pa.int32()), ("first_time", pa.int64()), ("kind", pa.int32()), ("payload", pa.binary())])
STATE, RECORDS, COMMITS = range(3)
MANIFEST = -1
"""The bucket of a task's manifest."""
_RECORDS_A_BUCKET = 1 << 18
_LEAST, _MOST = 8, 256


@dataclass(frozen=True)
class Block:
    """One row of the shuffle."""

    bucket: int  # The number of the bucket over all clusters: the cluster's first bucket plus that of the group
    first_time: int  # The earliest time in the flush of the scan task, in microseconds. A state has the lowest number.
    kind: int  # `STATE`, `RECORDS` or `COMMITS`
    payload: bytes  # A state, or an Arrow IPC stream


@dataclass(frozen=True)
class ClusterTask:
    """What the scan tasks and the fold tasks of one cluster have in common."""

    cluster: str
    files: NewFiles  # Names of new files
    # The first bucket of the cluster's groups, and their number
    first_bucket: int
    buckets: int
    salt: str | None = None  # Key for hashing names in tables


def bucket_of(group: bytes, buckets: int) -> int:
    """The bucket of a group, by the CRC-32 of its name."""
    return crc32(group) % buckets


def bucket_count(records: int | None) -> int:
    """The number of buckets: a power of two from 8 to 256, for up to 260,000 records each; None (unknown): 256.

    Many small buckets cost more in total. Above 67 million records buckets are larger.
    """
    if records is None:
        return _MOST
    return max(_LEAST, min(_MOST, 1 << (records // _RECORDS_A_BUCKET).bit_length()))


def to_stream(rows: pa.Table | pa.RecordBatch, compression: str) -> bytes:
    """Rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as out:
        out.write(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_stream(payload: bytes) -> pa.Table:
    """The inverse of `to_stream`."""
    with pa.ipc.open_stream(payload, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
        return reader.read_all()


def block_batch(blocks: Iterable[Block]) -> pa.RecordBatch:
    """Blocks as a batch for Spark."""
    listed = list(blocks)
    columns = [pa.array([getattr(one, field.name) for one in listed], field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def blocks_in(batches: Iterable[pa.RecordBatch]) -> Iterable[Block]:
    """The inverse of `block_batch`."""
    for batch in batches:
        for at in range(len(batch)):
            yield Block(*(column[at].as_py() for column in batch.columns))
