"""The health of partitions: the state of each from sample to sample of its log, and since when it is in it.

| state | a partition is in it if |
|---|---|
| losing_data | records are lost (`_is_lost`), or will be within an hour at the present rates |
| unowned | records wait and no member owns it |
| stalled, stopped | records wait and the committed offset stays, longer than usual, with and without commits |
| falling_behind, catching_up | the lag at commits rises, or falls (`health_trend`) |
| ok | nothing of this |

A state begins where its evidence begins, which is before the sample that shows it: at the last progress, or at a turn of the
lag. What is usual follows what is seen, but no faster than `_usual` allows, so no single odd value makes or breaks it. Every
state is a function of the samples up to it, so a recording that is cut anywhere gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterpoise.pipeline.arrays import Bool, Float
from counterpoise.pipeline.fold.health_owners import Owners
from counterpoise.pipeline.fold.health_rules import FEW, GROWS, HOUR, LEAST, RECORDS, SEVERAL, SHRINKS, WAITING
from counterpoise.pipeline.fold.health_state import STATES, Health, Points
from counterpoise.pipeline.fold.health_trend import CATCHING, FALLING, BusyOwner, follow

if TYPE_CHECKING:
    from counterpoise.pipeline.fold.lag import Samples

__all__ = ["last_seen", "next_health", "waiting"]

UNKNOWN, OK, CATCHING_UP, FALLING_BEHIND, STOPPED, STALLED, UNOWNED, LOSING_DATA = range(len(STATES))
_SECOND = 1e6


@dataclass(frozen=True)
class _Step:
    """The step from one sample to the next.

    Attributes
    ----------
    now, commit : Points
        The sample, and the newest commit.
    passed : float64
        Microseconds since the sample before, without time in which samples are missing.
    is_new, progress : bool
        Whether there is another commit, and whether it has another offset.
    is_unowned : bool
        Whether no member owns the partition, in a group that has had members.
    unowned_patience, patience : float64
        Microseconds without an owner, and without progress, after which something is wrong.
    threshold : float64
        By how many records the lag must change.
    """

    now: Points
    commit: Points
    passed: Float
    is_new: Bool
    progress: Bool
    is_unowned: Bool
    unowned_patience: Float
    patience: Float
    threshold: Float


def next_health(was: Health, rows: Samples, owners: Owners, missed: Bool) -> tuple[Health, Bool, Points]:
    """The health after one more sample.

    Parameters
    ----------
    was : Health
        After the sample before.
    rows : Samples
        The next sample of each of the partitions.
    owners : Owners
    missed : bool
        Whether samples between these two are missing.

    Returns
    -------
    health : Health
    ended : bool
        Whether the state at the sample before has ended.
    end : Points
        The point at which it ended.
    """
    time, end, committed = (one.astype(np.float64) for one in (rows.time, rows.end, rows.committed))
    is_new, before, every = rows.committed_at > was.seen, was, time - was.seen
    # What happened while samples are missing is not known: that time counts for nothing.
    was = was.later(np.where(every > FEW * was.every, every - was.every, 0))
    passed, progress = np.maximum(time - was.seen, 1), committed != was.committed
    committed_at = np.where(is_new, np.maximum(rows.committed_at, was.seen), was.committed_at)
    now, commit = (np.stack((at, end, committed)) for at in (time, committed_at))
    # The end of the log at the newest commit is on the line between the two samples.
    commit[1] = was.end + np.floor(np.clip((commit[0] - was.seen) / passed, 0, 1) * (end - was.end))
    now[1], commit[1] = np.maximum(end - committed, 0), np.maximum(commit[1] - committed, 0)
    found = _with_usual_values(was, commit, progress)
    unowned_patience, known = np.fmax(FEW * passed, LEAST), np.isfinite(found.gap)
    patience = np.where(known, np.fmax(FEW * found.gap, unowned_patience), SEVERAL * unowned_patience)
    threshold = np.fmax(FEW * found.change, RECORDS)
    is_unowned = owners.managed & (rows.owner < 0)
    step = _Step(now, commit, passed, is_new, progress, is_unowned, unowned_patience, patience, threshold)
    found = replace(_with_sample(found, rows, now, commit, progress, owners.busy_at.astype(np.float64)), every=every)
    found, begun = _with_state(was, found, step, owners)
    # What was before an offset that was set back, or in another life of the log, does not count.
    another = (was.committed - committed > threshold) | (end < was.end) | (rows.start < was.start)
    anew = np.flatnonzero((was.state == UNKNOWN) | (rows.committed < 0) | missed | another)
    ended = found.state != was.state
    if len(anew):
        matrix, begun = found.matrix, begun.copy()
        matrix[:, anew] = _begun(now[:, anew], rows.take(anew)).matrix
        found = Health.of(matrix)
        begun[:, anew] = last_seen(before)[:, anew]
        ended[anew] = True
    return found, ended & (was.state != UNKNOWN), begun


def last_seen(of: Health) -> Points:
    """The last sample."""
    return np.stack((of.seen, np.maximum(of.end - of.committed, 0), of.committed))


def _begun(now: Points, rows: Samples) -> Health:
    """The health at a first sample: nothing is usual yet."""
    found, nothing = Health.unknown(len(rows)), np.full(len(rows), np.nan)
    found = _with_sample(found, rows, now, now, np.ones(len(rows), np.bool_), nothing)
    state = np.where(rows.committed < 0, UNKNOWN, OK).astype(np.float64)
    return replace(found, state=state, detected=now[0], begun=now, peak=waiting(found), every=nothing, gap=nothing + np.inf)


def _with_usual_values(was: Health, commit: Points, progress: Bool) -> Health:
    """The usual values after a commit."""
    values = {
        # After the first progress the time since the one before is not known.
        "gap": np.where(np.isinf(was.gap), np.nan, _usual(was.gap, np.maximum(commit[0] - was.last_progress[0], 0), _SECOND)),
        "batch": _usual(was.batch, np.abs(commit[2] - was.committed), 1),
        "change": _usual(was.change, np.abs(commit[1] - was.last_progress[1]), 1),
    }
    return replace(was, **{name: np.where(progress, value, getattr(was, name)) for name, value in values.items()})


def _usual(old: Float, new: Float, least: float) -> Float:
    """The new usual value: the observed one, limited to between `SHRINKS` and `GROWS` times the old one (at least `least`)."""
    return np.where(np.isnan(old), new, np.clip(new, SHRINKS * old, GROWS * np.maximum(old, least)))


def _with_sample(was: Health, rows: Samples, now: Points, commit: Points, progress: Bool, busy_at: Float) -> Health:
    """The columns that describe the newest sample, and when owner, progress and log start changed last."""
    time, owner, start = now[0], rows.owner.astype(np.float64), rows.start.astype(np.float64)
    found = replace(
        was,
        seen=time,
        start=start,
        end=rows.end.astype(np.float64),
        committed=now[2],
        committed_at=commit[0],
        owner=owner,
        owned_at=np.where(owner != was.owner, time, was.owned_at),
        busy_at=np.where(owner != was.owner, busy_at, np.fmax(was.busy_at, busy_at)),
        unowned_since=np.where((owner < 0) & (np.isnan(was.unowned_since[0]) | (was.owner >= 0)), now, was.unowned_since),
        moved_first=np.where((start != was.start) & np.isnan(was.moved_first), time, was.moved_first),
        moved_to=np.where((start != was.start) & np.isnan(was.moved_first), start, was.moved_to),
        moved_last=np.where(start != was.start, time, was.moved_last),
    )
    return replace(found, last_progress=np.where(waiting(found) < WAITING, now, np.where(progress, commit, was.last_progress)))


def waiting(of: Health) -> Float:
    """The lag at the last sample, without records that the log no longer has."""
    return of.end - np.maximum(of.committed, of.start)


def _commits(found: Health, step: _Step) -> Bool:
    """Whether commits continue although the offset stays."""
    return np.asarray((found.committed_at > found.last_progress[0]) & (step.now[0] - found.committed_at < step.patience))


def _is_overdue(found: Health, step: _Step) -> Bool:
    """Whether records have waited for longer than usual since the last progress."""
    time, last_progress, records = step.now[0], found.last_progress, step.now[1]
    few = (records < found.batch) & ~_commits(found, step)
    slack = np.where(few, SEVERAL, 1) * np.where(time - found.owned_at < step.patience, SEVERAL, 1)
    # Offsets that no consumer commits past, as those of an aborted transaction, do not become more while nothing is produced.
    more = (records - last_progress[1] >= WAITING) | (last_progress[1] > step.threshold)
    return np.asarray((waiting(found) >= WAITING) & more & (time - last_progress[0] >= step.patience * slack))


def _with_state(was: Health, found: Health, step: _Step, owners: Owners) -> tuple[Health, Points]:
    """The states, and where they begin."""
    now, time, last_progress, stays = step.now, step.now[0], found.last_progress, (waiting(found) >= WAITING) & ~step.progress
    late, resumed = _is_overdue(found, step), step.progress & (was.state >= STOPPED) & (was.state <= UNOWNED)
    # Its owner has not stopped, but is not done with other partitions: it was busy after this one made progress.
    recently = time - found.busy_at < np.fmin(SEVERAL * step.patience, HOUR)
    busy = recently & (found.busy_at > last_progress[0] + step.passed)
    starves = late & busy & (was.state < STOPPED)
    waits = BusyOwner(starves & ~owners.catches_up, starves & owners.catches_up)
    fell = step.commit[1] < was.last_progress[1]
    found, turn = follow(found, step.commit, step.progress, fell, waits, resumed, step.threshold, step.patience)
    stuck = (late & ~starves) | (stays & (was.state >= STOPPED) & (was.state <= STALLED))
    unread = np.where(found.unowned_since[0] > last_progress[0], found.unowned_since, last_progress)
    unowned = (
        step.is_unowned
        & (waiting(found) >= WAITING)
        & ((time - unread[0] >= step.unowned_patience) | (stays & (was.state == UNOWNED)))
    )
    left = _left(was, found, stuck | unowned | (found.trend == FALLING) | (was.state == LOSING_DATA), time)
    left = np.where(_is_lost(was, found, step), 0, left)
    losing = (waiting(found) >= WAITING) & (left < HOUR / _SECOND)
    state = np.where(found.trend == FALLING, FALLING_BEHIND, np.where(found.trend == CATCHING, CATCHING_UP, OK))
    state = np.where(stuck, np.where(_commits(found, step), STALLED, STOPPED), state)
    state = np.where(losing, LOSING_DATA, np.where(unowned, UNOWNED, state))
    # Without progress a state lasts until the next progress; the others last until the lag turns.
    continues = np.where(last_progress[0] > was.begun[0], last_progress, now)
    begun = np.where(
        was.state >= STOPPED, np.where(state >= STOPPED, now, continues), np.where(state >= STOPPED, last_progress, turn)
    )
    begun = np.where((state == UNOWNED) & (was.state != LOSING_DATA), unread, np.where(state == LOSING_DATA, now, begun))
    begun = np.where(begun[0] > was.begun[0], begun, was.begun)
    other = state != was.state
    forgets = other & (state != LOSING_DATA)
    return replace(
        found,
        state=state.astype(np.float64),
        detected=np.where(other, time, was.detected),
        left=left,
        begun=np.where(other, begun, was.begun),
        peak=np.where(other, waiting(found), np.fmax(was.peak, waiting(found))),
        **{name: np.where(forgets, np.nan, getattr(found, name)) for name in ("moved_first", "moved_to", "moved_last")},
    ), begun


def _left(was: Health, found: Health, behind: Bool, time: Float) -> Float:
    """Seconds until the log starts after the committed offset, of partitions that are `behind`; nan: unknown, or never.

    The start of the log moves by whole segments: its rate is that from the first move to the last one in this state.
    """
    moved = found.moved_last - found.moved_first
    rate = np.where(moved > 0, (found.start - found.moved_to) / np.maximum(moved, 1), 0)
    read = np.maximum(found.committed - was.begun[2], 0) / np.maximum(time - was.begun[0], 1)
    reaches = behind & (rate > read)
    left = np.maximum(found.committed - found.start, 0) / np.where(reaches, rate - read, 1) / _SECOND
    return np.where(reaches, left, np.nan)


def _is_lost(was: Health, found: Health, step: _Step) -> Bool:
    """Whether the log starts after the position of the consumer, not only after the committed offset.

    A consumer may have read what it has not committed yet. It has not if a commit made after the log's start moved is still
    before that start, or if no progress is committed for the patience.
    """
    later = step.is_new & (found.committed < was.start - 1)
    overdue = step.now[0] - found.last_progress[0] >= step.patience
    return np.asarray((found.committed < found.start - 1) & (later | overdue | (was.state == LOSING_DATA)))
