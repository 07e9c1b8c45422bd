"""Snapshots as JSON, in and out, with errors that name the path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from counterpoise.errors import SnapshotError
from counterpoise.model.order import java_order
from counterpoise.snapshot.json_text import UNREADABLE, plain
from counterpoise.snapshot.parts import Member, Topic

__all__ = ["Parts", "read_parts", "write_parts"]

_INT32_MAX = 2**31 - 1


class _Topic(msgspec.Struct, forbid_unknown_fields=True):
    partitions: int
    racks: list[list[str | None]] | None = None


class _Member(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    topics: list[str] = []
    owned: dict[str, list[int]] = {}
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None
    capacity: int = 1


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    topics: dict[str, int | _Topic]
    members: list[_Member]
    lag: dict[str, list[int]] | None = None
    group: str | None = None


_DECODER = msgspec.json.Decoder(_Group)


class Parts(NamedTuple):
    """The arguments of `Group`, read from JSON."""

    topics: Mapping[str, Topic]
    members: Sequence[Member]
    lag: Mapping[str, Sequence[int]] | None
    name: str | None


def read_parts(text: str | bytes, *, strict: bool = True) -> Parts:
    """One JSON object to the parts of a group; `Group.from_json` makes a group of them."""
    try:
        return _parts(_DECODER.decode(text), strict=strict)
    except msgspec.ValidationError as error:
        _explain(error, text)
    except UNREADABLE as error:
        raise SnapshotError(f"not JSON: {error}; {_advice(text)}") from None


def _advice(text: object) -> str:
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
    value: dict[str, Any] = {
        "id": member.id,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "topics": java_order(set(member.topics)),
        "owned": {topic: sorted(map(int, member.owned[topic])) for topic in java_order(member.owned)},
        "generation": member.generation,
        "capacity": member.capacity,
    }
    return value


def _parts(raw: _Group, *, strict: bool) -> Parts:
    topics = {
        name: Topic(known.partitions, known.racks) if isinstance(known, _Topic) else Topic(known)
        for name, known in raw.topics.items()
    }
    for at, member in enumerate(raw.members):
        for topic, indices in member.owned.items():
            _check_indices(f"members[{at}].owned.{topic}", topic, indices, topics, strict=strict)
    members = [Member(m.id, m.topics, m.owned, m.generation, m.instance_id, m.rack, m.capacity) for m in raw.members]
    return Parts(topics, members, raw.lag, raw.group)


def _check_indices(path: str, topic: str, indices: list[int], topics: Mapping[str, Topic], *, strict: bool) -> None:
    if not indices:
        return
    count = topics[topic].partitions if topic in topics else None
    limit = _INT32_MAX if count is None or not strict else count - 1
    if min(indices) >= 0 and max(indices) <= limit:
        return
    at, index = next((at, index) for at, index in enumerate(indices) if not 0 <= index <= limit)
    if index < 0 or index > _INT32_MAX:
        raise SnapshotError(f"{path}[{at}]: {index} is no partition index")
    raise SnapshotError(f"{path}[{at}]: partition {index} does not exist, {topic} has {count}")


def _explain(error: msgspec.ValidationError, text: str | bytes) -> NoReturn:
    found = re.fullmatch(r"(?P<what>.*?)(?: - at `(?P<key>key in )?\$?(?P<path>.*)`)?", str(error), re.DOTALL)
    what, path = (found["what"], found["path"] or "") if found else (str(error), "")
    what = what.replace("Object ", "").replace("`", "")
    path = _name_keys(path, text).removeprefix(".")
    raise SnapshotError(f"{path}: {what}" if path else f"snapshot: {what}") from None


def _name_keys(path: str, text: str | bytes) -> str:
    """msgspec writes [...] for "some key of this object": find which one it is."""
    done, mark, rest = path.partition("[...]")
    if not mark:
        return path
    try:
        value: Any = msgspec.json.decode(text)
    except UNREADABLE:  # what comes behind the first fault is no JSON either
        return f"{done}.*{rest}"
    for step in re.findall(r"\.(\w+)|\[(\d+)\]", done):
        value = value[step[0]] if step[0] else value[int(step[1])]
    wanted: Any = int | _Topic if done == ".topics" else list[int]
    for key, item in value.items():
        try:
            msgspec.convert(item, wanted)
        except msgspec.ValidationError:
            return f"{done}.{key}{rest}"
    return f"{done}.*{rest}"
