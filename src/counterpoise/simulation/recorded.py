"""A recorded group as a scenario: its rows of `group_generations` to the events that explain them, and what to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from counterpoise.errors import ScenarioError
from counterpoise.simulation.dialects import DIALECTS
from counterpoise.simulation.scenario import Event, MemberGroup, Scenario, Timing

__all__ = ["Recorded", "recorded"]

Row = Mapping[str, Any]
_BEFORE = 0.1
"""What made a generation happened at least so many seconds before its JoinGroup phase ended."""


@dataclass(frozen=True)
class Recorded:
    """A group's recorded life."""

    scenario: Scenario  # Joins, leaves, restarts, subscriptions and topics as the records show them
    strategy: str  # The one elected last
    generations: int  # Generations with an assignment in the record
    revoked: int  # Partitions given up between them by members that stayed: all they had (eager), or what they did not get again
    missing: int  # Generations without a record: their leader never sent a plan. The simulation has no cause for them.
    unexplained: int  # Generations in which nothing visible differs; the simulation lets the leader ask for a rebalance


def recorded(
    # Rows of table `group_generations` of one group of type ``consumer``, any order; nested values as lists and mappings
    rows: Iterable[Row],
    *,
    name: str = "recorded",
) -> Recorded:
    """The scenario behind one group's generations.

    Raises `ScenarioError` if there is no generation with members among them.

    Records do not distinguish a crash from an orderly leave; both become a leave when the next generation shows it.
    """
    listed = sorted(rows, key=lambda row: row["log_offset"])
    planned = [row for row in listed if _is_of_consumers(row)]
    numbered = [row["generation"] for row in listed if not row["deleted"]]
    listed = [row for row in listed if row["deleted"] or not row["members"] or _is_of_consumers(row)]
    if not planned:
        raise ScenarioError(f"{name}: no generation of consumers was recorded, so there is nothing to replay")
    script = _Script(listed, _naming(planned))
    script.write()
    first, (begin, end) = planned[0]["members"], (planned[at]["log_ts"].isoformat(" ", "seconds") for at in (0, -1))
    scenario = Scenario(
        name,
        script.first_sizes,
        list(script.members.values()),
        script.events,
        timing=_timing(listed, planned, first),
        about=f"{len(planned)} generations were recorded, from {begin} to {end}.",
    )
    missing = sum(max(after - before - 1, 0) for before, after in pairwise(numbered))
    fresh = [row for before, row in zip([None, *planned], planned, strict=False) if not _same_generation(before, row)]
    return Recorded(scenario, planned[-1]["protocol"], len(fresh), _revoked(listed), missing, script.unexplained)


def _is_of_consumers(row: Row) -> bool:
    """Whether a generation has members that are consumers; those of Connect and Kafka Streams are not simulated."""
    return bool(row["members"] and row["protocol_type"] == "consumer" and row["protocol"] != "stream")


@dataclass
class _Script:
    """Walks the records once and writes down what must have happened between them."""

    rows: Sequence[Row]
    naming: Mapping[str, str]
    members: dict[str, MemberGroup] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    first_sizes: dict[str, int] = field(default_factory=dict)
    unexplained: int = 0

    def write(self) -> None:
        self.begin: float = self.rows[0]["log_ts"].timestamp() - 1
        self.sizes: dict[str, int] = {}
        self.subscribed: dict[str, tuple[str, ...]] = {}
        before: Row | None = None
        for row, after in zip(self.rows, [*self.rows[1:], None], strict=True):
            if row["deleted"] or not row["members"]:
                if here := sorted(self._named(before)):
                    self.events.append(Event(self._at(row), "leave", here))
            elif _same_generation(before, row):
                self._replaced(before, row)
            else:
                self._changed(before, row, given=_assigned_topics(row) | _assigned_topics(after))
            before = row

    def _at(self, row: Row) -> float:
        joined: datetime = row["state_ts"] if row["members"] and row["state_ts"] is not None else row["log_ts"]
        return round(max(joined.timestamp() - self.begin - _BEFORE, 0.0), 3)

    def _named(self, row: Row | None) -> dict[str, Row]:
        return {self.naming[m["member_id"]]: m for m in (row["members"] if row and not row["deleted"] else ())}

    def _replaced(self, before: Row | None, row: Row) -> None:
        was = self._named(before)
        back = sorted(n for n, m in self._named(row).items() if n in was and was[n]["member_id"] != m["member_id"])
        if back:
            at = round(row["log_ts"].timestamp() - self.begin, 3)
            self.events.append(Event(at, "restart", back))

    def _changed(self, before: Row | None, row: Row, given: set[str]) -> None:
        at, was, now = self._at(row), self._named(before), self._named(row)
        written = len(self.events)
        for name, member in now.items():
            self.members.setdefault(name, _member(name, member))
            self.subscribed.setdefault(name, tuple(self.members[name].topics))
        self._resize(row, at, given)
        gone = sorted(n for n, m in was.items() if n not in now or _restarted(m, now[n]))
        come = sorted(n for n, m in now.items() if n not in was or _restarted(was[n], m))
        if gone:
            self.events.append(Event(at, "leave", gone))
        for name in sorted(now):
            topics = tuple(sorted(now[name]["topics"] or ()))
            if topics == self.subscribed[name]:
                continue
            self.subscribed[name] = topics
            self.events.append(Event(at, "subscribe", name, topics=topics))
        if come and not was and before is not None:
            first = round(before["log_ts"].timestamp() - self.begin, 3) if not before["generation"] else at
            self.events.append(Event(min(first, at), "join", come[:1]))
            come = come[1:]
        if come:
            self.events.append(Event(round(at + 0.01, 3) if gone else at, "join", come))
        if len(self.events) == written and not (before and _waiting(before)):
            self.unexplained += 1
            leader = self.naming.get(row["leader"] or "", min(now))
            self.events.append(Event(at, "rejoin", leader))

    def _resize(self, row: Row, at: float, given: set[str]) -> None:
        """Partitions seen in what members got and still hold; topics that are not among those given out are gone."""
        seen = {topic: 0 for member in row["members"] for topic in member["topics"] or ()}
        for member in row["members"]:
            held = [entry for entry in member["owned"] or () if entry["topic"] in given or entry["topic"] not in self.sizes]
            for entry in (*(member["assigned"] or ()), *held):
                seen[entry["topic"]] = max([seen.get(entry["topic"], 0), *(index + 1 for index in entry["partitions"])])
        for topic, size in sorted(seen.items()):
            known = self.sizes.get(topic)
            self.sizes[topic] = size
            if known is None:
                self.first_sizes[topic] = size
            elif size > known > 0:
                self.events.append(Event(at, "grow", topic=topic, partitions=size))
            elif size != known:
                self.events.extend([Event(at, "delete", topic=topic)] if known else [])
                self.events.extend([Event(at, "create", topic=topic, partitions=size)] if size else [])


def _assigned_topics(row: Row | None) -> set[str]:
    """Topics of which a member got a partition. One withheld as a whole is given out in the next generation."""
    return {entry["topic"] for member in (row and row["members"]) or () for entry in member["assigned"] or ()}


def _restarted(was: Row, now: Row) -> bool:
    return was["member_id"] != now["member_id"] and now["group_instance_id"] is None


def _same_generation(before: Row | None, row: Row) -> bool:
    return bool(before and before["members"] and row["members"] and before["generation"] == row["generation"])


def _member(name: str, member: Row) -> MemberGroup:
    spoken = member["library"] if member["library"] in DIALECTS else "java"
    topics = tuple(sorted(member["topics"] or ()))
    return MemberGroup(name, topics, join_at=-1, library=spoken, static=member["group_instance_id"] is not None)


def _naming(planned: Sequence[Row]) -> dict[str, str]:
    """Member ids to the names people use: the instance id, or the client id if no two members, and no instance, share it."""
    shared = {m["group_instance_id"] for row in planned for m in row["members"]}  # a dynamic member may become a static one
    for row in planned:
        clients = Counter(m["client_id"] for m in row["members"] if m["group_instance_id"] is None)
        shared.update(client for client, n in clients.items() if n > 1)
    return {
        m["member_id"]: m["group_instance_id"]
        or (m["client_id"] if m["client_id"] and m["client_id"] not in shared else m["member_id"])
        for row in planned
        for m in row["members"]
    }


def _pairs(entries: Iterable[Row] | None) -> set[tuple[str, int]]:
    return {(entry["topic"], index) for entry in entries or () for index in entry["partitions"]}


def _waiting(row: Row) -> bool:
    """Did a member have to give something up in this generation? Then a follow-up is due."""
    return any(_pairs(member["owned"]) - _pairs(member["assigned"]) for member in row["members"])


def _revoked(rows: Sequence[Row]) -> int:
    """What members that stayed gave up: from their previous assignment (eager), or what they owned and did not get again."""
    total = 0
    for before, row in pairwise(rows):
        if not before["members"] or not row["members"] or _same_generation(before, row):
            continue
        had = {m["member_id"]: _pairs(m["assigned"]) for m in before["members"]}
        cooperative = "cooperative" in (row["protocol"] or "") or any(member["owned"] for member in row["members"])
        for member in row["members"]:
            old = had.get(member["member_id"], set())
            total += len(old - _pairs(member["assigned"]) if cooperative else old)
    return total


def _timing(rows: Sequence[Row], planned: Sequence[Row], members: Sequence[Row]) -> Timing:
    """The rebalance time-out as members ask for it; heartbeats and sessions so short that what was two generations stays two."""
    ends = [(row["state_ts"] or row["log_ts"]).timestamp() for row in planned]
    gap = min([after - before for before, after in pairwise(ends) if after > before], default=3.0)
    max_poll = max(max(m["rebalance_timeout_ms"] for m in members) / 1000, 1.0)
    heartbeat = round(min(max(gap / 4, 0.02), 3.0, max_poll / 4), 3)
    gather = 3.0
    if not rows[0]["members"] and not rows[0]["deleted"]:
        gather = min(max(ends[0] - rows[0]["log_ts"].timestamp() - _BEFORE, 0.0), 3.0)
    return Timing(
        # A static member that is gone has been silent for its session when the record shows it; this one bridges a restart.
        session_timeout=heartbeat + 0.02,
        max_poll_interval=max_poll,
        heartbeat_interval=heartbeat,
        initial_delay=round(gather, 3),
        metadata_age=0.0,
        metadata_retry=0.0,
        revoke=round(min(gap / 8, 0.05), 3),
    )
