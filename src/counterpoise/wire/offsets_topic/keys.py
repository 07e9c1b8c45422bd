"""Keys of the offsets topic: the record type, and what the record is about. Never flexible."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from counterpoise.errors import WireError
from counterpoise.wire.primitives import Reader, Writer

__all__ = ["GroupKey", "Key", "MemberKey", "OffsetKey", "RecordType", "RegexKey", "decode_key", "encode_key", "known_type"]


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

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Key of the types that describe a group."""

    group: str


@dataclass(frozen=True, slots=True)
class MemberKey:
    """Key of the types that describe a member."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class RegexKey:
    """Key of type 16."""

    group: str
    regex: str


Key: TypeAlias = OffsetKey | GroupKey | MemberKey | RegexKey


_MEMBER_TYPES = frozenset(RecordType(number) for number in (5, 7, 8, 10, 13, 14, 19, 21, 22))
_OFFSET_TYPES = frozenset((RecordType.OFFSET_COMMIT_LEGACY, RecordType.OFFSET_COMMIT))


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
    group = reader.text("group")
    decoded: Key
    if record_type in _OFFSET_TYPES:
        decoded = OffsetKey(group, reader.text("topic"), reader.int32("partition"))
    elif record_type in _MEMBER_TYPES:
        decoded = MemberKey(group, reader.text("member"))
    elif record_type is RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION:
        decoded = RegexKey(group, reader.text("regex"))
    else:
        decoded = GroupKey(group)
    reader.end("key")
    return record_type, decoded


def encode_key(record_type: RecordType, key: Key) -> bytes:
    """The bytes of a key; `WireError` when it is not of the form that `record_type` has."""
    writer = Writer()
    writer.int16(record_type, "record_type")
    writer.text(key.group, "group")
    match key:
        case OffsetKey() if record_type in _OFFSET_TYPES:
            writer.text(key.topic, "topic")
            writer.int32(key.partition, "partition")
        case MemberKey() if record_type in _MEMBER_TYPES:
            writer.text(key.member, "member")
        case RegexKey() if record_type is RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION:
            writer.text(key.regex, "regex")
        case GroupKey() if record_type not in _OFFSET_TYPES | _MEMBER_TYPES | {RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION}:
            pass
        case _:
            raise writer.fail("key", f"{type(key).__name__} is not the key of record type {int(record_type)}")
    return writer.getvalue()
