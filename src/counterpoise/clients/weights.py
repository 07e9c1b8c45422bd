"""What rides behind the fields that foreign leaders read: a member's weight, and the generation a leader hands out.

Both are eight bytes, a marker and an int32. In a subscription they follow sticky user data (Java, librdkafka and
kafka-python stop reading before them) or Java's bare cooperative generation; in an assignment they are the whole user
data, which no other library reads. The marker begins with a byte that is negative as the length of a string, so that
what stands before it is never taken for a longer layout.
"""

from __future__ import annotations

import struct

from counterpoise.errors import OptionError

__all__ = ["generation_handed_out", "hand_out_generation", "weight_of", "with_weight"]

_WEIGHT = b"\xffcpw"
_GENERATION = b"\xffcpg"
_SIZE = 8


def with_weight(user_data: bytes | None, weight: int) -> bytes | None:
    """The user data with a weight behind it; a weight of 1 is what everybody has, and adds nothing.

    Raises
    ------
    OptionError
        The weight is no int from 1 to 2**31 - 1.
    """
    if type(weight) is not int or not 1 <= weight < 1 << 31:
        raise OptionError(f"capacity: a whole number from 1 to 2147483647 is wanted, not {weight!r}")
    return user_data if weight == 1 else (user_data or b"") + _WEIGHT + struct.pack(">i", weight)


def weight_of(user_data: bytes | None) -> int:
    """The weight behind the user data; 1 where there is none, or none that could be meant. Never raises."""
    return max(_tail(user_data, _WEIGHT, 1), 1)


def hand_out_generation(generation: int) -> bytes:
    """User data of an assignment: the generation it belongs to, for members whose client does not tell them."""
    return _GENERATION + struct.pack(">i", generation)


def generation_handed_out(user_data: bytes | None) -> int:
    """The generation in an assignment's user data; -1 where a foreign leader wrote none. Never raises."""
    return max(_tail(user_data, _GENERATION, -1), -1)


def _tail(user_data: bytes | None, marker: bytes, default: int) -> int:
    if user_data is None or bytes(user_data[-_SIZE:-4]) != marker:
        return default
    return int(struct.unpack(">i", bytes(user_data[-4:]))[0])
