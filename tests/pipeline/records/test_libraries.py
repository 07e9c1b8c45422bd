"""Client libraries recognised by their bytes and default client ids, and the leader by the form of what it hands out."""

from __future__ import annotations

import pytest

from counterpoise.assignors.registry import strategies
from counterpoise.clients.member_side import MemberSide
from counterpoise.clients.own_fields import HOSTS
from counterpoise.pipeline.records.libraries import leader_library, library_of
from counterpoise.wire.consumer_protocol import decode_subscription

NULL_RACK, EMPTY_RACK = b"...\xff\xff", b"...\x00\x00"
NO_GENERATION = NULL = b"\xff\xff\xff\xff"
LISTED = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("protocol", "subscription", "version", "user_data", "library"),
    [
        ("range", NULL_RACK, 3, None, "java"),
        ("sticky", NULL_RACK, 3, LISTED + b"\x00\x00\x00\x05", "java"),
        ("cooperative-sticky", NULL_RACK, 3, NO_GENERATION, "java"),
        ("range", b"...", 1, None, "java"),
        ("sticky", NULL_RACK, 3, None, "java"),
        ("cooperative-sticky", b"...", 2, NO_GENERATION, "java"),
        ("range", b"...", 0, None, "unknown"),
        ("failover", NULL_RACK, 3, None, "unknown"),
        ("range", NULL_RACK, 3, b"something", "unknown"),
        ("sticky", NULL_RACK, 3, b"something", "unknown"),
        ("cooperative-sticky", b"...", 1, b"something", "unknown"),
        ("range", b"..." + NULL, 1, None, "kafka-go"),
        ("roundrobin", b"..." + NULL, 1, None, "kafka-go"),
        ("rack-affinity", b"...\x00\x01a", 1, b"a", "kafka-go"),
        ("range", b"..." + NULL + b"\x00\x00\x00\x00", 1, None, "java"),
        ("cooperative-sticky", b"..." + NO_GENERATION, 1, NO_GENERATION, "java"),
        ("rack-affinity", NULL_RACK, 3, b"a", "unknown"),
        ("cooperative-sticky", b"...\x00\x01a", 3, LISTED + b"\x00\x00\x00\x05", "unknown"),
        ("sticky", b"...", 0, LISTED + b"\x00\x00\x00\x05", "unknown"),
        ("failover", b"...", 0, b"", "unknown"),
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


@pytest.mark.parametrize(
    ("client_id", "version", "library"),
    [
        ("kafka-python-3.0.12", 0, "kafka-python"),
        ("aiokafka-0.14.0", 0, "aiokafka"),
        ("kafka-python-2.2.15", 3, "counterpoise (kafka-python)"),
        ("aiokafka-0.14.0", 3, "counterpoise (aiokafka)"),
        ("rdkafka", 3, "librdkafka"),
        ("kgo", 3, "franz-go"),
        ("kafka-python-worker", 0, "kafka-python or aiokafka"),
        ("my-aiokafka-0.14.0", 3, "java"),
    ],
)
def test_a_default_client_id_names_the_library(client_id: str, version: int, library: str) -> None:
    subscription, user_data = (NULL_RACK, None) if version else (b"...", b"")
    assert library_of("consumer", "range", subscription, version, user_data, client_id) == library


@pytest.mark.parametrize("weight", [1, 7])
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("strategy", strategies())
def test_our_members_are_recognised_whatever_they_send(strategy: str, host: str, weight: int) -> None:
    """Eager and cooperative, new and with an assignment, with a weight and without."""
    side = MemberSide(strategy, host, capacity=weight)
    held = (("t", (0, 1)),)
    sent = [side.subscription(["t"], None), side.subscription(["t"], ())]
    side.received([("t", 0), ("t", 1)], 7)
    sent += [side.subscription(["t"], None), side.subscription(["t"], held)]
    for metadata in sent:
        read = decode_subscription(metadata)
        assert library_of("consumer", strategy, metadata, read.version, read.user_data, "app") == f"counterpoise ({host})"


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
