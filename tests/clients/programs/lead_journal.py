"""What a Python leader saw and decided, for the journal: the members' metadata and the assignments, as hex."""

from __future__ import annotations

from typing import Any

__all__ = ["lead_event"]


def lead_event(led: Any) -> dict[str, Any]:
    """Enough to plan again and to verify: topics with counts, members with metadata, target and assignments."""
    problem = led.joined.problem
    names = led.joined.topics.names
    return {
        "topics": {name: int(problem.topic_start[at + 1] - problem.topic_start[at]) for at, name in enumerate(names)},
        "members": [
            {"id": member.id, "metadata": member.metadata.hex(), "instance_id": member.instance_id}
            for member in led.joined.members
        ],
        "target": led.target.tolist(),
        "owner": led.owner.tolist(),
    }
