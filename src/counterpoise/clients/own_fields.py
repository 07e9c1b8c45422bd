"""User data that only counterpoise reads: a member's host and capacity; an assignment's generation and withheld partitions.

Each value is eight bytes, a marker and an int32. In a subscription they follow sticky user data (Java, librdkafka and
kafka-python stop reading before them, Sarama refuses them) or Java's bare cooperative generation, the host first, the
capacity last; in an assignment they are the whole user data, which no other library reads. The marker begins with a byte
that is negative as the length of a string, so that what stands before it is never read as a longer layout.

An assignment has user data only if a reader needs it (`leader_side.lead_group`): a broker does not let members of the
`consumer` protocol (KIP-848) into a group whose assignments have any.
"""

from __future__ import annotations

import struct

from counterpoise.errors import OptionError
from counterpoise.model.arrays import python_scalar

__all__ = [
    "HOSTS",
    "assignment_user_data",
    "capacity_of",
    "generation_handed_out",
    "host_of",
    "with_capacity",
    "with_host",
    "withheld_of",
]

HOSTS = ("kafka-python", "aiokafka")
"""The client libraries that assignors of counterpoise run in; a member's user data holds the position of its own, from 1."""
_HOST = b"\xffcph"
_CAPACITY = b"\xffcpw"
_GENERATION = b"\xffcpg"
_WITHHELD = b"\xffcpf"
_SIZE = 8


def with_host(user_data: bytes | None, host: str) -> bytes:
    """The user data with its member's host, one of `HOSTS`, behind it: audits recognise it, no leader reads it."""
    return (user_data or b"") + _HOST + struct.pack(">i", HOSTS.index(host) + 1)


def host_of(user_data: bytes | None) -> str | None:
    """The host of a counterpoise member, from the user data it joined with; None for other members. Never raises."""
    data = bytes(user_data or b"")
    data = data[:-_SIZE] if data[-_SIZE:-4] == _CAPACITY else data
    number = _tail(data, _HOST, 0)
    return HOSTS[number - 1] if 1 <= number <= len(HOSTS) else None


def with_capacity(user_data: bytes | None, capacity: int) -> bytes | None:
    """The user data with a capacity behind it; a capacity of 1 is the default and adds nothing.

    Raises `OptionError` if the capacity is no int from 1 to 2**31 - 1.
    """
    given = python_scalar(capacity)  # whatever a configuration holds
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given < 1 << 31:
        raise OptionError(f"capacity: expected a whole number from 1 to 2147483647, not {capacity!r}")
    return user_data if capacity == 1 else (user_data or b"") + _CAPACITY + struct.pack(">i", capacity)


def capacity_of(user_data: bytes | None) -> int:
    """The capacity behind the user data; 1 if there is none, or an invalid one. Never raises."""
    return max(_tail(user_data, _CAPACITY, 1), 1)


def assignment_user_data(generation: int, withheld: int) -> bytes | None:
    """User data of an assignment: its generation, and how many partitions wait for the next round; None if neither is known."""
    counted = _WITHHELD + struct.pack(">i", withheld) if withheld else b""
    return (counted + _GENERATION + struct.pack(">i", generation)) if counted or generation >= 0 else None


def generation_handed_out(user_data: bytes | None) -> int:
    """The generation in an assignment's user data; -1 if a leader of another library wrote none. Never raises."""
    return max(_tail(user_data, _GENERATION, -1), -1)


def withheld_of(user_data: bytes | None) -> int:
    """How many partitions of the group wait for the next round; 0 if a leader of another library assigned. Never raises."""
    return max(_tail(None if user_data is None else user_data[:-_SIZE], _WITHHELD, 0), 0)


def _tail(user_data: bytes | None, marker: bytes, default: int) -> int:
    if user_data is None or bytes(user_data[-_SIZE:-4]) != marker:
        return default
    return int(struct.unpack(">i", bytes(user_data[-4:]))[0])
