"""A record that is in a capture twice is refused by name; flushes that lie one behind the other in the log may begin a chunk."""

from __future__ import annotations

import random
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from counterpoise.pipeline.scan.offset_spans import Flush, OffsetSpans, chunk_starts, overlapping
from counterpoise.pipeline.scan.read import RAW_SCHEMA

Places = list[tuple[int | None, int | None]]
RISING: Places = [(number, offset) for offset in range(40) for number in (0, 7, 40_000, -1)] + [(None, 3), (None, 3), (2, None)]


def batches(places: Places) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist([{"partition": one, "offset": other} for one, other in places], RAW_SCHEMA).to_batches(30)


def listed(places: Places) -> list[list[int]]:
    spans = OffsetSpans()
    for batch in batches(places):
        spans.add(batch)
    return spans.listed


def suspected(*parts: Places) -> list[int]:
    """Which log partitions are out of order, or have an offset twice."""
    return overlapping((at, listed(part)) for at, part in enumerate(parts))


def test_what_rises_from_cut_to_cut_is_not_suspected() -> None:
    """Records without a place stand nowhere; those made from polls are in the order of their offsets, too."""
    assert suspected(RISING[:80], RISING[80:], [(-1, 45), (0, 41), (-1, 46)], [(-1, 47)]) == []
    assert suspected(RISING[80:], RISING[:80]) == []
    assert suspected([(-1, 5), (-1, 9)], [(-1, 7)]) == [-1]
    assert listed([(None, 1), (3, 7), (2, 4), (-1, 8), (3, 9)]) == [[-1, 8, 8], [2, 4, 4], [3, 7, 9]]


def test_offsets_in_another_order_are_suspected() -> None:
    mixed = [RISING[at] for at in np.random.default_rng(1).permutation(len(RISING))]
    assert suspected(mixed[:50], mixed[50:]) == [-1, 0, 7, 40_000]


@pytest.mark.parametrize(
    ("parts", "partitions"),
    [
        (([(0, 1), (3, 5), (3, 5)],), [3]),
        ((RISING, [(7, 39), (7, 40)]), [7]),
        (([(1, 9), (1, 8)], [(1, 7), (1, 8)], [(1, 9)]), [1]),
        (([(1, 4), (1, 20)], [(1, 3), (1, 30)], [(1, 20)]), [1]),
    ],
    ids=["side by side", "files that overlap", "falling", "a span within another"],
)
def test_offsets_that_are_there_twice_are_suspected(parts: tuple[Places, ...], partitions: list[int]) -> None:
    assert suspected(*parts) == partitions


def flushes_of(chance: random.Random) -> list[Flush]:
    """Cuts of three log partitions, mostly one behind the other; some overlap, are empty, come early or share a time."""
    following = [count(chance.randrange(5), chance.randint(1, 4)) for _ in range(3)]
    found: list[Flush] = []
    for at in range(chance.randint(0, 8)):
        spans = []
        for partition in chance.sample(range(3), chance.randint(0, 3)):
            first = max(0, next(following[partition]) - 2 * (chance.random() < 0.2))
            last = first - 1 if chance.random() < 0.05 else first + chance.randrange(2)
            spans.append([partition, first, last])
        found.append((max(0, at - 2 * (chance.random() < 0.2)), spans))
    chance.shuffle(found)
    return found


def separates(time: int, flushes: list[Flush]) -> bool:
    """Whether each record of a flush before that time lies before each one of a later flush in their log partition."""
    early, late = ([span for at, spans in flushes if (at < time) is before for span in spans] for before in (True, False))
    return all(one[2] < other[1] for one in early for other in late if one[0] == other[0])


def test_a_chunk_starts_exactly_where_all_earlier_cuts_lie_before_all_later_ones() -> None:
    sizes = set()
    for seed in range(3_000):
        flushes = flushes_of(random.Random(seed))
        times = sorted({time for time, _ in flushes})
        found = chunk_starts(flushes)
        assert found == [time for time in times[1:] if separates(time, flushes)], seed
        sizes.add((len(found), len(found) < len(times) - 1))
    assert {(0, True), (3, False), (3, True)} <= sizes
