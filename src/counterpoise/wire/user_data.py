"""What the sticky assignors of each client library put into a subscription, and the claims it holds.

Layouts (none has a version marker that can be relied on):

    sticky v1         [topic string, [int32]], generation int32     Java, librdkafka, aiokafka, franz-go
    sticky v0         [topic string, [int32]]                       Java before 2.3
    int16 1, v1       the same behind a stray int16                 kafka-python 3.x
    generation        int32                                         Java's cooperative-sticky

Fields that counterpoise writes behind them are left out. No decoder here raises: bytes that follow no layout are "no history",
flagged so that they can be counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import Subscription, TopicPartitions, read_topic_partitions, write_topic_partitions
from counterpoise.wire.primitives import Reader, Writer

__all__ = [
    "TRAILER",
    "TRAILER_SIZE",
    "Claims",
    "ProtocolKind",
    "StickyData",
    "claims",
    "decode_cooperative",
    "decode_sticky",
    "encode_cooperative",
    "encode_sticky",
]

ProtocolKind = Literal["eager", "cooperative"]
"""How the group rebalances: claims are in the user data (eager) or in the owned partitions (cooperative)."""

_STRAY = b"\x00\x01"
TRAILER, TRAILER_SIZE = b"\xffcp", 8
"""How each field begins that counterpoise writes behind the layouts (host, capacity), and its bytes; no layout can end so."""


@dataclass(frozen=True, slots=True)
class StickyData:
    """Decoded user data."""

    owned: tuple[TopicPartitions, ...] = ()  # Empty when the bytes hold none
    generation: int | None = None  # None: the bytes hold none
    readable: bool = True  # False: there are bytes, and they follow no known layout


@dataclass(frozen=True, slots=True)
class Claims:
    """What a member says it owns."""

    owned: tuple[TopicPartitions, ...]  # In the order of the wire; a topic or partition may be repeated
    generation: int  # -1: none
    unreadable: bool  # The user data mattered and could not be read


def decode_sticky(data: bytes | None) -> StickyData:
    """User data of an eager sticky assignor; never raises.

    A layout that fits to the last byte wins: v1, v0, then v1 or v0 behind a stray int16 1. Else bytes after the
    list are tolerated as Java does: four or more begin with the generation, fewer are ignored.
    """
    data = _without_trailers(data)
    if not data:
        return StickyData()
    plain = _list_at(data, 0)
    if plain is not None and len(data) - plain[1] in (0, 4):
        return _finish(data, *plain)
    if data.startswith(_STRAY):
        behind = _list_at(data, len(_STRAY))
        if behind is not None and len(data) - behind[1] in (0, 4):
            return _finish(data, *behind)
    return StickyData(readable=False) if plain is None else _finish(data, *plain)


def encode_sticky(owned: tuple[TopicPartitions, ...], generation: int | None) -> bytes:
    """Sticky user data v1, or v0 when `generation` is None; entries in the order given."""
    writer = Writer()
    write_topic_partitions(writer, owned, "owned")
    if generation is not None:
        writer.int32(generation, "generation")
    return writer.getvalue()


def decode_cooperative(data: bytes | None) -> StickyData:
    """User data of a cooperative sticky assignor, in either dialect; never raises.

    The sticky v1 layout when it fits to the last byte, else a leading int32 generation (what follows is ignored, as
    Java does). A generation below -1 does not exist: unreadable.
    """
    data = _without_trailers(data)
    if not data:
        return StickyData()
    listed = _list_at(data, 0)
    if listed is not None and len(data) - listed[1] == 4:
        return _finish(data, *listed)
    if len(data) < 4:
        return StickyData(readable=False)
    generation = int.from_bytes(data[:4], "big", signed=True)
    return StickyData((), generation) if generation >= -1 else StickyData(readable=False)


def encode_cooperative(generation: int) -> bytes:
    """Java's form: the generation alone, -1 for none."""
    writer = Writer()
    writer.int32(generation, "generation")
    return writer.getvalue()


def claims(subscription: Subscription, kind: ProtocolKind) -> Claims:
    """What the member claims, by the rules of its protocol; never raises.

    Eager: claims and generation are the user data's (the owned field is empty or stale there: everything was revoked
    before the join). Cooperative: the owned field, also when it is empty while the user data still lists an old
    claim (librdkafka after a lost membership); the generation field from version 2 on, and the user data's if
    that is missing or -1. Below version 1 there is no owned field, so the user data's list counts, if it has one.
    A member with owned partitions and no generation anywhere (kafka-python) claims with generation -1.
    """
    if kind == "eager":
        sticky = decode_sticky(subscription.user_data)
        return Claims(sticky.owned, _generation(sticky), not sticky.readable)
    if subscription.generation >= 0:
        return Claims(subscription.owned, subscription.generation, False)
    sticky = decode_cooperative(subscription.user_data)
    owned = subscription.owned if subscription.version >= 1 else sticky.owned
    return Claims(owned, _generation(sticky), not sticky.readable)


def _without_trailers(data: bytes | None) -> bytes:
    """The layout alone: under strategies without a history there is none, and nothing is unreadable."""
    rest = data or b""
    end = len(rest)
    while end >= TRAILER_SIZE and rest.startswith(TRAILER, end - TRAILER_SIZE):
        end -= TRAILER_SIZE
    return rest[:end]


def _generation(sticky: StickyData) -> int:
    return -1 if sticky.generation is None else max(sticky.generation, -1)


def _list_at(data: bytes, position: int) -> tuple[tuple[TopicPartitions, ...], int] | None:
    """The list that begins at `position` and where it ends, or None."""
    reader = Reader(data, position, lenient_text=True)
    try:
        owned = read_topic_partitions(reader, "owned")
    except WireError:
        return None
    return owned, reader.position


def _finish(data: bytes, owned: tuple[TopicPartitions, ...], end: int) -> StickyData:
    generation = int.from_bytes(data[end : end + 4], "big", signed=True) if len(data) - end >= 4 else None
    return StickyData(owned, generation)
