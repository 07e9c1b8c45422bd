"""Samples of log ends in arrays: the lives of logs, and look-ups in many sorted ranges at once.

A log that ends lower than before was recreated: samples before and after that are two lives, and no line joins them. A topic is
recreated as a whole. Of samples of one log and instant (two recordings of one time in one folder) the one with the largest end
counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

__all__ = ["Column", "LogEnds", "last_at"]

Values_co = TypeVar("Values_co", covariant=True)


class Column(Protocol[Values_co]):
    """What can be asked for the values in some rows: an array, or what finds them."""

    def __getitem__(self, rows: Int64, /) -> Values_co: ...


@dataclass(frozen=True)
class LogEnds:
    """Samples, those of a log one after the other, by time.

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
    life_first: Column[Int64]
    newest_life: Column[npt.NDArray[np.bool_]]
    next_end: Int64
    next_time: Int64
    has_next: Column[npt.NDArray[np.bool_]]


def last_at(values: Int64, first: Int64, after: Int64, limit: Int64) -> Int64:
    """For each row the last place in ``values[first:after]``, which rises, that is not greater than `limit`; -1 = none."""
    low, high = first.astype(np.int64), after.astype(np.int64)
    while len(low):
        middle = (low + high) // 2
        going = low < high
        if not going.any():
            break
        fits = np.zeros(len(low), np.bool_)
        fits[going] = values[middle[going]] <= limit[going]
        low, high = np.where(going & fits, middle + 1, low), np.where(going & ~fits, middle, high)
    found: Int64 = np.where(low > first, low - 1, -1)
    return found
