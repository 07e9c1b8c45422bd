"""Sizing of groups, from samples of log ends: production of partitions, capacity of members, and how many members keep up.

A window is the time between the first samples of two minutes. A window longer than two periods is ignored: its mean rate would
hide peaks. If the offset committed when a window ends is below the end of the log when it began, records were waiting all the
time: what the owner consumed meanwhile, on all its partitions, is its capacity. A period is ten minutes of windows; a group's
busiest one gives the production that its members must keep up with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, last_of_runs, run_starts, runs
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates

__all__ = ["Sizing", "add_samples", "fullest", "least_members", "sizing_columns"]

_SECOND = 1_000_000
_WINDOW, _PERIOD = 60 * _SECOND, 600 * _SECOND
_NAMED = 3
"""Partitions with most production that are listed."""
_TRIED = 4_000_000
"""Numbers of members times partitions that are tried."""
_USEFUL = 1.05
"""Another member is useful if the fullest one has more than this, in loads of the largest partition."""


@dataclass
class Sizing:
    """The figures of one group that its partitions (`Keys`) do not have; times in microseconds."""

    # Total length of all periods that have ended, gaps left out, and the end of the last one
    recorded: int = 0
    until: int = -NEVER
    open: list[int] | None = None  # The period that has not ended: its number, begin, end, and records produced
    busiest: list[int] | None = None  # Begin, end and records of the busiest period that has ended; None: none has
    # The highest rate of a member that was behind in a window, and of any member; records per second
    sustained: float = 0.0
    seen: float = 0.0
    windows: int = 0  # Windows of members that were behind

    def end_period(self, begin: int, end: int, records: int) -> bool:
        """Count a period that has ended, and keep it if it is the busiest one; return whether it is."""
        self.recorded += max(end - max(begin, self.until), 0)
        self.until = max(self.until, end)
        busier = self.busiest is None or _rank(begin, end, records) > _rank(*self.busiest)
        if busier:
            self.busiest = [begin, end, records]
        return busier


def _rank(begin: int, end: int, records: int) -> tuple[bool, float]:
    """A sort key: periods of at least five minutes come first, then those of a higher rate."""
    return 2 * (end - begin) >= _PERIOD, records * _SECOND / max(end - begin, 1)


@dataclass(frozen=True)
class _Windows(Columns):
    """Windows of partitions: their begin and end, and the records produced in them."""

    key: Int64
    group: Int64
    begin: Int64
    end: Int64
    produced: Int64


def add_samples(sizing: Mapping[str, Sizing], parts: PartitionStates, instants: Int64, rows: Samples) -> None:
    """Add rows at samples, all of each sample; `instants` are the times of all samples of the cluster.

    Changes the windows and periods in `parts.keys`. O(n log n) in the rows at the first sample of each minute.
    """
    at = np.searchsorted(instants, rows.time)
    rows = rows.take(np.flatnonzero((at == 0) | (instants[at - 1] // _WINDOW != rows.time // _WINDOW)))
    if not len(rows):
        return
    keys = parts.keys
    known = np.flatnonzero(keys.window_at != -NEVER)
    none = np.full(len(known), -1)
    begins = (keys.window_owner, none, keys.window_committed, keys.window_committed_at, none, keys.window_end)
    before = Samples(known, keys.window_at[known], *(one if one is none else one[known] for one in begins))
    both = Samples.joined([before, rows])
    both = both.take(np.lexsort((both.time, both.key)))
    follows = np.flatnonzero((both.key[1:] == both.key[:-1]) & (np.diff(both.time) <= 2 * _PERIOD))
    newest = both.take(np.flatnonzero(last_of_runs(both.key)))
    values = {f"window_{name}": getattr(newest, name) for name in ("owner", "committed", "committed_at", "end")}
    parts.keys = keys.put(newest.key, window_at=newest.time, **values)
    one, two = both.take(follows), both.take(follows + 1)
    windows = _Windows(one.key, keys.group[one.key], one.time, two.time, np.maximum(two.end - one.end, 0))
    _add_capacity(sizing, parts, windows, one, two)
    _add_production(sizing, parts, windows)


def _add_capacity(sizing: Mapping[str, Sizing], parts: PartitionStates, windows: _Windows, one: Samples, two: Samples) -> None:
    """Add the rates of members in windows, over the partitions that they owned at both ends."""
    rows = np.flatnonzero(
        (one.owner == two.owner)
        & (one.owner >= 0)
        & (one.committed >= 0)
        & (two.committed >= one.committed)
        & (two.end >= one.end)
    )
    windows, one, two = windows.take(rows), one.take(rows), two.take(rows)
    # Offsets that retention deleted meanwhile were skipped, not read; beyond the end there is nothing to read.
    consumed = np.maximum(np.minimum(two.committed, two.end) - np.maximum(one.committed, two.start), 0)
    behind = (two.committed < one.end) & (consumed > 0)
    order = np.lexsort((windows.begin, windows.end, one.owner, windows.group))
    starts = run_starts(*(column[order] for column in (windows.group, one.owner, windows.end, windows.begin)))
    first = order[starts]
    length = windows.end[first] - windows.begin[first]
    total, produced = (np.add.reduceat(each[order], starts) for each in (consumed, windows.produced))
    # Up to its newest commit a member has read what it committed: so the time between commits counts, not that between samples.
    passed = np.maximum.reduceat(two.committed_at[order], starts) - np.maximum.reduceat(one.committed_at[order], starts)
    waited: Bool = np.logical_or.reduceat(behind[order], starts)
    rate = total * _SECOND / np.maximum(passed, length // 2)
    # A member that waits for records consumes no more than is produced; an offset that was set looks like more.
    group, sustained, seen = windows.group[first], np.where(waited, rate, 0.0), np.minimum(rate, produced * _SECOND / length)
    names = parts.groups
    for run in runs(group):
        mine = sizing[names[group[run.start]]]
        mine.sustained = max(mine.sustained, float(sustained[run].max()))
        mine.seen = max(mine.seen, float(seen[run].max()))
        mine.windows += int(waited[run].sum())


def _add_production(sizing: Mapping[str, Sizing], parts: PartitionStates, windows: _Windows) -> None:
    """Add what was produced in windows to the open periods of their groups, and end those that later windows follow."""
    keys, names = parts.keys, parts.groups
    groups = np.unique(windows.group)
    opened = {int(code): sizing[names[code]].open for code in groups.tolist()}
    carried = np.flatnonzero(np.isin(keys.group, [code for code, period in opened.items() if period]))
    bounds = np.array([(opened[code] or ())[:3] for code in keys.group[carried].tolist()], np.int64).reshape(-1, 3)
    before = _Windows(carried, keys.group[carried], bounds[:, 1], bounds[:, 2], keys.produced[carried])
    both = _Windows.joined([before, windows])
    period = np.concatenate((bounds[:, 0], (windows.end - 1) // _PERIOD))
    order = np.lexsort((both.key, period, both.group))
    both, period = both.take(order), period[order]
    starts = run_starts(both.group, period)
    records, begin, end = (
        how.reduceat(column, starts)
        for how, column in ((np.add, both.produced), (np.minimum, both.begin), (np.maximum, both.end))
    )
    produced, busiest = keys.produced.copy(), keys.busiest.copy()
    after = np.append(starts[1:], len(both))
    for at, (code, number) in enumerate(zip(both.group[starts].tolist(), period[starts].tolist(), strict=True)):
        mine, figures = sizing[names[code]], [int(column[at]) for column in (begin, end, records)]
        rows = slice(starts[at], after[at])
        is_last = at + 1 == len(starts) or both.group[starts[at + 1]] != code
        if is_last:
            mine.open = [number, *figures]
        if is_last or mine.end_period(*figures):
            column, of_group = produced if is_last else busiest, slice(*np.searchsorted(keys.group, (code, code + 1)))
            column[of_group] = 0
            np.add.at(column, both.key[rows], both.produced[rows])
    parts.keys = replace(keys, produced=produced, busiest=busiest)


def least_members(loads: Int64, limit: float) -> int | None:
    """The smallest number of members of which none has more than `limit`, if partitions are dealt out in turn.

    `loads` are those of the partitions, in order. None: one partition alone has more. All numbers are tried up to 2,000 of them;
    beyond that bisection comes first, which may miss a smaller one.
    """
    if not len(loads) or loads.max() > limit:
        return None if len(loads) else 0
    low, high = max(int(np.ceil(loads.sum() / limit)) if limit else 1, 1), len(loads)
    while (high - low) * high > _TRIED:
        middle = (low + high) // 2
        low, high = (low, middle) if fullest(loads, middle) <= limit else (middle + 1, high)
    return next((n for n in range(low, high) if fullest(loads, n) <= limit), high)


def fullest(loads: Int64, members: int) -> int:
    """The load of the member that has most, if partitions are dealt out in turn."""
    return int(np.bincount(np.arange(len(loads)) % members, loads).max())


def sizing_columns(sizing: Sizing, parts: PartitionStates, group: int, members: int | None, headroom: float) -> dict[str, Any]:
    """Columns of `group_report`; empty without a window. `members`: those of the group now; `headroom`: 0.2 is a fifth."""
    sizing, keys, topics = replace(sizing), parts.keys, parts.topics  # its open period ends in the copy alone
    first, after = np.searchsorted(keys.group, (group, group + 1))
    mine = first + np.flatnonzero(keys.window_at[first:after] != -NEVER)
    if sizing.open is None or not len(mine):
        return {}
    mine = np.array(sorted(mine.tolist(), key=lambda at: (topics[keys.topic[at]], keys.partition[at])), np.int64)
    is_busiest = sizing.end_period(*sizing.open[1:])
    loads = (keys.produced if is_busiest else keys.busiest)[mine]
    begin, end, records = sizing.open[1:] if is_busiest or sizing.busiest is None else sizing.busiest
    per_second = _SECOND / max(end - begin, 1)
    capacity = max(sizing.sustained, sizing.seen)
    worst = sorted(zip((-loads).tolist(), range(len(mine)), strict=True))[:_NAMED]
    return {
        "production_per_second": records * per_second,
        "production_ts": begin,
        "busiest_partitions": [
            {"topic": topics[keys.topic[mine[at]]], "partition": int(keys.partition[mine[at]]), "per_second": -load * per_second}
            for load, at in worst
        ],
        "capacity_per_second": capacity or None,
        "capacity_quality": "sustained" if sizing.sustained else "lower_bound" if sizing.seen else "unknown",
        "capacity_windows": sizing.windows,
        "member_load_per_second": fullest(loads, members) * per_second if members else None,
        "members_needed": least_members(loads, capacity / per_second / (1 + headroom)) if capacity else None,
        "members_useful": least_members(loads, loads.max() * _USEFUL),
        "sizing_seconds": sizing.recorded / _SECOND,
    }
