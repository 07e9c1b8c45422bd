"""Input splits and their rows: row groups of Parquet files, planned by footers, read as batches of raw records and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, read_rows, statistics_of, time_spans
from counterpoise.pipeline.storage.files import parquet_footers

__all__ = [
    "RAW_SCHEMA",
    "InputSplit",
    "Window",
    "are_commits",
    "newest_of_keys",
    "plan_splits",
    "raw_batches",
    "rows_from",
    "splits_before",
    "without_dictionaries",
]

_LEAST_ROWS, _MOST_ROWS = 200_000, 1_250_000
_MOST_PARTITIONS = 10_000


InputSplit: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""What one scan task reads: files of one cluster and their row groups, in the order of the files."""


def plan_splits(
    files: Mapping[str, Sequence[str]], at_least: int, begins: Mapping[str, Mapping[int, int]]
) -> tuple[dict[str, list[InputSplit]], int]:
    """Splits of each cluster's files of records, of 1.25 million rows at most, and the number of their rows.

    The last splits are smaller, so all cores end together. `begins`: cluster -> `ScanSpec.begin`; row groups before it by
    their statistics are skipped.
    """
    sizes = {
        name: [
            (file, at, about.row_group(at).num_rows)
            for file, about in zip(listed, parquet_footers(listed), strict=True)
            for at in range(about.num_row_groups)
            if not _is_before(about, at, begins.get(name, {}))
        ]
        for name, listed in files.items()
    }
    whole = left = sum(rows for listed in sizes.values() for _, _, rows in listed)
    splits: dict[str, list[InputSplit]] = {name: [] for name in files}
    for name, groups in sizes.items():
        while groups:
            most = min(_MOST_ROWS, max(_LEAST_ROWS, -(-left // max(at_least, 1))))
            count = max(1, sum(rows <= most * 1.2 for rows in accumulate(rows for *_, rows in groups)))
            part: dict[str, list[int]] = {}
            for file, at, rows in groups[:count]:
                part.setdefault(file, []).append(at)
                left -= rows
            del groups[:count]
            splits[name].append(tuple((file, tuple(numbers)) for file, numbers in part.items()))
    return splits, whole


def splits_before(splits: Iterable[InputSplit], time: int) -> list[InputSplit]:
    """The splits, each with only those row groups that by their statistics may have records before a time."""
    cut = []
    for split in splits:
        kept = []
        for (file, groups), spans in zip(split, time_spans([file for file, _ in split], "timestamp"), strict=True):
            numbers = tuple(at for at in groups if (span := spans[at]) is None or span[0] < time)
            kept += [(file, numbers)] if numbers else []
        if kept:
            cut.append(tuple(kept))
    return cut


def _is_before(about: Any, at: int, begin: Mapping[int, int]) -> bool:
    """Whether all records of a row group are before `begin` - 1, by its statistics: `ScanSpec.begin` needs the record there."""
    group = about.row_group(at)
    partition, offset = statistics_of(group, "partition"), statistics_of(group, "offset")
    if not begin or partition is None or offset is None:
        return False
    possible = range(partition.min, partition.max + 1)
    return len(possible) <= _MOST_PARTITIONS and all(offset.max < begin.get(one, 0) - 1 for one in possible)


RAW_SCHEMA = pa.schema(list(RAW_TYPES.items()))
_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 5 << 20
_CODED = 8
"""Maximal bytes per row of a dictionary-encoded column of keys, including the dictionary."""
_AFTER_COMMITS = pa.scalar(b"\x00\x02", pa.binary())


def raw_batches(split: InputSplit) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split; keys as a dictionary if few are distinct, otherwise as bytes; large records in smaller batches.

    Row groups are read one by one, in equal batches: a batch across two row groups took a third more time, and memory.
    """
    for file, groups in split:
        about = parquet_footers([file])[0]  # a capture may replace a file under its name
        for group in groups:
            rows = about.row_group(group)
            listed = ["key"] if _has_few_keys(rows) else []
            yield from read_rows(file, RAW_TYPES, _at_once(rows), [group], listed, about)


def _has_few_keys(group: Any) -> bool:
    """Whether nearly all keys of a row group are dictionary-encoded, by the size of the column.

    Otherwise a reader that returns dictionaries would build one of all keys of the row group, and keep it.
    """
    chunks = (group.column(number) for number in range(group.num_columns))
    return any(one.path_in_schema == "key" and one.total_uncompressed_size <= _CODED * group.num_rows for one in chunks)


def _at_once(group: Any) -> int:
    rows, size = int(group.num_rows), int(group.total_byte_size)
    most = max(64, min(_AT_ONCE, _BYTES_AT_ONCE * rows // max(size, 1)))
    batches = max(1, -(-rows // most))
    return max(1, -(-rows // batches))


Window = tuple[int | None, int | None]
"""The first time, and the first time after the window, in microseconds; None: no limit."""


def rows_from(batch: pa.RecordBatch, begin: Mapping[int, int], window: Window = (None, None)) -> pa.RecordBatch:
    """The rows of a batch at or after the offsets in `ScanSpec.begin`, and in the window of time."""
    since, until = window
    if since is not None or until is not None:
        time = batch.column("timestamp").cast(pa.int64())
        inside = time.is_valid()
        inside = inside if since is None else pc.and_(inside, pc.fill_null(pc.greater_equal(time, since), False))
        inside = inside if until is None else pc.and_(inside, pc.fill_null(pc.less(time, until), False))
        batch = batch if pc.all(inside).as_py() else batch.filter(inside)
    if not begin:
        return batch
    partition, offset = batch.column("partition"), batch.column("offset")
    placed = pc.and_(partition.is_valid(), offset.is_valid()).to_numpy(zero_copy_only=False)
    different, code = np.unique(partition.fill_null(0).to_numpy(zero_copy_only=False), return_inverse=True)
    first = np.array([begin.get(one, 0) for one in different.tolist()], np.int64)
    inside = placed & (offset.fill_null(0).to_numpy(zero_copy_only=False) >= first[code])
    return batch if inside.all() else batch.take(pa.array(np.flatnonzero(inside)))


def are_commits(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each record is an offset commit, by its key as `raw_batches` yields it: types 0 and 1 sort before type 2.

    A key that is too short to have a type is one too: it is counted as a commit that cannot be decoded.
    """
    if not pa.types.is_dictionary(keys.type):
        return np.asarray(pc.less(keys, _AFTER_COMMITS).fill_null(False).to_numpy(zero_copy_only=False))
    of_key = are_commits(keys.dictionary.cast(pa.binary()))
    return np.asarray(np.append(of_key, False)[keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)])


def without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A raw batch with `RAW_SCHEMA`: dictionaries are decoded."""
    columns = [batch.column(field.name).cast(field.type) for field in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)


def newest_of_keys(
    batches: Iterable[pa.RecordBatch], before: int, aborted: frozenset[tuple[int, int]]
) -> Iterator[pa.RecordBatch]:
    """Yield, for each batch, the newest record of each log partition and key before a time, as compaction keeps it.

    `before` is in microseconds. Skipped are records of aborted transactions (their log partition and offset in `aborted`), and
    records without an offset, of which nobody knows whether they are newer.
    """
    for batch in batches:
        rows = without_dictionaries(rows_from(batch, {}, (None, before)))
        rows = rows.filter(rows.column("offset").is_valid())
        if aborted:
            places = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
            rows = rows.filter(pa.array([place not in aborted for place in places], pa.bool_()))
        table = pa.table([rows.column("partition"), rows.column("key"), pa.array(np.arange(rows.num_rows))], ["p", "k", "row"])
        order = pc.sort_indices(rows, [("offset", "ascending")])
        last = table.take(order).group_by(["p", "k"], use_threads=False).aggregate([("row", "last")])["row_last"]
        if len(last):
            yield rows.take(last.combine_chunks())
