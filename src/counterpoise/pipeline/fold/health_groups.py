"""The health of members and groups: the worst state of their partitions, by events in which a state or an owner changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Columns, run_starts, runs
from counterpoise.pipeline.fold.health_rows import GROUP, MEMBER, HealthRows
from counterpoise.pipeline.fold.health_state import STATES, MemberHealth

__all__ = ["Events", "Waiting", "apply_events", "lag_of", "member_rows"]


@dataclass(frozen=True)
class Events(Columns):
    """Changes, at a sample, of a partition's state (`before`, `after`; codes), which begins at `since`, or of its owner."""

    time: Int64
    group: Int64
    before: Int64
    after: Int64
    owner_before: Int64
    owner_after: Int64
    since: Int64


@dataclass(frozen=True)
class _Counted(Columns):
    """Changes of the number of partitions, by 1 or -1, that a member or a group (`member` is -1) has in a state."""

    time: Int64
    group: Int64
    member: Int64
    state: Int64
    since: Int64
    by: Int64


@dataclass(frozen=True)
class Waiting(Columns):
    """Lag of partitions at samples, all of each sample."""

    time: Int64
    group: Int64
    owner: Int64
    lag: Int64


def apply_events(health: MemberHealth, present: Events, events: Events, waiting: Waiting) -> tuple[MemberHealth, HealthRows]:
    """The health after events, and the rows of states that have ended.

    `present` has one row per partition: `after` and `owner_after` hold its state and owner before the first event.
    O(n log n) in the events, and a loop over the samples that have some.
    """
    counted, before = _counted(events), _counted(present)
    counted = counted.take(np.argsort(counted.time, kind="stable"))
    health = _with_new(health, counted)
    waiting = waiting.take(np.flatnonzero(np.isin(waiting.time, counted.time)))
    waiting = waiting.take(np.argsort(waiting.time, kind="stable"))
    counts, ended = np.zeros((len(health), len(STATES)), np.int64), [HealthRows.empty()]
    np.add.at(counts, (_place(health, before.group, before.member), before.state), before.by)
    place = _place(health, counted.group, counted.member)
    for mine in runs(counted.time):
        here, of, now = counted.take(mine), place[mine], int(counted.time[mine.start])
        np.add.at(counts, (of, here.state), here.by)
        touched, of = np.unique(of, return_inverse=True)
        worst = np.max(np.where(counts[touched] > 0, np.arange(len(STATES)), 0), axis=1)
        old, first, last = health.state[touched], np.full(len(touched), NEVER), np.full(len(touched), -NEVER)
        enters = (here.by > 0) & (here.state == worst[of])
        np.minimum.at(first, of[enters], here.since[enters])
        np.maximum.at(last, of, here.since)
        # A state begins with the first partition that enters it, and ends with the last one that leaves it.
        since = np.clip(np.where(worst > old, first, last), health.since[touched], now)
        other = worst != old
        if other.any():
            lag = lag_of(health, waiting.take(slice(*np.searchsorted(waiting.time, (now, now + 1)))))[touched]
            ended.append(member_rows(health.take(touched[other]), since[other], lag[other], is_open=False))
            for name, new in (("state", worst), ("since", since), ("detected", np.full(len(worst), now)), ("lag", lag)):
                getattr(health, name)[touched[other]] = new[other]
        most = np.where(other, 0, health.partitions[touched])
        health.partitions[touched] = np.maximum(most, counts[touched, worst])
    return health.take(np.flatnonzero(health.state > 0)), HealthRows.joined(ended)


def member_rows(health: MemberHealth, until: Int64, lag: Int64, *, is_open: bool) -> HealthRows:
    """The rows of members and groups whose states end at a time; none of a state that has just begun, unless it is open."""
    rows = np.flatnonzero((health.state > 0) & ((until > health.since) | is_open))
    health, none, nan = health.take(rows), np.full(len(rows), -1), np.full(len(rows), np.nan)
    times = (health.since, until[rows], health.detected, np.full(len(rows), is_open))
    scope = np.where(health.member < 0, GROUP, MEMBER)
    numbers = (health.partitions, health.lag, lag[rows], np.maximum(health.lag, lag[rows]))
    return HealthRows(scope, health.state, health.group, none, health.member, none, *times, *numbers, nan, nan, nan)


def _counted(events: Events) -> _Counted:
    """The partitions that members and groups have more and fewer after events."""
    whole, other = np.full(len(events), -1), events.before != events.after
    moved = events.owner_before != events.owner_after
    of_member = np.where(moved, events.time, events.since)
    parts = []
    for state, member, by in ((events.before, events.owner_before, -1), (events.after, events.owner_after, 1)):
        for of, since, mask in ((whole, events.since, other), (member, of_member, (other | moved) & (member >= 0))):
            at = np.flatnonzero(mask & (state > 0))
            parts.append(_Counted(events.time[at], events.group[at], of[at], state[at], since[at], np.full(len(at), by)))
    return _Counted.joined(parts)


def _with_new(health: MemberHealth, counted: _Counted) -> MemberHealth:
    """The health, also of members and groups that are counted for the first time."""
    n = len(counted)
    none, never = np.zeros(n, np.int64), np.full(n, -NEVER)
    both = MemberHealth.joined([health, MemberHealth(counted.group, counted.member, none, never, never, none, none)])
    order = np.lexsort((both.member, both.group))
    return both.take(order[run_starts(both.group[order], both.member[order])])  # the sort is stable: known ones come first


def _place(health: MemberHealth, group: Int64, member: Int64) -> Int64:
    """The row of each member or group, which must be there."""
    wide = int(max(health.member.max(initial=0), member.max(initial=0))) + 2
    return np.searchsorted(health.group * wide + health.member, group * wide + member)


def lag_of(health: MemberHealth, rows: Waiting) -> Int64:
    """The records that wait for each member or group at one sample."""
    lag, owned = np.zeros(len(health), np.int64), rows.take(np.flatnonzero(rows.owner >= 0))
    np.add.at(lag, _place(health, rows.group, np.full(len(rows), -1)), rows.lag)
    np.add.at(lag, _place(health, owned.group, owned.owner), owned.lag)
    return lag
