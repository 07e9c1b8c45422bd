"""Work on files as Spark tasks: a number each, and a result as JSON; files count only if their task returned their names."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from counterpoise.pipeline.direct.forked import forked
from counterpoise.pipeline.source.capture import Local
from counterpoise.pipeline.source.parquet_rows import statistics_of

__all__ = ["Piece", "Stretch", "give_back", "pieces_of", "scratch", "work_on"]

_LEAST_ROWS, _MOST_ROWS = 200_000, 1_250_000
_MOST_PARTITIONS = 10_000
_ALLOCATIONS = 100_000
"""So many new objects at least before cycles are looked for: rows are many and make none, a tenth of the time went there."""


@dataclass(frozen=True)
class Stretch:
    """Which records of a log count: offsets from `begin` (of a log partition that is not in it: all) to before `end`.

    With a `begin`, records without a place in the log are left out; without one they count.
    """

    begin: Mapping[int, int]
    end: Mapping[int, int]


@dataclass(frozen=True)
class Piece:
    """Some row groups of one cluster's files, in the order of the files: what one task reads; of it all, or a stretch."""

    cluster: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    stretch: Stretch | None = None


def pieces_of(captures: Mapping[str, Local], at_least: int, stretches: Mapping[str, Stretch] | None = None) -> list[Piece]:
    """Pieces of so many rows at most, smaller ones at the end, lest all cores wait for the last; never of two clusters.

    Row groups that lie before a stretch are left out. They are `at_least` so many where there are enough row groups of some size.
    """
    of = stretches or {}
    sizes = {
        name: [
            (file, at, about.row_group(at).num_rows)
            for file, about in _footers(one)
            for at in range(about.num_row_groups)
            if name not in of or not _is_before(about, at, of[name])
        ]
        for name, one in captures.items()
    }
    left = sum(rows for listed in sizes.values() for _, _, rows in listed)
    pieces = []
    for name, listed in sizes.items():
        while listed:
            some = _first(listed, min(_MOST_ROWS, max(_LEAST_ROWS, -(-left // max(at_least, 1)))))
            part: dict[str, list[int]] = {}
            for file, at, rows in listed[:some]:
                part.setdefault(file, []).append(at)
                left -= rows
            del listed[:some]
            pieces.append(Piece(name, tuple((file, tuple(numbers)) for file, numbers in part.items()), of.get(name)))
    return pieces


def _footers(capture: Local) -> Iterator[tuple[str, Any]]:
    for file in capture.records:
        yield file, pq.read_metadata(file)


def _is_before(about: Any, at: int, stretch: Stretch) -> bool:
    """Whether statistics rule out that a row group has records of the stretch."""
    group = about.row_group(at)
    partition, offset = statistics_of(group, "partition"), statistics_of(group, "offset")
    if not stretch.begin or partition is None or offset is None:
        return False
    possible = range(partition.min, partition.max + 1)
    return len(possible) <= _MOST_PARTITIONS and all(offset.max < stretch.begin.get(one, 0) for one in possible)


def _first(listed: list[tuple[str, int, int]], most: int) -> int:
    """How many row groups, at least one, have about so many rows."""
    rows = accumulate(rows for _, _, rows in listed)
    return max(1, sum(1 for _ in takewhile(lambda so_far: so_far <= most * 1.2, rows)))


def work_on(spark: SparkSession, count: int, work: Callable[[int], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``work(0)`` to ``work(count - 1)``, each in a task and a process of its own; what they tell, in this order."""
    if not count:
        return []

    def told(number: int) -> str:
        gc.set_threshold(_ALLOCATIONS)
        # One heap for Arrow and NumPy: a pool of Arrow's own keeps some 30 MB that nothing else can use.
        pa.set_memory_pool(pa.system_memory_pool())
        return json.dumps({"task": number, **work(number)})

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_arrays([pa.array([forked(partial(told, number))])], names=["told"])

    if is_remote():
        rows = [row["told"] for row in spark.range(0, count, 1, count).mapInArrow(run, "told string").collect()]
    else:
        # No plan, no query: what the JVM loads and compiles for the first of these costs more than all else it does here.
        rows = spark.sparkContext.parallelize(range(count), count).map(lambda number: forked(partial(told, number))).collect()
    return sorted(map(json.loads, rows), key=lambda about: int(about["task"]))


def give_back() -> None:
    """Give what this process has freed back to the system: sizes that come and go would tear its heap more and more."""
    pa.default_memory_pool().release_unused()


def scratch(folder: str, kind: str) -> Path:
    """The name of a new file: another attempt at the same task writes another one, and only one of them is told."""
    place = Path(folder) / kind
    place.mkdir(parents=True, exist_ok=True)
    return place / f"part-{uuid4().hex}.parquet"
