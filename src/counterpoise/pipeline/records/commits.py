"""Decoder of offset commits: a batch of raw records to rows of `offset_commits`, in Arrow, without Python code per record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.records.place import LATEST_MS
from counterpoise.pipeline.schemas import COLUMNS
from counterpoise.wire.columns import BinaryColumn, pack_slices
from counterpoise.wire.offsets_topic.batch import CommitBatch
from counterpoise.wire.offsets_topic.values import uuid_text

__all__ = ["CODED_COLUMNS", "binary_column", "coded_commits", "strings"]

_UTC_US = pa.timestamp("us", tz="UTC")
_TEXT = pa.dictionary(pa.int32(), pa.string())
CODED_COLUMNS = pa.schema(
    [(field.name, _TEXT if pa.types.is_string(field.type) else field.type) for field in COLUMNS["offset_commits"]]
)
"""The columns of `offset_commits` with dictionary-encoded texts: Parquet writes the codes without a pass over the rows."""


def binary_column(array: pa.Array) -> BinaryColumn:
    """The buffers of an Arrow binary array, for `wire`; copies only the validity bits (to bytes)."""
    _, offsets, data = array.buffers()
    n = len(array)
    if offsets is None or not n:
        return BinaryColumn(np.zeros(n + 1, np.int32), np.zeros(0, np.uint8), None)
    starts: Any = np.frombuffer(offsets, np.int32, n + 1, array.offset * 4)
    bytes_ = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    return BinaryColumn(starts, bytes_, valid)


def coded_commits(batch: pa.RecordBatch, names: list[pa.Array], values: BinaryColumn, decoded: CommitBatch) -> pa.RecordBatch:
    """The decoded commits of a batch of raw records as `CODED_COLUMNS`.

    `names`: columns ``group_id, topic, partition`` of the commits, names as a dictionary. `values`: those of all raw records.
    """
    deleted = decoded.deleted if decoded.deleted.any() else None
    place = [batch.column("partition"), batch.column("offset"), batch.column("timestamp").cast(_UTC_US)]
    columns = [
        *(place if len(decoded.row) == batch.num_rows else [column.take(pa.array(decoded.row)) for column in place]),
        *names,
        pa.array(decoded.offset, mask=deleted),
        pa.array(decoded.leader_epoch, mask=deleted),
        _metadata(values, decoded, deleted),
        _time(decoded.commit_timestamp),
        _time(decoded.expire_timestamp),
        _topic_ids(decoded),
        pa.array(decoded.version.astype(np.int32), mask=deleted),
        pa.array(decoded.deleted),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CODED_COLUMNS)


def strings(data: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> pa.Array:
    """Slices of valid UTF-8 as an array of strings."""
    offsets, packed = pack_slices(data, start, length)
    return pa.StringArray.from_buffers(len(start), pa.py_buffer(offsets), pa.py_buffer(packed))


def _metadata(values: BinaryColumn, decoded: CommitBatch, deleted: npt.NDArray[np.bool_] | None) -> pa.DictionaryArray:
    if not decoded.metadata_length.any():
        codes = pa.array(np.zeros(len(decoded.row), np.int32), mask=deleted)
        return pa.DictionaryArray.from_arrays(codes, pa.array([""]))
    text = strings(values.data, decoded.metadata_start, decoded.metadata_length)
    return (text if deleted is None else pc.if_else(pa.array(deleted), pa.scalar(None, pa.string()), text)).dictionary_encode()


def _time(ms: npt.NDArray[np.int64]) -> pa.Array:
    known = (ms >= 0) & (ms <= LATEST_MS)
    if not known.any():
        return pa.nulls(len(ms), _UTC_US)
    return pa.array(ms * 1000, mask=None if known.all() else ~known).cast(_UTC_US)


def _topic_ids(decoded: CommitBatch) -> pa.DictionaryArray:
    n = len(decoded.row)
    if not decoded.has_topic_id.any():
        return pa.DictionaryArray.from_arrays(pa.nulls(n, pa.int32()), pa.array([], pa.string()))
    raw: Any = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), n, [None, pa.py_buffer(np.ascontiguousarray(decoded.topic_id))]
    )
    encoded = raw.dictionary_encode()
    names = pa.array([uuid_text(one) for one in encoded.dictionary.to_pylist()], pa.string())
    codes = encoded.indices
    if not decoded.has_topic_id.all():
        codes = pc.if_else(pa.array(decoded.has_topic_id), codes, pa.scalar(None, codes.type))
    return pa.DictionaryArray.from_arrays(codes, names)
