"""Records that are no commits: found, split off into files in parts, a bucket of groups each; read back in the log's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.buckets import bucket_of
from counterpoise.pipeline.direct.files.error_rows import ErrorRows
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile, marked_batches, marked_parts
from counterpoise.pipeline.direct.files.one_file import OneFile
from counterpoise.pipeline.direct.files.places import Spans
from counterpoise.pipeline.direct.files.reading import RAW, RAW_SCHEMA, are_commits, plain, raw_batches
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.pipeline.records.place import PLACE

__all__ = [
    "MARKS",
    "REST_SCHEMA",
    "Kind",
    "Split",
    "group_of",
    "in_log_order",
    "keys_and_times",
    "mark_others",
    "marks_in",
]

REST_SCHEMA = RAW_SCHEMA.append(pa.field("size", pa.int32()))
"""`RAW_SCHEMA`, and the bytes of a record: how many of them may be held at once is known before they are read."""
MARKS = pa.schema([RAW_SCHEMA.field(name) for name in ("key", "offset", "timestamp")])
"""What divides sums: whose record it is, and where and when it was."""
_PLACES = ("key", "partition", "offset", "size")
_HELD = 3 << 20
"""So many bytes of records a task holds before it writes them, a part per bucket."""
_AT_ONCE, _CACHED = 2 << 20, 8 << 20
"""So many are given at a time, and so many of what was read may be kept until it is."""
Kind = tuple[int | None, int, int, int | None, int | None]
"""Of the records of one type: the type (null: too short a key), number, deletions, first and last time (microseconds)."""


def group_of(key: bytes | None) -> bytes:
    """The name of a key's group: all keys start with their type and that name. Of a damaged key whatever stands there."""
    return b"" if key is None else key[4 : 4 + int.from_bytes(key[2:4], "big")]


def mark_others(piece: Piece, folder: str) -> dict[str, Any]:
    """Write keys, offsets and times of the records of a piece that are no commits to a file; tell its name, if there are any,
    and the spans of all records' offsets.

    Notes
    -----
    Values, which are most of what there is to read, are left alone.
    """
    spans = Spans()
    with OneFile(folder, "marks", MARKS) as out:
        for batch in raw_batches(piece, ("key", *PLACE)):
            spans.add(batch)
            others = np.flatnonzero(~are_commits(batch.column("key")))
            if len(others):
                found = batch.take(pa.array(others))
                out.write(pa.table([found.column(field.name).cast(field.type) for field in MARKS], schema=MARKS))
    return {"marks": out.file, "spans": spans.told}


def _count(kinds: dict[int | None, Kind], rows: pa.RecordBatch) -> None:
    keys, stamps = rows.column("key").to_pylist(), rows.column("timestamp").cast(pa.int64())
    types = [None if key is None or len(key) < 2 else int.from_bytes(key[:2], "big", signed=True) for key in keys]
    table = pa.table([pa.array(types, pa.int32()), rows.column("value").is_null().cast(pa.int64()), stamps], ["t", "gone", "ts"])
    figures = [("gone", "count"), ("gone", "sum"), ("ts", "min"), ("ts", "max")]
    for row in table.group_by("t", use_threads=False).aggregate(figures).to_pylist():
        _, n, gone, first, last = kinds.get(row["t"], (row["t"], 0, 0, None, None))
        times = [[one for one in pair if one is not None] for pair in ((first, row["ts_min"]), (last, row["ts_max"]))]
        first, last = min(times[0], default=None), max(times[1], default=None)
        kinds[row["t"]] = (row["t"], n + row["gone_count"], gone + row["gone_sum"], first, last)


class Split:
    """Where a task puts the records that are no commits, and counts them by type; some megabytes of them are held.

    Parameters
    ----------
    folder : str
    fitting : callable, optional
        Of names of groups, which are chosen; default: all. Records of others are counted, and those that cannot be decoded are
        in `errors`.
    errors : ErrorRows
    """

    def __init__(self, folder: str, fitting: Callable[[Iterable[str]], list[bool]] | None, errors: ErrorRows) -> None:
        self._fitting, self._errors = fitting, errors
        self._out = MarkedFile(folder, "rest", REST_SCHEMA, "zstd")
        self._kinds: dict[int | None, Kind] = {}
        self._parts: list[pa.RecordBatch] = []
        self._bytes = 0

    def __enter__(self) -> Split:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._flush()
        self._out.__exit__()

    @property
    def told(self) -> dict[str, Any]:
        """The file's name (if there are any), the bucket of each of its parts, and the kinds of records; when closed."""
        return {"rest": self._out.file, "buckets": self._out.marks, "kinds": list(self._kinds.values())}

    def add(self, batch: pa.RecordBatch, others: Int64) -> None:
        """The rows of a raw batch that are no commits."""
        if len(others):
            rows = plain(batch.take(pa.array(others)))
            _count(self._kinds, rows)
            if self._fitting is not None:
                groups = (group_of(key).decode(errors="replace") for key in rows.column("key").to_pylist())
                fits = pa.array(self._fitting(groups), pa.bool_())
                self._errors.add(rows.filter(pc.invert(fits)).to_pylist())
                rows = rows.filter(fits)
            self._parts.append(rows)
            self._bytes += rows.nbytes
            if self._bytes > _HELD:
                self._flush()

    def _flush(self) -> None:
        if not self._parts:
            return
        rows = pa.Table.from_batches(self._parts).combine_chunks()
        self._parts, self._bytes = [], 0
        lengths = [pc.binary_length(rows[name]).fill_null(0) for name in ("key", "value")]
        rows = rows.append_column(REST_SCHEMA.field("size"), pc.add(*lengths))
        bucket = _buckets_of(rows["key"])
        for number in sorted(set(bucket.tolist())):
            self._out.write(rows.take(pa.array(np.flatnonzero(bucket == number))), number)


def _buckets_of(keys: pa.ChunkedArray) -> Int64:
    coded = keys.combine_chunks().dictionary_encode()
    of_key = np.array([*(bucket_of(group_of(key)) for key in coded.dictionary.to_pylist()), bucket_of(b"")], np.int64)
    found: Int64 = of_key[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def keys_and_times(files: Marked, bucket: int) -> Iterator[pa.RecordBatch]:
    """``key, timestamp`` of the records of a bucket, as they stand in the files of `Split`; their values are not read."""
    return marked_batches(files, bucket, _columns("key", "timestamp"))


def marks_in(files: Marked) -> Iterator[pa.RecordBatch]:
    """What `mark_others` writes, of all records in files of `Split`."""
    for file, marks in files:
        yield from marked_parts(file, range(len(marks)), _columns(*MARKS.names))


def in_log_order(files: Marked, bucket: int) -> Iterator[pa.RecordBatch]:
    """The records of a bucket, group by group, each group's by log partition and offset; some megabytes at a time.

    Parameters
    ----------
    files : sequence of (file, buckets)
        As `Split` told.
    bucket : int
    """
    known, read = _read_at_once(files, bucket) or _read_again(files, bucket)
    if not known:
        return
    part = np.repeat(np.arange(len(known)), [len(table) for table in known])
    row = np.concatenate([np.arange(len(table)) for table in known])
    about = pa.concat_tables(known).combine_chunks()
    order, size = _order(about), about["size"].to_numpy()
    del known, about
    ends = np.cumsum(size[order].astype(np.int64) + 1)
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _AT_ONCE, "right")))
        mine = order[start:end]
        yield _gathered(read, part[mine], row[mine])
        start = end


_Parts = tuple[list[pa.Table], Callable[[int], pa.Table]]
"""Of each part where its records stand, and what reads one."""


def _read_at_once(files: Marked, bucket: int) -> _Parts | None:
    """All parts of a bucket, if they may be held together."""
    held, size = [], 0
    for part in marked_batches(files, bucket):
        size += part.nbytes
        if size > _CACHED:
            return None
        held.append(pa.Table.from_batches([part]))
    return [table.select(list(_PLACES)) for table in held], lambda number: held[number].select(list(RAW))


def _read_again(files: Marked, bucket: int) -> _Parts:
    """A part is read when it is asked for; some of them are kept for when they are asked for again."""
    places = [(file, at) for file, buckets in files for at, number in enumerate(buckets) if number == bucket]
    known = [pa.Table.from_batches([part]) for part in marked_batches(files, bucket, _columns(*_PLACES))]
    largest = max(int(table["size"].to_numpy().sum()) for table in known)

    @lru_cache(maxsize=max(2, _CACHED // max(largest, 1)))
    def read(number: int) -> pa.Table:
        file, at = places[number]
        return pa.Table.from_batches(marked_parts(file, [at], _columns(*RAW)))

    return known, read


def _columns(*names: str) -> list[int]:
    return sorted(REST_SCHEMA.get_field_index(name) for name in names)


def _order(about: pa.Table) -> npt.NDArray[np.int64]:
    coded = about["key"].combine_chunks().dictionary_encode()
    groups = [*(group_of(key) for key in coded.dictionary.to_pylist()), b""]
    number = {group: at for at, group in enumerate(sorted(set(groups)))}
    group = np.array([number[one] for one in groups], np.int64)[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    place = [about[name].fill_null(-1).to_numpy() for name in ("offset", "partition")]
    found: npt.NDArray[np.int64] = np.lexsort((*place, group))
    return found


def _gathered(read: Callable[[int], pa.Table], part: Int64, row: Int64) -> pa.RecordBatch:
    """The rows that stand in some places, in this order."""
    parts = sorted(set(part.tolist()))
    rows = pa.concat_tables([read(one).take(pa.array(row[part == one])) for one in parts])
    back = np.empty(len(part), np.int64)
    back[np.concatenate([np.flatnonzero(part == one) for one in parts])] = np.arange(len(part))
    return rows.combine_chunks().take(pa.array(back)).to_batches()[0]
