"""From journals of received records to what stood still, the longest gap, duplicates, rewinds, skipped records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

__all__ = ["GAP_S", "Received", "Stopped", "books", "read_journals", "stopped"]

GAP_S = 0.25
"""A partition of the benchmark gets a record every 60 ms; a longer pause than this counts, with its whole length."""


@dataclass(frozen=True, order=True)
class Received:
    """One record at one member; `time` in seconds of the machine's clock."""

    time: float
    partition: int
    offset: int
    member: str


@dataclass(frozen=True)
class Stopped:
    """What stood still in a span of time, in partition-seconds; `longest` in seconds."""

    all: float
    kept: float
    longest: float


def read_journals(journals: Mapping[str, Path]) -> list[Received]:
    """Every record of every member, in order of time. The last line of a killed member may be incomplete and is left out."""
    found = []
    for member, path in journals.items():
        lines = path.read_text(encoding="ascii").split("\n")[:-1] if path.exists() else []
        for line in lines:
            time, partition, offset = line.split()
            found.append(Received(float(time), int(partition), int(offset), member))
    return sorted(found)


def stopped(received: Iterable[Received], start: float, end: float) -> Stopped:
    """Gaps above `GAP_S` that end in a span of time; kept: one member received the partition from a second
    before to the end, and no other did.
    """
    by_partition: dict[int, list[Received]] = defaultdict(list)
    for each in received:
        if start - 1.0 <= each.time <= end:
            by_partition[each.partition].append(each)
    total = kept = longest = 0.0
    for rows in by_partition.values():
        times = [each.time for each in rows] + [end]
        gaps = [later - before for before, later in pairwise(times) if later >= start and later - before > GAP_S]
        total += sum(gaps)
        longest = max([longest, *gaps])
        if len({each.member for each in rows}) == 1 and end - rows[-1].time <= GAP_S:
            kept += sum(gaps)
    return Stopped(total, kept, longest)


def books(received: Iterable[Received]) -> tuple[int, int, int]:
    """(duplicates, rewinds, skipped): records received again, steps back in a partition, offsets that nobody received."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    for each in received:
        by_partition[each.partition].append(each.offset)
    duplicates = rewinds = skipped = 0
    for offsets in by_partition.values():
        distinct = set(offsets)
        duplicates += len(offsets) - len(distinct)
        rewinds += sum(later <= before for before, later in pairwise(offsets))
        skipped += max(distinct) - min(distinct) + 1 - len(distinct)
    return duplicates, rewinds, skipped
