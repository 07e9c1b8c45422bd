"""What the members of a KIP-848 group asked for at an epoch: topics, patterns as the broker resolved them, an assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["asked_throughout", "assignor_of", "nameless", "subscriptions"]

Row = Mapping[str, Any]
Held = Mapping[str, Sequence[Row]]
"""Member id -> ``topic, partitions`` of its target."""
_Asked: TypeAlias = tuple[Sequence[Row], Mapping[str, Sequence[str]]]


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


def asked_throughout(before: _Asked, now: _Asked) -> set[str] | None:
    """The topics that members ask for now as they did before: of others a size says nothing.

    Parameters
    ----------
    before, now : pair
        Members (``named, pattern``, or ``topics`` of classic ones), and pattern -> topics that it matches.

    Returns
    -------
    set of str, optional
        None: what a pattern of theirs matches is not known, so it may be any.
    """
    matched: dict[str, set[str]] = {}
    for _, matches in (before, now):
        for pattern, topics in matches.items():
            matched.setdefault(pattern, set()).update(topics)
    asked = []
    for members, _ in (before, now):
        patterns = {member["pattern"] for member in members if member.get("pattern") is not None}
        if not patterns <= matched.keys():
            return None
        named = {topic for member in members for topic in member.get("named", member.get("topics")) or ()}
        asked.append(named.union(*(matched[pattern] for pattern in patterns)))
    return asked[0] & asked[1]


def nameless(held: Held, unnamed: Sequence[str]) -> list[str]:
    """Topic ids that are held, but whose names nobody has said."""
    return sorted({entry["topic"] for entries in held.values() for entry in entries} & set(unnamed))


def assignor_of(members: Sequence[Row]) -> str | None:
    """The assignor that most members ask for; None: no one asks, so it is the first one that the broker is configured with."""
    asked = Counter(member["assignor"] for member in members if member["assignor"])
    return min(asked, key=lambda name: (-asked[name], name), default=None)
