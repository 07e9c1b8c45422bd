"""Offset commits, decoded a batch at a time: Arrow in, Arrow out, no Python per record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.place import without_place
from counterpoise.pipeline.schemas import OFFSET_COMMITS
from counterpoise.wire.columns import BinaryColumn, pack_slices
from counterpoise.wire.offsets_topic import uuid_text
from counterpoise.wire.offsets_topic.batch import CommitBatch, decode_commits

__all__ = ["COMMIT_COLUMNS", "binary_column", "commit_batch", "commit_batches", "constant", "decoded_batch", "undecided"]

Kernel = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_UTC_US = pa.timestamp("us", tz="UTC")
_LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: later times are damage, and no table could show them."""

COMMIT_COLUMNS = arrow_schema(StructType(OFFSET_COMMITS.fields[1:]))
"""`OFFSET_COMMITS` without the cluster."""
_WITH_CLUSTER = arrow_schema(OFFSET_COMMITS)


def commit_batches(cluster: str = "default", *, damaged: bool = False) -> Kernel:
    """For ``mapInArrow``: rows ``key, value, partition, offset, timestamp`` -> rows of `OFFSET_COMMITS`.

    Parameters
    ----------
    cluster : str
        What goes into the column of that name. It is written here: adding it in the JVM would copy every row once more.
    damaged : bool
        Whether commits that cannot be decoded come out too, as `commit_batch` gives them.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            decoded = commit_batch(batch, damaged=damaged)
            yield pa.RecordBatch.from_arrays([constant(cluster, decoded.num_rows), *decoded.columns], schema=_WITH_CLUSTER)

    return run


def commit_batch(batch: pa.RecordBatch, *, damaged: bool = True) -> pa.RecordBatch:
    """One batch of raw commit records as columns.

    A row that cannot be decoded, or whose place in the log is not known, comes out at the end with what is known of its
    place and nulls (`group_id` is null in no other row), so that whoever counts rows sees it; or not at all, if `damaged`
    is not set.
    """
    good, decoded = decoded_batch(batch)
    if not len(decoded.rest) or not damaged:
        return good
    lost = _take_place(batch, decoded.rest)
    nulls = [pa.nulls(len(decoded.rest), field.type) for field in COMMIT_COLUMNS][3:]
    bad = pa.RecordBatch.from_arrays([*lost, *nulls], schema=COMMIT_COLUMNS)
    return pa.concat_batches([good, bad])


def decoded_batch(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, CommitBatch]:
    """The rows that can be decoded, as columns, and what the kernel says of all; keys may come as a dictionary."""
    keys, values, decoded = _decode(batch)
    return _columns(batch, keys, values, decoded), decoded


def constant(text: str, n: int) -> pa.Array:
    """The same string n times."""
    data = text.encode()
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(len(data))
    return pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(data * n))


def _starts(offsets: Any, n: int, first: int, *, wide: bool) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    return np.frombuffer(offsets, np.int64, n + 1, first * 8) if wide else np.frombuffer(offsets, np.int32, n + 1, first * 4)


def undecided(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Rows of a raw batch that are no sound commit with a place in the log: other types and damaged ones, ascending."""
    return _decode(batch)[2].rest


def binary_column(array: pa.Array) -> BinaryColumn:
    """The buffers of an Arrow binary array, for `wire`; nothing is copied but the validity bits (to bytes)."""
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    n = len(array)
    if offsets is None or not n:
        return BinaryColumn(np.zeros(n + 1, np.int32), np.zeros(0, np.uint8), None)
    starts = _starts(offsets, n, array.offset, wide=wide)
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    return BinaryColumn(starts, bytes_, valid)


def _decode(batch: pa.RecordBatch) -> tuple[BinaryColumn, BinaryColumn, CommitBatch]:
    encoded = batch.column("key").dictionary_encode()
    keys = binary_column(encoded.dictionary)
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    lost = without_place(batch)
    if len(lost):
        codes = codes.copy()
        codes[lost] = -1  # as if they had no key: of such a record no table can say when it was
    values = binary_column(batch.column("value"))
    return keys, values, decode_commits(keys, codes, values)


def _columns(batch: pa.RecordBatch, keys: BinaryColumn, values: BinaryColumn, decoded: CommitBatch) -> pa.RecordBatch:
    about = decoded.keys
    group = _strings(keys.data, about.group_start, about.group_length).take(pa.array(decoded.key))
    topic = _strings(keys.data, about.topic_start, about.topic_length).take(pa.array(decoded.key))
    gone = decoded.deleted
    live = None if not gone.any() else gone
    version = decoded.version.astype(np.int32)
    arrays = [
        *_take_place(batch, decoded.row),
        group,
        topic,
        pa.array(about.partition[decoded.key]),
        pa.array(decoded.offset, mask=live),
        pa.array(decoded.leader_epoch, mask=live),
        _metadata(values, decoded, live),
        _time(decoded.commit_timestamp),
        _time(decoded.expire_timestamp),
        _topic_ids(decoded),
        pa.array(version, mask=live),
        pa.array(gone),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=COMMIT_COLUMNS)


def _take_place(batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> list[pa.Array]:
    place = [batch.column("partition"), batch.column("offset"), batch.column("timestamp").cast(_UTC_US)]
    if len(rows) == batch.num_rows:
        return place
    wanted = pa.array(rows)
    return [column.take(wanted) for column in place]


def _strings(data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> pa.Array:
    offsets, packed = pack_slices(data, start, length)
    return pa.StringArray.from_buffers(len(start), pa.py_buffer(offsets), pa.py_buffer(packed))


def _metadata(values: BinaryColumn, decoded: CommitBatch, gone: npt.NDArray[np.bool_] | None) -> pa.Array:
    if not decoded.metadata_length.any():
        offsets = pa.py_buffer(np.zeros(len(decoded.row) + 1, np.int32))
        text = pa.StringArray.from_buffers(len(decoded.row), offsets, pa.py_buffer(b""))
    else:
        text = _strings(values.data, decoded.metadata_start, decoded.metadata_length)
    return text if gone is None else pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), text)


def _time(ms: npt.NDArray[np.int64]) -> pa.Array:
    known = (ms >= 0) & (ms <= _LATEST_MS)
    if not known.any():
        return pa.nulls(len(ms), _UTC_US)
    return pa.array(ms * 1000, mask=None if known.all() else ~known).cast(_UTC_US)


def _topic_ids(decoded: CommitBatch) -> pa.Array:
    n = len(decoded.row)
    if not decoded.has_topic_id.any():
        return pa.nulls(n, pa.string())
    raw: Any = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), n, [None, pa.py_buffer(np.ascontiguousarray(decoded.topic_id))]
    )
    encoded = raw.dictionary_encode()
    names = pa.array([uuid_text(one) for one in encoded.dictionary.to_pylist()], pa.string())
    codes = encoded.indices
    if not decoded.has_topic_id.all():
        codes = pc.if_else(pa.array(decoded.has_topic_id), codes, pa.scalar(None, codes.type))
    return names.take(codes)
