"""The health of a bucket's partitions, members and groups over its samples: rows of `health`, and columns of `group_report`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Float, first_of_runs, last_of_runs, run_starts
from counterpoise.pipeline.fold.health import next_health
from counterpoise.pipeline.fold.health_deltas import Delta, deltas_of, gone_at, owners_at
from counterpoise.pipeline.fold.health_groups import Events, Waiting, apply_events, lag_of, member_rows
from counterpoise.pipeline.fold.health_rows import GROUP, HealthRows, partition_rows
from counterpoise.pipeline.fold.health_state import CURRENT_STATE, LAST_SAMPLE, RULE_STATE, STATES, WALL, CurrentState, LastSample
from counterpoise.pipeline.fold.health_thresholds import PURGED_BY_STREAMS, WAITING
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates

if TYPE_CHECKING:
    from counterpoise.pipeline.fold.group_state import GroupState

__all__ = ["add_health", "add_state_times", "health_figures", "open_rows"]

_LISTED, _MILDEST = 5, STATES.index("falling_behind")
"""So many partitions are listed per state, of this state and worse ones."""


def add_health(parts: PartitionStates, instants: Int64, rows: Samples, until: int) -> HealthRows:
    """Advance the health in `parts` to a time; returns the rows of states that have ended.

    `rows` has all rows of each new sample up to then; `instants` are the times of all samples of the cluster. A loop over the
    samples of a partition: O(k) array operations and O(k n) time for k samples of n partitions.
    """
    group, before, matrix = parts.keys.group, parts.health, parts.health.copy()
    rows = rows.take(np.lexsort((rows.time, rows.key)))
    first, was_seen = first_of_runs(rows.key), LastSample.of(before[LAST_SAMPLE])
    owner = np.where(first, was_seen.owner[rows.key], np.roll(rows.owner, 1))
    deltas, seen, missed = deltas_of(was_seen, before[0] > 0, rows, owners_at(parts, was_seen, rows), instants)
    purged = np.array([PURGED_BY_STREAMS.search(topic) is not None for topic in parts.names.topics], np.bool_)
    Delta.of(deltas).moved[purged[parts.keys.topic[rows.key]]] = 0
    last = np.flatnonzero(last_of_runs(rows.key))
    matrix[LAST_SAMPLE, rows.key[last]] = seen[:, last]
    order, bounds = _by_rank(rows.key)
    rows, deltas, owner, missed = rows.take(order), deltas[:, order], owner[order], missed[order]
    was, now = np.empty((2, CurrentState.height, len(order)))
    ends, end = np.zeros(len(order), np.bool_), np.empty((4, len(order)))
    for at in bounds:
        key = rows.key[at]
        known = matrix[: RULE_STATE.stop].take(key, 1)
        found, ends[at], end[:, at] = next_health(known, Delta.of(deltas[:, at]))
        matrix[: RULE_STATE.stop, key] = found
        was[:, at], now[:, at] = known[CURRENT_STATE], found[CURRENT_STATE]
    old, new, mine = CurrentState.of(was), CurrentState.of(now), group[rows.key]
    some = np.flatnonzero(ends & (end[WALL] > old.begun[WALL]))
    ended = [partition_rows(mine[some], rows.key[some], owner[some], CurrentState.of(was[:, some]), end[:, some], some < 0)]
    state = np.where(np.isnan(missed), old.state, 0)
    changed = (state != new.state) | ((owner != rows.owner) & (state > 0))
    events = [
        _gone(mine, old.state, owner, Delta.of(deltas).before[WALL], missed),
        _events(changed, rows.time, mine, state, new.state, owner, rows.owner, new.begun[WALL]),
    ]
    shown, of = CurrentState.of(matrix[CURRENT_STATE]), LastSample.of(matrix[LAST_SAMPLE])
    missed = gone_at(of.seen, of.every, instants)
    missed[~(missed <= until)] = np.nan
    some = np.flatnonzero((shown.state > 0) & ~np.isnan(missed) & (of.seen > shown.begun[WALL]))
    ended.append(_last_rows(group, matrix, some, is_open=False))
    events.append(_gone(group, shown.state, of.owner, of.seen, missed))
    shown.state[~np.isnan(missed)] = 0
    parts.health = matrix
    if len(every := Events.joined(events)):
        waiting, none = np.flatnonzero(rows.committed >= 0), np.zeros(len(group))
        lag = Waiting(rows.time[waiting], mine[waiting], rows.owner[waiting], rows.lag[waiting])
        present = _events(before[0] > 0, none, group, none, before[0], was_seen.owner, was_seen.owner, none)
        parts.member_health, changed = apply_events(parts.member_health, present, every, lag)
        ended.append(changed)
    return HealthRows.joined(ended)


def _by_rank(key: Int64) -> tuple[Int64, Iterator[slice]]:
    """Rows sorted by first, second, ... sample of a partition, and the slice of each of these; `key` is sorted."""
    rank = ranks_in_runs(np.diff(np.append(run_starts(key), len(key))))
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    return order, map(slice, bounds[:-1].tolist(), bounds[1:].tolist())


def _gone(group: Int64, state: Float, owner: Float, seen: Float, missed: Float) -> Events:
    """Events of partitions that had a state and whose log was found to be gone, at the time in `missed` (nan: it is not gone)."""
    return _events((state > 0) & ~np.isnan(missed), missed, group, state, np.zeros(len(group)), owner, owner, seen)


def _events(which: Bool, *columns: Any) -> Events:
    return Events(*(one[which].astype(np.int64) for one in columns))


def open_rows(parts: PartitionStates, instants: Int64) -> HealthRows:
    """The rows of states that have not ended, after all samples were added."""
    known, group = np.flatnonzero(parts.health[0] > 0), parts.keys.group
    if not len(known):
        return HealthRows.empty()
    of, health = LastSample.of(parts.health[LAST_SAMPLE][:, known]), parts.member_health
    waiting = np.maximum(of.end - np.maximum(of.committed, of.start), 0)
    here = Waiting(known, group[known], of.owner.astype(np.int64), waiting.astype(np.int64))
    of_members = member_rows(health, np.full(len(health), instants[-1]), lag_of(health, here), is_open=True)
    # Without the records that the log has deleted
    last = replace(_last_rows(group, parts.health, known, is_open=True), lag_end=here.lag)
    return HealthRows.joined([last, of_members])


def _last_rows(group: Int64, matrix: Float, keys: Int64, *, is_open: bool) -> HealthRows:
    """The rows of partitions up to their last samples."""
    of = LastSample.of(matrix[LAST_SAMPLE][:, keys])
    end = np.stack((of.seen - of.skipped, np.maximum(of.end - of.committed, 0), of.committed, of.seen))
    return partition_rows(
        group[keys], keys, of.owner, CurrentState.of(matrix[CURRENT_STATE][:, keys]), end, np.full(len(keys), is_open)
    )


def add_state_times(groups: Mapping[str, GroupState], parts: PartitionStates, rows: HealthRows) -> None:
    """Add the time of groups in each state, in microseconds, to `GroupState.health`."""
    names, mine = parts.groups, rows.take(np.flatnonzero(rows.scope == GROUP))
    for group, state, time in zip(mine.group.tolist(), mine.state.tolist(), (mine.until - mine.since).tolist(), strict=True):
        spent = groups[names[group]].health
        spent[STATES[state]] = spent.get(STATES[state], 0) + time


def health_figures(
    groups: Mapping[str, GroupState], parts: PartitionStates, opened: HealthRows
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each group that has a state, and its columns of `group_report`; `opened` are the rows of the last states."""
    names, rows = parts.groups, _worst_first(parts, opened)
    seen = LastSample.of(parts.health[LAST_SAMPLE])
    distance = (seen.start - seen.committed)[rows.key].astype(np.int64)
    lost = np.where(distance >= WAITING, distance, 0)  # the next offset may be that of a transaction's marker
    bounds = [*run_starts(rows.group, rows.state).tolist(), len(rows)]
    runs, unhealthy = defaultdict[str, dict[int, slice]](dict), defaultdict[str, list[dict[str, Any]]](list)
    for begin, end in pairwise(bounds):
        runs[names[rows.group[begin]]][int(rows.state[begin])] = slice(begin, end)
    listed = np.flatnonzero((ranks_in_runs(np.diff(bounds)) < _LISTED) & (rows.state >= _MILDEST))
    for at, row in zip(listed.tolist(), rows.take(listed).batch(parts).to_pylist(), strict=True):
        about = {name: row[name] for name in ("state", "topic", "partition", "client_id", "since")}
        unhealthy[row["group_id"]].append({**about, "lag": row["lag_end"], "lost": int(lost[at])})
    for name, group in groups.items():
        here, spent, states = runs.get(name, {}), group.health, list[dict[str, Any]]()
        for code in range(len(STATES) - 1, 0, -1):
            if code in here or STATES[code] in spent:
                part = here.get(code, slice(0))
                figures = {"state": STATES[code], "seconds": spent.get(STATES[code], 0) / 1e6, "lost": int(lost[part].sum())}
                states.append(figures | _sums(rows.take(part)))
        if states:
            worst = STATES[max(here)] if here else None
            yield name, {"health": worst, "health_states": states, "unhealthy": unhealthy[name]}


def _worst_first(parts: PartitionStates, opened: HealthRows) -> HealthRows:
    """The rows of partitions by group, the worst states first; in each by lag, the largest first, then by topic and partition."""
    rows, topics = opened.take(np.flatnonzero(opened.key >= 0)), parts.topics
    place = np.empty(len(topics), np.int64)
    place[sorted(range(len(topics)), key=topics.__getitem__)] = np.arange(len(topics))
    topic, partition = place[parts.keys.topic[rows.key]], parts.keys.partition[rows.key]
    return rows.take(np.lexsort((partition, topic, -rows.lag_end, -rows.state, rows.group)))


def _sums(rows: HealthRows) -> dict[str, Any]:
    known = rows.seconds_left[~np.isnan(rows.seconds_left)]
    return {
        "partitions": len(rows),
        "since": int(rows.since.min()) if len(rows) else None,
        "lag": int(rows.lag_end.sum()),
        "produced_per_second": fsum(rows.produced[~np.isnan(rows.produced)]),
        "consumed_per_second": fsum(rows.consumed[~np.isnan(rows.consumed)]),
        "seconds_left": float(known.min()) if len(known) else None,
    }
