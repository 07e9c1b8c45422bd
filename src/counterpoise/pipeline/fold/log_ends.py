"""Samples of log ends as arrays that are mapped from an `EndsFile`, and the lives of logs.

A log with a lower end than before was recreated: samples before and after that belong to two lives, and lag is not interpolated
between them. If one log of a topic was recreated, all its logs were. If a log has several samples of one time (two recordings in
one folder), only the one with the largest end is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Float, last_of_runs
from counterpoise.pipeline.fold.ends_file import END, START, TIME, EndsFile
from counterpoise.pipeline.fold.health_thresholds import FEW, RECENT

__all__ = ["LogEnds", "mapped_log_ends", "time_without_samples", "usual_interval"]


@dataclass(frozen=True)
class LogEnds:
    """Samples of log ends, sorted by log and time; after the last one there is a row more."""

    log: dict[tuple[str, int], tuple[int, int]]  # ``(topic, partition)`` -> first row and the one after the last
    instants: Int64  # Times of samples of any log, in microseconds, ascending
    # Columns of the samples
    time: Int64
    start: Int64
    end: Int64
    # By life: the first row, the one after the last, and whether it is the last life of its log
    life_first: Int64
    life_after: Int64
    is_newest: Bool

    def life(self, rows: Int64) -> Int64:
        """The life of each sample."""
        return np.searchsorted(self.life_first, rows, "right") - 1

    def has_next(self, rows: Int64) -> Bool:
        """Whether another sample of the same life follows, in the next row."""
        return np.asarray(rows + 1 < self.life_after[self.life(rows)])

    def unsampled(self, begin: Int64, end: Int64) -> Float:
        """How much of the time from `begin` to `end` the cluster's samples are missing, in microseconds."""
        times, sums = self._gaps
        return np.asarray(np.interp(end, times, sums) - np.interp(begin, times, sums))

    @cached_property
    def _gaps(self) -> tuple[Float, Float]:
        """Points of the time without samples up to a time, linear in between: times, and sums; microseconds, float64[k] each."""
        every = np.diff(self.instants)
        known = np.append(np.full(RECENT, np.nan), every)
        before = np.stack([known[at : at + len(every)] for at in range(RECENT)])
        missing = time_without_samples(every, usual_interval(before))
        gaps = np.flatnonzero(missing)
        since, missing = self.instants[:-1][gaps], missing[gaps]
        total = np.cumsum(missing)
        return np.append(0, np.stack((since, since + missing), 1)), np.append(0, np.stack((total - missing, total), 1))


def usual_interval(before: Float) -> Float:
    """The usual interval between samples, float64[n]: the third shortest of the last `RECENT` intervals.

    `before` is float64[RECENT, n], a column per result; nan: unknown. The result is nan if fewer than three are known.
    """
    return np.asarray(np.sort(before, 0)[2])


def time_without_samples(every: Float | Int64, usual: Float) -> Float:
    """The part of an interval between two samples in which samples are missing; `usual`: as by `usual_interval` before it."""
    return np.where(every > FEW * usual, every - usual, 0.0)


def mapped_log_ends(ends: EndsFile) -> LogEnds:
    """The samples of a file, mapped into memory: the system reads pages when they are used, and may drop them."""
    rows = ends.rows()
    begins = ends.first[ends.life_log] + ends.life_at
    log_end, following = (ends.first + ends.count)[ends.life_log], np.append(begins[1:], 0)[: len(begins)]
    after = np.where(last_of_runs(ends.life_log), log_end, following)
    most = ends.lives_of_topics()
    newest = np.array([most[ends.logs[log][0]] for log in ends.life_log.tolist()], np.int64) == ends.life_number
    bounds = zip(ends.first.tolist(), (ends.first + ends.count).tolist(), strict=True)
    log = dict(zip(ends.logs, bounds, strict=True))
    return LogEnds(log, ends.instants, rows[:, TIME], rows[:, START], rows[:, END], begins, after, newest)
