"""Assignors that write into the journal what they lead and what they are given, and can die or stop while they lead."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from counterpoise.clients.lag_source import live_lag
from tests.clients.programs.journal import Journal, names

__all__ = ["lead_event", "options", "watched"]


def watched(module: Any, settings: dict[str, Any], journal: Journal) -> list[Any]:
    """Instances of the named assignors of a module.

    With a file at `settings["deadly"]` the process sends itself the signal that the file names (KILL, STOP), between
    JoinGroup and SyncGroup.
    """
    deadly = settings.get("deadly")

    def led(lead: Any) -> None:
        journal.write("lead", **lead_event(lead))
        if deadly and Path(deadly).exists():
            number = signal.Signals[f"SIG{Path(deadly).read_text()}"]
            Path(deadly).unlink()
            os.kill(os.getpid(), number)
            # A stop reaches this thread only after a moment.
            time.sleep(0.5)

    def watch(name: str) -> Any:
        class Watched(getattr(module, name)):  # type: ignore[misc]
            """The assignor, seen."""

            def on_assignment(self, assignment: Any, *generation: int) -> None:
                super().on_assignment(assignment, *generation)
                if settings.get("live_lag"):
                    journal.write("lag", outcomes=dict(self.lag_reader.outcomes))
                journal.write("assigned", partitions=names(assignment.partitions()), generation=self._member.generation)

        return Watched(on_lead=led, **options(settings))

    return [watch(name) for name in settings["assignors"]]


def options(settings: dict[str, Any]) -> dict[str, Any]:
    """The assignor's own settings; with `live_lag` a source that asks the broker."""
    given = dict(settings.get("options", {}))
    if settings.get("live_lag"):
        given |= {
            "lag": live_lag({"bootstrap.servers": settings["bootstrap"]}, settings["group"], reset="earliest"),
            "lag_within_s": 20,
        }
    return given


def lead_event(led: Any) -> dict[str, Any]:
    """Enough to plan again and to verify: topics with counts, members with metadata, target and assignments."""
    problem = led.joined.problem
    return {
        "topics": {
            name: int(problem.topic_start[at + 1] - problem.topic_start[at]) for at, name in enumerate(led.joined.topics.names)
        },
        "members": [
            {"id": member.id, "metadata": member.metadata.hex(), "instance_id": member.instance_id}
            for member in led.joined.members
        ],
        "target": led.target_owner.tolist(),
        "assignments": {member: data.hex() for member, data in led.assignments.items()},
    }
