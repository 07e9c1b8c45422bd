"""Members that polled too late (`polls.poll_kicks`), for the groups of one bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Kicks", "Silent"]

_BACK_MS = 60_000
_Left = tuple[int | None, int, str]
"""Generation, time, member."""
_Returned = tuple[int | None, int, str, str, int]
"""The same with its client, and how long it might have been without a poll."""


class Kicks:
    """Who left and came back, group by group; then, who of them had been silent."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[str | None, int | None]]] = {}
        self._left: dict[str, list[_Left]] = {}
        self._joined: dict[str, list[tuple[int, str]]] = {}

    def state(self, group: str) -> dict[str, Any]:
        """What is known of a group so far, as `fold_state` takes it."""
        found = {"known": self._known.get(group, {}), "left": self._left.get(group, []), "joined": self._joined.get(group, [])}
        return found if any(found.values()) else {}

    def go_on(self, group: str, state: Mapping[str, Any]) -> None:
        """Begin with what `state` gave."""
        if state:
            self._known[group] = {member: (told[0], told[1]) for member, told in state["known"].items()}
            for mine, rows in ((self._left, state["left"]), (self._joined, state["joined"])):
                if rows:
                    mine[group] = [tuple(row) for row in rows]

    def generation(self, group: str, members: list[Mapping[str, Any]]) -> None:
        """The members of one generation."""
        known = self._known.setdefault(group, {})
        for member in members:
            told = (member["client_id"], member["rebalance_timeout_ms"])
            before = known.setdefault(member["member_id"], told)
            if before != told:
                named = [one for one in (before[0], told[0]) if one is not None]
                waits = [one for one in (before[1], told[1]) if one is not None]
                known[member["member_id"]] = max(named, default=None), max(waits, default=None)

    def step(self, group: str, step: Mapping[str, Any], at: int) -> None:
        """A step of the group, and its time in microseconds."""
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
        return Silent({group: found for group in self._left if (found := self._returned(group))})

    def _returned(self, group: str) -> set[_Returned]:
        """Members that left and whose client joined again soon."""
        known, back = self._known.get(group, {}), dict[str, list[int]]()
        for at, member in self._joined.get(group, ()):
            client = known.get(member, (None, None))[0]
            if client is not None:
                back.setdefault(client, []).append(at // 1000)
        found = set()
        for generation, at, member in self._left[group]:
            client, interval = known.get(member, (None, None))
            if client is not None and interval is not None:
                most = max(interval, _BACK_MS)
                if any(0 <= ms - at // 1000 <= most for ms in back.get(client, ())):
                    found.add((generation, at, member, client, interval))
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
            for generation, at, member, client, interval in sorted(rows, key=lambda row: (row[1], row[0] or 0, row[2])):
                last = self._last[group, at, member]
                if last is not None and at // 1000 - last // 1000 >= interval:
                    kicked.append((generation, client, interval))
            if kicked:
                yield (
                    group,
                    {
                        "poll_kicks": len(kicked),
                        "poll_kick_clients": sorted({client for _, client, _ in kicked}),
                        "poll_kick_generation": kicked[0][0],
                        "poll_interval_ms": max(interval for *_, interval in kicked),
                    },
                )
