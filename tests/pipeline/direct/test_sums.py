"""Commits summed up: against the rule row by row, whatever the order, and through files."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.pipeline.direct.commits import sums_file
from counterpoise.pipeline.direct.commits.decoding import marks_of
from counterpoise.pipeline.direct.commits.key_book import KeyBook
from counterpoise.pipeline.direct.commits.sums import NEVER, Marks, Sums, joined, mark_counts, summed
from counterpoise.pipeline.direct.commits.sums_file import SumsWriter, bucket_parts, read_bucket
from counterpoise.pipeline.direct.files.buckets import BUCKETS
from counterpoise.pipeline.direct.files.marked_file import MarkedFile
from counterpoise.pipeline.direct.files.reading import RAW_SCHEMA, span_of
from counterpoise.pipeline.direct.lag.lives import last_at
from counterpoise.pipeline.direct.tasks import Piece
from counterpoise.wire.offsets_topic import OffsetKey, RecordType
from counterpoise.wire.offsets_topic.keys import encode_key

Commit = tuple[int, int, int, int, bool]
"""Key, time, log offset, committed offset, deletion."""


def commits(seed: int, n: int = 400) -> list[Commit]:
    """Few keys and times, so that ties are many; log offsets are all different, in any order."""
    chance = random.Random(seed)
    offsets = chance.sample(range(10 * n), n)
    return [
        (chance.randrange(4), chance.randrange(12), offset, chance.randrange(99), chance.random() < 0.3) for offset in offsets
    ]


def single(rows: list[Commit]) -> Sums:
    key, time, offset, committed, gone = (np.array(column) for column in zip(*rows, strict=True))
    live = (~gone).astype(np.int64)
    until, first, lowest = np.where(gone, -NEVER, time), np.where(gone, NEVER, time), np.where(gone, NEVER, offset)
    ids = np.full(len(rows), -1, np.int32)
    return Sums(key.astype(np.int32), time, offset, committed, gone, ids, time, live, 1 - live, first, lowest, until)


def by_hand(rows: list[Commit], cell: list[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for pair in sorted({(row[0], number) for row, number in zip(rows, cell, strict=True)}):
        mine = [row for row, number in zip(rows, cell, strict=True) if (row[0], number) == pair]
        newest, live = max(mine, key=lambda row: row[2]), [row for row in mine if not row[4]]
        times, offsets = [row[1] for row in live], [row[2] for row in live]
        figures = (
            len(live),
            len(mine) - len(live),
            min(times, default=NEVER),
            min(offsets, default=NEVER),
            max(times, default=-NEVER),
        )
        found.append((pair[0], newest[1], newest[2], newest[3], newest[4], -1, max(row[1] for row in mine), *figures))
    return found


def as_tuples(sums: Sums) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(sums, field.name).tolist() for field in fields(Sums)), strict=True))


def test_rows_of_a_key_and_cell_become_one() -> None:
    for seed in range(20):
        rows = commits(seed)
        cell = [row[1] // 5 for row in rows]
        assert as_tuples(summed(single(rows), np.array(cell))[0]) == by_hand(rows, cell), seed


def test_sums_of_sums_are_sums() -> None:
    """Summed up in three parts, and these again."""
    rows = commits(1)
    cell = np.array([row[1] // 3 for row in rows])
    parts = [summed(single(rows[part]), cell[part]) for part in (slice(0, 100), slice(100, 130), slice(130, None))]
    again = summed(joined(part for part, _ in parts), np.concatenate([found for _, found in parts]))[0]
    assert as_tuples(again) == as_tuples(summed(single(rows), cell)[0])


def test_a_mark_divides_by_time_and_then_by_log_offset() -> None:
    """Two commits have the same number if and only if no mark of their group lies between them."""
    for seed in range(20):
        chance = random.Random(seed)
        marks = [(chance.randrange(3), chance.randrange(12), chance.randrange(4000)) for _ in range(15)]
        rows = commits(seed, 100)
        group, time, offset = np.array([row[0] - 1 for row in rows]), *(np.array([row[at] for row in rows]) for at in (1, 2))
        found = mark_counts(Marks.of(*(np.array(column) for column in zip(*marks, strict=True))), group, time, offset)
        before = [sum(mark[0] == row[0] - 1 and mark[1:] < row[1:3] for mark in marks) for row in rows]
        for wanted in range(-1, 3):
            mine = np.flatnonzero(group == wanted)
            offsets = {(int(found[at]) - before[at]) for at in mine.tolist()}
            assert len(offsets) <= 1, (seed, wanted)


def test_the_last_place_that_is_not_greater() -> None:
    values = np.array([5, 7, 7, 9, 1, 2])
    first, after = np.array([0, 0, 0, 0, 4, 4, 2]), np.array([4, 4, 4, 4, 6, 6, 2])
    assert last_at(values, first, after, np.array([4, 5, 7, 99, 1, 0, 7])).tolist() == [-1, 0, 2, 3, 4, -1, -1]


def test_sums_come_back_from_their_buckets(tmp_path: Path) -> None:
    rows = commits(5)
    keys = [OffsetKey("orders", "t", 0), OffsetKey("billing", "t", 1), OffsetKey("orders", "u", 2), OffsetKey("audit é", "t", 3)]
    book = KeyBook({})
    code = book.codes(pa.array([encode_key(RecordType.OFFSET_COMMIT, key) for key in keys]).dictionary_encode())
    with SumsWriter(str(tmp_path), book) as writer:
        sums = single([(int(code[row[0]]), *row[1:]) for row in rows])
        writer.add(sums, sums.ts)
    ((file, buckets),) = writer.files.items()
    whole = [read_bucket([(file, buckets)], bucket) for bucket in range(BUCKETS)]
    assert [len(set(table["group_id"].to_pylist())) for table in whole if len(table)] == [1, 1, 1]
    found = sorted(
        row
        for table in whole
        for row in zip(*(table[name].to_pylist() for name in ("partition", "ts", "live", "dead")), strict=True)
    )
    expected = sorted((row[0], row[1], row[7], row[8]) for row in by_hand(rows, [row[1] for row in rows]))
    assert found == expected


def test_a_task_holds_so_many_sums_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many batches there are; rows of one key and cell in several parts of the file are still all there."""
    monkeypatch.setattr(sums_file, "_HELD", 30)
    rows = commits(7, 4_000)
    book = KeyBook({})
    keys = [OffsetKey("orders", "t", number) for number in range(4)]
    code = book.codes(pa.array([encode_key(RecordType.OFFSET_COMMIT, key) for key in keys]).dictionary_encode())
    held = []
    with SumsWriter(str(tmp_path), book) as writer:
        for first in range(0, len(rows), 50):
            sums = single([(int(code[row[0]]), *row[1:]) for row in rows[first : first + 50]])
            writer.add(sums, sums.ts + first)  # so that nothing of one batch is summed up with another one's
            held.append(writer._held.rows)
            writer.make_room()
            assert writer._held.rows <= 60
    assert max(held) <= 60 + 50
    ((file, buckets),) = writer.files.items()
    assert len(buckets) > 10
    whole = pa.concat_tables([read_bucket([(file, buckets)], bucket) for bucket in range(BUCKETS)])
    assert sum(whole["live"].to_pylist()) + sum(whole["dead"].to_pylist()) == len(rows)
    assert max(whole["offset"].to_pylist()) == max(row[2] for row in rows)


def test_marks_outside_a_piece_are_not_held(tmp_path: Path) -> None:
    """What divides no commit of it: the others are all there, and count as before."""
    stamps = pa.array([5, 9, 10, 15, 20, 21, None, 40], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    keys = pa.array([b"\x00\x02\x00\x01" + name for name in (b"x", b"a", b"a", b"b", b"a", b"a", b"a", b"c")], pa.binary())
    pq.write_table(pa.table({"key": keys, "offset": list(range(8)), "timestamp": stamps}), tmp_path / "marks.parquet")
    file = str(tmp_path / "marks.parquet")
    raw = {name: pa.nulls(4, RAW_SCHEMA.field(name).type) for name in RAW_SCHEMA.names}
    for unit in ("us", "ms"):
        times = pa.array([10, 20, None, 12], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        spread = (
            pa.array([10_000, 20_000, None, 12_000], pa.int64())
            .cast(pa.timestamp("us", tz="UTC"))
            .cast(pa.timestamp("ms", tz="UTC"))
        )
        pq.write_table(pa.table({**raw, "timestamp": times if unit == "us" else spread}), tmp_path / f"{unit}.parquet")
        assert span_of(Piece("c", ((str(tmp_path / f"{unit}.parquet"), (0,)),))) == (
            (10, 20) if unit == "us" else (10_000, 20_000)
        )
    groups, marks = marks_of([file], (10, 20))
    assert groups == {b"\x00\x01a": 0, b"\x00\x01b": 1}
    assert marks.times.tolist() == [10, 15, 20]
    whole_groups, whole = marks_of([file])
    assert len(whole.place) == 7
    group, time, offset = np.array([0, 0, 0, 1, 1]), np.array([10, 16, 20, 14, 20]), np.array([1, 3, 9, 0, 0])
    code = np.array([whole_groups[b"\x00\x01a"]] * 3 + [whole_groups[b"\x00\x01b"]] * 2)
    found, before = mark_counts(marks, group, time, offset), mark_counts(whole, code, time, offset)
    assert np.diff(found[:3]).tolist() == np.diff(before[:3]).tolist() == [1, 1]
    assert np.diff(found[3:]).tolist() == np.diff(before[3:]).tolist() == [1]
    pq.write_table(pa.table(raw), tmp_path / "none.parquet", write_statistics=False)
    assert span_of(Piece("c", ((str(tmp_path / "none.parquet"), (0,)),))) is None


def test_small_parts_of_a_bucket_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is dealt over hundreds of files' parts when a bucket is large: there must be few of them, and no row may be lost."""
    monkeypatch.setattr(sums_file, "_HELD", 30)
    empty = read_bucket((), 0)
    one = pa.table([pa.nulls(1, field.type) for field in empty.schema], schema=empty.schema)
    with MarkedFile(str(tmp_path), "sums", empty.schema) as out:
        for at in range(40):
            out.write(pa.concat_tables([one] * 5), at % 2)
    assert out.file is not None
    assert [len(part) for part in bucket_parts([(out.file, out.marks)], 1)] == [30, 30, 30, 10]
    assert [len(part) for part in bucket_parts([(out.file, out.marks)], 2)] == []
