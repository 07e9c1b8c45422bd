"""The differences between each sample and the one before of the same partition, for all samples of a slice at once.

The activity of owners is found here, too: a member that reduces its lag on some partitions has not stopped on its others.

Each partition has a clock that stands still while its samples are missing, because what happened then is not known. Times are on
that clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, Float, first_of_runs, last_at, last_of_runs
from counterpoise.pipeline.fold.health_state import CLOCK, LAG, Busy, LastSample, Matrix, Points, Triple
from counterpoise.pipeline.fold.health_thresholds import HOUR, MANY, RECORDS, SEVERAL, WAITING
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.log_ends import time_without_samples, usual_interval
from counterpoise.pipeline.fold.partitions import PartitionStates

__all__ = ["Delta", "Owners", "deltas_of", "gone_at", "owners_at"]


@dataclass(frozen=True)
class Owners(Columns):
    """What is known of a partition's group and owner at a sample."""

    managed: Bool  # The group has had a member with partitions
    busy_at: Int64  # The last sample at which the owner was busy on some partition, in microseconds; -NEVER: none
    catches_up: Bool  # The records that waited there became fewer


@dataclass(frozen=True)
class Delta(Matrix):
    """The difference between a sample and the one before; conditions are 0 or 1."""

    now: Points  # The sample
    commit: Points  # The newest commit
    before: Points  # The sample before
    last_progress: Points  # The later of the last progress and the last sample without lag
    unread: Points  # The later of `last_progress` and the first sample without an owner
    changed: Triple  # Newest observation for `RuleState.usual`: time, records and change of lag since the last progress
    passed: Float  # Since the sample before
    start: Float  # The start of the log
    waiting: Float  # Records that wait
    set_back: Float  # Records by which the committed offset fell since the sample before
    # owned_at, busy_at: As in `LastSample`
    owned_at: Float
    busy_at: Float
    fresh: Float  # Nothing before this sample counts
    progress: Float  # The committed offset is another one
    fell: Float  # The lag at the commit is lower than at the last progress before it
    unowned: Float  # No member owns the partition, in a group that has had members
    catches_up: Float  # The owner catches up where it is busy
    moved: Float  # Records by which the start of the log rose since the sample before
    passed_over: Float  # A commit since the sample before is below the start of the log at that sample


def owners_at(parts: PartitionStates, was: LastSample, rows: Samples) -> Owners:
    """The owners at samples, which are sorted by key and time; updates `parts.busy`. O(n log n)."""
    group, owned = parts.keys.group[rows.key], rows.owner >= 0
    first = first_of_runs(rows.key)
    before = np.where(first, was.committed[rows.key], np.roll(rows.committed, 1))
    ended = np.where(first, was.end[rows.key], np.roll(rows.end, 1))
    gained = np.where(before >= 0, rows.committed - before, 0)
    fewer = gained > rows.end - ended
    new = np.flatnonzero(owned & (gained > 0) & (rows.lag >= np.maximum(SEVERAL * gained, RECORDS)))
    marks = Busy.joined([parts.busy, Busy(group[new], rows.owner[new], rows.time[new], fewer[new])])
    marks = marks.take(np.lexsort((marks.fewer, marks.at, marks.member, marks.group)))
    newest = marks.take(np.flatnonzero(last_of_runs(marks.group, marks.member)))
    parts.busy = newest.take(np.flatnonzero(newest.at > rows.time.max(initial=0) - HOUR))
    wide = len(parts.names.members) + 1
    known, asked = marks.group * wide + marks.member, group * wide + rows.owner
    at = last_at(marks.at, np.searchsorted(known, asked, "left"), np.searchsorted(known, asked, "right"), rows.time)
    busy_at = np.where(at >= 0, np.append(marks.at, -NEVER)[at], -NEVER)
    return Owners(parts.owned_since[group] <= rows.time, busy_at, (at >= 0) & np.append(marks.fewer, False)[at])


def gone_at(seen: Float, intervals: Float, instants: Int64) -> Float:
    """The first of the cluster's samples that shows that a log is gone, because it has missed `MANY` by then; nan: none does.

    It has missed one after each usual interval; if fewer than three intervals are known, after the longest of them.
    """
    usual = np.fmax.reduce(np.sort(intervals, 0)[:3])
    at = np.searchsorted(instants, np.where(np.isnan(usual), np.inf, seen + MANY * usual), "right")
    return np.append(instants.astype(np.float64), np.nan)[at]


def deltas_of(was: LastSample, known: Bool, rows: Samples, owners: Owners, instants: Int64) -> tuple[Float, Float, Float]:
    """The delta of each sample; samples are sorted by key and time.

    `was` has a column per key, and `known` is whether the key has a state already. Returns the matrices of `Delta` and of
    `LastSample` with a column per sample, and the time at which the log was gone before the sample (nan: it was not).
    """
    first = first_of_runs(rows.key)
    time, committed, start, end, owner = (
        one.astype(np.float64) for one in (rows.time, rows.committed, rows.start, rows.end, rows.owner)
    )

    def before(column: Any, carried: Any) -> Any:
        return np.where(first, carried[..., rows.key], np.roll(column, 1, -1))

    def latest(mask: Bool, value: Float, carried: Float) -> Float:
        at = np.maximum.accumulate(np.where(mask | first, np.arange(len(first)), 0))
        return np.where(mask, value, carried[..., rows.key])[..., at]

    last, was_end, was_start, was_owner = (
        before(time, was.seen),
        before(end, was.end),
        before(start, was.start),
        before(owner, was.owner),
    )
    was_committed, was_known = before(committed, was.committed), before(committed >= 0, known)
    intervals = [np.where(was_committed >= 0, time - last, np.nan)]
    for carried in was.every:
        intervals.append(before(intervals[-1], carried))
    recent = np.stack(intervals[1:])
    gone = gone_at(last, recent, instants)
    gone = np.where((gone < time) & was_known, gone, np.nan)
    fresh = (committed < 0) | ~was_known | ~np.isnan(gone) | (end < was_end) | (start < was_start)
    missing = np.where(fresh, 0.0, time_without_samples(intervals[0], usual_interval(recent)))
    total = np.cumsum(missing)
    skipped = total - latest(first, total - missing - was.skipped[rows.key], was.skipped)
    clock, last_clock = time - skipped, last - skipped + missing
    is_new, passed = fresh | (rows.committed_at > last), np.maximum(time - last - missing, 1.0)
    at_commit = np.where(fresh, clock, np.maximum(rows.committed_at - skipped, last_clock))
    committed_at = latest(is_new, at_commit, was.committed_at)
    written_at = latest(is_new, np.where(fresh, time, rows.committed_at), was.written_at)
    # The end of the log at the newest commit is on the line between the two samples.
    reached = was_end + np.floor(np.clip((committed_at - last_clock) / passed, 0, 1) * (end - was_end))
    lag, commit_lag = np.maximum(end - committed, 0), np.maximum(np.where(fresh, end, reached) - committed, 0)
    now, commit = np.stack((clock, lag, committed, time)), np.stack((committed_at, commit_lag, committed, written_at))
    waiting, progress = end - np.maximum(committed, start), fresh | (committed != was_committed)
    done = lag < WAITING
    last_progress = latest(done | progress, np.where(done, now, commit), was.last_progress)
    progress_before = before(last_progress, was.last_progress)
    nobody, other = owner < 0, fresh | (owner != was_owner)
    unowned_since = latest(fresh | (nobody & other), np.where(nobody, now, np.nan), was.unowned_since)
    owned_at = latest(other, np.where(nobody & fresh, np.nan, clock), was.owned_at)
    busy_at = latest(other | (owners.busy_at > last), owners.busy_at - skipped, was.busy_at)
    unread = np.where(unowned_since[CLOCK] > last_progress[CLOCK], unowned_since, last_progress)
    changed = np.stack(
        (
            np.maximum(committed_at - progress_before[CLOCK], 0),
            np.abs(committed - was_committed),
            np.abs(commit_lag - progress_before[LAG]),
        )
    )
    deltas = Delta.stacked(
        now=now,
        commit=commit,
        before=np.stack((last_clock, np.maximum(was_end - was_committed, 0), was_committed, last)),
        last_progress=last_progress,
        unread=unread,
        changed=changed,
        passed=passed,
        start=start,
        waiting=waiting,
        set_back=was_committed - committed,
        owned_at=owned_at,
        busy_at=busy_at,
        fresh=fresh,
        progress=progress,
        fell=commit_lag < progress_before[LAG],
        unowned=owners.managed & nobody,
        catches_up=owners.catches_up,
        moved=start - was_start,
        passed_over=is_new & (committed < was_start - 1),
    )
    seen = LastSample.stacked(
        seen=time,
        every=np.stack(intervals[:-1]),
        skipped=skipped,
        start=start,
        end=end,
        committed=committed,
        committed_at=committed_at,
        written_at=written_at,
        owner=owner,
        owned_at=owned_at,
        busy_at=busy_at,
        unowned_since=unowned_since,
        last_progress=last_progress,
    )
    return deltas, seen, gone
