"""Files of sums: written by the tasks that decode, a row group per bucket of groups; read bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.direct.commits.key_book import KeyBook
from counterpoise.pipeline.direct.commits.sums import Sums, columns_of, summed
from counterpoise.pipeline.direct.files.footers import footer, opened
from counterpoise.pipeline.direct.tasks import scratch

__all__ = ["BUCKETS", "SumsWriter", "bucket_parts", "read_bucket", "rows_of_bucket", "sums_of"]

BUCKETS = 64
"""Groups are judged so many parts at a time: by the CRC-32 of their name, which Spark knows too."""
_NUMBERS = ("ts", "offset", "committed", "max_ts", "live", "dead", "live_ts", "live_offset", "live_until")
_SCHEMA = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("deleted", pa.bool_()),
        *((name, pa.int64()) for name in _NUMBERS),
    ]
)
_HELD = 100_000
"""So many rows a task holds before it writes them: memory does not grow with the capture."""


class SumsWriter:
    """The sums of one task; their keys are codes of its `KeyBook`, which is cleared after a `flush` alone."""

    def __init__(self, folder: str, book: KeyBook) -> None:
        self._place, self._book = scratch(folder, "sums"), book
        self._writer: pq.ParquetWriter | None = None
        self._buckets: list[int] = []
        self._clear()

    def _clear(self) -> None:
        self._ids: dict[str, int] = {}
        self._held: list[list[Any]] = [[] for _ in (*fields(Sums), "cell")]
        self._rows = 0

    def __enter__(self) -> SumsWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.flush()
        if self._writer is not None:
            self._writer.close()

    @property
    def files(self) -> dict[str, list[int]]:
        """The file, if there are sums, and the bucket of each of its row groups."""
        return {str(self._place): self._buckets} if self._buckets else {}

    def id_code(self, topic_id: str) -> int:
        """A number for a topic id; the same for equal ones until the next batch is added."""
        return self._ids.setdefault(topic_id, len(self._ids))

    def add(self, rows: Sums, cell: Int64) -> None:
        """Sums of a batch; rows that agree in key and cell become one."""
        if not len(rows):
            return
        self._hold(*summed(rows, cell))
        if self._rows > 2 * _HELD:
            rows, cell = self._taken()
            if len(rows) > _HELD:
                self._write(rows)
                self._clear()
            else:
                self._hold(rows, cell)

    def flush(self) -> None:
        """Write what is held."""
        if self._rows:
            self._write(self._taken()[0])
        self._clear()

    def _hold(self, rows: Sums, cell: Int64) -> None:
        for held, column in zip(self._held, (*columns_of(rows), cell), strict=True):
            held.append(column)
        self._rows += len(rows)

    def _taken(self) -> tuple[Sums, Int64]:
        """All that is held as one, and is not held any more: column by column, so that it is hardly there twice."""
        *columns, cell = (_emptied(held) for held in self._held)
        self._rows = 0
        return summed(Sums(*columns), cell)

    def _write(self, rows: Sums) -> None:
        book, groups = self._book, list(self._book.groups)
        bucket = np.array([crc32(name.encode()) % BUCKETS for name in groups], np.int64)[book.group[rows.key]]
        order = np.argsort(bucket, kind="stable")
        bucket = bucket[order]
        listed = [pa.array(names, pa.string()) for names in (groups, list(book.topics), [*self._ids, None])]
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._place, _SCHEMA, compression="lz4", use_dictionary=_SCHEMA.names[:5])
        ends = np.flatnonzero(np.append(bucket[1:] != bucket[:-1], True)) + 1
        start = 0
        for end in ends.tolist():
            self._writer.write_table(self._table(rows.take(order[start:end]), *listed), row_group_size=end - start)
            self._buckets.append(int(bucket[start]))
            start = end

    def _table(self, rows: Sums, groups: pa.Array, topics: pa.Array, ids: pa.Array) -> pa.Table:
        book = self._book
        columns = [
            groups.take(pa.array(book.group[rows.key])),
            topics.take(pa.array(book.topic[rows.key])),
            pa.array(book.columns.partition[rows.key]),
            ids.take(pa.array(np.where(rows.topic_id < 0, len(ids) - 1, rows.topic_id))),
            pa.array(rows.deleted),
            *(pa.array(getattr(rows, name)) for name in _NUMBERS),
        ]
        return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _emptied(held: list[Any]) -> Any:
    whole = np.concatenate(held)
    held.clear()
    return whole


def read_bucket(files: Sequence[tuple[str, Sequence[int]]], bucket: int) -> pa.Table:
    """All sums of a bucket's groups."""
    parts = [_SCHEMA.empty_table()]
    for file, mine in _row_groups(files, bucket):
        with opened(file) as reader:
            parts.append(reader.read_row_groups(mine, use_threads=False).cast(_SCHEMA))
    return pa.concat_tables(parts).combine_chunks()


def bucket_parts(files: Sequence[tuple[str, Sequence[int]]], bucket: int) -> Iterator[pa.Table]:
    """The same, as much at a time as a task that decodes held at once."""
    for file, mine in _row_groups(files, bucket):
        with opened(file) as reader:
            for at in mine:
                yield reader.read_row_group(at, use_threads=False).cast(_SCHEMA)


def rows_of_bucket(files: Sequence[tuple[str, Sequence[int]]], bucket: int) -> int:
    """How many there are."""
    return sum(footer(file).row_group(at).num_rows for file, mine in _row_groups(files, bucket) for at in mine)


def _row_groups(files: Sequence[tuple[str, Sequence[int]]], bucket: int) -> Iterator[tuple[str, list[int]]]:
    for file, buckets in files:
        mine = [at for at, number in enumerate(buckets) if number == bucket]
        if mine:
            yield file, mine


def sums_of(table: pa.Table, key: Int32, topic_id: Int32) -> Sums:
    """Rows read back, with codes for their keys and ids."""
    numbers = {name: table[name].to_numpy() for name in _NUMBERS}
    return Sums(key=key, topic_id=topic_id, deleted=table["deleted"].to_numpy(zero_copy_only=False), **numbers)
