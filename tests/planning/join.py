"""JoinGroup metadata to a Group, member by member: what `join_problem` reads in vectorised steps must be the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from counterpoise.errors import SnapshotError, WireError
from counterpoise.snapshot.group import Group, Member, Topic
from counterpoise.snapshot.joined import JoinMember
from counterpoise.wire.consumer_protocol import Subscription, decode_subscription
from counterpoise.wire.user_data import claims

__all__ = ["JoinedGroup", "join", "read_member"]


@dataclass(frozen=True)
class JoinedGroup:
    """The group that members' metadata describe, and whose user data could not be read.

    Such members count as having no history; the group is planned all the same.
    """

    group: Group
    unreadable: tuple[str, ...]


def join(topics: Mapping[str, int | Topic], members: Iterable[JoinMember], kind: Literal["eager", "cooperative"]) -> JoinedGroup:
    """Read every member's metadata; claims by the rules of the protocol in use.

    Parameters
    ----------
    topics : mapping of name to partition count or Topic
        What the leader's metadata knows; subscriptions to other topics wait until these exist.
    members : iterable of JoinMember
    kind : "eager" or "cooperative"
        Eager sticky members claim in user data, cooperative ones in the owned partitions.

    Raises
    ------
    SnapshotError
        A member's subscription cannot be read; the message names the member, the byte and the field.
    """
    read: list[Member] = []
    unreadable: list[str] = []
    for joined in members:
        member, fault = read_member(joined, kind)
        read.append(member)
        if fault:
            unreadable.append(joined.id)
    return JoinedGroup(Group(topics, read), tuple(unreadable))


def read_member(joined: JoinMember, kind: Literal["eager", "cooperative"]) -> tuple[Member, bool]:
    """One member, and whether its user data could not be read."""
    subscription = _subscription(joined)
    claimed = claims(subscription, kind)
    owned: dict[str, list[int]] = {}
    for topic, indices in claimed.owned:
        owned.setdefault(topic, []).extend(indices)
    member = Member(joined.id, subscription.topics, owned, claimed.generation, joined.instance_id, subscription.rack)
    return member, claimed.unreadable


def _subscription(joined: JoinMember) -> Subscription:
    try:
        return decode_subscription(joined.metadata)
    except WireError as error:
        raise SnapshotError(f"member {joined.id!r}, metadata: {error}; it is no ConsumerProtocolSubscription") from None
