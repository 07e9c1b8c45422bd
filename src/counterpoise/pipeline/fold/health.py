"""The health of partitions: the state of each partition after each sample of its log, and when that state began.

| state | a partition is in it if |
|---|---|
| losing_data | records are lost (`_seconds_left`), or will be within an hour; it lasts until the next deletion is far |
| unowned | records wait and no member owns it |
| stalled, stopped | records wait and the committed offset stays longer than usual: with commits (stalled) or without |
| falling_behind, catching_up | the lag at commits rises, or falls (`health_trend`) |
| ok | none of these |

A state begins where its evidence begins, which is before the sample that shows it: at the last progress, or at a turn of the
lag. A usual value follows the observed ones, but at each sample by a factor from `SHRINKS` to `GROWS` only, so a single odd value
changes it little. Every state is a function of the samples up to it, so a recording that is cut anywhere gives the same.
"""

from __future__ import annotations

import numpy as np

from counterpoise.pipeline.arrays import Bool, Float
from counterpoise.pipeline.fold.health_deltas import Delta
from counterpoise.pipeline.fold.health_state import (
    CLOCK,
    CURRENT_STATE,
    LAG,
    OFFSET,
    RULE_STATE,
    STATES,
    WALL,
    CurrentState,
    Points,
    RuleState,
    Triple,
    unknown,
)
from counterpoise.pipeline.fold.health_thresholds import FEW, GROWS, HOUR, LEAST, RECORDS, SEVERAL, SHRINKS, WAITING
from counterpoise.pipeline.fold.health_trend import CATCHING, FALLING, next_trend

__all__ = ["next_health"]

UNKNOWN, OK, CATCHING_UP, FALLING_BEHIND, STOPPED, STALLED, UNOWNED, LOSING_DATA = range(len(STATES))
_SECOND = 1e6
_UNITS = np.array([[_SECOND], [1.0], [1.0]])
"""Lower bounds of the usual values when they grow: a gap of a second, a record, and a change of the lag by one record."""


def next_health(
    matrix: Float,  # The rows `CURRENT_STATE` and `RULE_STATE` after the sample before
    delta: Delta,  # Of the next sample of each partition
) -> tuple[Float, Bool, Points]:
    """The health after one more sample.

    Returns these rows after the sample, whether the state at the sample before has ended, and the point at which it ended (by
    the wall clock).
    """
    was, rules, made = CurrentState.of(matrix[CURRENT_STATE]), RuleState.of(matrix[RULE_STATE]), np.empty(matrix.shape)
    shown, found = CurrentState.of(made[CURRENT_STATE]), RuleState.of(made[RULE_STATE])
    found.usual[:] = usual = _usual(rules.usual, delta)
    least = np.maximum(FEW * delta.passed, LEAST)
    patience = np.where(np.isnan(usual[0]), SEVERAL * least, np.maximum(FEW * usual[0], least))
    threshold = np.fmax(FEW * usual[2], RECORDS)
    waits = delta.waiting >= WAITING
    stays, stood = waits & ~(delta.progress > 0), (was.state >= STOPPED) & (was.state <= STALLED)
    commits = (delta.commit[CLOCK] > delta.last_progress[CLOCK]) & (delta.now[CLOCK] - delta.commit[CLOCK] < patience)
    late = waits & _is_overdue(delta, (delta.now[LAG] < usual[1]) & ~commits, threshold, patience)
    # Its owner has not stopped, but is not done with other partitions: it was busy after this one made progress.
    lately = delta.now[CLOCK] - delta.busy_at < np.fmin(SEVERAL * patience, HOUR)
    busy = lately & (delta.busy_at > delta.last_progress[CLOCK] + delta.passed)
    starves = late & busy & (was.state < STOPPED)
    resumed = (delta.progress > 0) & (stood | (was.state == UNOWNED))
    turn = next_trend(rules, found, delta, starves, resumed, threshold, patience)
    stuck = (late & ~starves) | (stays & stood)
    unowned = (delta.unowned > 0) & waits & ((delta.now[CLOCK] - delta.unread[CLOCK] >= least) | (stays & (was.state == UNOWNED)))
    behind = stuck | unowned | (found.trend == FALLING) | (was.state == LOSING_DATA)
    shown.seconds_left[:] = _seconds_left(was, rules, found, delta, behind, patience)
    state = np.where(found.trend == FALLING, FALLING_BEHIND, np.where(found.trend == CATCHING, CATCHING_UP, OK))
    state = np.where(stuck, np.where(commits, STALLED, STOPPED), state)
    soon = shown.seconds_left * _SECOND < np.where(was.state == LOSING_DATA, FEW, 1) * HOUR
    distance = delta.now[OFFSET] - delta.start
    soon |= (was.state == LOSING_DATA) & (distance < np.fmin(found.moved_by, delta.waiting))
    state = np.where((delta.now[LAG] >= WAITING) & soon, LOSING_DATA, np.where(unowned, UNOWNED, state))
    begun = _begun(was, state, delta, turn)
    other = state != was.state
    shown.state[:], shown.detected[:] = state, np.where(other, delta.now[WALL], was.detected)
    shown.begun[:] = np.where(other, begun, was.begun)
    shown.peak[:] = np.where(other, delta.waiting, np.fmax(was.peak, delta.waiting))
    found.moved[:, other & (state != LOSING_DATA)] = np.nan
    # What was before an offset that was set back, or in another life of the log, does not count.
    anew = np.flatnonzero((delta.fresh > 0) | (delta.set_back > threshold))
    if len(anew):
        made[:, anew] = unknown(len(anew))[: len(made)]
        shown.state[anew] = np.where(delta.now[OFFSET, anew] < 0, UNKNOWN, OK)
        shown.detected[anew] = delta.now[WALL][anew]
        shown.begun[:, anew] = delta.now[:, anew]
        shown.peak[anew] = delta.waiting[anew]
        begun[:, anew], other[anew] = delta.before[:, anew], True
    return made, other & (was.state != UNKNOWN), begun


def _usual(old: Triple, delta: Delta) -> Triple:
    """The usual values: the observed ones, limited to between `SHRINKS` and `GROWS` times the old ones."""
    new = np.minimum(np.maximum(delta.changed, SHRINKS * old), GROWS * np.maximum(old, _UNITS))
    return np.where(delta.progress > 0, np.where(np.isnan(old), delta.changed, new), old)


def _is_overdue(delta: Delta, few: Bool, threshold: Float, patience: Float) -> Bool:
    """Whether records have waited for longer than usual since the last progress; `few`: fewer than are committed at once."""
    records, last = delta.now[LAG], delta.last_progress
    slack = np.where(few, SEVERAL, 1) * np.where(delta.now[CLOCK] - delta.owned_at < patience, SEVERAL, 1)
    # Offsets that no consumer commits past, as those of an aborted transaction, do not become more while nothing is produced.
    more = (records - last[LAG] >= WAITING) | (last[LAG] > threshold)
    return np.asarray(more & (delta.now[CLOCK] - last[CLOCK] >= patience * slack))


def _seconds_left(was: CurrentState, rules: RuleState, found: RuleState, delta: Delta, behind: Bool, patience: Float) -> Float:
    """Seconds until the log starts after the position of the consumer; 0: it does already; nan: unknown, or never.

    A consumer may have read what it has not committed yet. It has not if a commit made after the log's start moved is still
    before that start, or if no progress is committed for the patience. The start of the log moves by whole segments: its rate is
    that from the first move to the last one in this state. `rules` and `found`: before and after the sample; sets `found.moved`.
    """
    at, moved = (delta.now[CLOCK], delta.now[CLOCK], delta.start), delta.moved > 0
    found.moved[:] = np.where(moved & np.isnan(rules.moved), at, rules.moved)
    found.moved[1, moved] = delta.now[CLOCK, moved]
    found.moved_by[:] = np.where(moved, delta.moved, rules.moved_by)
    lasted, committed = found.moved[1] - found.moved[0], delta.now[OFFSET]
    rate = np.where(lasted > 0, (delta.start - found.moved[2]) / np.maximum(lasted, 1), 0)
    rate -= np.fmax(committed - was.begun[OFFSET], 0) / np.maximum(delta.now[WALL] - was.begun[WALL], 1)
    reaches = behind & (rate > 0)
    left = np.where(reaches, np.maximum(committed - delta.start, 0) / np.where(reaches, rate, 1) / _SECOND, np.nan)
    shown = (delta.passed_over > 0) | (delta.now[CLOCK] - delta.last_progress[CLOCK] >= patience) | (was.state == LOSING_DATA)
    return np.where((committed < delta.start - 1) & shown, 0, left)


def _begun(was: CurrentState, state: Float, delta: Delta, turn: Points) -> Points:
    """The points at which states begin and the ones before them end.

    Without progress a state lasts until the next progress; the others last until the lag turns.
    """
    now, last_progress = delta.now, delta.last_progress
    was_without, is_without = was.state >= STOPPED, state >= STOPPED
    continues = np.where(last_progress[WALL] > was.begun[WALL], last_progress, now)
    begun = np.where(was_without, np.where(is_without, now, continues), np.where(is_without, last_progress, turn))
    begun = np.where((state == UNOWNED) & (was.state != LOSING_DATA), delta.unread, begun)
    begun = np.where(state == LOSING_DATA, now, begun)
    return np.where(begun[WALL] > was.begun[WALL], begun, was.begun)
