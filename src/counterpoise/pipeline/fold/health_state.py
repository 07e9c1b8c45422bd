"""The health of members and of partitions; the latter is one matrix, because every sample reads and writes all of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import ClassVar, Self

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Columns, Float
from counterpoise.pipeline.fold.health_thresholds import RECENT

__all__ = [
    "CLOCK",
    "CURRENT_STATE",
    "HEIGHT",
    "LAG",
    "LAST_SAMPLE",
    "OFFSET",
    "OWNER",
    "RULE_STATE",
    "STATES",
    "WALL",
    "Busy",
    "CurrentState",
    "LastSample",
    "Matrix",
    "MemberHealth",
    "Points",
    "RuleState",
    "Triple",
    "unknown",
]  # fmt: skip

STATES = ("unknown", "ok", "catching_up", "falling_behind", "stopped", "stalled", "unowned", "losing_data")
"""By code, worst last."""
CLOCK, LAG, OFFSET, WALL = range(4)
"""Rows of `Points`: time on the clock of `health_deltas`, lag, committed offset, time by the wall clock."""
Points = Float
"""float64 (4, n): one point per partition."""
Triple = Float
"""float64 (3, n): three values per partition."""
PerDirection = Float
"""float64 (2, n): a value for the rise from the lowest lag up to now, and one for the fall from the highest lag."""
PointPerDirection = Float
"""float64 (4, 2, n): a point for each of these two."""
Intervals = Float
"""float64 (`RECENT`, n): the last intervals between samples, the newest first."""
_SHAPES = {"Float": (), "PerDirection": (2,), "Points": (4,), "Triple": (3,), "PointPerDirection": (4, 2), "Intervals": (RECENT,)}


class Matrix:
    """A dataclass whose fields are rows of one matrix, float64 (`height`, n). The type of a field gives its number of rows."""

    places: ClassVar[dict[str, tuple[slice, tuple[int, ...]]]]
    height: ClassVar[int]

    def __init_subclass__(cls) -> None:
        shapes = {name: _SHAPES[kind] for name, kind in cls.__annotations__.items()}
        ends = accumulate(map(prod, shapes.values()))
        cls.places = {
            name: (slice(end - prod(shape), end), shape) for (name, shape), end in zip(shapes.items(), ends, strict=True)
        }
        cls.height = sum(map(prod, shapes.values()))

    @classmethod
    def of(cls, matrix: Float) -> Self:
        """The fields of a matrix, without copying."""
        return cls(*(matrix[rows].reshape(*shape, -1) if shape else matrix[rows.start] for rows, shape in cls.places.values()))

    @classmethod
    def stacked(cls, **fields: Float | Bool) -> Float:
        """The matrix of these fields."""
        return np.vstack([fields[name] for name in cls.places])


@dataclass(frozen=True)
class CurrentState(Matrix):
    """What rows of `health` show of a state."""

    # state, detected, seconds_left: Code into `STATES`; the sample that showed the state; seconds until retention reaches the
    # committed offset
    state: Float
    detected: Float
    seconds_left: Float
    begun: Points  # The begin of the state
    peak: Float  # The most records that waited at a sample since `detected`


@dataclass(frozen=True)
class RuleState(Matrix):
    """What rules remember from one sample to the next; times are on the clock of `health_deltas`, nan: not known yet."""

    # Usual values: time until the next progress, records of a progress, change of the lag from one to the next
    usual: Triple
    # Of the log's start in this state: times of the first and of the last move, and where the first one went
    moved: Triple
    moved_by: Float  # Records that the last move deleted
    trend: Float  # `LEVEL`, `CATCHING` or `FALLING`
    mark: Points  # The last commit at which the lag went on rising or falling
    # Two rows each, for rising lag and, negated, for falling lag. edge: the lowest lag; crossed: the lag when it was first more
    # than a threshold above that
    edge: PerDirection
    crossed: PerDirection
    near: PointPerDirection  # The last commits with a lag within a threshold of the lowest and of the highest one


@dataclass(frozen=True)
class LastSample(Matrix):
    """The last sample, before any rule; times other than `seen` and `written_at` are on the clock of `health_deltas`."""

    seen: Float  # Its time
    every: Intervals
    skipped: Float  # All the time in which samples are missing
    # start, end, committed, committed_at, owner: The columns of `lag.Samples` at it
    start: Float
    end: Float
    committed: Float
    committed_at: Float
    written_at: Float  # `committed_at` by the wall clock
    owner: Float
    owned_at: Float  # The first sample with this owner; -1: none
    busy_at: Float  # The last sample at which the owner was busy on some partition; -NEVER: none
    unowned_since: Points  # The first sample without an owner
    last_progress: Points  # The later of the last progress and the last sample without lag


CURRENT_STATE, RULE_STATE = slice(CurrentState.height), slice(CurrentState.height, CurrentState.height + RuleState.height)
LAST_SAMPLE = slice(RULE_STATE.stop, RULE_STATE.stop + LastSample.height)
HEIGHT, OWNER = LAST_SAMPLE.stop, RULE_STATE.stop + LastSample.places["owner"][0].start
"""Rows of the matrix of a bucket's partitions: those of the three classes, one below the other."""


@dataclass(frozen=True)
class MemberHealth(Columns):
    """The present states of members, and of groups (`member` is -1), sorted by group and member."""

    # group, member, state: Codes
    group: Int64
    member: Int64
    state: Int64
    # since, detected: Begin of the state, and time of the sample that showed it, in microseconds
    since: Int64
    detected: Int64
    # partitions, lag: Most partitions in this state at a time; records that waited at `detected`
    partitions: Int64
    lag: Int64


@dataclass(frozen=True)
class Busy(Columns):
    """Members that were busy on some partition: the last time, in microseconds, and whether the lag there fell.

    A member is busy where it makes progress and the lag is `SEVERAL` times that progress, and at least `RECORDS`; for an `HOUR`.
    Sorted by group and member.
    """

    group: Int64
    member: Int64
    at: Int64
    fewer: Bool


def unknown(n: int) -> Float:
    """The matrix of partitions without a sample."""
    matrix = np.full((HEIGHT, n), np.nan)
    seen, ruled = LastSample.of(matrix[LAST_SAMPLE]), RuleState.of(matrix[RULE_STATE])
    matrix[0], ruled.trend[:], seen.skipped[:] = 0, 0, 0
    seen.owner[:] = seen.committed[:] = -1
    return matrix
