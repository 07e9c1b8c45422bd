"""Members that polled too late: they left for want of a poll within `max.poll.interval.ms`, and came back.

A member's rebalance timeout in its record is that setting (Java, librdkafka, kafka-python, aiokafka send it so). Who leaves
without having committed for that long was not stopped, if it comes back: it was kicked out. In a classic group it comes back
under a new id, so its client id tells, if that joins again soon. Under KIP-848 a process keeps its member id as long as it lives,
so the id itself tells, whenever it comes back; it left at the time of its own record, because the next step may be much later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from counterpoise.pipeline.fold.departures import CURRENT, MEMBER, Departures
from counterpoise.pipeline.fold.partitions import Partitions
from counterpoise.pipeline.fold.stops import Stops
from counterpoise.pipeline.scan.aggregation import NEVER

__all__ = ["PollTimeouts", "add_last_commits"]

_BACK_MS = 60_000
"""How soon at least a client must be back to count; longer if its interval is longer."""
_MODERN = "consumer"
"""Type of the groups whose members keep their ids."""
_Returned = tuple[int | None, int, str, str, int, int]
"""Generation and time of the step, member, client, how long it might have been without a poll, and when it left."""


class PollTimeouts:
    """One group's members that left and came back, and when they had committed last.

    Parameters
    ----------
    state : mapping, optional
        What `state` gave.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        saved = state or {}
        self._known: dict[str, tuple[str | None, int | None]] = {
            member: (about[0], about[1]) for member, about in saved.get("known", {}).items()
        }
        self._left: list[tuple[int | None, int, str]] = [(one, at, member) for one, at, member in saved.get("left", ())]
        self._joined: list[tuple[int, str]] = [(at, member) for at, member in saved.get("joined", ())]
        self._departures = Departures(saved.get("departures"))
        self._last: dict[tuple[int, str], int] = {(at, member): last for at, member, last in saved.get("last", ())}

    @property
    def state(self) -> dict[str, Any]:
        """All that is known, as `fold_state` takes it."""
        last = [[*place, at] for place, at in sorted(self._last.items())]
        found = {"known": self._known, "left": self._left, "joined": self._joined, "last": last}
        return {**found, "departures": self._departures.state}

    def generation(self, members: Iterable[Mapping[str, Any]]) -> None:
        """The members of one generation."""
        for member in members:
            self._know(member)

    def _know(self, member: Mapping[str, Any]) -> None:
        about = (member["client_id"], member["rebalance_timeout_ms"])
        before = self._known.setdefault(member["member_id"], about)
        if before != about:
            named = [one for one in (before[0], about[0]) if one is not None]
            waits = [one for one in (before[1], about[1]) if one is not None]
            self._known[member["member_id"]] = max(named, default=None), max(waits, default=None)

    def modern(self, row: Mapping[str, Any], at: int) -> None:
        """A row of `modern_group_records`, in the order of the log, and its time in microseconds."""
        if row["record_type"] in (MEMBER, CURRENT):
            self._departures.feed(row, at)
            if row["record_type"] == MEMBER and not row["deleted"]:
                self._know(row)

    def step(self, step: Mapping[str, Any], at: int) -> None:
        """A step of the group, and its time in microseconds."""
        if step["group_type"] == _MODERN:
            self._departures.step(step, at)
            return
        self._left += [(step["generation"], at, member) for member in step["left"]]
        self._joined += [(at, member) for member in step["joined"]]

    def leaving(self) -> set[tuple[int, str]]:
        """When who left: times of steps, and members."""
        return {(at, member) for _, at, member in self._left} | {one[1:3] for one in self._departures.left()}

    def committed(self, at: int, member: str, last: int) -> None:
        """The last commit of a member before it left."""
        self._last[at, member] = max(last, self._last.get((at, member), last))

    @property
    def figures(self) -> dict[str, Any]:
        """In columns of `group_report`; empty if nobody polled too late."""
        kicked = []
        for generation, at, member, client, interval, left_at in sorted(
            self._back(), key=lambda row: (row[1], row[0] or 0, row[5])
        ):
            last = self._last.get((at, member))
            if last is not None and left_at // 1000 - last // 1000 >= interval:
                kicked.append((generation, client, interval, left_at))
        if not kicked:
            return {}
        return {
            "poll_kicks": len(kicked),
            "poll_kick_clients": sorted({client for _, client, *_ in kicked}),
            "poll_kick_generation": kicked[0][0],
            "poll_interval_ms": max(interval for _, _, interval, _ in kicked),
            "poll_kick_ts": kicked[0][3],
        }

    def _back(self) -> set[_Returned]:
        """Members of a KIP-848 group that left and came back, and of a classic group those whose client joined again soon."""
        found: set[_Returned] = set()
        for generation, at, member, left_at in self._departures.returned():
            client, interval = self._known[member]
            if client is not None and interval is not None and interval > 0:
                found.add((generation, at, member, client, interval, left_at))
        back: dict[str, list[int]] = {}
        for at, member in self._joined:
            client = self._known.get(member, (None, None))[0]
            if client is not None:
                back.setdefault(client, []).append(at // 1000)
        for generation, at, member in self._left:
            client, interval = self._known.get(member, (None, None))
            if client is not None and interval is not None:
                most = max(interval, _BACK_MS)
                if any(0 <= ms - at // 1000 <= most for ms in back.get(client, ())):
                    found.add((generation, at, member, client, interval, at))
        return found


def add_last_commits(of: Mapping[str, PollTimeouts], parts: Partitions, stops: Stops) -> None:
    """The last commit of an owner before the step that took something from it, for owners that left with that step."""
    rows = np.flatnonzero(stops.timed & (stops.at != -NEVER) & (stops.owner_before >= 0) & (stops.last_before != -NEVER))
    groups, members, code = parts.groups, parts.members, parts.names.members
    leaving = {group: {(at, code[name]) for at, name in one.leaving() if name in code} for group, one in of.items()}
    times = np.array(sorted({at for places in leaving.values() for at, _ in places}), np.int64)
    rows = rows[np.isin(stops.at[rows], times)]
    order = rows[np.lexsort((-stops.last_before[rows], stops.owner_before[rows], stops.at[rows], stops.group[rows]))]
    columns = [column[order] for column in (stops.group, stops.at, stops.owner_before)]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    for row in order[fresh].tolist():
        group, at, owner = groups[stops.group[row]], int(stops.at[row]), int(stops.owner_before[row])
        if (at, owner) in leaving.get(group, ()):
            of[group].committed(at, members[owner], int(stops.last_before[row]))
