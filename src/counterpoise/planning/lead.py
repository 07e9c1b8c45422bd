"""lead: the whole work of a group leader, member metadata bytes in, assignment bytes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from counterpoise.errors import SnapshotError
from counterpoise.planning.assign import assign, protocol_of
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.join import JoinMember, join
from counterpoise.wire.consumer_protocol import Assignment, encode_assignment

__all__ = ["lead"]


def lead(
    strategy: str,
    topics: Mapping[str, int | Topic | Mapping[str, Any]],
    members: Iterable[JoinMember | Mapping[str, Any]] | Mapping[str, bytes],
    *,
    protocol: str | None = None,
    **options: object,
) -> dict[str, bytes]:
    """Plan a group from its members' JoinGroup metadata.

    Parameters
    ----------
    strategy : str
    topics : mapping of name to partition count, Topic, or {"partitions": n, "racks": [...]}
    members : iterable of JoinMember (or mappings with its fields), or mapping of member id to metadata
        Metadata as bytes or hex text.
    protocol : "eager" or "cooperative", optional
        Default: what the strategy prefers.

    Returns
    -------
    dict of member id to ConsumerProtocolAssignment bytes (version 3, topics sorted), one per member.

    Raises
    ------
    SnapshotError
        A subscription that cannot be read; unreadable user data is no error (the member has no history).
    UnknownStrategyError, OptionError
    """
    known = {name: _topic(name, value) for name, value in topics.items()}
    joined = join(known, _members(members), "cooperative" if protocol_of(strategy, protocol) == "cooperative" else "eager")
    plan = assign(joined.group, strategy, protocol=protocol, **options)
    return {
        member: encode_assignment(Assignment(tuple((topic, tuple(indices)) for topic, indices in given.items())))
        for member, given in plan.assignment.items()
    }


def _topic(name: str, value: int | Topic | Mapping[str, Any]) -> Topic:
    if isinstance(value, Topic):
        return value
    if isinstance(value, Mapping):
        return Topic(value["partitions"], value.get("racks"))
    if isinstance(value, int):
        return Topic(value)
    raise SnapshotError(f"topics.{name}: a partition count is wanted, not {value!r}")


def _members(members: Iterable[JoinMember | Mapping[str, Any]] | Mapping[str, bytes]) -> list[JoinMember]:
    if isinstance(members, Mapping):
        return [JoinMember(member, _bytes(member, metadata)) for member, metadata in members.items()]
    return [
        given
        if isinstance(given, JoinMember)
        else JoinMember(given["id"], _bytes(given["id"], given["metadata"]), given.get("instance_id"))
        for given in members
    ]


def _bytes(member: str, metadata: bytes | str) -> bytes:
    if isinstance(metadata, str):
        try:
            return bytes.fromhex(metadata)
        except ValueError:
            raise SnapshotError(f"member {member!r}, metadata: not hex") from None
    return bytes(metadata)
