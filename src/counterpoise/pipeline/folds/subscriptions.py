"""What the members of a KIP-848 group asked for at an epoch: topics, patterns as the broker resolved them, an assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["assignor_of", "nameless", "subscriptions"]

Row = Mapping[str, Any]
Held = Mapping[str, Sequence[Row]]
"""Member id -> ``topic, partitions`` of its target."""


def subscriptions(
    members: Sequence[Row], held: Held, matched: Mapping[str, Sequence[str]], unnamed: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Member id, instance id and topics of each member; None: not of all topics a name is known.

    Parameters
    ----------
    members : sequence of mapping
        ``member_id, group_instance_id, named, pattern``.
    held : mapping
    matched : mapping
        Pattern -> the topics that the broker found for it.
    unnamed : sequence of str
        Topic ids that nobody has named.
    """
    if nameless(held, unnamed):
        return None
    own = {member["member_id"]: {entry["topic"] for entry in held[member["member_id"]]} for member in members}
    found: dict[str, set[str]] = {}
    for member in members:
        if member["pattern"] is not None:
            # A member holds only what it asked for: that tells of its pattern where the record of what it matches is gone.
            topics = found.setdefault(member["pattern"], set(matched.get(member["pattern"], ())))
            topics |= own[member["member_id"]] - set(member["named"])
    asked = []
    for member in members:
        wanted = {*member["named"], *found.get(member["pattern"], ()), *own[member["member_id"]]}
        about = {"member_id": member["member_id"], "group_instance_id": member["group_instance_id"]}
        asked.append({**about, "topics": sorted(wanted)})
    return asked


def nameless(held: Held, unnamed: Sequence[str]) -> list[str]:
    """Topic ids that are held, but whose names nobody has said."""
    return sorted({entry["topic"] for entries in held.values() for entry in entries} & set(unnamed))


def assignor_of(members: Sequence[Row]) -> str | None:
    """The assignor that most members ask for; None: no one asks, so it is the first one that the broker is configured with."""
    asked = Counter(member["assignor"] for member in members if member["assignor"])
    return min(asked, key=lambda name: (-asked[name], name), default=None)
