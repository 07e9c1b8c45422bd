"""Scenario: topics, members and what happens to them, as people write it (TOML or JSON), how long things take, and its faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from counterpoise.assignors.protocols import client_protocol
from counterpoise.errors import CounterpoiseError, ScenarioError
from counterpoise.model.problem import MOST_CAPACITY
from counterpoise.simulation.dialects import DIALECTS

__all__ = ["ACTIONS", "Event", "MemberGroup", "Scenario", "Timing", "faults"]

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "join": ("members",),
    "leave": ("members",),
    "crash": ("members",),
    "pause": ("members", "seconds"),
    "freeze": ("members", "seconds"),
    "rejoin": ("members",),
    "restart": ("members", "down"),
    "rolling_restart": ("members", "every", "down"),
    "scale": ("members", "count", "every"),
    "subscribe": ("members", "topics"),
    "reconfigure": ("members", "strategies", "every", "down"),
    "crash_leader": (),
    "grow": ("topic", "partitions"),
    "delete": ("topic",),
    "create": ("topic", "partitions"),
}
"""What may happen, and the fields each action reads; docs/simulate.md says what each one means."""

_AT_LEAST_A_MILLISECOND = {"session_timeout", "heartbeat_interval", "max_poll_interval"}
_MOST_MEMBERS, _MOST_PARTITIONS = 100_000, 10_000_000
"""More is a typing mistake, which must not fill the memory."""
_LONGEST_S = 10 * 366 * 86_400
"""Ten years."""


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long things take, in seconds; the defaults are those of Kafka, where it has one."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    initial_delay: float = 3.0
    metadata_age: float = 300.0
    """Until the leader sees that a topic has grown or come into being (Kafka's longest wait)."""
    metadata_retry: float = 0.5
    """Until it sees that a topic is gone: fetches fail, so it asks again."""
    round_trip: float = 0.005
    assign: float = 0.02
    revoke: float = 0.05
    """Commit and clean-up of an application that gives partitions up."""


class MemberGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` members alike: ``name-00``, ``name-01``, ... (just ``name`` if count is 1)."""

    name: str
    topics: Sequence[str]
    count: int = 1
    join_at: float = 0.0
    every: float = 0.0
    library: str = "java"
    """The client library, as the audit's column `library` names it."""
    static: bool = False
    capacity: int = 1
    strategies: Sequence[str] = ()
    """Fixed strategies of these members; empty: the one being simulated."""

    def names(self, count: int | None = None) -> list[str]:
        """The names of its members, or of the first `count`: later members continue the numbers."""
        wanted = self.count if count is None else count
        width = max(2, len(str(self.count - 1)))
        names = [f"{self.name}-{at:0{width}}" for at in range(wanted)]
        return [self.name, *names[1:]] if self.count == 1 and wanted else names


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happens at a time (seconds): see `ACTIONS` for the fields each action reads."""

    at: float
    do: str
    members: str | Sequence[str] = ()
    """A member group's name, one member's name, or several."""
    seconds: float = 0.0
    every: float = 0.0
    down: float = 0.0
    count: int = 0
    topics: Sequence[str] = ()
    topic: str = ""
    partitions: int = 0
    strategies: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """`members` as a list."""
        return [self.members] if isinstance(self.members, str) else self.members


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group's life."""

    name: str
    topics: Mapping[str, int]  # Name -> partition count, at the start
    members: Sequence[MemberGroup]
    events: Sequence[Event] = ()
    duration: float = 0.0  # Seconds simulated; 0 means until the group has settled after the last event
    timing: Timing = Timing()
    about: str = ""  # One sentence for people

    def __post_init__(self) -> None:
        """Check everything that can be checked before a run.

        Raises `ScenarioError` with one sentence that begins with the field.
        """
        for fault in faults(self):
            raise ScenarioError(fault)

    def with_library(self, name: str) -> Scenario:
        """The same with this client library for all members."""
        return replace(self, members=[replace(each, library=name) for each in self.members])


def faults(scenario: Scenario) -> Iterator[str]:
    """Yield a sentence for each error of a scenario."""
    counts, members, events, duration = scenario.topics, scenario.members, scenario.events, scenario.duration
    yield from (f"topics.{name}: {count}; expected at least 0" for name, count in counts.items() if count < 0)
    if (total := sum(counts.values())) > _MOST_PARTITIONS:
        yield f"topics: {total} partitions in all; at most {_MOST_PARTITIONS} can be simulated"
    yield from _time_faults("duration", duration)
    for entry in fields(scenario.timing):
        value = getattr(scenario.timing, entry.name)
        yield from _time_faults(f"timing.{entry.name}", value)
        if value < 0.001 and entry.name in _AT_LEAST_A_MILLISECOND:
            yield f"timing.{entry.name}: {value:g}; expected at least 0.001, a millisecond"
    for at, event in enumerate(events):
        for field, most in (("count", _MOST_MEMBERS), ("partitions", _MOST_PARTITIONS)):
            if getattr(event, field) > most:
                yield f"events[{at}].{field}: {getattr(event, field)}; at most {most} can be simulated"
    topics = {*counts, *(event.topic for event in events if event.do == "create")}
    scales = [event for event in events if event.do == "scale"]
    names: dict[str, str] = {}
    total = 0
    for at, group in enumerate(members):
        yield from (f"members[{at}].{fault}" for fault in _member_faults(group, topics))
        largest = max([event.count for event in scales if event.members == group.name], default=0)
        if (total := total + max(group.count, largest)) > _MOST_MEMBERS:
            yield f"members[{at}].count: {total} members so far; at most {_MOST_MEMBERS} can be simulated"
        for name in dict.fromkeys((group.name, *group.names(max(group.count, largest)))):
            if name in names:
                yield f"members[{at}].name: {name} is taken by {names[name]}"
            names[name] = group.name
    for at, event in enumerate(events):
        yield from (f"events[{at}].{fault}" for fault in _event_faults(event, duration, topics))
    yield from _member_name_faults(members, events)
    yield from _topic_faults(counts, events)


def _time_faults(field: str, seconds: float) -> Iterator[str]:
    if seconds < 0:
        yield f"{field}: {seconds} is negative"
    elif not seconds <= _LONGEST_S:  # NaN fails too
        yield f"{field}: {seconds}; at most {_LONGEST_S} seconds can be simulated"


def _member_faults(group: MemberGroup, topics: set[str]) -> Iterator[str]:
    if not group.name:
        yield "name: empty"
    for field, most in (("count", _MOST_MEMBERS), ("capacity", MOST_CAPACITY)):
        value = getattr(group, field)
        if not 1 <= value <= most:
            yield f"{field}: {value}; expected at least 1, at most {most}"
    yield from _time_faults("join_at", max(group.join_at, 0.0))  # below 0: an event lets it join
    yield from _time_faults("every", group.every)
    if group.library not in DIALECTS:
        yield f"library: {group.library!r} is unknown; there are: {', '.join(DIALECTS)}"
    yield from _strategy_faults(group.strategies)
    yield from _unknown_topics(group.topics, topics)


def _unknown_topics(names: Sequence[str], topics: set[str]) -> Iterator[str]:
    if isinstance(names, str):
        yield f"topics: expected a list of names, not {names!r}"
        return
    yield from (f"topics: {name} is no topic of the scenario, and no event creates it" for name in names if name not in topics)


def _strategy_faults(strategies: Sequence[str]) -> Iterator[str]:
    if isinstance(strategies, str):
        yield f"strategies: expected a list of names, not {strategies!r}"
    elif strategies:
        try:
            client_protocol(strategies)
        except CounterpoiseError as error:
            yield f"strategies: {error}"


def _event_faults(event: Event, duration: float, topics: set[str]) -> Iterator[str]:
    if event.do not in ACTIONS:
        yield f"do: {event.do!r} is unknown; there are: {', '.join(ACTIONS)}"
        return
    read = ACTIONS[event.do]
    defaults: dict[str, Any] = {entry.name: entry.default for entry in fields(event)}
    for field, default in defaults.items():
        value = getattr(event, field)
        if field not in {"at", "do", *read} and value != default:
            yield f"{field}: {event.do} reads only {', '.join(read) or 'at'}"
        elif isinstance(value, int | float):
            yield from _time_faults(field, value)
    if duration and event.at > duration:
        yield f"at: {event.at} is after the end, duration is {duration}"
    if event.do in {"grow", "delete"} and event.topic not in topics:
        yield f"topic: {event.topic!r} is no topic of the scenario"
    if event.do == "create" and not event.topic:
        yield "topic: expected a name"
    if event.do == "reconfigure" and not event.strategies:
        yield "strategies: expected at least one"
    yield from _strategy_faults(event.strategies)
    yield from _unknown_topics(event.topics, topics)


def _member_name_faults(members: Sequence[MemberGroup], events: Sequence[Event]) -> Iterator[str]:
    """Yield a message for each event that names a member that does not exist at that time."""
    groups = {group.name: group for group in members}
    names = {*groups, *(name for group in members for name in group.names())}
    for at, event in sorted(enumerate(events), key=lambda pair: pair[1].at):
        if event.do == "scale" and isinstance(event.members, str) and event.members in groups:
            names.update(groups[event.members].names(event.count))
        elif event.do == "scale":
            yield f"events[{at}].members: {event.members!r} is no member group; scale takes the name of one"
        elif "members" in ACTIONS.get(event.do, ()):
            unknown = [name for name in event.names if name not in names]
            if unknown or not event.names:
                yield f"events[{at}].members: {unknown[0] if unknown else 'nobody'} is not among the scenario's members then"


def _topic_faults(at_start: Mapping[str, int], events: Sequence[Event]) -> Iterator[str]:
    """Topics grow while they exist, and are created while they do not."""
    counts = dict(at_start)
    for at, event in sorted(enumerate(events), key=lambda pair: pair[1].at):
        now = counts.get(event.topic, 0)
        if event.do == "grow" and event.partitions <= now:
            yield f"events[{at}].partitions: {event.topic} has {now} then; a topic only grows, delete and create it to shrink it"
        if event.do == "create" and (now or not event.partitions):
            yield f"events[{at}].partitions: " + (f"{event.topic} has {now} then; delete it first" if now else "0; at least 1")
        if event.do == "delete" and not now:
            yield f"events[{at}].topic: {event.topic} does not exist then"
        if event.do in {"grow", "create", "delete"}:
            counts[event.topic] = event.partitions if event.do != "delete" else 0
