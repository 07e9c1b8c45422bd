"""The health of a bucket's partitions, members and groups over its samples: rows of `health`, and columns of `group_report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import fsum
from typing import Any

import numpy as np

from counterpoise.model.arrays import ranks_in_runs
from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Float, run_starts
from counterpoise.pipeline.fold.health import advanced, last_seen, waiting
from counterpoise.pipeline.fold.health_groups import Events, Waiting, lag_of, swept, unit_rows
from counterpoise.pipeline.fold.health_owners import owners_at
from counterpoise.pipeline.fold.health_rows import GROUP, HealthRows, partition_rows
from counterpoise.pipeline.fold.health_state import STATES, Health
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.scan.aggregation import NEVER

__all__ = ["add_health", "add_seconds", "health_columns", "open_rows"]

_MISSED = 10
"""A log without a sample for so many times the usual time, while other logs have some, is no longer there."""
_NAMED, _WORST = 5, STATES.index("falling_behind")
"""How many partitions are listed, and the best state that is."""


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
        found, ends, end = advanced(was, now, owners.take(at), gone)
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
        parts.units, units = swept(parts.units, _present(group, before), every, lag)
        ended.append(units)
    return HealthRows.joined(ended)


def _by_rank(key: Int64) -> Iterator[Int64]:
    """The rows of the first sample of all partitions, then of their second one, and so on; `key` is sorted."""
    rank = ranks_in_runs(np.diff(np.append(run_starts(key), len(key))))
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(int(rank.max(initial=-1)) + 2))
    yield from (order[begin:end] for begin, end in pairwise(bounds.tolist()))


def _missed(of: Health, instants: Int64) -> Float:
    """The first sample of the cluster that shows that the log is gone, if it has none up to then; nan: none does."""
    at = np.searchsorted(instants, np.where(np.isnan(of.every), np.inf, of.seen + _MISSED * of.every), "right")
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


def add_seconds(of: Mapping[str, dict[str, int]], parts: PartitionStates, rows: HealthRows) -> None:
    """Add the time of groups in each state, in microseconds."""
    names, mine = parts.groups, rows.take(np.flatnonzero(rows.scope == GROUP))
    for group, state, time in zip(mine.group.tolist(), mine.state.tolist(), (mine.until - mine.since).tolist(), strict=True):
        spent = of[names[group]]
        spent[STATES[state]] = spent.get(STATES[state], 0) + time


def health_columns(parts: PartitionStates, opened: HealthRows, group: int, spent: Mapping[str, int]) -> dict[str, Any]:
    """Columns of `group_report`: `opened` are the rows of the last states, `spent` has microseconds of the group by state."""
    mine = opened.take(np.flatnonzero((opened.group == group) & (opened.key >= 0)))
    states, named, worst = list[dict[str, Any]](), list[dict[str, Any]](), None
    for code in range(len(STATES) - 1, 0, -1):
        rows = mine.take(np.flatnonzero(mine.state == code))
        if not len(rows) and STATES[code] not in spent:
            continue
        worst = STATES[code] if worst is None and len(rows) else worst
        figures = {"state": STATES[code], "seconds": spent.get(STATES[code], 0) / 1e6, "partitions": len(rows)}
        states.append(figures | _sums(parts, rows))
        if code >= _WORST:
            named += _named(parts, rows)
    return {"health": worst, "health_states": states, "unhealthy": named} if states else {}


def _sums(parts: PartitionStates, rows: HealthRows) -> dict[str, Any]:
    known = rows.left[~np.isnan(rows.left)]
    return {
        "since": int(rows.since.min()) if len(rows) else None,
        "lag": int(rows.lag_end.sum()),
        "lost": int(_lost(parts, rows).sum()),
        "produced_per_second": fsum(rows.produced[~np.isnan(rows.produced)]),
        "consumed_per_second": fsum(rows.consumed[~np.isnan(rows.consumed)]),
        "seconds_left": float(known.min()) if len(known) else None,
    }


def _named(parts: PartitionStates, rows: HealthRows) -> list[dict[str, Any]]:
    """The partitions with most lag, of several with equal lag those whose topics come first."""
    least = np.sort(rows.lag_end)[-_NAMED:]
    rows = rows.take(np.flatnonzero(rows.lag_end >= least.min(initial=NEVER)))
    listed = rows.batch(parts).select(["state", "topic", "partition", "client_id", "since", "lag_end"]).to_pylist()
    found = [
        {**one, "lag": one.pop("lag_end"), "lost": lost} for one, lost in zip(listed, _lost(parts, rows).tolist(), strict=True)
    ]
    return sorted(found, key=lambda one: (-one["lag"], one["topic"], one["partition"]))[:_NAMED]


def _lost(parts: PartitionStates, rows: HealthRows) -> Int64:
    """Records that were deleted before they were read."""
    of = parts.health
    return np.maximum(of.start - of.committed, 0)[rows.key].astype(np.int64)
