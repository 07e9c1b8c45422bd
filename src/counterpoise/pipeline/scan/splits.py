"""Input splits: row groups of a capture's Parquet files, planned by footers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from counterpoise.pipeline.source.capture import CaptureFiles
from counterpoise.pipeline.source.parquet_rows import statistics_of, time_span
from counterpoise.pipeline.storage.files import parquet_footers

__all__ = ["InputSplit", "plan_splits", "splits_before"]

_LEAST_ROWS, _MOST_ROWS = 200_000, 1_250_000
_MOST_PARTITIONS = 10_000


@dataclass(frozen=True)
class InputSplit:
    """Row groups of one cluster's files, in the order of the files: what one scan task reads."""

    cluster: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    # Log partition -> the first offset to read; of other log partitions all records are read. If it is not empty, records
    # without a place in the log are skipped: the previous update has counted them.
    begin: Mapping[int, int]


def plan_splits(
    captures: Mapping[str, CaptureFiles], at_least: int, begins: Mapping[str, Mapping[int, int]]
) -> tuple[list[InputSplit], int]:
    """Splits of 1.25 million rows at most, and the number of their rows; the last splits are smaller, so all cores end together.

    Row groups before `begins` by their statistics are skipped.
    """
    sizes = {
        name: [
            (file, at, about.row_group(at).num_rows)
            for file, about in zip(one.records, parquet_footers(one.records), strict=True)
            for at in range(about.num_row_groups)
            if not _is_before(about, at, begins.get(name, {}))
        ]
        for name, one in captures.items()
    }
    whole = left = sum(rows for listed in sizes.values() for _, _, rows in listed)
    splits = []
    for name, listed in sizes.items():
        while listed:
            most = min(_MOST_ROWS, max(_LEAST_ROWS, -(-left // max(at_least, 1))))
            count = max(1, sum(rows <= most * 1.2 for rows in accumulate(rows for *_, rows in listed)))
            part: dict[str, list[int]] = {}
            for file, at, rows in listed[:count]:
                part.setdefault(file, []).append(at)
                left -= rows
            del listed[:count]
            groups = tuple((file, tuple(numbers)) for file, numbers in part.items())
            splits.append(InputSplit(name, groups, begins.get(name, {})))
    return splits, whole


def splits_before(splits: Iterable[InputSplit], time: int) -> list[InputSplit]:
    """The splits without row groups that hold no records before a time, by their statistics."""
    cut = []
    for split in splits:
        files, kept = [file for file, _ in split.groups], []
        for (file, groups), about in zip(split.groups, parquet_footers(files), strict=True):
            numbers = tuple(at for at in groups if _starts_before(about.row_group(at), time))
            kept += [(file, numbers)] if numbers else []
        if kept:
            cut.append(replace(split, groups=tuple(kept)))
    return cut


def _starts_before(group: Any, time: int) -> bool:
    span = time_span(group, "timestamp")
    return span is None or span[0] < time


def _is_before(about: Any, at: int, begin: Mapping[int, int]) -> bool:
    """Whether all records of a row group are before `begin`, by its statistics."""
    group = about.row_group(at)
    partition, offset = statistics_of(group, "partition"), statistics_of(group, "offset")
    if not begin or partition is None or offset is None:
        return False
    possible = range(partition.min, partition.max + 1)
    return len(possible) <= _MOST_PARTITIONS and all(offset.max < begin.get(one, 0) for one in possible)
