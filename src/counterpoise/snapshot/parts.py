"""Topic and Member: what a group is made of, as people and JSON say it; msgspec checks their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from counterpoise.model.problem import MOST_CAPACITY

__all__ = ["Index", "JoinMember", "Lags", "LeadLine", "LeadRequest", "Member", "Parts", "Topic", "Topics"]

Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Capacity = Annotated[int, Meta(ge=1, le=MOST_CAPACITY)]
Lags = dict[str, list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]]
"""Records behind per partition, by topic."""


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic: its partition count and, if known, the racks of each partition's replicas (None or "": no rack)."""

    partitions: Annotated[int, Meta(ge=0)]
    racks: Sequence[Sequence[str | None]] | None = None


Topics = dict[str, Annotated[int, Meta(ge=0)] | Topic]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member: what it subscribes to and what it claims.

    Attributes
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
        What it can carry compared with others, at least 1.
    """

    id: str
    topics: Sequence[str] = ()
    owned: Mapping[str, Sequence[Index]] = {}
    generation: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    instance_id: str | None = None
    rack: str | None = None
    capacity: Capacity = 1


class Parts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of a snapshot in JSON; the parameters of `Group`."""

    topics: Topics
    members: list[Member]
    lag: Lags | None = None
    group: str | None = None


class JoinMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a leader's JoinGroup response."""

    id: str
    metadata: Any  # The member's ConsumerProtocolSubscription in bytes; `lead` takes hex text too
    instance_id: str | None = None  # ``group.instance.id`` of a static member


class LeadRequest(msgspec.Struct):
    """What `lead` takes: the members that joined, with what their leader knows of topics, lags and capacities."""

    topics: Topics
    members: list[JoinMember]
    lag: Lags | None
    capacity: dict[str, Capacity] | None


class LeadLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of `counterpoise lead`; the parts of a LeadRequest in it are not checked yet."""

    strategy: str
    topics: Any
    members: Any
    protocol: str | None = None
    options: dict[str, Any] = {}
    lag: Any = None
    capacity: Any = None
