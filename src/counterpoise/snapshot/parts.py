"""Topic and Member: what a group is made of, as people and JSON say it; `checks` says what they may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Member", "Topic"]


@dataclass(frozen=True)
class Topic:
    """A topic: its partition count and, if known, the racks of each partition's replicas (None or "": no rack)."""

    partitions: int
    racks: Sequence[Sequence[str | None]] | None = None


@dataclass(frozen=True)
class Member:
    """A member: what it subscribes to and what it claims.

    Parameters
    ----------
    id : str
        Member id, unique in the group.
    topics : sequence of str
        Subscribed topic names; topics that do not exist (yet) are allowed.
    owned : mapping of topic name to partition indices
        Its claims. A claim on what does not exist is dropped and counted.
    generation : int
        Generation of the claims, -1 for none.
    instance_id : str, optional
        ``group.instance.id`` of a static member.
    rack : str, optional
        ``client.rack``; "" means none.
    capacity : int
        Weight, at least 1.
    """

    id: str
    topics: Sequence[str] = ()
    owned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None
    capacity: int = 1
