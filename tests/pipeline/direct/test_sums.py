"""Commits summed up: against the rule row by row, whatever the order, and through files."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from counterpoise.pipeline.direct.commits.key_book import KeyBook
from counterpoise.pipeline.direct.commits.sums import NEVER, Marks, Sums, joined, mark_counts, summed
from counterpoise.pipeline.direct.commits.sums_file import BUCKETS, SumsWriter, read_bucket
from counterpoise.pipeline.direct.lag.lives import last_at
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
