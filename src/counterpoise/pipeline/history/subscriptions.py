"""Subscriptions of the members of a KIP-848 group at an epoch: topics, patterns as the broker resolved them, and the assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["assignor_of", "subscribed_throughout", "subscriptions", "unknown_ids"]

Row = Mapping[str, Any]
Held = Mapping[str, Sequence[Row]]
"""Member id -> ``topic, partitions`` of its target."""
_Subscribed: TypeAlias = tuple[Sequence[Row], Mapping[str, Sequence[str]]]


def subscriptions(
    members: Sequence[Row], held: Held, matched: Mapping[str, Sequence[str]], unnamed: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Member id, instance id and topics of each member; None: a topic id has no known name.

    Members have ``member_id, group_instance_id, named, pattern``. `matched`: pattern -> matching topics, as the broker resolved
    it (record type 16). `unnamed` are topic ids without a known name.
    """
    if unknown_ids(held, unnamed):
        return None
    own = {member["member_id"]: {entry["topic"] for entry in held[member["member_id"]]} for member in members}
    matches: dict[str, set[str]] = {}
    for member in members:
        if member["pattern"] is not None:
            # A member owns only topics of its subscription. So its target shows matches whose record was compacted away.
            topics = matches.setdefault(member["pattern"], set(matched.get(member["pattern"], ())))
            topics |= own[member["member_id"]] - set(member["named"])
    rows = []
    for member in members:
        topics = {*member["named"], *matches.get(member["pattern"], ()), *own[member["member_id"]]}
        about = {"member_id": member["member_id"], "group_instance_id": member["group_instance_id"]}
        rows.append({**about, "topics": sorted(topics)})
    return rows


def subscribed_throughout(before: _Subscribed, now: _Subscribed) -> set[str] | None:
    """The topics to which the group is subscribed in both of two epochs; sizes of other topics cannot be compared.

    `before`, `now`: (members, pattern -> matching topics). Members have ``named, pattern``; classic ones have ``topics``. Returns
    None if a pattern's topics are unknown.
    """
    matched: dict[str, set[str]] = {}
    for _, matches in (before, now):
        for pattern, topics in matches.items():
            matched.setdefault(pattern, set()).update(topics)
    both = []
    for members, _ in (before, now):
        patterns = {member["pattern"] for member in members if member.get("pattern") is not None}
        if not patterns <= matched.keys():
            return None
        named = {topic for member in members for topic in member.get("named", member.get("topics")) or ()}
        both.append(named.union(*(matched[pattern] for pattern in patterns)))
    return both[0] & both[1]


def unknown_ids(held: Held, unnamed: Sequence[str]) -> list[str]:
    """The topic ids of the target that are in `unnamed`, sorted."""
    return sorted({entry["topic"] for entries in held.values() for entry in entries} & set(unnamed))


def assignor_of(members: Sequence[Row]) -> str | None:
    """The assignor that most members request; None: no member does, so the broker uses its default."""
    requested = Counter(member["assignor"] for member in members if member["assignor"])
    return min(requested, key=lambda name: (-requested[name], name), default=None)
