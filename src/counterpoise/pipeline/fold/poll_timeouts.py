"""Poll timeouts (column `poll_kicks`): members that did not poll within `max.poll.interval.ms`, left, and rejoined.

A member's rebalance timeout in its record is that setting, if its library is one of `_SENDERS`. A member that leaves after no
commit for that long, and rejoins, did not stop: it was removed. In a classic group it rejoins under a new id, so it counts if its
client id joins again soon. Under KIP-848, whose records do not show the library, a process keeps its member id as long as it
runs, so it counts if its id joins again. It left at the time of its own record, because the next step may be much later.

The state is O(members and recent departures): as soon as later records cannot change whether a departure counts, it is counted
or dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from counterpoise.pipeline.arrays import NEVER, run_starts
from counterpoise.pipeline.fold.ownership import FOLLOWING
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.stops import Stops
from counterpoise.pipeline.history.fold_state import restored
from counterpoise.pipeline.history.replay_fold import ENDED, EPOCH_TYPE
from counterpoise.planning.client_libraries import COUNTERPOISE, JAVA, KAFKA_PYTHON, LIBRDKAFKA, STREAMS

__all__ = ["PollTimeouts", "add_last_commits"]

_SENDERS = frozenset({JAVA, STREAMS, LIBRDKAFKA, KAFKA_PYTHON, COUNTERPOISE[KAFKA_PYTHON]})
"""Libraries whose rebalance timeout is `max.poll.interval.ms`; aiokafka, franz-go and others have a separate setting for it."""
_BACK_MS = 60_000
"""A client that joins again within this time, or within its interval if that is longer, rejoined."""
_BACK_BY_ID_MS = 7 * 86_400_000
"""The same for a member id of a KIP-848 group: the time for which Kafka keeps the offsets of an empty group by default."""
_MEMBER, _CURRENT = 5, 8
"""Record types of KIP-848: a member, and the epoch that it has reached."""
_AWAY = -2
"""The epoch of a static member that left and may rejoin within its session: its record stays until the session ends."""
_EMPTIED = "emptied"
"""A step that assigns nothing: the stops are those of the next one."""
_About = tuple[str | None, int | None]
"""Client id and rebalance timeout of a member."""
_Key = tuple[int, str]


@dataclass
class _Departure:
    """A member that left; times in microseconds."""

    # Generation (-1: none) and time of the step that followed
    generation: int
    at: int
    member: str
    client: str
    interval: int  # Its maximal time between two polls, in ms
    left_at: int
    by_id: bool  # It rejoins under its member id; otherwise under its client id
    back: bool = False  # It rejoined
    last: int | None = None  # Its last commit

    @property
    def awaited(self) -> tuple[bool, str]:
        return self.by_id, self.member if self.by_id else self.client

    @property
    def until_ms(self) -> int:
        return self.at // 1000 + (_BACK_BY_ID_MS if self.by_id else max(self.interval, _BACK_MS))

    def add_commit(self, at: int) -> None:
        """Add a commit that the member made before it left."""
        self.last = at if self.last is None else max(at, self.last)

    @property
    def silent(self) -> bool:
        """Whether it did not commit for its whole interval."""
        return self.last is not None and self.left_at // 1000 - self.last // 1000 >= self.interval


class PollTimeouts:
    """The poll timeouts of one group; restored from `state` if given."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._generations: list[dict[str, _About]] = [{}, {}]
        self._here: dict[str, _About] = {}
        self._away: dict[str, int] = {}
        self._without_step: list[tuple[tuple[int, int], _Departure]] = []
        self.departures: dict[_Key, _Departure] = {}  # those not counted yet, by the time of the step and the member
        self._times: list[int] = []
        self._kicks: dict[str, Any] = {"n": 0, "clients": [], "interval": 0, "first": None}
        if state:
            restored(self, state)
            self._without_step = [(tuple(place), _Departure(**one)) for place, one in state["_without_step"]]
            self.departures = {key: _Departure(**one) for key, one in state["departures"].items()}
        self._index()

    @property
    def state(self) -> dict[str, Any]:
        """The state, for `fold_state.encode_state`."""
        return {name: value for name, value in vars(self).items() if name not in ("_awaited", "_expiry")}

    @property
    def members(self) -> list[dict[str, Any]]:
        """``rebalance_timeout_ms`` of each member of a KIP-848 group."""
        return [{"rebalance_timeout_ms": interval} for _, interval in self._here.values()]

    def _index(self) -> None:
        """Index the departures by the id that has to rejoin, and by the time until which it has to."""
        self._awaited: dict[tuple[bool, str], list[_Key]] = {}
        waiting = [(key, one) for key, one in self.departures.items() if not one.back]
        for key, one in waiting:
            self._awaited.setdefault(one.awaited, []).append(key)
        self._expiry = [(one.until_ms, key) for key, one in waiting]
        heapify(self._expiry)

    def add_generation(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Add the members of a classic generation."""
        now: dict[str, _About] = {}
        for member in members:
            name = member["member_id"]
            if member["library"] not in _SENDERS:
                member = {**member, "rebalance_timeout_ms": None}
            now[name] = _merged(now.get(name) or self._about(name), member)
        self._generations = [self._generations[-1], now]

    def _about(self, member: str) -> _About:
        """Client id and timeout of a member of one of the last two generations: a step has members of both."""
        before, now = self._generations
        return now.get(member) or before.get(member) or (None, None)

    def add_record(self, row: Mapping[str, Any], at: int) -> None:
        """Add a row of `modern_group_records`, in log order; `at` is its time in microseconds."""
        member, kind = row["member_id"], row["record_type"]
        if kind == _CURRENT and not row["deleted"]:
            if row["epoch"] == _AWAY:
                self._away[member] = at
            else:
                self._away.pop(member, None)
        elif kind == _MEMBER and not row["deleted"]:
            if member not in self._here:
                self._expire(at)
                self._return(by_id=True, name=member)
            self._here[member] = _merged(self._here.get(member, (None, None)), row)
        elif kind == _MEMBER and member in self._here:
            (client, interval), left_at = self._here.pop(member), self._away.pop(member, at)
            if client is not None and interval is not None and interval > 0:
                self._without_step.append((_place(row), _Departure(-1, at, member, client, interval, left_at, by_id=True)))

    def add_step(self, step: Mapping[str, Any], at: int) -> None:
        """Add a finished step of the group; `at` is its time in microseconds. Later records may be added before it."""
        self._expire(at)
        self._times.append(at)
        generation = -1 if step["generation"] is None else step["generation"]
        if step["group_type"] == EPOCH_TYPE:  # its members keep their ids
            self._modern_step(step, generation, at)
            return
        for member in step["left"]:
            client, interval = self._about(member)
            if client is not None and interval is not None:
                self._leave(_Departure(generation, at, member, client, interval, at, by_id=False))
        for member in step["joined"]:
            client, _ = self._about(member)
            if client is not None:
                self._return(by_id=False, name=client)

    def _modern_step(self, step: Mapping[str, Any], generation: int, at: int) -> None:
        if step["kind"] == _EMPTIED:
            return
        place = _place(step)
        followed = [one for since, one in self._without_step if since < place]
        self._without_step = [(since, one) for since, one in self._without_step if since >= place]
        for one in followed if step["kind"] not in ENDED else ():
            self._leave(replace(one, generation=generation, at=at))

    def _expire(self, now: int) -> None:
        """Drop departures whose member did not rejoin in time."""
        while self._expiry and self._expiry[0][0] < now // 1000:
            key = heappop(self._expiry)[1]
            if key in self.departures and not self.departures[key].back:
                del self.departures[key]

    def _leave(self, one: _Departure) -> None:
        key = one.at, one.member
        if self.departures.setdefault(key, one) is one and not one.back:
            self._awaited.setdefault(one.awaited, []).append(key)
            heappush(self._expiry, (one.until_ms, key))

    def _return(self, *, by_id: bool, name: str) -> None:
        for key in self._awaited.pop((by_id, name), ()):
            if key in self.departures:
                self.departures[key].back = True
        for _, one in self._without_step:
            one.back |= by_id and one.member == name

    def count_final(self, until: int) -> None:
        """Count or drop the departures that no later record changes, after `add_last_commits`.

        The last commit before a step is final when `FOLLOWING` later steps up to `until` are folded (see `find_stops`).
        """
        known = [at for at in self._times if at <= until][-FOLLOWING:]
        self._times = [*known, *(at for at in self._times if at > until)]
        if self.departures and len(known) == FOLLOWING:
            for key, one in list(self.departures.items()):
                if one.at < min(known) and (one.back or not one.silent):
                    del self.departures[key]
                    self._kicks = _counted(self._kicks, [one])
            self._index()

    @property
    def figures(self) -> dict[str, Any]:
        """Columns of `group_report`; empty if there was no poll timeout."""
        kicks = _counted(self._kicks, self.departures.values())
        if not kicks["n"]:
            return {}
        _, generation, left_at = kicks["first"]
        return {
            "poll_kicks": kicks["n"],
            "poll_kick_clients": kicks["clients"],
            "poll_kick_generation": None if generation < 0 else generation,
            "poll_interval_ms": kicks["interval"],
            "poll_kick_ts": left_at,
        }


def _counted(kicks: dict[str, Any], departures: Iterable[_Departure]) -> dict[str, Any]:
    """`kicks` plus the departures of members that rejoined after no commit for `max.poll.interval.ms`."""
    counted = [one for one in departures if one.back and one.silent]
    if not counted:
        return kicks
    first = [(one.at, one.generation, one.left_at) for one in counted]
    return {
        "n": kicks["n"] + len(counted),
        "clients": sorted({*kicks["clients"], *(one.client for one in counted)}),
        "interval": max(kicks["interval"], *(one.interval for one in counted)),
        "first": min(first if kicks["first"] is None else [tuple(kicks["first"]), *first]),
    }


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    """Log partition and offset of a record or step."""
    return row["log_partition"], row["log_offset"]


def _merged(before: _About, member: Mapping[str, Any]) -> _About:
    """Client id and timeout of a member by several records: the largest of each."""
    now: _About = (member["client_id"], member["rebalance_timeout_ms"])
    if before in (now, (None, None)):  # nearly always
        return now
    named = [one for one in (before[0], now[0]) if one is not None]
    waits = [one for one in (before[1], now[1]) if one is not None]
    return max(named, default=None), max(waits, default=None)


def add_last_commits(timeouts: Mapping[str, PollTimeouts], parts: PartitionStates, stops: Stops) -> None:
    """Add the last commit of each owner that left with a step, from the stops of its partitions."""
    rows = np.flatnonzero(stops.timed & (stops.at != -NEVER) & (stops.owner_before >= 0) & (stops.last_before != -NEVER))
    groups, members, code = parts.groups, parts.members, parts.names.members
    left = {group: {(at, code[name]) for at, name in one.departures if name in code} for group, one in timeouts.items()}
    times = np.array(sorted({at for places in left.values() for at, _ in places}), np.int64)
    rows = rows[np.isin(stops.at[rows], times)]
    order = rows[np.lexsort((-stops.last_before[rows], stops.owner_before[rows], stops.at[rows], stops.group[rows]))]
    for row in order[run_starts(stops.group[order], stops.at[order], stops.owner_before[order])].tolist():
        group, at, owner = groups[stops.group[row]], int(stops.at[row]), int(stops.owner_before[row])
        if (at, owner) in left.get(group, ()):
            timeouts[group].departures[at, members[owner]].add_commit(int(stops.last_before[row]))
