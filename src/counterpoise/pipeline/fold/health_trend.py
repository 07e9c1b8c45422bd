"""The trend of the lag of partitions at their commits: it rises, it falls, or neither.

Lag at a commit is the end of the log at that time minus the committed offset. Other than lag at a sample it does not depend on
how long ago the last commit was. A rise is shown when the lag

- is more than a threshold above its least value,
- has been so for the patience, from the last commit before that on, where the rise begins;
- has since risen by another half of the threshold. A burst that is worked off, and a step to another level, have not.

It ends when the lag does not rise by half of the threshold for `MANY` times the patience. A fall is the same with the
sign of the lag exchanged. A lag within the threshold is neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from counterpoise.pipeline.arrays import Bool, Float
from counterpoise.pipeline.fold.health_rules import MANY
from counterpoise.pipeline.fold.health_state import Health, Points

__all__ = ["CATCHING", "FALLING", "LEVEL", "BusyOwner", "follow"]

LEVEL, CATCHING, FALLING = range(3)


class BusyOwner(NamedTuple):
    """Partitions whose owner is busy on others: there the lag rises, or it falls."""

    rises: Bool
    falls: Bool


def follow(
    was: Health, now: Points, progress: Bool, fell: Bool, waits: BusyOwner, anew: Bool, threshold: Float, patience: Float
) -> tuple[Health, Points]:
    """Follow the lag from one sample to the next.

    Parameters
    ----------
    was : Health
    now : Points
        The newest commits.
    progress, fell, anew : bool
        Whether the commit has another offset than at the last sample; whether its lag is less than that of the progress before;
        whether the lag before this commit does not count.
    waits : BusyOwner
        Counts as a rise or fall from `was.last_progress` on.
    threshold, patience : float64
        Records, and microseconds.

    Returns
    -------
    health : Health
        With the trends up to now.
    turn : Points
        The begin of the trend, where it is another one than before.
    """
    at, lag = now[0], now[1]
    low, low_crossed, low_near, rises, plateau = _leg(
        was.low, was.low_crossed, was.low_near, now, 1, progress, threshold, patience
    )
    high, high_crossed, high_near, falls, terrace = _leg(
        was.high, was.high_crossed, was.high_near, now, -1, progress, threshold, patience
    )
    trend = np.where(anew, LEVEL, was.trend)
    small = lag <= threshold
    rises = ((rises & ~fell) | waits.rises) & (trend != FALLING) & ~anew
    falls = ((falls & ~small) | waits.falls) & (trend != CATCHING) & ~anew
    continues = np.where(trend == FALLING, lag >= was.mark[1] + threshold / 2, lag <= was.mark[1] - threshold / 2)
    paused = at - was.mark[0] > MANY * patience
    ends = progress & (trend != LEVEL) & ~rises & ~falls & (small | (~continues & paused))
    turn = np.where(rises, low_near, np.where(falls, high_near, np.where(small, now, was.mark)))
    turn = np.where((rises & waits.rises) | (falls & waits.falls), was.last_progress, turn)
    level = ends | anew
    from_here, from_there = level | falls | plateau, level | rises | terrace
    return replace(
        was,
        trend=np.where(rises, FALLING, np.where(falls, CATCHING, np.where(ends, LEVEL, trend))),
        mark=np.where(rises | falls | (progress & continues), now, was.mark),
        low=np.where(from_here, lag, low),
        low_crossed=np.where(from_here, np.nan, low_crossed),
        low_near=np.where(from_here, now, low_near),
        high=np.where(from_there, -lag, high),
        high_crossed=np.where(from_there, np.nan, high_crossed),
        high_near=np.where(from_there, now, high_near),
    ), turn


def _leg(
    edge: Float, crossed: Float, near: Points, now: Points, sign: int, progress: Bool, threshold: Float, patience: Float
) -> tuple[Float, Float, Points, Bool, Bool]:
    """A leg from the least value of the lag (times `sign`), the edge, up to now.

    Returns the edge, the value at which the leg first was a threshold above it, the last commit near it, whether the leg is
    shown, and whether it waits so long for that that it is a level of its own.
    """
    value = sign * now[1]
    edge = np.where(progress, np.fmin(edge, value), edge)
    away = progress & (value > edge + threshold)
    crossed = np.where(away, np.where(np.isnan(crossed), value, crossed), np.where(progress, np.nan, crossed))
    near = np.where(progress & ~away, now, near)
    lasted = now[0] - near[0]
    shown = away & (lasted >= patience) & (value >= crossed + threshold / 2)
    return edge, crossed, near, shown, away & ~shown & (lasted > MANY * patience)
