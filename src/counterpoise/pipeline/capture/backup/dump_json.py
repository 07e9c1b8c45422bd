"""Bytes of records from the JSON that `kafka-dump-log --offsets-decoder` of Kafka 3.9 and later prints.

The JSON has every field of the record, by Kafka's names; bytes are base64, ids URL-safe base64; subscriptions and assignments are
decoded. It lacks the version of an assignment, and fields that the tool does not know.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import write_topic_partitions
from counterpoise.wire.offsets_topic.keys import GroupKey, Key, MemberKey, OffsetKey, RecordType, RegexKey, encode_key, known_type
from counterpoise.wire.offsets_topic.records import VALUES, encode_value
from counterpoise.wire.offsets_topic.schema import Array, Spec, Struct, WireType
from counterpoise.wire.primitives import Writer

__all__ = ["NOT_PRINTED", "key_bytes", "struct_of", "value_bytes"]

NOT_PRINTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Errors for JSON of another form than the decoder's: a field is missing, or has another type."""


def key_bytes(shown: Mapping[str, Any]) -> tuple[RecordType, bytes]:
    """Record type and key from ``{"type": "1", "data": {...}}`` (before Kafka 4.1 the type is called version).

    Raises one of `NOT_PRINTED`, or a `WireError`, for JSON that the decoder does not print.
    """
    number = int(shown["type"] if "type" in shown else shown["version"])
    if not known_type(number):
        raise WireError(0, "record_type", f"{number} is not known")
    kind, data = RecordType(number), shown["data"]
    group = data["group"] if "group" in data else data["groupId"]
    key: Key = GroupKey(group)
    if "topic" in data:
        key = OffsetKey(group, data["topic"], data["partition"])
    elif "memberId" in data:
        key = MemberKey(group, data["memberId"])
    elif "regularExpression" in data:
        key = RegexKey(group, data["regularExpression"])
    return kind, encode_key(kind, key)


def value_bytes(kind: RecordType, shown: Mapping[str, Any]) -> bytes:
    """The value from ``{"version": "4", "data": {...}}``; raises as `key_bytes`."""
    version, data = int(shown["version"]), shown["data"]
    layout = VALUES[kind]
    if kind is RecordType.GROUP_METADATA:
        data = {**data, "members": _with_bytes(data["members"], data["leader"], data["protocol"] == "stream")}
    return encode_value(kind, struct_of(layout.cls, data, version), version)


def _with_bytes(members: Sequence[Mapping[str, Any]], leader: str | None, streams: bool) -> list[dict[str, Any]]:
    """Members with subscriptions and assignments as bytes; `streams`: the leader is Kafka Streams."""
    leading = next((_version(m["subscription"]) for m in members if m["memberId"] == leader), None)
    return [
        {
            **member,
            "subscription": _subscription(member["subscription"]),
            "assignment": _assignment(member["assignment"], leading, streams),
        }
        for member in members
    ]


def _version(shown: Any) -> int | None:
    """The version of a subscription: each version has one field more than the previous one."""
    if not isinstance(shown, Mapping):
        return None
    return next((3 - back for back, name in enumerate(("rackId", "generationId", "ownedPartitions")) if name in shown), 0)


def _subscription(shown: Any) -> bytes | str:
    """The bytes of a subscription, in the order of the text, which identifies the library; undecoded ones stay base64."""
    version = _version(shown)
    if version is None:
        return str(shown)
    writer = Writer()
    writer.int16(version, "version")
    writer.length(len(shown["topics"]), "topics", compact=False)
    for topic in shown["topics"]:
        writer.text(topic, "topics")
    writer.raw(_raw(shown["userData"]), "user_data")
    if version >= 1:
        write_topic_partitions(writer, _pairs(shown["ownedPartitions"]), "owned")
    if version >= 2:
        writer.int32(shown["generationId"], "generation")
    if version >= 3:
        writer.text(shown["rackId"], "rack")
    return writer.getvalue()


def _assignment(shown: Any, leading: int | None, streams: bool) -> bytes | str:
    """The bytes of an assignment, in the version of the leader's subscription; librdkafka always writes version 0.

    Java's assignors write null user data (Streams its own), librdkafka never does; this project's leaders write a marker.
    """
    if not isinstance(shown, Mapping):
        return str(shown)
    data = _raw(shown["userData"])
    version = leading or 0
    if version == 3 and data is not None and not streams and not data.startswith(b"\xffcp"):
        version = 0
    writer = Writer()
    writer.int16(version, "version")
    write_topic_partitions(writer, _pairs(shown["assignedPartitions"]), "partitions")
    writer.raw(data, "user_data")
    return writer.getvalue()


def _pairs(shown: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(entry["topic"], tuple(entry["partitions"])) for entry in shown]


def _raw(shown: str | bytes | None) -> bytes | None:
    return shown if shown is None or isinstance(shown, bytes) else base64.b64decode(shown, validate=True)


def struct_of(cls: type, shown: Mapping[str, Any], version: int) -> Any:
    """A value (`wire.offsets_topic.values`) from the fields that its version has, by Kafka's names; raises as `key_bytes`."""
    known = [one for one in _layout(cls) if one[1].since <= version <= one[1].until and one[2] in shown]
    return cls(**{name: _value(spec.kind, shown[wire_name], version) for name, spec, wire_name in known})


def _value(kind: WireType, shown: Any, version: int) -> Any:
    if shown is None:
        return None
    if isinstance(kind, Array):
        return tuple(_value(kind.of, each, version) for each in shown)
    if isinstance(kind, Struct):
        return struct_of(kind.of, shown, version)
    if kind.name == "raw":
        return _raw(shown)
    if kind.name == "uuid":
        return base64.urlsafe_b64decode(shown + "==")
    if type(shown) is not (str if kind.name == "text" else int):
        raise ValueError(f"{shown!r} is no {kind.name}")
    return shown


@cache
def _layout(cls: type) -> list[tuple[str, Spec, str]]:
    """Field, its layout, and its name in Kafka's JSON."""
    named = [(each.name, each.metadata["wire"]) for each in fields(cls) if "wire" in each.metadata]
    return [(name, spec, re.sub(r"_([a-z])", lambda match: match[1].upper(), name)) for name, spec in named]
