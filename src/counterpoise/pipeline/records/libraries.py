"""Which client library wrote a subscription: recognised from its bytes, as each library leaves its own habits there."""

from __future__ import annotations

__all__ = [
    "AIOKAFKA",
    "FRANZ_GO",
    "JAVA",
    "KAFKA_PYTHON",
    "LIBRDKAFKA",
    "PYTHON",
    "STREAMS",
    "UNKNOWN",
    "leader_library",
    "library_of",
]

JAVA = "java"
STREAMS = "kafka-streams"
LIBRDKAFKA = "librdkafka"
KAFKA_PYTHON = "kafka-python"
AIOKAFKA = "aiokafka"
PYTHON = "kafka-python or aiokafka"
FRANZ_GO = "franz-go"
CONNECT = "connect"
UNKNOWN = "unknown"

_NO_RACK, _EMPTY_RACK = b"\xff\xff", b"\x00\x00"
_NO_GENERATION = b"\xff\xff\xff\xff"


def library_of(protocol_type: str, protocol: str | None, subscription: bytes, version: int, user_data: bytes | None) -> str:
    """The library behind one member's subscription.

    Parameters
    ----------
    protocol_type, protocol : str
        Of the generation.
    subscription : bytes
        The whole subscription as written.
    version : int
        Its version.
    user_data : bytes or None
        Its user data; None and empty differ here, and only here.

    Notes
    -----
    Subscriptions of kafka-python and aiokafka with equal strategies can be equal bytes: the answer is then `PYTHON`.
    """
    if protocol_type == "connect":
        return CONNECT
    if protocol_type != "consumer":
        return UNKNOWN
    if protocol == "stream":
        return STREAMS
    if version >= 3:
        return _library_of_v3(protocol or "", subscription, user_data)
    if version == 1 and protocol == "cooperative-sticky" and user_data == b"":
        return KAFKA_PYTHON
    if version == 0 and user_data is not None:
        return _library_of_v0(protocol or "", user_data)
    return JAVA if user_data is None else UNKNOWN


def _library_of_v3(protocol: str, subscription: bytes, user_data: bytes | None) -> str:
    if subscription.endswith(_EMPTY_RACK) or user_data == b"":
        return LIBRDKAFKA
    if protocol == "cooperative-sticky" and user_data is not None and len(user_data) != 4:
        return FRANZ_GO
    return JAVA


def _library_of_v0(protocol: str, user_data: bytes) -> str:
    if protocol != "sticky" or not user_data:
        return PYTHON
    if user_data[:2] == b"\x00\x01":
        return KAFKA_PYTHON
    return AIOKAFKA if user_data.endswith(_NO_GENERATION) else UNKNOWN


def leader_library(member_library: str | None, version: int | None, user_data: bytes | None, protocol: str | None) -> str | None:
    """The library of the leader: its own subscription says it, or the form of the assignments it wrote.

    `version` and `user_data` are those of one assignment of the generation. None: nobody knows.
    """
    if member_library not in (None, UNKNOWN, PYTHON):
        return member_library
    if version == 3 and user_data is None:
        return STREAMS if protocol == "stream" else JAVA
    if version == 1 and protocol == "cooperative-sticky":
        return KAFKA_PYTHON
    return member_library
