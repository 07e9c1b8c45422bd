"""The health of a bucket's partitions, members and groups over its samples: rows of `health`, and columns of `group_report`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Float, run_starts
from counterpoise.pipeline.fold.health import last_seen, next_health, waiting
from counterpoise.pipeline.fold.health_groups import Events, Waiting, apply_events, lag_of, unit_rows
from counterpoise.pipeline.fold.health_owners import owners_at
from counterpoise.pipeline.fold.health_rows import GROUP, HealthRows, partition_rows
from counterpoise.pipeline.fold.health_rules import MANY
from counterpoise.pipeline.fold.health_state import STATES, Health
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates

if TYPE_CHECKING:
    from counterpoise.pipeline.fold.group_state import GroupState

__all__ = ["add_health", "add_seconds", "health_figures", "open_rows"]

_LISTED, _MILDEST = 5, STATES.index("falling_behind")
"""So many partitions are listed per state, of this state and worse ones."""


def add_health(parts: PartitionStates, instants: Int64, rows: Samples, until: int) -> HealthRows:
    """Advance the health in `parts` to a time; returns the rows of states that have ended.

    `rows` has all rows of each new sample up to then; `instants` are the times of all samples of the cluster. A loop over the
    samples of a partition: O(k) array operations and O(k n) time for k samples of n partitions.
    """
    group, before, matrix = parts.keys.group, parts.health, parts.health.matrix
    rows = rows.take(np.lexsort((rows.time, rows.key)))
    owners = owners_at(parts, rows)
    ended, events = [HealthRows.empty()], [Events.empty()]
    for at in _by_rank(rows.key):
        now = rows.take(at)
        known = matrix[:, now.key]
        was, mine = Health.of(known), group[now.key]
        missed = _missed(was, instants)
        gone = missed < now.time
        found, ends, end = next_health(was, now, owners.take(at), gone)
        matrix[:, now.key] = found.matrix
        if (some := np.flatnonzero(ends & (end[0] > was.begun[0]))).size:
            ended.append(partition_rows(mine[some], now.key[some], Health.of(known[:, some]), end[:, some], some < 0))
        if gone.any():
            events.append(_gone(mine, was, gone, missed))
            known[0, gone] = 0
        events.append(_changed(mine, was, found, now.time))
    found = Health.of(matrix)
    missed = _missed(found, instants)
    gone = (found.state > 0) & (missed <= until)
    if gone.any():
        some = np.flatnonzero(gone & (found.seen > found.begun[0]))
        last = Health.of(matrix[:, some])
        ended.append(partition_rows(group[some], some, last, last_seen(last), some < 0))
        events.append(_gone(group, found, gone, missed))
        matrix[0, gone] = 0
    parts.health = Health.of(matrix)
    if len(every := Events.joined(events)):
        waiting = np.flatnonzero(rows.committed >= 0)
        lag = Waiting(rows.time[waiting], group[rows.key[waiting]], rows.owner[waiting], rows.lag[waiting])
        parts.units, units = apply_events(parts.units, _present(group, before), every, lag)
        ended.append(units)
    return HealthRows.joined(ended)


def _by_rank(key: Int64) -> Iterator[Int64]:
    """The rows of the first sample of all partitions, then of their second one, and so on; `key` is sorted."""
    rank = ranks_in_runs(np.diff(np.append(run_starts(key), len(key))))
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    yield from (order[begin:end] for begin, end in pairwise(bounds.tolist()))


def _missed(of: Health, instants: Int64) -> Float:
    """The first sample of the cluster that shows that the log is gone, because it missed `MANY`; nan: none does."""
    at = np.searchsorted(instants, np.where(np.isnan(of.every), np.inf, of.seen + MANY * of.every), "right")
    return np.append(instants.astype(np.float64), np.nan)[at]


def _changed(group: Int64, was: Health, found: Health, time: Int64) -> Events:
    rows = np.flatnonzero((was.state != found.state) | ((was.owner != found.owner) & (was.state > 0)))
    return _events(*(one[rows] for one in (time, group, was.state, found.state, was.owner, found.owner, found.begun[0])))


def _gone(group: Int64, of: Health, gone: Bool, missed: Float) -> Events:
    rows = np.flatnonzero(gone & (of.state > 0))
    return _events(*(one[rows] for one in (missed, group, of.state, np.zeros(len(gone)), of.owner, of.owner, of.seen)))


def _present(group: Int64, of: Health) -> Events:
    none = np.zeros(len(group))
    return _events(none, group, none, of.state, of.owner, of.owner, none)


def _events(*columns: Any) -> Events:
    return Events(*(np.asarray(one).astype(np.int64) for one in columns))


def open_rows(parts: PartitionStates, instants: Int64) -> HealthRows:
    """The rows of states that have not ended, after all samples were added."""
    known, group = np.flatnonzero(parts.health.state > 0), parts.keys.group
    if not len(known):
        return HealthRows.empty()
    of = Health.of(parts.health.matrix[:, known])
    here = Waiting(
        known,
        group[known],
        of.owner.astype(np.int64),
        waiting(of).astype(np.int64),
    )
    until = np.full(len(parts.units), instants[-1])
    units = unit_rows(parts.units, until, lag_of(parts.units, here), is_open=True)
    return HealthRows.joined([partition_rows(group[known], known, of, last_seen(of), known >= 0), units])


def add_seconds(groups: Mapping[str, GroupState], parts: PartitionStates, rows: HealthRows) -> None:
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
    lost = np.maximum(parts.health.start - parts.health.committed, 0)[rows.key].astype(np.int64)
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
    known = rows.left[~np.isnan(rows.left)]
    return {
        "partitions": len(rows),
        "since": int(rows.since.min()) if len(rows) else None,
        "lag": int(rows.lag_end.sum()),
        "produced_per_second": fsum(rows.produced[~np.isnan(rows.produced)]),
        "consumed_per_second": fsum(rows.consumed[~np.isnan(rows.consumed)]),
        "seconds_left": float(known.min()) if len(known) else None,
    }
