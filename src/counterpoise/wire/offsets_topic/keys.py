"""Keys of the offsets topic: the record type, and what the record is about. They have one version, and it is not flexible."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from counterpoise.errors import WireError
from counterpoise.wire.offsets_topic.schema import INT32, STRING, wire
from counterpoise.wire.offsets_topic.struct_codec import read_value, write_value
from counterpoise.wire.primitives import Reader, Writer

__all__ = [
    "GroupKey", "Key", "MemberKey", "OffsetKey", "RecordType", "RegexKey", "decode_key", "encode_key", "group_of", "known_type",
]  # fmt: skip


class RecordType(IntEnum):
    """The int16 a key begins with; 9 and 18 do not exist."""

    OFFSET_COMMIT_LEGACY = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Key of types 0 and 1."""

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Key of the types that describe a group."""

    group: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class MemberKey:
    """Key of the types that describe a member."""

    group: str = wire(STRING)
    member: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class RegexKey:
    """Key of type 16."""

    group: str = wire(STRING)
    regex: str = wire(STRING)


Key: TypeAlias = OffsetKey | GroupKey | MemberKey | RegexKey
_LAYOUTS: dict[RecordType, type[Key]] = {
    **dict.fromkeys(RecordType, GroupKey),
    **dict.fromkeys((RecordType.OFFSET_COMMIT_LEGACY, RecordType.OFFSET_COMMIT), OffsetKey),
    **dict.fromkeys(map(RecordType, (5, 7, 8, 10, 13, 14, 19, 21, 22)), MemberKey),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: RegexKey,
}


def known_type(number: int) -> bool:
    """Whether there is a record type of this number."""
    return number in RecordType._value2member_map_


def decode_key(key: bytes) -> tuple[RecordType, Key]:
    """Record type and key; `WireError` if the bytes follow no known key or continue after it."""
    reader = Reader(key)
    number = reader.int16("record_type")
    if not known_type(number):
        raise WireError(0, "record_type", f"{number} is not known")
    record_type = RecordType(number)
    decoded: Key = read_value(_LAYOUTS[record_type], reader, 0, flexible=False)
    reader.end("key")
    return record_type, decoded


def group_of(key: bytes | None) -> bytes:
    """The group name in a key: after the type, with a 16-bit length before it; of a damaged key the bytes at that place."""
    return b"" if key is None else key[4 : 4 + int.from_bytes(key[2:4], "big")]


def encode_key(record_type: RecordType, key: Key) -> bytes:
    """The bytes of a key; `WireError` when it is not of the form that `record_type` has."""
    writer = Writer()
    writer.int16(record_type, "record_type")
    if type(key) is not _LAYOUTS[record_type]:
        raise writer.fail("key", f"{type(key).__name__} is not the key of record type {int(record_type)}")
    write_value(key, writer, 0, flexible=False)
    return writer.getvalue()
