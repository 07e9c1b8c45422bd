"""Scenario: topics, members and what happens to them, as people write it (TOML or JSON)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from counterpoise.errors import ScenarioError
from counterpoise.simulation.dialects import dialect

__all__ = ["ACTIONS", "Event", "MemberGroup", "Scenario", "Timing", "load", "read_scenario", "ready_scenarios"]

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "join": ("members",),
    "leave": ("members",),
    "crash": ("members",),
    "pause": ("members", "seconds"),
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
"""What may happen, and the fields each action reads."""


@dataclass(frozen=True)
class Timing:
    """How long things take, in seconds; the defaults are Kafka's."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    initial_delay: float = 3.0
    metadata_age: float = 300.0
    round_trip: float = 0.005
    assign: float = 0.02
    revoke: float = 0.05
    """Commit and clean-up of an application that gives partitions up."""


@dataclass(frozen=True)
class MemberGroup:
    """`count` members alike: ``name-00``, ``name-01``, ... (just ``name`` where count is 1)."""

    name: str
    topics: Sequence[str]
    count: int = 1
    join_at: float = 0.0
    every: float = 0.0
    dialect: str = "java"
    static: bool = False
    rack: str | None = None
    capacity: int = 1
    strategies: Sequence[str] = ()
    """Fixed strategies of these members; empty: the one being simulated."""

    def names(self) -> list[str]:
        """The names of its members."""
        width = max(2, len(str(self.count - 1)))
        return [self.name] if self.count == 1 else [f"{self.name}-{at:0{width}}" for at in range(self.count)]


@dataclass(frozen=True)
class Event:
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


@dataclass(frozen=True)
class Scenario:
    """A group's life.

    Attributes
    ----------
    name : str
    topics : mapping of name to partition count, at the start
    members : sequence of MemberGroup
    events : sequence of Event
    duration : float
        Seconds simulated; 0 means until things have come to rest after the last event.
    timing : Timing
    about : str
        One sentence for people.
    """

    name: str
    topics: Mapping[str, int]
    members: Sequence[MemberGroup]
    events: Sequence[Event] = ()
    duration: float = 0.0
    timing: Timing = field(default_factory=Timing)
    about: str = ""

    def __post_init__(self) -> None:
        _check(self)


def read_scenario(text: str, *, toml: bool) -> Scenario:
    """A scenario from TOML or JSON text.

    Raises
    ------
    ScenarioError
        The message names the field.
    """
    try:
        value: Any = tomllib.loads(text) if toml else msgspec.json.decode(text)
        return msgspec.convert(_known_fields(value), Scenario)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as error:
        raise ScenarioError(f"{error}".replace("`", "").replace("$.", "")) from None


def load(name: str) -> Scenario:
    """A scenario by file path (.toml or .json), or one of the ready ones by name.

    Raises
    ------
    ScenarioError
        Neither exists, or it cannot be read.
    """
    ready = ready_scenarios()
    if name in ready:
        text = resources.files("counterpoise.simulation").joinpath("library", f"{name}.toml").read_text("utf-8")
        return read_scenario(text, toml=True)
    path = Path(name)
    if path.suffix not in {".toml", ".json"}:
        raise ScenarioError(f"{name}: neither a .toml or .json file nor a ready scenario; ready are: {', '.join(ready)}")
    try:
        return read_scenario(path.read_text("utf-8"), toml=path.suffix == ".toml")
    except OSError as error:
        raise ScenarioError(f"{name}: {error.strerror}") from None
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from None


def ready_scenarios() -> tuple[str, ...]:
    """Names of the scenarios that come with the package."""
    folder = resources.files("counterpoise.simulation").joinpath("library")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def _known_fields(value: Any) -> Any:
    """msgspec ignores unknown fields of dataclasses; a misspelt field must not pass."""
    if not isinstance(value, Mapping):
        raise ScenarioError("scenario: an object with name, topics and members is wanted")
    known = {kind: [entry.name for entry in fields(kind)] for kind in (Scenario, Timing, MemberGroup, Event)}
    places = [("scenario", value, known[Scenario]), ("timing", value.get("timing", {}), known[Timing])]
    places += [(f"members[{at}]", item, known[MemberGroup]) for at, item in enumerate(value.get("members", []))]
    places += [(f"events[{at}]", item, known[Event]) for at, item in enumerate(value.get("events", []))]
    for path, item, names in places:
        for name in item if isinstance(item, Mapping) else ():
            if name not in names:
                raise ScenarioError(f"{path}: unknown field {name}; there are: {', '.join(names)}")
    return value


def _check(scenario: Scenario) -> None:
    names: set[str] = set()
    for at, group in enumerate(scenario.members):
        dialect(group.dialect)
        if group.count < 1:
            raise ScenarioError(f"members[{at}].count: {group.count}; at least 1 is wanted")
        taken = names.intersection(group.names())
        if taken:
            raise ScenarioError(f"members[{at}].name: {min(taken)} is taken")
        names.update(group.names())
    if any(count < 0 for count in scenario.topics.values()):
        raise ScenarioError("topics: a partition count is at least 0")
    groups = {group.name for group in scenario.members}
    for at, event in enumerate(scenario.events):
        if event.do not in ACTIONS:
            raise ScenarioError(f"events[{at}].do: {event.do!r} is unknown; there are: {', '.join(ACTIONS)}")
        if event.at < 0:
            raise ScenarioError(f"events[{at}].at: {event.at} lies before the start")
        if "members" in ACTIONS[event.do]:
            wanted = [event.members] if isinstance(event.members, str) else list(event.members)
            unknown = [name for name in wanted if name not in names | groups]
            if unknown or not wanted:
                raise ScenarioError(f"events[{at}].members: {unknown[:1] or 'nobody'} is not among the scenario's members")
