"""Snapshots as JSON, in and out. `Group` checks their content; errors name the path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import msgspec

from counterpoise.model.order import java_order
from counterpoise.snapshot.json_text import decoded, fields_of, plain
from counterpoise.snapshot.parts import Member, Topic

__all__ = ["read_parts", "write_parts"]

_OF_MEMBER = ("topics", "owned", "generation", "instance_id", "rack", "capacity")


def read_parts(text: str | bytes) -> dict[str, Any]:
    """One JSON object to the arguments of `Group`, which checks their values.

    Raises
    ------
    SnapshotError
        It is no JSON, or a field is missing or unknown.
    """
    fields = fields_of(decoded(text, _advice(text)), "snapshot", ("topics", "members"), ("lag", "group"))
    members = fields["members"]
    if isinstance(members, list):
        read = (fields_of(one, f"members[{at}]", ("id",), _OF_MEMBER) for at, one in enumerate(members))
        members = [Member(**one) for one in read]
    return {"topics": fields["topics"], "members": members, "lag": fields.get("lag"), "name": fields.get("group")}


def _advice(text: object) -> str:
    text = str(text) if isinstance(text, PathLike) else text
    if isinstance(text, str) and text.strip() and len(text) < 4096 and not set(text) & set("{}[]\n"):
        return f"to read the file {text!r} pass its text: Group.from_json(Path({text!r}).read_text())"
    return "a snapshot is one JSON object with topics and members"


def write_parts(
    topics: Mapping[str, Topic], members: Iterable[Member], lag: Mapping[str, Sequence[int]] | None, name: str | None
) -> str:
    """A group as one line of JSON; topics and members are written in the order given."""
    value: dict[str, Any] = {
        "topics": {topic: _topic_value(known) for topic, known in topics.items()},
        "members": [_member_value(member) for member in members],
    }
    if lag is not None:
        value["lag"] = {topic: list(map(int, lag[topic])) for topic in java_order(lag)}
    if name is not None:
        value["group"] = name
    return msgspec.json.encode(value, enc_hook=plain).decode()


def _topic_value(topic: Topic) -> int | dict[str, Any]:
    if topic.racks is None:
        return topic.partitions
    return {"partitions": topic.partitions, "racks": [[rack for rack in racks if rack] for racks in topic.racks]}


def _member_value(member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "topics": java_order(set(member.topics)),
        "owned": {topic: sorted(map(int, member.owned[topic])) for topic in java_order(member.owned)},
        "generation": member.generation,
        "capacity": member.capacity,
    }
