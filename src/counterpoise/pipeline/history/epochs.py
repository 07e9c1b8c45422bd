"""Epochs of KIP-848 groups as generations, so that strategies can be replayed instead of the broker's assignor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EPOCH_TYPE", "as_generation", "is_epoch"]

Row = Mapping[str, Any]
_ENDED = ("deleted", "migrated")
EPOCH_TYPE = "consumer"
"""Type of groups whose assignor is the broker and whose members consume partitions. Each of their steps is a generation."""
_OF_STEP = ("incarnation", "kind", "protocol_kind", "generation")


def is_epoch(step: Row) -> bool:
    """Whether a row of `rebalances` is a generation of a KIP-848 group."""
    return bool(step["group_type"] == EPOCH_TYPE)


def as_generation(step: Row) -> dict[str, Any]:
    """A row of `rebalances` for which `is_epoch` is true, as a row of `group_generations` with its `step`.

    If `subscriptions` is null the topics of members are unknown, and the generation is not `replayable`. Members do not report
    what they own: they own what the previous generation assigned.
    """
    of_member = {one["member_id"]: one for one in step["subscriptions"] or ()}
    members = []
    for member in step["assignment"] or ():
        own = of_member.get(member["member_id"], {"group_instance_id": None, "topics": None})
        members.append({**member, "group_instance_id": own["group_instance_id"], "topics": own["topics"]})
    return {
        **{name: step[name] for name in ("group_id", "log_partition", "log_offset", "log_ts", "generation", "protocol")},
        "protocol_type": "consumer",
        "leader": None,
        "leader_library": None,
        "state_ts": None,
        "deleted": step["kind"] in _ENDED,
        "members": members,
        "lag": step.get("lag"),
        "recreated": step.get("recreated"),
        "step": {name: step[name] for name in _OF_STEP},
    }
