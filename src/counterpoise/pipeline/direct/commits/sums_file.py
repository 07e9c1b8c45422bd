"""Files of sums: written by the tasks that decode, in parts of one bucket of groups each; read bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.direct.commits.key_book import KeyBook
from counterpoise.pipeline.direct.commits.sums import Alike, Sums, summed
from counterpoise.pipeline.direct.files.buckets import bucket_of
from counterpoise.pipeline.direct.files.marked_file import Marked, MarkedFile, marked_batches
from counterpoise.pipeline.direct.tasks import give_back

__all__ = ["SumsWriter", "bucket_parts", "read_bucket", "sums_of"]

_FIELDS = tuple(field.name for field in fields(Sums))
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
_MADE = 8_192
"""So many rows are laid out for writing at a time: small parts together, because most of what one costs is not its rows."""
_HELD = 50_000
"""So many rows a task holds before it writes them: memory does not grow with the capture."""


class SumsWriter:
    """The sums of one task; their keys are codes of its `KeyBook`, which is cleared after a `flush` alone."""

    def __init__(self, folder: str, book: KeyBook) -> None:
        self._out, self._book, self._held = MarkedFile(folder, "sums", _SCHEMA, "lz4"), book, _Held()
        self._clear()

    def _clear(self) -> None:
        self._ids: dict[str, int] = {}
        self._held.rows = 0

    def __enter__(self) -> SumsWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.flush()
        self._out.__exit__()

    @property
    def files(self) -> dict[str, list[int]]:
        """The file, if there are sums, and the bucket of each of its parts."""
        return {} if self._out.file is None else {self._out.file: self._out.marks}

    def id_code(self, topic_id: str) -> int:
        """A number for a topic id; the same for equal ones until the next batch is added."""
        return self._ids.setdefault(topic_id, len(self._ids))

    def add(self, rows: Sums, cell: Int64) -> None:
        """Sums of a batch; rows that agree in key and cell become one. They are held until `make_room` is called."""
        if len(rows):
            self._held.add(*summed(rows, cell))

    def make_room(self) -> None:
        """Sum up what is held, and write it, if it is much: to be called when as little else as possible is held."""
        if self._held.rows > 2 * _HELD:
            self._held.sum_up()
            if self._held.rows > _HELD:
                self._write(self._held.sums)
                self._clear()
            give_back()

    def flush(self) -> None:
        """Write what is held."""
        if self._held.rows:
            self._held.sum_up()
            self._write(self._held.sums)
        self._clear()

    def _write(self, rows: Sums) -> None:
        book, groups = self._book, list(self._book.groups)
        bucket = np.array([bucket_of(name.encode()) for name in groups], np.int64)[book.group[rows.key]]
        order = np.argsort(bucket, kind="stable")
        bucket = bucket[order]
        listed = [pa.array(names, pa.string()) for names in (groups, list(book.topics), [*self._ids, None])]
        ends = (np.flatnonzero(np.append(bucket[1:] != bucket[:-1], True)) + 1).tolist()
        start = 0
        while ends:
            several = [end for end in ends if end <= start + _MADE] or ends[:1]
            table = self._table(rows.take(order[start : several[-1]]), *listed)
            for first, end in pairwise([start, *several]):
                self._out.write(table.slice(first - start, end - first), int(bucket[first]))
            start, ends = several[-1], ends[len(several) :]

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


class _Held:
    """Rows of sums and their cells, in arrays that are there from the beginning: what comes and goes with every batch finds its
    memory beside them, and none that is torn by what stays.

    Attributes
    ----------
    rows : int
    """

    def __init__(self) -> None:
        kinds: dict[str, type] = {"key": np.int32, "topic_id": np.int32, "deleted": np.bool_}
        self._columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(3 * _HELD, kinds.get(name, np.int64)) for name in (*_FIELDS, "cell")
        }
        self.rows = 0

    @property
    def sums(self) -> Sums:
        """The rows, until something is added or summed up."""
        return Sums(*(self._columns[name][: self.rows] for name in _FIELDS))

    def add(self, rows: Sums, cell: Int64) -> None:
        """More rows, and their cells."""
        first, self.rows = self.rows, self.rows + len(rows)
        if self.rows > len(self._columns["cell"]):
            self._columns = {name: np.concatenate((one[:first], np.zeros_like(one))) for name, one in self._columns.items()}
        for name in _FIELDS:
            self._columns[name][first : self.rows] = getattr(rows, name)
        self._columns["cell"][first : self.rows] = cell

    def sum_up(self) -> None:
        """Rows that agree in key and cell become one, column by column."""
        alike = Alike.of(*(self._columns[name][: self.rows] for name in ("key", "cell", "offset")))
        for name, column in self._columns.items():
            column[: len(alike.newest)] = alike.summed(name, column[: self.rows])
        self.rows = len(alike.newest)


def read_bucket(files: Marked, bucket: int) -> pa.Table:
    """All sums of a bucket's groups."""
    return pa.Table.from_batches(marked_batches(files, bucket), _SCHEMA).combine_chunks()


def bucket_parts(files: Marked, bucket: int) -> Iterator[pa.Table]:
    """The same, about as much at a time as a task that decodes held at once: parts of files are small, and there are many."""
    rows, held = 0, list[pa.RecordBatch]()
    for part in marked_batches(files, bucket):
        rows += part.num_rows
        held.append(part)
        if rows >= _HELD:
            yield pa.Table.from_batches(held).combine_chunks()
            rows, held = 0, []
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def sums_of(table: pa.Table, key: Int32, topic_id: Int32) -> Sums:
    """Rows read back, with codes for their keys and ids."""
    numbers = {name: table[name].to_numpy() for name in _NUMBERS}
    return Sums(key=key, topic_id=topic_id, deleted=table["deleted"].to_numpy(zero_copy_only=False), **numbers)
