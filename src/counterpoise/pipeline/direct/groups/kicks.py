"""Members that polled too late: they left for want of a poll within `max.poll.interval.ms`, and came back.

A member's rebalance timeout in its record is that setting (Java, librdkafka, kafka-python, aiokafka send it so). Who leaves
without having committed for that long was not stopped, if it comes back: it was kicked out. In a classic group it comes back
under a new id, so its client id tells, if that joins again soon. Under KIP-848 a process keeps its member id as long as it lives,
so the id itself tells, whenever it comes back; it left at the time of its own record, because the next step may be much later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.direct.groups.departures import CURRENT, MEMBER, Departures

__all__ = ["Kicks", "Silent"]

_BACK_MS = 60_000
"""How soon at least a client must be back to count; longer if its interval is longer."""
_MODERN = "consumer"
"""Type of the groups whose members keep their ids."""
_Left = tuple[int | None, int, str]
"""Generation, time, member."""
_Returned = tuple[int | None, int, str, str, int, int]
"""The same with its client, how long it might have been without a poll, and when it left: at most the time of the step."""


class Kicks:
    """Who left and came back, group by group; then, who of them had been silent."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[str | None, int | None]]] = {}
        self._left: dict[str, list[_Left]] = {}
        self._joined: dict[str, list[tuple[int, str]]] = {}
        self._departures: dict[str, Departures] = {}

    def state(self, group: str) -> dict[str, Any]:
        """What is known of a group so far, as `fold_state` takes it."""
        found = {"known": self._known.get(group, {}), "left": self._left.get(group, []), "joined": self._joined.get(group, [])}
        if group in self._departures:
            found["departures"] = self._departures[group].state
        return found if any(found.values()) else {}

    def go_on(self, group: str, state: Mapping[str, Any]) -> None:
        """Begin with what `state` gave."""
        if state:
            self._known[group] = {member: (told[0], told[1]) for member, told in state["known"].items()}
            for mine, rows in ((self._left, state["left"]), (self._joined, state["joined"])):
                if rows:
                    mine[group] = [tuple(row) for row in rows]
            if "departures" in state:
                self._departures[group] = Departures(state["departures"])

    def generation(self, group: str, members: list[Mapping[str, Any]]) -> None:
        """The members of one generation."""
        for member in members:
            self._know(group, member)

    def _know(self, group: str, member: Mapping[str, Any]) -> None:
        known = self._known.setdefault(group, {})
        told = (member["client_id"], member["rebalance_timeout_ms"])
        before = known.setdefault(member["member_id"], told)
        if before != told:
            named = [one for one in (before[0], told[0]) if one is not None]
            waits = [one for one in (before[1], told[1]) if one is not None]
            known[member["member_id"]] = max(named, default=None), max(waits, default=None)

    def modern(self, row: Mapping[str, Any], at: int) -> None:
        """A row of `modern_group_records`, in the order of the log, and its time in microseconds."""
        if row["record_type"] in (MEMBER, CURRENT):
            self._departures.setdefault(row["group_id"], Departures()).feed(row, at)
            if row["record_type"] == MEMBER and not row["deleted"]:
                self._know(row["group_id"], row)

    def step(self, group: str, step: Mapping[str, Any], at: int) -> None:
        """A step of the group, and its time in microseconds."""
        if step["group_type"] == _MODERN:
            self._departures.setdefault(group, Departures()).step(step, at)
            return
        for member in step["left"]:
            self._left.setdefault(group, []).append((step["generation"], at, member))
        for member in step["joined"]:
            self._joined.setdefault(group, []).append((at, member))

    def groups(self, stops: pa.RecordBatch) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is known of each group that had such members, by the bucket's rows of `stop_rows.stop_rows`."""
        silent = self.silent()
        silent.add(stops)
        return silent.groups()

    def silent(self) -> Silent:
        """The same by rows that come a few at a time, when all steps are known."""
        groups = sorted({*self._left, *self._departures})
        return Silent({group: found for group in groups if (found := self._returned(group) | self._same_again(group))})

    def _same_again(self, group: str) -> set[_Returned]:
        """Members of a KIP-848 group that left and came back."""
        known, found = self._known.get(group, {}), set()
        for generation, at, member, left_at in self._departures[group].returned() if group in self._departures else ():
            client, interval = known[member]
            if client is not None and interval is not None and interval > 0:
                found.add((generation, at, member, client, interval, left_at))
        return found

    def _returned(self, group: str) -> set[_Returned]:
        """Members that left and whose client joined again soon."""
        known, back = self._known.get(group, {}), dict[str, list[int]]()
        for at, member in self._joined.get(group, ()):
            client = known.get(member, (None, None))[0]
            if client is not None:
                back.setdefault(client, []).append(at // 1000)
        found = set()
        for generation, at, member in self._left.get(group, ()):
            client, interval = known.get(member, (None, None))
            if client is not None and interval is not None:
                most = max(interval, _BACK_MS)
                if any(0 <= ms - at // 1000 <= most for ms in back.get(client, ())):
                    found.add((generation, at, member, client, interval, at))
        return found


class Silent:
    """When members that left and whose clients came back had committed last, by rows of stops."""

    def __init__(self, returned: Mapping[str, set[_Returned]]) -> None:
        self._returned = returned
        members = sorted({member for rows in returned.values() for _, _, member, *_ in rows})
        self._groups, self._members = pa.array(sorted(returned), pa.string()), pa.array(members, pa.string())
        self._last: dict[tuple[str, int, str], int | None] = {
            (group, at, member): None for group, rows in returned.items() for _, at, member, *_ in rows
        }

    def add(self, stops: pa.RecordBatch) -> None:
        """Rows of `stop_rows.stop_rows` for some partitions."""
        if not self._returned:
            return
        # The last commit of an owner before the step that took something from it: by group, time of the step, owner.
        mine = pc.and_(pc.is_in(stops.column("group_id"), self._groups), pc.is_in(stops.column("owner_before"), self._members))
        told = pc.and_(stops.column("log_ts").is_valid(), stops.column("last_before").is_valid())
        rows = pa.table(stops).filter(pc.and_(mine, told))
        columns = [rows[name].cast(pa.int64()) for name in ("log_ts", "last_before")]
        table = pa.table([rows["group_id"], columns[0], rows["owner_before"], columns[1]], ["g", "at", "o", "last"])
        for row in table.group_by(["g", "at", "o"], use_threads=False).aggregate([("last", "max")]).to_pylist():
            place = (row["g"], row["at"], row["o"])
            if place in self._last:
                before = self._last[place]
                self._last[place] = row["last_max"] if before is None else max(before, row["last_max"])

    def groups(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What is known of each group, when all rows were added."""
        for group, rows in self._returned.items():
            kicked = []
            for generation, at, member, client, interval, left_at in sorted(rows, key=lambda row: (row[1], row[0] or 0, row[5])):
                last = self._last[group, at, member]
                if last is not None and left_at // 1000 - last // 1000 >= interval:
                    kicked.append((generation, client, interval, left_at))
            if kicked:
                yield (
                    group,
                    {
                        "poll_kicks": len(kicked),
                        "poll_kick_clients": sorted({client for _, client, *_ in kicked}),
                        "poll_kick_generation": kicked[0][0],
                        "poll_interval_ms": max(interval for _, _, interval, _ in kicked),
                        "poll_kick_ts": kicked[0][3],
                    },
                )
