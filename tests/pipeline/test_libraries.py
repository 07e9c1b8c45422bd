"""Client libraries recognised by their bytes, and the leader by the form of what it hands out."""

from __future__ import annotations

import pytest

from counterpoise.pipeline.records.libraries import leader_library, library_of

NULL_RACK, EMPTY_RACK = b"...\xff\xff", b"...\x00\x00"
NO_GENERATION = b"\xff\xff\xff\xff"
LISTED = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("protocol", "subscription", "version", "user_data", "library"),
    [
        ("range", NULL_RACK, 3, None, "java"),
        ("sticky", NULL_RACK, 3, LISTED + b"\x00\x00\x00\x05", "java"),
        ("cooperative-sticky", NULL_RACK, 3, NO_GENERATION, "java"),
        ("range", b"...", 1, None, "java"),
        ("stream", NULL_RACK, 3, b"opaque", "kafka-streams"),
        ("range", EMPTY_RACK, 3, b"", "librdkafka"),
        ("cooperative-sticky", EMPTY_RACK, 3, LISTED + b"\x00\x00\x00\x05", "librdkafka"),
        ("cooperative-sticky", b"...\x00\x01a", 3, b"", "librdkafka"),
        ("cooperative-sticky", NULL_RACK, 3, LISTED + b"\x00\x00\x00\x05", "franz-go"),
        ("cooperative-sticky", b"...", 1, b"", "kafka-python"),
        ("sticky", b"...", 0, b"\x00\x01" + LISTED + b"\x00\x00\x00\x05", "kafka-python"),
        ("sticky", b"...", 0, LISTED + NO_GENERATION, "aiokafka"),
        ("sticky", b"...", 0, b"", "kafka-python or aiokafka"),
        ("roundrobin", b"...", 0, b"", "kafka-python or aiokafka"),
    ],
)
def test_member(protocol: str, subscription: bytes, version: int, user_data: bytes | None, library: str) -> None:
    assert library_of("consumer", protocol, subscription, version, user_data) == library


def test_other_protocol_types() -> None:
    assert library_of("connect", "sessioned", b"", 0, None) == "connect"
    assert library_of("schema-registry", "v0", b"", 0, None) == "unknown"


@pytest.mark.parametrize(
    ("member", "version", "user_data", "protocol", "library"),
    [
        ("librdkafka", 0, b"", "range", "librdkafka"),
        (None, 3, None, "range", "java"),
        (None, 3, None, "stream", "kafka-streams"),
        (None, 1, b"", "cooperative-sticky", "kafka-python"),
        ("kafka-python or aiokafka", 0, b"", "sticky", "kafka-python or aiokafka"),
    ],
)
def test_leader(member: str | None, version: int, user_data: bytes | None, protocol: str, library: str) -> None:
    assert leader_library(member, version, user_data, protocol) == library
