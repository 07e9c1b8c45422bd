"""The health of each partition after a sample: columns of one matrix, because all are taken and put back at every sample."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Float

__all__ = ["OWNER", "STATES", "WIDTH", "Health", "Points"]

STATES = ("unknown", "ok", "catching_up", "falling_behind", "stopped", "stalled", "unowned", "losing_data")
"""By code, worst last."""
Points = Float
"""float64 (3, n), one point per partition: time in microseconds, lag at that time, committed offset at that time."""


@dataclass(frozen=True)
class Health:
    """Columns by partition. Times are in microseconds; nan: not known yet.

    Attributes
    ----------
    state, detected, left : float64
        Code into `STATES`; the sample that showed the state; seconds until retention reaches the committed offset.
    begun : Points
        The begin of the state.
    peak : float64
        The most records that waited at a sample since `detected`.
    seen, every : float64
        The last sample, and the time between the last two.
    start, end, committed, committed_at, owner : float64
        The columns of `lag.Samples` at the last sample.
    owned_at, busy_at : float64
        The first sample with this owner (-1: none); the last one at which it was busy on some partition (-NEVER: none).
    unowned_since, last_progress : Points
        The first sample without an owner; the later of the last progress and the last sample without lag.
    gap, batch, change : float64
        Usual values: time until the next progress, records of a progress, change of the lag from one to the next.
    moved_first, moved_to, moved_last : float64
        Times of the first and of the last move of the log's start in this state, and where the first one went.
    trend : float64
        `LEVEL`, `CATCHING` or `FALLING`.
    mark : Points
        The last commit at which the lag went on rising or falling.
    low, low_crossed, high, high_crossed : float64
        The lowest lag, and the lag when it was first more than a threshold above it; the negative of the highest lag, and that of
        the lag when it was first more than a threshold below it.
    low_near, high_near : Points
        The last commits with a lag within a threshold of the lowest and of the highest one.
    """

    state: Float
    detected: Float
    left: Float
    begun: Points
    peak: Float
    seen: Float
    every: Float
    start: Float
    end: Float
    committed: Float
    committed_at: Float
    owner: Float
    owned_at: Float
    busy_at: Float
    unowned_since: Points
    last_progress: Points
    gap: Float
    batch: Float
    change: Float
    moved_first: Float
    moved_to: Float
    moved_last: Float
    trend: Float
    mark: Points
    low: Float
    low_crossed: Float
    low_near: Points
    high: Float
    high_crossed: Float
    high_near: Points

    @classmethod
    def of(cls, matrix: Float) -> Self:
        """The columns of a matrix, float64 (`WIDTH`, n), without copying."""
        return cls(*(matrix[at] for at in _ROWS))

    @property
    def matrix(self) -> Float:
        """All columns, float64 (`WIDTH`, n)."""
        return np.vstack([getattr(self, one.name) for one in fields(self)])

    @classmethod
    def unknown(cls, n: int) -> Self:
        """Partitions without a sample."""
        matrix = np.full((WIDTH, n), np.nan)
        found = cls.of(matrix)
        for column in (found.state, found.trend):
            column[:] = 0
        found.owner[:] = -1
        return found

    def later(self, by: Float) -> Self:
        """The same evidence, later by some microseconds; begin and detection of the state remain."""
        if not by.any():
            return self
        matrix = self.matrix
        matrix[_EVIDENCE] += by
        return self.of(matrix)

    def at(self, rows: Int64, n: int) -> Self:
        """The health of `n` partitions, of which these are the given rows; the others are unknown."""
        matrix = self.unknown(n).matrix
        matrix[:, rows] = self.matrix
        return self.of(matrix)


def _rows() -> list[int | slice]:
    rows, at = list[int | slice](), 0
    for one in fields(Health):
        wide = 3 if one.type == "Points" else 1
        rows.append(slice(at, at + wide) if wide > 1 else at)
        at += wide
    return rows


_ROWS, _NAMES = _rows(), [one.name for one in fields(Health)]
WIDTH = len(Health.__dataclass_fields__) + 2 * sum(isinstance(one, slice) for one in _ROWS)
_TIMES = ("seen", "committed_at", "owned_at", "busy_at", "unowned_since", "last_progress", "moved_first", "moved_last")
_TIMES_OF_TREND = ("mark", "low_near", "high_near")
_EVIDENCE = [
    at.start if isinstance(at, slice) else at
    for name, at in zip(_NAMES, _ROWS, strict=True)
    if name in (*_TIMES, *_TIMES_OF_TREND)
]
OWNER = _ROWS[_NAMES.index("owner")]
