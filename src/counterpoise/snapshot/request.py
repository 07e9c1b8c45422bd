"""Requests to a group leader as JSON: one line in, one line out; bytes are hex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from counterpoise.errors import SnapshotError
from counterpoise.snapshot.group import Topic
from counterpoise.snapshot.join import JoinMember
from counterpoise.snapshot.json_text import UNREADABLE

__all__ = ["LeadRequest", "read_request", "write_answer"]


@dataclass(frozen=True)
class LeadRequest:
    """What `lead` needs to answer."""

    strategy: str
    topics: Mapping[str, Topic]
    members: tuple[JoinMember, ...]
    protocol: str | None
    options: Mapping[str, object]


class _Topic(msgspec.Struct, forbid_unknown_fields=True):
    partitions: int
    racks: list[list[str | None]] | None = None


class _Member(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    metadata: str
    instance_id: str | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    strategy: str
    topics: dict[str, int | _Topic]
    members: list[_Member]
    protocol: str | None = None
    options: dict[str, object] = {}


_DECODER = msgspec.json.Decoder(_Request)


def read_request(line: str | bytes) -> LeadRequest:
    """One request.

    Raises
    ------
    SnapshotError
        What is wrong with it; the message names the field.
    """
    try:
        raw = _DECODER.decode(line)
    except UNREADABLE as error:
        raise SnapshotError(f"request: {' '.join(str(error).split())}") from None  # it quotes names, line ends and all
    topics = {
        name: Topic(known.partitions, known.racks) if isinstance(known, _Topic) else Topic(known)
        for name, known in raw.topics.items()
    }
    members = tuple(JoinMember(member.id, _unhex(member), member.instance_id) for member in raw.members)
    return LeadRequest(raw.strategy, topics, members, raw.protocol, raw.options)


def write_answer(assignments: Mapping[str, bytes]) -> str:
    """One answer."""
    return msgspec.json.encode({"assignments": {member: given.hex() for member, given in assignments.items()}}).decode()


def _unhex(member: _Member) -> bytes:
    try:
        return bytes.fromhex(member.metadata)
    except ValueError:
        raise SnapshotError(f"member {member.id!r}, metadata: not hex") from None
