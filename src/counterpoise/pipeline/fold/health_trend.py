"""The trend of the lag of partitions at their commits: it rises, it falls, or neither.

Lag at a commit is the end of the log at that time minus the committed offset. Unlike lag at a sample it does not depend on how
long ago the last commit was. The lag rises if it

- is above its lowest value by more than a threshold,
- has been so for the patience, counted from the last commit at which it was not: there the rise begins,
- has grown since by another half of the threshold, so a burst that is worked off, or a step to another level, is no rise.

The rise ends when the lag does not rise by half of the threshold for `MANY` times the patience. A fall is the same with
the lag negated. A lag within the threshold is neither.
"""

from __future__ import annotations

import numpy as np

from counterpoise.pipeline.arrays import Bool, Float
from counterpoise.pipeline.fold.health_deltas import Delta
from counterpoise.pipeline.fold.health_state import CLOCK, LAG, Points, RuleState
from counterpoise.pipeline.fold.health_thresholds import MANY

__all__ = ["CATCHING", "FALLING", "LEVEL", "next_trend"]

LEVEL, CATCHING, FALLING = range(3)
_SIGNS = np.array([[1.0], [-1.0]])


def next_trend(
    was: RuleState,  # Before the sample
    found: RuleState,  # After it: the trend, its mark, and what follows `mark` are set here
    delta: Delta,
    starves: Bool,  # The owner is busy on other partitions, so the lag rises or falls as theirs does
    resumed: Bool,  # The lag before this commit does not count
    threshold: Float,  # Records
    patience: Float,  # Microseconds
) -> Points:
    """Update the trend of the lag by one more sample; returns the start of the trend where it has changed."""
    commit, progress = delta.commit, delta.progress > 0
    at, lag = commit[:2]
    value, half = _SIGNS * lag, threshold / 2
    # Two directions: the rise from the lowest lag, and the fall from the highest one.
    edge = np.where(progress, np.fmin(was.edge, value), was.edge)
    away = progress & (value > edge + threshold)
    crossed = np.where(away, np.where(np.isnan(was.crossed), value, was.crossed), np.where(progress, np.nan, was.crossed))
    near = np.where(progress & ~away, commit[:, None], was.near)
    lasted = at - near[CLOCK]
    shown = away & (lasted >= patience) & (value >= crossed + half)
    small, trend = lag <= threshold, np.where(resumed, LEVEL, was.trend)
    catches_up = delta.catches_up > 0
    rises = ((shown[0] & ~(delta.fell > 0)) | (starves & ~catches_up)) & (trend != FALLING) & ~resumed
    falls = ((shown[1] & ~small) | (starves & catches_up)) & (trend != CATCHING) & ~resumed
    continues = np.where(trend == FALLING, lag >= was.mark[LAG] + half, lag <= was.mark[LAG] - half)
    changes, pauses = rises | falls, ~continues & (at - was.mark[CLOCK] > MANY * patience)
    ends = progress & (trend != LEVEL) & ~changes & (small | pauses)
    turn = np.where(rises, near[:, 0], np.where(falls, near[:, 1], np.where(small, commit, was.mark)))
    turn = np.where(changes & starves, delta.last_progress, turn)
    found.trend[:] = np.where(rises, FALLING, np.where(falls, CATCHING, np.where(ends, LEVEL, trend)))
    found.mark[:] = np.where(changes | (progress & continues), commit, was.mark)
    # After `MANY` times the patience without a state of its own, a rise or fall is the new level with which the lag is compared.
    anew = (away & ~shown & (lasted > MANY * patience)) | ends | resumed
    anew[0] |= falls
    anew[1] |= rises
    found.edge[:], found.crossed[:] = np.where(anew, value, edge), np.where(anew, np.nan, crossed)
    found.near[:] = np.where(anew, commit[:, None], near)
    return turn
