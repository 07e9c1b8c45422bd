"""ConsumerProtocol: a member's Subscription and the leader's Assignment, versions 0 to 3 (never flexible).

Subscription: version int16, topics [string], userData bytes, from 1 ownedPartitions [string, [int32]], from 2
generationId int32, from 3 rackId string. Assignment: version int16, assignedPartitions [string, [int32]], userData
bytes. Fields are only ever added at the end, so a higher version is read as 3 and what follows is ignored.
Strings are read as Java reads them: a name that is not UTF-8 is an unknown topic, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from counterpoise.wire.primitives import Reader, Writer, java_key

__all__ = [
    "NEWEST",
    "Assignment",
    "Partition",
    "Subscription",
    "TopicPartitions",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "grouped",
    "read_topic_partitions",
    "write_topic_partitions",
]

Partition = tuple[str, int]
"""Topic and partition. The `TopicPartition` of a client library is one."""
TopicPartitions = tuple[str, tuple[int, ...]]
"""A topic and partitions of it, in the order of the wire."""

NEWEST = 3
"""The highest version known here."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sends when it joins."""

    topics: tuple[str, ...]  # In the order of the wire
    user_data: bytes | None = None  # The assignor's own; null and empty mean the same to every reader
    owned: tuple[TopicPartitions, ...] = ()  # Empty below version 1
    generation: int = -1  # -1: none, or below version 2
    rack: str | None = None  # None: none, or below version 3 (librdkafka's "" reads as None)
    version: int = NEWEST  # As written in the bytes; a version above 3 is read as 3


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader hands to one member; attributes as in `Subscription`."""

    partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None
    version: int = NEWEST


def decode_subscription(data: bytes) -> Subscription:
    """The subscription in `data`.

    Raises `WireError` if bytes are truncated, the version is negative, or null stands where the protocol has none. Bytes after
    the last field are ignored. Version 1 may end behind the user data, as kafka-go writes it.
    """
    reader = Reader(data, lenient_text=True)
    version = _version(reader)
    topics = tuple(reader.text("topics") for _ in range(reader.elements("topics")))
    user_data = reader.nullable_raw("user_data")
    owned = read_topic_partitions(reader, "owned") if version > 1 or (version == 1 and reader.remaining) else ()
    generation = max(reader.int32("generation"), -1) if version >= 2 else -1
    rack = reader.nullable_text("rack") or None if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack, version)


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of a subscription, in its version (3 for a higher one).

    Topics and owned partitions are sorted (Java's string order), so an unchanged subscription gives unchanged
    bytes; fields that the version lacks are left out; a negative generation is written as -1. `WireError` for a
    negative version or a value that does not fit.
    """
    writer = Writer()
    version = _write_version(writer, subscription.version)
    writer.length(len(subscription.topics), "topics", compact=False)
    for topic in sorted(subscription.topics, key=java_key):
        writer.text(topic, "topics")
    writer.raw(subscription.user_data, "user_data")
    if version >= 1:
        owned = sorted(grouped(subscription.owned), key=lambda entry: java_key(entry[0]))
        write_topic_partitions(writer, [(topic, tuple(sorted(partitions))) for topic, partitions in owned], "owned")
    if version >= 2:
        writer.int32(max(subscription.generation, -1), "generation")
    if version >= 3:
        writer.text(subscription.rack, "rack")
    return writer.getvalue()


def decode_assignment(data: bytes) -> Assignment:
    """The assignment in `data`; no bytes at all are an empty assignment (a member the leader left out).

    `WireError` as for `decode_subscription`.
    """
    if not data:
        return Assignment()
    reader = Reader(data, lenient_text=True)
    version = _version(reader)
    partitions = read_topic_partitions(reader, "partitions")
    return Assignment(partitions, reader.nullable_raw("user_data"), version)


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of an assignment, in its version (3 for a higher one).

    A topic stands once, where it first appears, with its partitions in the order given, as Kafka's clients write
    it. `WireError` for a negative version or a value that does not fit.
    """
    writer = Writer()
    _write_version(writer, assignment.version)
    write_topic_partitions(writer, grouped(assignment.partitions), "partitions")
    writer.raw(assignment.user_data, "user_data")
    return writer.getvalue()


def grouped(entries: Iterable[TopicPartitions]) -> list[TopicPartitions]:
    """Each topic once, in order of first appearance, with all its partitions in order; topics without any are left out."""
    partitions_of: dict[str, list[int]] = {}
    for topic, partitions in entries:
        if partitions:
            partitions_of.setdefault(topic, []).extend(partitions)
    return [(topic, tuple(partitions)) for topic, partitions in partitions_of.items()]


def read_topic_partitions(reader: Reader, field: str) -> tuple[TopicPartitions, ...]:
    """An array [topic string, partitions [int32]]."""
    return tuple((reader.text(field), reader.int32s(field)) for _ in range(reader.elements(field)))


def write_topic_partitions(writer: Writer, entries: Iterable[TopicPartitions], field: str) -> None:
    """An array [topic string, partitions [int32]], in the order given."""
    listed = list(entries)
    writer.length(len(listed), field, compact=False)
    for topic, partitions in listed:
        writer.text(topic, field)
        writer.int32s(partitions, field)


def _version(reader: Reader) -> int:
    version = reader.int16("version")
    if version < 0:
        raise reader.fail("version", f"{version} is negative")
    return version


def _write_version(writer: Writer, version: int) -> int:
    if version < 0:
        raise writer.fail("version", f"{version} is negative")
    written = min(version, NEWEST)
    writer.int16(written, "version")
    return written
