"""One record of the offsets topic: key and value bytes to a typed record, a tombstone, or the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from counterpoise.errors import WireError
from counterpoise.wire.offsets_topic import values as v
from counterpoise.wire.offsets_topic.keys import Key, RecordType, decode_key, known_type
from counterpoise.wire.offsets_topic.struct_codec import read_value, write_value
from counterpoise.wire.primitives import Reader, Writer

__all__ = [
    "VALUES",
    "Decoded",
    "Fault",
    "Record",
    "Tombstone",
    "Undecodable",
    "ValueLayout",
    "decode_record",
    "decode_value",
    "encode_value",
]


class Fault(IntEnum):
    """Why a record cannot be decoded."""

    NONE = 0
    NULL_KEY = 1
    BAD_KEY = 2
    UNKNOWN_TYPE = 3
    UNKNOWN_VERSION = 4
    BAD_VALUE = 5


class ValueLayout(NamedTuple):
    """Class of a type's value, its versions (0 to `newest`) and the first flexible one."""

    cls: type[v.Value]
    newest: int = 0
    flexible_since: int = 0


_CLASSIC = 32767

VALUES: dict[RecordType, ValueLayout] = {
    RecordType.OFFSET_COMMIT_LEGACY: ValueLayout(v.LegacyOffsetCommitValue, 0, _CLASSIC),
    RecordType.OFFSET_COMMIT: ValueLayout(v.OffsetCommitValue, 4, 4),
    RecordType.GROUP_METADATA: ValueLayout(v.GroupMetadataValue, 4, 4),
    RecordType.CONSUMER_GROUP_METADATA: ValueLayout(v.ConsumerGroupMetadataValue),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: ValueLayout(v.ConsumerGroupPartitionMetadataValue),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: ValueLayout(v.ConsumerGroupMemberMetadataValue),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: ValueLayout(v.TargetAssignmentMetadataValue),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: ValueLayout(v.TargetAssignmentMemberValue),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: ValueLayout(v.ConsumerGroupCurrentMemberAssignmentValue),
    RecordType.SHARE_GROUP_MEMBER_METADATA: ValueLayout(v.ShareGroupMemberMetadataValue),
    RecordType.SHARE_GROUP_METADATA: ValueLayout(v.ShareGroupMetadataValue),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: ValueLayout(v.TargetAssignmentMetadataValue),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: ValueLayout(v.TargetAssignmentMemberValue),
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: ValueLayout(v.ShareGroupCurrentMemberAssignmentValue),
    RecordType.SHARE_GROUP_STATE_PARTITION_METADATA: ValueLayout(v.ShareGroupStatePartitionMetadataValue),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: ValueLayout(v.ConsumerGroupRegularExpressionValue),
    RecordType.STREAMS_GROUP_METADATA: ValueLayout(v.StreamsGroupMetadataValue),
    RecordType.STREAMS_GROUP_MEMBER_METADATA: ValueLayout(v.StreamsGroupMemberMetadataValue),
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: ValueLayout(v.TargetAssignmentMetadataValue),
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: ValueLayout(v.StreamsGroupTargetAssignmentMemberValue),
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: ValueLayout(v.StreamsGroupCurrentMemberAssignmentValue),
    RecordType.STREAMS_GROUP_TOPOLOGY: ValueLayout(v.StreamsGroupTopologyValue),
}
"""The layouts of all record types."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its value; `version` is the value's."""

    record_type: RecordType
    key: Key
    value: v.Value
    version: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record with a null value: it deletes what its key names."""

    record_type: RecordType
    key: Key


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that follows no known layout."""

    # record_type, value_version: As far as the bytes say
    record_type: int | None
    value_version: int | None
    fault: Fault  # Its kind
    reason: str  # Where and what, in words


Decoded: TypeAlias = Record | Tombstone | Undecodable


def decode_record(key: bytes | None, value: bytes | None) -> Decoded:
    """The record with this key and value; never raises, whatever the bytes.

    A type or version that is not known, a field that does not fit and bytes after the last field all give
    `Undecodable`. Cost: some microseconds and what the value's size demands; for commits in bulk see
    `counterpoise.wire.offsets_topic.batch`.
    """
    if key is None:
        return Undecodable(None, None, Fault.NULL_KEY, "the key is null")
    number = int.from_bytes(key[:2], "big", signed=True) if len(key) >= 2 else None
    if number is not None and not known_type(number):
        return Undecodable(number, _version_of(value), Fault.UNKNOWN_TYPE, f"record type {number} is not known")
    try:
        record_type, decoded_key = decode_key(key)
    except WireError as error:
        return Undecodable(number, _version_of(value), Fault.BAD_KEY, f"key: {error}")
    if value is None:
        return Tombstone(record_type, decoded_key)
    version = _version_of(value)
    newest = VALUES[record_type].newest
    if version is not None and not 0 <= version <= newest:
        reason = f"version {version} of record type {number} is not known (0 to {newest} are)"
        return Undecodable(number, version, Fault.UNKNOWN_VERSION, reason)
    try:
        version, decoded_value = decode_value(record_type, value)
    except WireError as error:
        return Undecodable(number, version, Fault.BAD_VALUE, f"value: {error}")
    return Record(record_type, decoded_key, decoded_value, version)


def decode_value(record_type: RecordType, value: bytes) -> tuple[int, v.Value]:
    """Version and value; `WireError` if the bytes do not follow the layout or continue after it."""
    layout = VALUES[record_type]
    reader = Reader(value)
    version = reader.int16("version")
    if not 0 <= version <= layout.newest:
        raise WireError(0, "version", f"{version} of record type {int(record_type)} is not known")
    decoded: v.Value = read_value(layout.cls, reader, version, flexible=version >= layout.flexible_since)
    reader.end("value")
    return version, decoded


def encode_value(record_type: RecordType, value: v.Value, version: int) -> bytes:
    """The bytes of a value in a version; fields the version lacks are left out. `WireError` for what does not fit."""
    layout = VALUES[record_type]
    writer = Writer()
    if type(value) is not layout.cls:
        raise writer.fail("value", f"{type(value).__name__} is not the value of record type {int(record_type)}")
    if not 0 <= version <= layout.newest:
        raise writer.fail("version", f"{version} of record type {int(record_type)} is not known")
    writer.int16(version, "version")
    write_value(value, writer, version, flexible=version >= layout.flexible_since)
    return writer.getvalue()


def _version_of(value: bytes | None) -> int | None:
    return int.from_bytes(value[:2], "big", signed=True) if value is not None and len(value) >= 2 else None
