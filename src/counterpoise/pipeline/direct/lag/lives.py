"""Samples of log ends in arrays: the lives of logs as in `log_ends`, and look-ups in many sorted stretches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from counterpoise.model.problem import Int64

__all__ = ["Lives", "last_at", "read_lives"]


@dataclass(frozen=True)
class Lives:
    """Samples, sorted by log and time.

    Attributes
    ----------
    log : dict
        ``(topic, partition)`` -> first row and the one after the last.
    time, start, end : int64
        Of each sample.
    life_first : int64
        The first row of the same life of the same log.
    newest_life : bool
    next_end, next_time : int64
        Of the next sample of the same life, where `has_next`.
    """

    log: dict[tuple[str, int], tuple[int, int]]
    time: Int64
    start: Int64
    end: Int64
    life_first: Int64
    newest_life: npt.NDArray[np.bool_]
    next_end: Int64
    next_time: Int64
    has_next: npt.NDArray[np.bool_]


def read_lives(files: Sequence[str]) -> Lives:
    """The samples in some files; rows with a null are left out."""
    names = ["topic", "partition", "log_start", "log_end", "sampled_at"]
    parts = [pq.read_table(file, columns=names, use_threads=False) for file in files]
    table = pa.concat_tables([part.set_column(4, "us", _micros(part["sampled_at"])) for part in parts]).drop_null()
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("us", "ascending")]).combine_chunks()
    return _lives(table)


def _micros(stamps: pa.ChunkedArray) -> pa.ChunkedArray:
    return stamps.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


def _lives(table: pa.Table) -> Lives:
    topic = pa.array(table["topic"].to_pylist(), pa.string()).dictionary_encode() if len(table) else None
    code: Any = np.zeros(0, np.int32) if topic is None else topic.indices.to_numpy()
    partition, time = table["partition"].to_numpy(), table["us"].to_numpy()
    start, end = table["log_start"].to_numpy(), table["log_end"].to_numpy()
    n = len(time)
    same_log = np.zeros(n, np.bool_)
    same_log[1:] = (code[1:] == code[:-1]) & (partition[1:] == partition[:-1])
    shrunk = np.zeros(n, np.bool_)
    shrunk[1:] = same_log[1:] & (end[1:] < end[:-1])
    # A topic is made anew as a whole, at the instant at which any of its logs has shrunk.
    fallen = set(zip(code[shrunk].tolist(), time[shrunk].tolist(), strict=True))
    anew = np.zeros(n, np.int64)
    if fallen:
        anew[:] = [pair in fallen for pair in zip(code.tolist(), time.tolist(), strict=True)]
    firsts = np.flatnonzero(~same_log)
    log_of = np.cumsum(~same_log) - 1
    total = np.cumsum(anew)
    life = total - (total[firsts] - anew[firsts])[log_of] if n else total
    most = np.zeros(int(code.max()) + 1 if n else 0, np.int64)
    np.maximum.at(most, code, life)
    goes_on = np.zeros(n, np.bool_)
    goes_on[:-1] = same_log[1:] & (life[1:] == life[:-1])
    begins = np.concatenate(([True], ~goes_on[:-1])) if n else goes_on
    bounds = [*firsts.tolist(), n]
    names = [] if topic is None else topic.dictionary.to_pylist()
    log = {(names[code[first]], int(partition[first])): (first, last) for first, last in pairwise(bounds)}
    return Lives(
        log=log,
        time=time,
        start=start,
        end=end,
        life_first=np.flatnonzero(begins)[np.cumsum(begins) - 1] if n else np.zeros(0, np.int64),
        newest_life=life == most[code] if n else goes_on,
        next_end=np.append(end[1:], 0)[:n],
        next_time=np.append(time[1:], 0)[:n],
        has_next=goes_on,
    )


def last_at(values: Int64, first: Int64, after: Int64, wanted: Int64) -> Int64:
    """For each row the last place in ``values[first:after]``, which rises, that is not greater than `wanted`; -1 = none."""
    low, high = first.astype(np.int64), after.astype(np.int64)
    while len(low):
        middle = (low + high) // 2
        going = low < high
        if not going.any():
            break
        fits = np.zeros(len(low), np.bool_)
        fits[going] = values[middle[going]] <= wanted[going]
        low, high = np.where(going & fits, middle + 1, low), np.where(going & ~fits, middle, high)
    found: Int64 = np.where(low > first, low - 1, -1)
    return found
