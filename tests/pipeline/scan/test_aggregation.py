"""Commits aggregated: against the rule row by row, whatever the order."""

from __future__ import annotations

import random
from dataclasses import fields

import numpy as np
import pytest

from counterpoise.pipeline.arrays import NEVER, last_at
from counterpoise.pipeline.scan import aggregation
from counterpoise.pipeline.scan.aggregation import AggregateBuffer, Aggregates, aggregated

Commit = tuple[int, int, int, int, bool]
"""Key, time, log offset, committed offset, deletion."""


def commits(seed: int, n: int = 400) -> list[Commit]:
    """Few keys and times, so that ties are many; log offsets are all different, in any order."""
    chance = random.Random(seed)
    offsets = chance.sample(range(10 * n), n)
    return [
        (chance.randrange(4), chance.randrange(12), offset, chance.randrange(99), chance.random() < 0.3) for offset in offsets
    ]


def single(rows: list[Commit]) -> Aggregates:
    key, time, offset, committed, gone = (np.array(column) for column in zip(*rows, strict=True))
    return Aggregates.of_commits(key.astype(np.int32), time, offset, committed, gone, np.full(len(rows), -1, np.int32))


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


def as_tuples(rows: Aggregates) -> list[tuple[int, ...]]:
    return list(zip(*(getattr(rows, field.name).tolist() for field in fields(Aggregates)), strict=True))


def test_rows_of_a_key_and_cell_become_one() -> None:
    for seed in range(20):
        rows = commits(seed)
        cell = [row[1] // 5 for row in rows]
        found, of_row = aggregated(single(rows), np.array(cell))
        assert as_tuples(found) == by_hand(rows, cell), seed
        pairs = list(zip(found.key.tolist(), of_row.tolist(), strict=True))
        assert pairs == sorted({(row[0], row[1] // 5) for row in rows}), seed


@pytest.mark.parametrize("gone", [False, True], ids=["no deletion", "deletions alone"])
def test_commits_of_one_kind_are_aggregated_as_others(gone: bool) -> None:
    rows = [(*row[:4], gone) for row in commits(3)]
    assert as_tuples(aggregated(single(rows), np.zeros(len(rows), np.int64))[0]) == by_hand(rows, [0] * len(rows))


def test_aggregates_of_aggregates_are_aggregates() -> None:
    """Aggregated in three parts, and these again."""
    rows = commits(1)
    cell = np.array([row[1] // 3 for row in rows])
    parts = [aggregated(single(rows[part]), cell[part]) for part in (slice(0, 100), slice(100, 130), slice(130, None))]
    again = aggregated(Aggregates.joined([part for part, _ in parts]), np.concatenate([found for _, found in parts]))[0]
    assert as_tuples(again) == as_tuples(aggregated(single(rows), cell)[0])


def test_what_is_held_is_aggregated_before_it_is_full_and_is_bounded_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several batches that agree become one; a batch that is larger than all the room is held too."""
    monkeypatch.setattr(aggregation, "_HELD", 100)
    for different, takes in ((1, 0), (100, 20)):
        rows, held = commits(7, 4_000), AggregateBuffer()
        cell = np.array([at // 100 * different + row[1] for at, row in enumerate(rows)]) % (8 if takes == 0 else 1 << 40)
        taken: list[tuple[int, ...]] = []
        n = 0
        for first in range(0, len(rows), 50):
            held.add(single(rows[first : first + 50]), cell[first : first + 50])
            if held.full:
                taken += as_tuples(held.take())
                n += 1
                assert (len(held), held.full) == (0, False)
            assert len(held) <= 100
        taken += as_tuples(held.take())
        assert (n == 0, n >= takes) == (takes == 0, True)
        assert sum(row[7] + row[8] for row in taken) == len(rows)
        assert max(row[2] for row in taken) == max(row[2] for row in rows)
    held.add(single(rows), cell)
    assert as_tuples(held.take()) == by_hand(rows, cell.tolist())


def test_the_last_place_that_is_not_greater() -> None:
    values = np.array([5, 7, 7, 9, 1, 2])
    first, after = np.array([0, 0, 0, 0, 4, 4, 2]), np.array([4, 4, 4, 4, 6, 6, 2])
    assert last_at(values, first, after, np.array([4, 5, 7, 99, 1, 0, 7])).tolist() == [-1, 0, 2, 3, 4, -1, -1]
