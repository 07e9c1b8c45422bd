"""The commits of one piece: decoded, written as files of `offset_commits`, and summed up for lag and stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.by_day import ByDay
from counterpoise.pipeline.direct.reading import RAW, RAW_SCHEMA, are_commits, plain, raw_batches
from counterpoise.pipeline.direct.sums import NEVER, Marks, Sums, mark_counts, slots_of
from counterpoise.pipeline.direct.sums_file import SumsWriter
from counterpoise.pipeline.direct.tasks import Piece, scratch
from counterpoise.pipeline.records.commits import COMMIT_COLUMNS, decoded_batch
from counterpoise.wire.offsets_topic.batch import CommitBatch

__all__ = ["Wanted", "decode_piece", "marks_of"]

_RISING = ("log_offset", "log_ts", "committed_offset", "commit_ts")


@dataclass(frozen=True)
class Wanted:
    """What a task needs beside its piece.

    Attributes
    ----------
    folder : str
        Where it writes.
    rest : tuple of str
        Files of the cluster's other records (`reading.split_off`): no sum reaches across a record of the same group.
    samples : tuple of int
        Instants at which log ends were sampled, in microseconds, ascending.
    width : float, optional
        Of the slots between them.
    aborted : str, optional
        The capture's file of records that never took effect; they are in the table and in no sum.
    """

    folder: str
    rest: tuple[str, ...]
    samples: tuple[int, ...] = ()
    width: float | None = None
    aborted: str | None = None


def marks_of(files: Sequence[str]) -> tuple[dict[bytes, int], Marks]:
    """Every record in the files as a mark of its group; groups by their bytes (length and name) to codes."""
    codes: dict[bytes, int] = {}
    groups, times, offsets = [], [], []
    for file in files:
        read = pq.read_table(file, columns=["key", "offset", "timestamp"], use_threads=False).drop_null().combine_chunks()
        groups += [codes.setdefault(_group_bytes(raw), len(codes)) for raw in read["key"].to_pylist()]
        times.append(read["timestamp"].cast(pa.int64()).to_numpy())
        offsets.append(read["offset"].to_numpy())
    nothing = [np.zeros(0, np.int64)]
    return codes, Marks.of(np.array(groups, np.int64), np.concatenate(nothing + times), np.concatenate(nothing + offsets))


def _group_bytes(key: bytes) -> bytes:
    """A key's group as its bytes: all keys start with their type and the group's name."""
    return key[2 : 4 + int.from_bytes(key[2:4], "big")]


@dataclass
class _Told:
    """What a task counts."""

    errors: int = 0
    tombstones: int = 0
    decoded: int = 0
    transactional: int = 0
    first: int | None = None
    last: int | None = None

    def count(self, good: pa.RecordBatch, decoded: CommitBatch, stamps: pa.Array) -> None:
        self.errors += len(decoded.rest)
        self.tombstones += int(np.count_nonzero(decoded.deleted))
        self.decoded += good.num_rows
        self.transactional += int(np.count_nonzero((decoded.version >= 4) & ~decoded.has_topic_id))
        known = stamps.drop_null().to_numpy()
        if len(known):
            low, high = int(known.min()), int(known.max())
            self.first = low if self.first is None else min(low, self.first)
            self.last = high if self.last is None else max(high, self.last)


def decode_piece(piece: Piece, wanted: Wanted) -> dict[str, Any]:
    """Decode and write; tell counts, files by day, files of what cannot be decoded, and of sums."""
    told = _Told()
    with (
        ByDay(wanted.folder, "commits", COMMIT_COLUMNS, _RISING) as days,
        _Suspects(wanted.folder) as suspects,
        SumsWriter(wanted.folder) as sums,
    ):
        summing = _Summing(wanted, sums)
        for batch in raw_batches(piece, RAW):
            mine = are_commits(batch.column("key"))
            if not mine.all():
                batch = batch.take(pa.array(np.flatnonzero(mine)))
            good, decoded = decoded_batch(batch)
            told.count(good, decoded, batch.column("timestamp").cast(RAW_SCHEMA.field("timestamp").type).cast(pa.int64()))
            if len(decoded.rest):
                suspects.write(plain(batch.take(pa.array(decoded.rest))))
            if good.num_rows:
                time = good.column("log_ts").cast(pa.int64()).to_numpy()
                days.write(good, time)
                summing.add(batch.column("key").dictionary, good, decoded, time)
    return {**asdict(told), "names": sorted(summing.names), "days": days.files, "suspects": suspects.file, "sums": sums.files}


class _Suspects:
    """A file of raw commits that cannot be decoded, made when there is one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: pq.ParquetWriter | None = None
        self.file: str | None = None

    def __enter__(self) -> _Suspects:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.RecordBatch) -> None:
        if self._writer is None:
            place = scratch(self._folder, "suspects")
            self.file, self._writer = str(place), pq.ParquetWriter(place, RAW_SCHEMA)
        self._writer.write_batch(rows)


class _Summing:
    """Decoded batches to sums: no row reaches across a sample, a slot or another record of its group."""

    def __init__(self, wanted: Wanted, out: SumsWriter) -> None:
        self._out = out
        self._groups, self._marks = marks_of(wanted.rest)
        self._samples, self._width = np.array(wanted.samples, np.int64), wanted.width
        pairs = json.loads(Path(wanted.aborted).read_bytes()) if wanted.aborted is not None else []
        self._aborted = {(int(partition), int(offset)) for partition, offset in pairs}
        self._aborted_offsets = np.array(sorted({offset for _, offset in self._aborted}), np.int64)
        self.names: set[tuple[str, str]] = set()

    def add(self, keys: pa.Array, good: pa.RecordBatch, decoded: CommitBatch, time: Int64) -> None:
        offset = good.column("log_offset").to_numpy()
        used = np.flatnonzero(np.bincount(decoded.key, minlength=len(keys)))
        raw = keys.take(pa.array(used)).to_pylist()
        first = _first_rows(decoded.key, len(keys))[used]
        texts = [good.column(name).take(pa.array(first)).to_pylist() for name in ("group_id", "topic", "partition")]
        code = np.zeros(len(keys), np.int32)
        code[used] = self._out.codes(raw, *texts)
        group = np.zeros(len(keys), np.int64)
        group[used] = [self._groups.get(_group_bytes(one), -1) for one in raw]
        ids = good.column("topic_id").dictionary_encode()
        listed = ids.dictionary.to_pylist()
        id_of = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
        self._name(decoded.key, id_of, listed, used, texts[1])
        global_id = np.array([*(self._out.id_code(one) for one in listed), -1], np.int32)[id_of]
        rows = _rows_of(code[decoded.key], offset, decoded, time, global_id)
        cell = slots_of(time, self._samples, self._width) + mark_counts(self._marks, group[decoded.key], time, offset)
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

    def _name(self, key: Any, id_of: Any, ids: list[str], used: Int64, topics: list[str]) -> None:
        """Which topic an id belongs to; nearly always all commits of a key have one id."""
        if not ids:
            return
        topic = np.zeros(int(used[-1]) + 1, np.int64)
        topic[used] = np.arange(len(used))
        newest = np.full(len(topic), -1, np.int32)
        newest[key] = id_of
        pairs = {(int(newest[at]), topics[number]) for number, at in enumerate(used.tolist())}
        for row in np.flatnonzero(newest[key] != id_of).tolist():
            pairs.add((int(id_of[row]), topics[int(topic[key[row]])]))
        self.names |= {(ids[at], name) for at, name in pairs if at >= 0}


def _first_rows(key: Any, n: int) -> Int64:
    """For each key a row that has it."""
    row = np.zeros(n, np.int64)
    row[key] = np.arange(len(key))
    return row


def _rows_of(code: Any, offset: Int64, decoded: CommitBatch, time: Int64, topic_id: Any) -> Sums:
    """Each commit as a sum of one."""
    gone = decoded.deleted
    some = bool(gone.any())
    live = (~gone).astype(np.int64)
    return Sums(
        key=code,
        ts=time,
        offset=offset,
        committed=decoded.offset,
        deleted=gone,
        topic_id=topic_id,
        max_ts=time,
        live=live,
        dead=1 - live,
        live_ts=np.where(gone, NEVER, time) if some else time,
        live_offset=np.where(gone, NEVER, offset) if some else offset,
        live_until=np.where(gone, -NEVER, time) if some else time,
    )
