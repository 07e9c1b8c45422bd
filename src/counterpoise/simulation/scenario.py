"""Scenario: topics, members and what happens to them, as people write it (TOML or JSON), and how long things take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from counterpoise.errors import ScenarioError
from counterpoise.simulation.scenario_faults import faults

__all__ = ["Event", "MemberGroup", "Scenario", "Timing"]


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
    """One thing that happens at a time (seconds): see `scenario_faults.ACTIONS` for the fields each action reads."""

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
