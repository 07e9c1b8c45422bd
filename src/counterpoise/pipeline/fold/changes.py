"""Changes of a group's configuration and size, with figures on the eras before and after: rows of the table `changes`.

An era is a time in which a group has one configuration, or one size. Another state begins an era when it lasts (`_LASTS`, or
`_REBALANCES` of it; `_MIXED` if members differ, because a rolling restart is under way). Until then it is on trial: if the group
returns to its state, nothing has changed. What lies between two eras, the rebalances of the change itself, belongs to neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import run_starts, runs
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.stops import Stops

__all__ = ["Changes", "Era", "add_lag", "add_stops", "certainty", "change_rows", "verdict_of"]

_SECOND = 1_000_000
_LASTS, _MIXED, _REBALANCES = 600 * _SECOND, 3600 * _SECOND, 3
_KEPT = 20
"""Changes of configuration, and of size, that a group remembers: the last ones."""
_HOUR, _DAY = 3600, 86400
_SURE, _FEW, _BETTER, _WORSE = 0.95, 3, 0.8, 1.25
_SEVERAL = ", "
State = dict[str, str]
"""Names and values of what is the same throughout an era."""


@dataclass
class Era:
    """An era, or the time of a trial or of a change, with its figures; times in microseconds, both inclusive."""

    state: State
    begin: int
    end: int | None = None  # None: it has not ended
    empty: int = 0  # Time without members
    rebalances: int = 0
    moved: int = 0
    # Stops of partitions around its steps, and their time
    stops: int = 0
    stopped: int = 0
    # Samples at which the group's lag is known, its sum over them, and the largest
    samples: int = 0
    lag: int = 0
    lag_peak: int = 0

    def until(self, now: int) -> int:
        """Its end; `now` if it has not ended."""
        return now if self.end is None else self.end

    def lasted(self, now: int) -> bool:
        """Whether a state has lasted long enough to be an era; time without members does not count."""
        mixed = any(_SEVERAL in value for value in self.state.values())
        enough = now - self.begin - self.empty >= (_MIXED if mixed else _LASTS)
        return enough or (not mixed and self.rebalances >= _REBALANCES)

    def absorb(self, other: Era) -> None:
        """Add the figures of another time."""
        for name in ("empty", "rebalances", "moved", "stops", "stopped", "samples", "lag"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.lag_peak = max(self.lag_peak, other.lag_peak)

    def figures(self, until: int) -> dict[str, Any]:
        """The fields of `before` and `after`."""
        seconds = round(max(self.until(until) - self.begin - self.empty, 0) / _SECOND, 3)
        per_day = _DAY / seconds if seconds >= _HOUR else None
        stopped = self.stopped / _SECOND if self.stops else None
        return {
            "seconds": seconds,
            "rebalances": self.rebalances,
            "rebalances_per_day": per_day and self.rebalances * per_day,
            "moved": self.moved,
            "moved_per_day": per_day and self.moved * per_day,
            "stopped_seconds": stopped,
            "stopped_seconds_per_day": None if stopped is None or per_day is None else stopped * per_day,
            "samples": self.samples,
            "lag_mean": self.lag / self.samples if self.samples else None,
            "lag_peak": self.lag_peak if self.samples else None,
        }


class _Eras:
    """The last eras of a group by one kind of state, and the trial: a new state that may not last.

    `trial` is empty, or has two entries: the time of the change, and the time in the new state.
    """

    def __init__(self, saved: Mapping[str, Any] | None) -> None:
        state = saved or {"settled": [], "trial": []}
        self.settled, self.trial = ([Era(**one) for one in state[name]] for name in ("settled", "trial"))

    def add(self, at: int, state: State, rebalances: int, moved: int) -> None:
        """A step at which the group has a state and members."""
        step = Era(state, at, rebalances=rebalances, moved=moved)
        self.settle(at)
        if not self.settled:
            self.settled = [step]
        elif state == self.settled[-1].state:
            self._return()
            self.settled[-1].absorb(step)
        elif self.trial and state == self.trial[1].state:
            self.trial[1].absorb(step)
        else:
            if not self.trial:
                self.settled[-1].end = at - 1
            before, *tried = self.trial or [replace(step, rebalances=0, moved=0)]
            for one in (*tried, step):
                before.absorb(one)
            self.trial = [replace(before, end=at), Era(state, at + 1)]

    def settle(self, now: int) -> None:
        """A trial that has lasted begins an era; an era before it that has not lasted never was one."""
        if self.trial and self.trial[1].lasted(now):
            last = self.settled[-1]
            self.settled = [*(self.settled if last.lasted(last.until(now)) else self.settled[:-1]), self.trial[1]][-_KEPT - 1 :]
            self.trial = []

    def _return(self) -> None:
        for one in self.trial:
            self.settled[-1].absorb(one)
        self.settled[-1].end, self.trial = None, []

    def add_empty(self, time: int) -> None:
        """Time without members until now."""
        for one in (self.trial or self.settled)[-1:]:
            one.empty += time

    def parts(self, times: Int64) -> Iterator[tuple[Era, Any]]:
        """Each era, and which of the times are in it."""
        known = [*self.settled, *self.trial]
        if len(known) == 1 and known[0].begin <= int(times[0]):  # times rise
            yield known[0], slice(None)
            return
        place = np.searchsorted(np.array([one.begin for one in known], np.int64), times, "right") - 1
        for number in np.unique(place[place >= 0]).tolist():
            mine = (place == number) & (times <= known[number].until(int(times[-1])))
            if mine.any():
                yield known[number], mine


class Changes:
    """The eras of one group, restored from `state` if given."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._eras = [_Eras(one) for one in saved.get("eras", (None, None))]  # by configuration, and by size
        # Times, in turn: the group lost its members, it had some again. Only those since the last sample of lag are needed.
        self._empty: list[int] = saved.get("empty", [])

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.encode_state`."""
        return {"eras": list(map(vars, self._eras)), "empty": self._empty}

    def add_step(self, step: Mapping[str, Any], at: int, members: Iterable[Mapping[str, Any]]) -> None:
        """Add a step when its record is read, at a time in microseconds.

        `members` have what a configuration is made of: ``rebalance_timeout_ms``, ``session_timeout_ms``, ``library``.
        """
        self._empty = [min(one, at) for one in self._empty]  # ascending also if a broker's clock is set back
        is_empty = len(self._empty) % 2 == 1
        if not step["n_members"]:
            if not is_empty:
                self._empty.append(at)
            return
        if is_empty:
            for one in self._eras:
                one.add_empty(at - self._empty[-1])
            self._empty.append(at)
        counts = int(step["kind"] == "rebalance"), step.get("n_moved") or 0
        for eras, state in zip(self._eras, (_configuration(step, members), {"members": str(step["n_members"])}), strict=True):
            eras.add(at, state, *counts)

    def add_stops(self, times: Int64, stopped: Int64) -> None:
        """Add stops of partitions: times of steps, ascending, and how long, in microseconds."""
        for eras in self._eras:
            for era, mine in eras.parts(times):
                era.stops += len(stopped[mine])
                era.stopped += int(stopped[mine].sum())

    def add_lag(self, times: Int64, lag: Int64) -> None:
        """Add the lag of the group at samples, ascending; without members it belongs to no era."""
        if self._empty:
            present = np.searchsorted(np.array(self._empty, np.int64), times, "right") % 2 == 0
            times, lag = times[present], lag[present]
        if not len(times):
            return
        for eras in self._eras:
            for era, mine in eras.parts(times):
                values = lag[mine]
                era.samples, era.lag = era.samples + len(values), era.lag + int(values.sum())
                era.lag_peak = max(era.lag_peak, int(values.max()))

    def forget(self, until: int) -> None:
        """Drop times without members that ended before `until`. All samples of lag up to `until` must have been added."""
        over = np.searchsorted(np.array(self._empty, np.int64), until, "right")
        self._empty = self._empty[int(over) // 2 * 2 :]

    def pairs(self, until: int) -> Iterator[tuple[Era, Era]]:
        """Eras that follow each other, as if no record followed `until`; the group cannot be continued."""
        for eras in self._eras:
            if len(self._empty) % 2:
                eras.add_empty(until - self._empty[-1])
            eras.settle(until)
            yield from pairwise(eras.settled)


def _configuration(step: Mapping[str, Any], members: Iterable[Mapping[str, Any]]) -> State:
    listed, static = list(members), step["n_static"] or 0
    values = {
        "protocol": step["protocol_kind"],
        "strategy": step["protocol"],
        "static members": "none" if not static else "all" if static == step["n_members"] else f"some{_SEVERAL}not all",
        **{name: _distinct(listed, name) for name in ("rebalance_timeout_ms", "session_timeout_ms", "library")},
    }
    return {name.replace("_", " "): str(value) for name, value in values.items() if value}


def _distinct(members: Iterable[Mapping[str, Any]], name: str) -> str:
    return _SEVERAL.join(str(one) for one in sorted({member[name] for member in members if member.get(name) is not None}))


def add_stops(changes: Mapping[str, Changes], parts: PartitionStates, stops: Stops) -> None:
    """Add stops that became known to the eras of their groups."""
    names, known = parts.groups, np.flatnonzero(stops.timed & ~np.isnan(stops.stop))
    known = known[np.lexsort((stops.at[known], stops.group[known]))]
    # Whole microseconds: a sum of fractions would depend on the order of rows.
    group, time, stopped = stops.group[known], stops.at[known], np.floor(stops.stop[known] * _SECOND + 0.5).astype(np.int64)
    for mine in runs(group):
        changes[names[group[mine.start]]].add_stops(time[mine], stopped[mine])


def add_lag(changes: Mapping[str, Changes], parts: PartitionStates, rows: Samples) -> None:
    """Add the lag of groups at samples to their eras; `rows` has all rows of these samples."""
    names, known = parts.groups, np.flatnonzero(rows.lag >= 0)
    group, time = parts.keys.group[rows.key[known]], rows.time[known]
    order = np.lexsort((time, group))
    starts = run_starts(group[order], time[order])
    group, time, lag = group[order][starts], time[order][starts], np.add.reduceat(rows.lag[known][order], starts)
    for mine in runs(group):
        changes[names[group[mine.start]]].add_lag(time[mine], lag[mine])


def change_rows(changes: Changes, group: str, until: int) -> Iterator[dict[str, Any]]:
    """Rows of `changes` of a group; `until` is the end of the recording, in microseconds."""
    for before, after in changes.pairs(until):
        was, now = before.state, after.state
        names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        resized = "members" in names
        sides = before.figures(until), after.figures(until)
        sure = certainty(*((one["rebalances"], one["seconds"]) for one in sides))
        yield {
            "group_id": group,
            "kind": "size" if resized else next((one for one in ("protocol", "strategy") if one in names), "settings"),
            "at": after.begin - 1,
            "began": before.until(until) + 1,
            "state_before": _SEVERAL.join(f"{name} {was.get(name, 'unknown')}" for name in names),
            "state_after": _SEVERAL.join(f"{name} {now.get(name, 'unknown')}" for name in names),
            "before": sides[0],
            "after": sides[1],
            "certainty": sure,
            "verdict": verdict_of("lag_mean" if resized else "stopped_seconds_per_day", *sides, sure),
        }


def verdict_of(name: str, before: Mapping[str, Any], after: Mapping[str, Any], sure: float) -> str:
    """better, worse, same or unsure: by the figure `name`, or by rebalances a day if it is unknown; `sure` as by `certainty`."""
    if before[name] is None or after[name] is None:
        name = "rebalances_per_day"
    was, now = before[name], after[name]
    few = min(before["rebalances"], after["rebalances"]) < _FEW and sure < _SURE
    enough = min(before["samples"], after["samples"]) >= _FEW if name == "lag_mean" else not few
    if was is None or now is None or not enough or min(before["seconds"], after["seconds"]) < _HOUR:
        return "unsure"
    return "better" if now < _BETTER * was else "worse" if now > _WORSE * was else "same"


def certainty(one: tuple[int, float], other: tuple[int, float]) -> float:
    """How sure it is that the rates of rebalances differ: 1 - p of the exact conditional test.

    `one`, `other`: a number of rebalances, and the seconds in which they came. If both rates are equal, the second number is
    binomial given the sum of both (Przyborowski and Wilenski 1940). O(rebalances).
    """
    (n, time), (m, other_time) = one, other
    total, whole = n + m, time + other_time
    if not total or not time or not other_time:
        return 0.0
    counts = np.arange(total + 1)
    log_factorial = np.cumsum(np.log(np.maximum(counts, 1)))
    log_ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    chance = np.exp(log_ways + counts * log(other_time / whole) + (total - counts) * log(time / whole))
    return round(max(1 - 2 * float(min(chance[: m + 1].sum(), chance[m:].sum())), 0.0), 4)
