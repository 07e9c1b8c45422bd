"""The commits of one piece: decoded, written as files of `offset_commits`, and summed up for lag and stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.model.problem import Int32, Int64
from counterpoise.pipeline.direct.commits.key_book import KeyBook, group_bytes
from counterpoise.pipeline.direct.commits.sums import NEVER, Marks, Sums, mark_counts, slots_of
from counterpoise.pipeline.direct.commits.sums_file import SumsWriter
from counterpoise.pipeline.direct.files.by_day import ByDay
from counterpoise.pipeline.direct.files.error_rows import ErrorRows
from counterpoise.pipeline.direct.files.reading import RAW, plain, raw_batches, span_of
from counterpoise.pipeline.direct.groups.chosen import ChosenGroups
from counterpoise.pipeline.direct.groups.rest import Split
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.pipeline.records.commits import CODED_COLUMNS, coded_commits
from counterpoise.wire.offsets_topic.batch import CommitBatch

__all__ = ["Wanted", "decode_piece", "marks_of"]

_TABLE = 4_000_000
"""Up to so many different numbers are told apart by a table."""
_RISING = ("log_offset", "log_ts", "committed_offset", "commit_ts")
_SPANNED = ("log_partition", "log_offset", "log_ts")


@dataclass(frozen=True)
class Wanted:
    """What a task needs beside its piece.

    Attributes
    ----------
    folder : str
        Where it writes.
    rest : tuple of str
        Files of keys, offsets and times of the cluster's other records (`rest.mark_others`): no sum reaches across a record of
        the same group.
    samples : tuple of int
        Instants at which log ends were sampled, in microseconds, ascending.
    width : float, optional
        Of the slots between them.
    aborted : str, optional
        The capture's file of records that never took effect; they are in the table and in no sum.
    chosen : ChosenGroups
        All records are counted; those of other groups are in no table.
    salt : str, optional
        Names in tables are hashed with it.
    """

    folder: str
    rest: tuple[str, ...]
    samples: tuple[int, ...] = ()
    width: float | None = None
    aborted: str | None = None
    chosen: ChosenGroups = field(default_factory=ChosenGroups)
    salt: str | None = None


def marks_of(files: Sequence[str], span: tuple[int, int] | None = None) -> tuple[dict[bytes, int], Marks]:
    """Every record in the files as a mark of its group; groups by their bytes (length and name) to codes.

    Parameters
    ----------
    files : sequence of str
    span : pair of int, optional
        Only marks from a time to another one, in microseconds: those before or after all commits of a piece divide none of them.
    """
    codes: dict[bytes, int] = {}
    groups, times, offsets = [], [], []
    for file in files:
        with pq.ParquetFile(file) as reader:
            for batch in reader.iter_batches(columns=["key", "offset", "timestamp"], use_threads=False):
                read = pa.table(batch).drop_null()
                time = read["timestamp"].cast(pa.int64()).to_numpy()
                if span is not None:
                    mine = np.flatnonzero((time >= span[0]) & (time <= span[1]))
                    read, time = read.take(pa.array(mine)), time[mine]
                keys = read["key"].combine_chunks().cast(pa.binary()).dictionary_encode()
                of_key = [codes.setdefault(group_bytes(raw), len(codes)) for raw in keys.dictionary.to_pylist()]
                groups.append(np.array(of_key, np.int64)[keys.indices.to_numpy()])
                times.append(time)
                offsets.append(read["offset"].to_numpy())
    nothing = [np.zeros(0, np.int64)]
    return codes, Marks.of(*(np.concatenate(nothing + columns) for columns in (groups, times, offsets)))


@dataclass
class _Told:
    """What a task counts."""

    errors: int = 0
    tombstones: int = 0
    decoded: int = 0
    transactional: int = 0
    first: int | None = None
    last: int | None = None

    def count(self, decoded: CommitBatch, time: Int64, lost: int, lost_times: Int64) -> None:
        self.errors += lost
        self.tombstones += int(np.count_nonzero(decoded.deleted))
        self.decoded += len(decoded.row)
        self.transactional += int(np.count_nonzero((decoded.version >= 4) & ~decoded.has_topic_id))
        for times in (time, lost_times):
            if len(times):
                low, high = int(times.min()), int(times.max())
                self.first = low if self.first is None else min(low, self.first)
                self.last = high if self.last is None else max(high, self.last)


def decode_piece(piece: Piece, wanted: Wanted) -> dict[str, Any]:
    """Decode and write; tell counts, files by day, also of what cannot be decoded, files of sums, and what `rest.Split` tells."""
    groups, marks = marks_of(wanted.rest, span_of(piece))
    fitting = None if wanted.chosen.everyone else wanted.chosen.fitting
    book = KeyBook(groups, fitting)
    with (
        ByDay(wanted.folder, "commits", CODED_COLUMNS, _RISING, spanned=_SPANNED, salt=wanted.salt) as days,
        ErrorRows(wanted.folder, wanted.salt) as errors,
        SumsWriter(wanted.folder, book) as sums,
        Split(wanted.folder, fitting, errors) as split,
    ):
        decoding = _Decoding(book, days, errors, split, _Summing(wanted, marks, book, sums))
        for batch in raw_batches(piece, RAW):
            decoding.decode(batch)
            del batch
            # Nothing of the batch is left but its sums: no piece of work has its peak on top of another one's.
            if book.full:
                sums.flush()
                book.clear()
            sums.make_room()
    tables = {"offset_commits": {"days": days.files, "rows": days.rows}, "decode_errors": errors.told}
    return {**asdict(decoding.told), "names": sorted(decoding.names), "tables": tables, "sums": sums.files, **split.told}


class _Decoding:
    """What is done with each batch of a piece."""

    def __init__(self, book: KeyBook, days: ByDay, errors: ErrorRows, split: Split, summing: _Summing) -> None:
        self._book, self._days, self._errors, self._split, self._summing = book, days, errors, split, summing
        self.told = _Told()

    @property
    def names(self) -> set[tuple[str, str]]:
        """Topic ids with their names."""
        return self._summing.names

    def decode(self, batch: pa.RecordBatch) -> None:
        """Decode, write and sum up."""
        book = self._book
        codes = book.codes(batch.column("key"))
        good, decoded = coded_commits(batch, book.columns, codes, lambda found: _names(book, found.key))
        time = good.column("log_ts").cast(pa.int64()).to_numpy()
        damaged = np.append(book.commit, False)[codes[decoded.rest]]
        lost = decoded.rest[damaged]
        self._split.add(batch, decoded.rest[~damaged])
        self.told.count(decoded, time, len(lost), self._lost(batch, lost))
        chosen = np.flatnonzero(book.chosen[decoded.key])
        if len(chosen) < good.num_rows:
            good, time = good.take(pa.array(chosen)), time[chosen]
        if good.num_rows:
            self._days.write(good, time)
            self._summing.add(good, _Said(decoded.key[chosen], decoded.offset[chosen], decoded.deleted[chosen]), time)

    def _lost(self, batch: pa.RecordBatch, lost: Int64) -> Int64:
        """Keep some rows of a batch as errors; when they were."""
        if not len(lost):
            return np.zeros(0, np.int64)
        rows = plain(batch.take(pa.array(lost)))
        self._errors.add(rows.to_pylist())
        return np.asarray(rows.column("timestamp").drop_null().cast(pa.int64()))


def _names(book: KeyBook, key: Int32) -> list[pa.Array]:
    """``group_id, topic, partition`` of some keys; names as a dictionary of those that occur."""
    columns = []
    for code, names in ((book.group[key], book.groups), (book.topic[key], book.topics)):
        used = np.flatnonzero(np.bincount(code, minlength=len(names)))
        place = np.zeros(len(names), np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        listed = pa.array(list(names), pa.string()).take(pa.array(used))
        columns.append(pa.DictionaryArray.from_arrays(pa.array(place[code]), listed))
    return [*columns, pa.array(book.columns.partition[key])]


@dataclass(frozen=True)
class _Said:
    """What some commits say: codes of their keys, offsets (-1 where they delete), and whether they delete."""

    key: Int32
    committed: Int64
    deleted: npt.NDArray[np.bool_]


class _Summing:
    """Decoded batches to sums: no row reaches across a sample, a slot or another record of its group."""

    def __init__(self, wanted: Wanted, marks: Marks, book: KeyBook, out: SumsWriter) -> None:
        self._out, self._book, self._marks = out, book, marks
        self._samples, self._width = np.array(wanted.samples, np.int64), wanted.width
        pairs = json.loads(Path(wanted.aborted).read_bytes()) if wanted.aborted is not None else []
        self._aborted = {(int(partition), int(offset)) for partition, offset in pairs}
        self._aborted_offsets = np.array(sorted({offset for _, offset in self._aborted}), np.int64)
        self.names: set[tuple[str, str]] = set()

    def add(self, good: pa.RecordBatch, said: _Said, time: Int64) -> None:
        offset, key = good.column("log_offset").to_numpy(), said.key
        ids = good.column("topic_id")
        listed = ids.dictionary.to_pylist()
        id_of = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        self._name(self._book.topic[key], id_of, listed)
        global_id = np.array([*(self._out.id_code(one) for one in listed), -1], np.int32)[id_of]
        rows = _rows_of(offset, said, time, global_id)
        cell = slots_of(time, self._samples, self._width) + mark_counts(self._marks, self._book.mark[key], time, offset)
        if len(self._aborted):
            keep = np.flatnonzero(self._counts(good.column("log_partition").to_numpy(), offset))
            rows, cell = rows.take(keep), cell[keep]
        self._out.add(rows, cell)

    def _counts(self, partition: npt.NDArray[np.int32], offset: Int64) -> npt.NDArray[np.bool_]:
        near = np.minimum(np.searchsorted(self._aborted_offsets, offset), len(self._aborted_offsets) - 1)
        keep: npt.NDArray[np.bool_] = self._aborted_offsets[near] != offset
        for row in np.flatnonzero(~keep).tolist():
            keep[row] = (int(partition[row]), int(offset[row])) not in self._aborted
        return keep

    def _name(self, topic: Int32, id_of: Any, ids: list[str]) -> None:
        """Which topic an id belongs to."""
        if ids:
            topics = list(self._book.topics)
            pairs = _different((id_of.astype(np.int64) + 1) * len(topics) + topic, (len(ids) + 1) * len(topics))
            self.names |= {(ids[at // len(topics) - 1], topics[at % len(topics)]) for at in pairs if at >= len(topics)}


def _different(codes: Int64, end: int) -> list[int]:
    """Which numbers, below `end`, are among the codes."""
    if end <= _TABLE:
        table = np.zeros(end, np.bool_)
        table[codes] = True
        codes = np.flatnonzero(table)
    return sorted(set(codes.tolist()))


def _rows_of(offset: Int64, said: _Said, time: Int64, topic_id: Any) -> Sums:
    """Each commit as a sum of one."""
    gone = said.deleted
    some = bool(gone.any())
    live = (~gone).astype(np.int64)
    return Sums(
        key=said.key,
        ts=time,
        offset=offset,
        committed=said.committed,
        deleted=gone,
        topic_id=topic_id,
        max_ts=time,
        live=live,
        dead=1 - live,
        live_ts=np.where(gone, NEVER, time) if some else time,
        live_offset=np.where(gone, NEVER, offset) if some else offset,
        live_until=np.where(gone, -NEVER, time) if some else time,
    )
