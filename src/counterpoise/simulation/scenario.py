"""Scenario: topics, members and what happens to them, as people write it (TOML or JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from counterpoise.errors import ScenarioError
from counterpoise.simulation.scenario_faults import faults
from counterpoise.simulation.scenario_parts import Event, MemberGroup, Timing

__all__ = ["Scenario"]


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
        for fault in faults(self.topics, self.members, self.events, self.duration, self.timing):
            raise ScenarioError(fault)

    def with_library(self, name: str) -> Scenario:
        """The same with this client library for all members."""
        return replace(self, members=[replace(each, library=name) for each in self.members])
