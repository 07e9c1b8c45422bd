"""Raw records of one input split, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.records.place import PLACE
from counterpoise.pipeline.scan.splits import InputSplit
from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows
from counterpoise.pipeline.storage.files import parquet_footers

__all__ = ["RAW", "RAW_SCHEMA", "are_commits", "plain", "raw_batches", "rows_from"]

RAW = ("key", "value", *PLACE)
RAW_SCHEMA = pa.schema(list(RAW_TYPES.items()))
_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 5 << 20
_CODED = 8
"""Bytes per row of a column of keys that are codes, at most: those of the dictionary itself among them."""
_AFTER_COMMITS = pa.scalar(b"\x00\x02", pa.binary())


def raw_batches(split: InputSplit, columns: Sequence[str] = RAW) -> Iterator[pa.RecordBatch]:
    """The rows of a split; keys as a dictionary if there are few, otherwise as bytes; large records come in smaller batches.

    Notes
    -----
    Row groups are read one by one, in equal batches: reading on from one into the next took a third more time, and memory.
    """
    for file, groups in split.groups:
        about = parquet_footers([file])[0]  # a capture may replace a file under its name
        for group in groups:
            rows = about.row_group(group)
            listed = ["key"] if "key" in columns and _has_few_keys(rows) else []
            yield from read_rows(file, list(columns), RAW_TYPES, _at_once(rows), [group], listed, about)


def _has_few_keys(group: Any) -> bool:
    """Whether a row group has its keys as codes nearly everywhere: then they are read as such.

    Otherwise the reader would make a dictionary of all keys of the row group, and keep it.
    """
    chunks = (group.column(number) for number in range(group.num_columns))
    return any(one.path_in_schema == "key" and one.total_uncompressed_size <= _CODED * group.num_rows for one in chunks)


def _at_once(group: Any) -> int:
    rows, size = int(group.num_rows), int(group.total_byte_size)
    most = max(64, min(_AT_ONCE, _BYTES_AT_ONCE * rows // max(size, 1)))
    batches = max(1, -(-rows // most))
    return max(1, -(-rows // batches))


def rows_from(batch: pa.RecordBatch, begin: Mapping[int, int]) -> pa.RecordBatch:
    """The rows of a batch that count (see `InputSplit.begin`)."""
    if not begin:
        return batch
    partition, offset = batch.column("partition"), batch.column("offset")
    placed = pc.and_(partition.is_valid(), offset.is_valid()).to_numpy(zero_copy_only=False)
    different, code = np.unique(partition.fill_null(0).to_numpy(zero_copy_only=False), return_inverse=True)
    first = np.array([begin.get(one, 0) for one in different.tolist()], np.int64)
    inside = placed & (offset.fill_null(0).to_numpy(zero_copy_only=False) >= first[code])
    return batch if inside.all() else batch.take(pa.array(np.flatnonzero(inside)))


def are_commits(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each record is an offset commit, by its key as `raw_batches` gives it: types 0 and 1 sort before type 2.

    A key too short to have a type sorts here too, and is counted among the commits that cannot be decoded.
    """
    found: npt.NDArray[np.bool_]
    if not pa.types.is_dictionary(keys.type):
        found = pc.less(keys, _AFTER_COMMITS).fill_null(False).to_numpy(zero_copy_only=False)
        return found
    of_key = are_commits(keys.dictionary.cast(pa.binary()))
    found = np.append(of_key, False)[keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A raw batch without dictionaries."""
    columns = [batch.column(field.name).cast(field.type) for field in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
