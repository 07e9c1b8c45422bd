"""The client library that wrote a subscription, by its bytes and the client id; docs/tables.md says how certain that is."""

from __future__ import annotations

import re

from counterpoise.clients.own_fields import host_of
from counterpoise.planning.client_libraries import (
    AIOKAFKA,
    CONNECT,
    COUNTERPOISE,
    FRANZ_GO,
    JAVA,
    KAFKA_GO,
    KAFKA_PYTHON,
    LIBRDKAFKA,
    PYTHON,
    STREAMS,
    UNKNOWN,
)
from counterpoise.wire.user_data import decode_sticky

__all__ = ["leader_library", "library_of"]

_NO_RACK, _EMPTY_RACK = b"\xff\xff", b"\x00\x00"
_NO_GENERATION = _NULL = b"\xff\xff\xff\xff"
_PLAIN = ("range", "roundrobin")
_BARE = 4
"""Bytes of Java's cooperative user data, a generation alone."""
_DEFAULT_CLIENT_ID = re.compile(r"(?P<python>kafka-python|aiokafka)-\d[\w.]*|(?P<go>kgo)|(?P<c>rdkafka)")
"""Client ids of members whose configuration sets none."""


def library_of(
    protocol_type: str,
    protocol: str | None,
    subscription: bytes,
    version: int,
    user_data: bytes | None,
    client_id: str | None = None,
) -> str:
    """The library that wrote one member's subscription; `UNKNOWN` if nothing distinguishes it.

    `subscription` has all bytes as written. `user_data` None and empty differ here. `client_id` decides only if it is the default
    of a library. Subscriptions of kafka-python and aiokafka with equal strategies can be equal bytes: then the result is
    `PYTHON`.
    """
    if protocol_type == "connect":
        return CONNECT
    if protocol_type != "consumer":
        return UNKNOWN
    host = host_of(user_data)
    if host is not None:
        return COUNTERPOISE[host]
    if protocol == "stream":
        return STREAMS
    return _by_client_id(client_id, version) or _by_bytes(protocol or "", subscription, version, user_data)


def _by_client_id(client_id: str | None, version: int) -> str | None:
    default = _DEFAULT_CLIENT_ID.fullmatch(client_id or "")
    if default is None:
        return None
    if default["python"]:
        # Neither library's own assignors write version 3; ours always did, before they had a marker too.
        return COUNTERPOISE[default["python"]] if version >= 3 else default["python"]
    return FRANZ_GO if default["go"] else LIBRDKAFKA


def _by_bytes(protocol: str, subscription: bytes, version: int, user_data: bytes | None) -> str:
    if version == 1 and (protocol == "rack-affinity" or (user_data is None and subscription.endswith(_NULL))):
        return KAFKA_GO  # Only it ends behind the user data, and has that strategy.
    if version >= 3:
        return _library_of_v3(protocol, subscription, user_data)
    if version == 0:
        return UNKNOWN if user_data is None else _library_of_v0(protocol, user_data)
    if protocol == "cooperative-sticky":
        return KAFKA_PYTHON if version == 1 and user_data == b"" else JAVA if _is_bare(user_data) else UNKNOWN
    return JAVA if _is_javas(protocol, user_data) else UNKNOWN


def _library_of_v3(protocol: str, subscription: bytes, user_data: bytes | None) -> str:
    if subscription.endswith(_EMPTY_RACK) or user_data == b"":
        return LIBRDKAFKA
    if protocol != "cooperative-sticky":
        return JAVA if _is_javas(protocol, user_data) else UNKNOWN
    if _is_bare(user_data):
        return JAVA
    # librdkafka writes the same list: with a rack nothing distinguishes the two.
    return FRANZ_GO if subscription.endswith(_NO_RACK) and _is_list(user_data) else UNKNOWN


def _is_javas(protocol: str, user_data: bytes | None) -> bool:
    """Whether Java's assignors write such user data under an eager strategy."""
    if user_data is None:
        return protocol in (*_PLAIN, "sticky")
    return protocol == "sticky" and _is_list(user_data)


def _is_list(user_data: bytes | None) -> bool:
    data = decode_sticky(user_data)
    return bool(user_data) and data.readable and data.generation is not None and not (user_data or b"").startswith(b"\x00\x01")


def _is_bare(user_data: bytes | None) -> bool:
    return user_data is not None and len(user_data) == _BARE


def _library_of_v0(protocol: str, user_data: bytes) -> str:
    if not user_data:
        return PYTHON if protocol in (*_PLAIN, "sticky") else UNKNOWN
    if protocol != "sticky":
        return UNKNOWN
    if user_data[:2] == b"\x00\x01":
        return KAFKA_PYTHON
    return AIOKAFKA if user_data.endswith(_NO_GENERATION) else UNKNOWN


def leader_library(member_library: str | None, version: int | None, user_data: bytes | None, protocol: str | None) -> str | None:
    """The library of the leader, by its own subscription or else by the form of the assignments that it wrote; None: unknown.

    `version` and `user_data` are those of one assignment of the generation.
    """
    if member_library not in (None, UNKNOWN, PYTHON):
        return member_library
    if version == 3 and user_data is None:
        return STREAMS if protocol == "stream" else JAVA
    if version == 1 and protocol == "cooperative-sticky":
        return KAFKA_PYTHON
    return member_library
