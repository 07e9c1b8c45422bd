"""Samples of log ends as arrays that are mapped from an `EndsFile`, and the incarnations ("lives") of logs.

A log with a lower end than before was recreated: samples before and after that belong to two lives, and lag is not interpolated
between them. If one log of a topic was recreated, all its logs were. If a log has several samples of one time (two recordings in
one folder), only the one with the largest end is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.pipeline.fold.ends_file import END, START, TIME, EndsFile

__all__ = ["Column", "LogEnds", "mapped_log_ends"]

Values_co = TypeVar("Values_co", covariant=True)


class Column(Protocol[Values_co]):
    """Values by row: an array, or an object that computes them."""

    def __getitem__(self, rows: Int64, /) -> Values_co: ...


@dataclass(frozen=True)
class LogEnds:
    """Samples of log ends, sorted by log and time."""

    log: dict[tuple[str, int], tuple[int, int]]  # ``(topic, partition)`` -> first row and the one after the last
    instants: Int64  # Times of samples of any log, in microseconds, ascending
    # Columns of the samples
    time: Int64
    start: Int64
    end: Int64
    life_first: Column[Int64]  # The first row of the same life of the same log
    newest_life: Column[npt.NDArray[np.bool_]]  # Whether the life of the sample is the last one of its log
    # The next sample of the same life, if `has_next`
    next_end: Int64
    next_time: Int64
    has_next: Column[npt.NDArray[np.bool_]]


def mapped_log_ends(ends: EndsFile) -> LogEnds:
    """The samples of a file, mapped into memory: the system reads pages when they are used, and may drop them."""
    rows = ends.rows()
    begins = ends.first[ends.life_log] + ends.life_at
    follows = np.append(ends.life_log[1:] == ends.life_log[:-1], False)[: len(begins)]
    after = np.where(follows, np.append(begins[1:], 0)[: len(begins)], (ends.first + ends.count)[ends.life_log])
    most = ends.lives_of_topics()
    newest = np.array([most[ends.logs[log][0]] for log in ends.life_log.tolist()], np.int64) == ends.life_number
    bounds = zip(ends.first.tolist(), (ends.first + ends.count).tolist(), strict=True)
    return LogEnds(
        log=dict(zip(ends.logs, bounds, strict=True)),
        instants=ends.instants,
        time=rows[:, TIME],
        start=rows[:, START],
        end=rows[:, END],
        life_first=_ByLife(begins, begins),
        newest_life=_ByLife(begins, newest),
        next_end=rows[1:, END],
        next_time=rows[1:, TIME],
        has_next=_HasNext(begins, after),
    )


class _ByLife:
    """A figure of the life of each sample."""

    def __init__(self, begins: Int64, figures: npt.NDArray[Any]) -> None:
        self._begins, self._figures = begins, figures

    def __getitem__(self, rows: Int64, /) -> Any:
        return self._figures[np.searchsorted(self._begins, rows, "right") - 1]


class _HasNext(_ByLife):
    """Whether another sample of the same life follows."""

    def __getitem__(self, rows: Int64, /) -> Any:
        return rows + 1 < super().__getitem__(rows)
