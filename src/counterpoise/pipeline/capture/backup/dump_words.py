"""Bytes of records from the words that `kafka-dump-log --offsets-decoder` up to Kafka 3.7 prints, as far as these go.

    key: offset_commit::group=G,partition=T-0 payload: offset=5,metadata=M
    key: group_metadata::group=G payload: {"protocolType":"consumer","protocol":"range","generationId":1,"assignment":"{m=[T-0]}"}

A commit lacks its time (that of the record is used). A generation lacks everything except the assignment: leader, subscriptions,
client ids, hosts, time-outs. User data of assignments is printed without leading zeros, so it is not used.
"""

from __future__ import annotations

import json
import re
from typing import Any

from counterpoise.errors import WireError
from counterpoise.wire.consumer_protocol import Assignment, encode_assignment
from counterpoise.wire.offsets_topic.keys import GroupKey, OffsetKey, RecordType, encode_key
from counterpoise.wire.offsets_topic.records import encode_value
from counterpoise.wire.offsets_topic.values import GroupMember, GroupMetadataValue, OffsetCommitValue

__all__ = ["COMMIT", "GENERATION", "commit_bytes", "generation_bytes"]

COMMIT, GENERATION = "offset_commit::group=", "group_metadata::group="
_SHARE = re.compile(r"=(\[[\w.\-, ]*\])(?::[0-9A-F]*)?(?:,|$)")
"""The text after a member's id; topics have these characters only, an id may have any."""
_UUID = re.compile(r"(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION = 3


def commit_bytes(key: str, payload: str | None, time: int) -> tuple[bytes, bytes | None]:
    """Key and value of a commit; `payload` None is a tombstone. Raises as `generation_bytes`."""
    group, comma, partition = key.removeprefix(COMMIT).rpartition(",partition=")
    topic, dash, index = partition.rpartition("-")
    if not comma or not dash or not index.isdecimal():
        raise WireError(0, "key", f"not what the decoder prints ({key!r})")
    raw = encode_key(RecordType.OFFSET_COMMIT, OffsetKey(group, topic, int(index)))
    if payload is None:
        return raw, None
    match = re.fullmatch(r"offset=(-?\d+)(?:,metadata=(.*))?", payload, re.DOTALL)
    if match is None:
        raise WireError(0, "value", f"not what the decoder prints ({payload!r})")
    value = OffsetCommitValue(offset=int(match[1]), metadata=match[2] or "", commit_timestamp=time)
    return raw, encode_value(RecordType.OFFSET_COMMIT, value, _VERSION)


def generation_bytes(key: str, payload: str | None) -> tuple[bytes, bytes | None]:
    """Key and value of a group; subscriptions are empty bytes, which readers report as damaged.

    Raises one of `dump_json.NOT_PRINTED`, or a `WireError`, for text that the decoder does not print.
    """
    raw = encode_key(RecordType.GROUP_METADATA, GroupKey(key.removeprefix(GENERATION)))
    if payload is None:
        return raw, None
    shown: Any = json.loads(payload)
    kind, generation, assignment = shown["protocolType"], shown["generationId"], shown["assignment"]
    members = _members(assignment.removeprefix("{").removesuffix("}"), kind == "consumer")
    value = GroupMetadataValue(
        protocol_type=kind, generation=generation, protocol=shown["protocol"], leader=None, members=tuple(members)
    )
    return raw, encode_value(RecordType.GROUP_METADATA, value, _VERSION)


def _members(text: str, consumer: bool) -> list[GroupMember]:
    if not consumer:  # the assignment is hex without leading zeros: only the members are known
        return [_member(each.rpartition("=")[0], b"") for each in text.split(",") if each]
    shares, at = [], 0
    for share in _SHARE.finditer(text):
        shares.append((text[at : share.start()], share[1]))
        at = share.end()
    if at != len(text):
        raise ValueError(f"assignment {text!r}")
    return [_member(member_id, _assignment(listed)) for member_id, listed in sorted(shares)]


def _member(member_id: str, assignment: bytes) -> GroupMember:
    """A member; its id is the client id (or the static id) and a random uuid."""
    client = _UUID.fullmatch(member_id)
    return GroupMember(
        member_id=member_id,
        client_id=client[1] if client is not None else "",
        client_host="",
        session_timeout=-1,
        subscription=b"",
        assignment=assignment,
    )


def _assignment(text: str) -> bytes:
    pairs = []
    for each in filter(None, text[1:-1].split(", ")):
        topic, _, index = each.rpartition("-")
        pairs.append((topic, (int(index),)))
    return encode_assignment(Assignment(tuple(pairs), version=0))
