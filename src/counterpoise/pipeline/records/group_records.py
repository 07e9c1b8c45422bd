"""Decoders of group records: rows of `group_generations`, `modern_group_records` and, of damaged records, `decode_errors`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from counterpoise.errors import InvariantError, WireError
from counterpoise.pipeline.records.libraries import leader_library, library_of
from counterpoise.pipeline.records.place import LATEST_MS, moment_of, no_place_reason, place_of
from counterpoise.wire.consumer_protocol import Assignment, Subscription, decode_assignment, decode_subscription
from counterpoise.wire.offsets_topic.keys import MemberKey, RegexKey
from counterpoise.wire.offsets_topic.records import Record, Tombstone, Undecodable, decode_record
from counterpoise.wire.offsets_topic.values import GroupMember, GroupMetadataValue, uuid_text

__all__ = ["AT_ONCE", "error_rows", "generation_row", "member_faults", "modern_row", "payload", "portions", "topic_partitions"]

AT_ONCE = 1 << 20
"""Bytes of Arrow that are converted to Python objects at once (these take ten to twenty times as much)."""
_ROWS_AT_ONCE = 64


def portions(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of the batch: at most 64 rows each and, unless it is a single row, about `AT_ONCE` bytes."""
    of_row = batch.nbytes / max(batch.num_rows, 1)
    at_once = max(1, min(_ROWS_AT_ONCE, int(AT_ONCE / max(of_row, 1.0))))
    for start in range(0, batch.num_rows, at_once):
        yield batch.slice(start, at_once)


def generation_row(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable) -> dict[str, Any] | None:
    """The row of one record; None: it is no group metadata, or has no place in the log."""
    if isinstance(record, Undecodable) or record.record_type != 2 or no_place_reason(raw):
        return None
    return {**place_of(raw), "group_id": record.key.group, **_generation_columns(record)}


def member_faults(value: object) -> list[str]:
    """One sentence per damaged subscription or assignment and per repeated member id in a generation."""
    if not isinstance(value, GroupMetadataValue) or value.protocol_type != "consumer":
        return []
    repeated = _repeated(value.members)
    faults = [f"member {value.members[at].member_id}: an earlier member has the same id" for at in sorted(repeated)]
    for at, member in enumerate(value.members):
        if at in repeated:
            continue
        both = _decoded(decode_subscription, member.subscription), _decoded(decode_assignment, member.assignment)
        for name, decoded in zip(("subscription", "assignment"), both, strict=True):
            if isinstance(decoded, str):
                faults.append(f"{name} of member {member.member_id}: {decoded}")
    return faults


def topic_partitions(pairs: Iterable[tuple[str, Sequence[int]]]) -> list[dict[str, Any]]:
    """Pairs of a topic and its partitions as a nested column of a table."""
    return [{"topic": topic, "partitions": list(partitions)} for topic, partitions in pairs]


_OF_VALUE = ("protocol_type", "protocol", "generation", "leader", "state_ts", "value_version", "leader_library")
_TOMBSTONE: Mapping[str, Any] = {**dict.fromkeys(_OF_VALUE), "deleted": True, "members": []}
_READ = ("topics", "owned", "owned_generation", "rack_id", "subscription_version", "user_data", "assigned", "assignment_version")
_UNREAD: Mapping[str, Any] = dict.fromkeys(_READ)
"""Null for the fields of a subscription and an assignment: they are damaged, or the member is no consumer."""


def _generation_columns(record: Record | Tombstone) -> dict[str, Any]:
    if isinstance(record, Tombstone):
        return {**_TOMBSTONE}
    value = record.value
    if not isinstance(value, GroupMetadataValue):
        raise InvariantError(f"record type {record.record_type} is no group metadata")
    repeated = _repeated(value.members)
    members = [_member(value, member, sound=at not in repeated) for at, member in enumerate(value.members)]
    leading = next((member for member in members if member["member_id"] == value.leader), None)
    given = (_decoded(decode_assignment, member.assignment) for member in value.members)
    form = next((one for one in given if isinstance(one, Assignment)), None)
    library = leading["library"] if leading else None
    if value.protocol_type == "consumer" and form is not None:
        library = leader_library(library, form.version, form.user_data, value.protocol)
    stamp = value.current_state_timestamp
    return {
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "generation": value.generation,
        "leader": value.leader,
        "state_ts": moment_of(stamp * 1000) if 0 <= stamp <= LATEST_MS else None,
        "value_version": record.version,
        "deleted": False,
        "members": members,
        "leader_library": library,
    }


def _repeated(members: Sequence[GroupMember]) -> frozenset[int]:
    """Places of members with the id of an earlier one. No broker writes them, so their subscription and assignment are null."""
    first: dict[str, int] = {}
    return frozenset(at for at, member in enumerate(members) if first.setdefault(member.member_id, at) != at)


def _member(value: GroupMetadataValue, member: GroupMember, *, sound: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        **_UNREAD,
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "library": "unknown",
    }
    if value.protocol_type != "consumer":
        return {**row, "library": library_of(value.protocol_type, value.protocol, b"", -1, None)}
    if not sound:
        return row
    subscription, given = _decoded(decode_subscription, member.subscription), _decoded(decode_assignment, member.assignment)
    if isinstance(subscription, Subscription):
        row |= {
            "topics": list(subscription.topics),
            "owned": topic_partitions(subscription.owned),
            "owned_generation": subscription.generation,
            "rack_id": subscription.rack,
            "subscription_version": subscription.version,
            "user_data": subscription.user_data,
            "library": library_of(
                "consumer", value.protocol, member.subscription, subscription.version, subscription.user_data, member.client_id
            ),
        }
    if isinstance(given, Assignment):
        row |= {"assigned": topic_partitions(given.partitions), "assignment_version": given.version}
    return row


@lru_cache(maxsize=8192)
def _decoded(decode: Callable[[bytes], Subscription | Assignment], data: bytes) -> Subscription | Assignment | str:
    """The subscription or assignment in these bytes; or why they are none."""
    try:
        return decode(data)
    except WireError as error:
        return str(error)


_CLASSIC = (0, 1, 2)
_OF_MEMBER = ("client_id", "rebalance_timeout_ms")
_EPOCHS = ("epoch", "assignment_epoch", "member_epoch")


def modern_row(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable) -> dict[str, Any] | None:
    """The row of one record, and its `value` as a dict; None: it is a classic one, or has no place in the log."""
    if isinstance(record, Undecodable) or record.record_type in _CLASSIC or no_place_reason(raw):
        return None
    return {**place_of(raw), "group_id": record.key.group, "record_type": int(record.record_type), **_modern_columns(record)}


def _modern_columns(record: Record | Tombstone) -> dict[str, Any]:
    key = record.key
    member = key.member if isinstance(key, MemberKey) else None
    about = {"regex": key.regex} if isinstance(key, RegexKey) else {}
    if isinstance(record, Tombstone):
        return {"member_id": member, "payload": json.dumps(about) if about else None, "deleted": True, "value": about}
    value = record.value
    epoch = next((getattr(value, name) for name in _EPOCHS if hasattr(value, name)), None)
    whole = {**about, **payload(value)}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    of_member = {name: getattr(value, name, None) for name in _OF_MEMBER}
    return {"member_id": member, "epoch": epoch, "payload": text, "deleted": False, "value": whole, **of_member}


def payload(value: Any) -> Any:
    """A decoded value as JSON types: topic ids as Kafka writes them (22 characters), other bytes in hex."""
    names = _fields(value.__class__)
    return _field("", value) if names is None else {name: _field(name, getattr(value, name)) for name in names}


def _field(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return uuid_text(value) if name == "topic_id" else value.hex()
    if isinstance(value, tuple | list):
        return [_field(name, one) for one in value]
    return value if _fields(value.__class__) is None else payload(value)


@cache
def _fields(kind: type) -> tuple[str, ...] | None:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def error_rows(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable | None = None) -> Iterator[dict[str, Any]]:
    """Yield the errors of one record: nearly always none. Without `record` the raw record is decoded here."""
    record = decode_record(raw["key"], raw["value"]) if record is None else record
    if isinstance(record, Undecodable):
        kind, version, reasons = record.record_type, record.value_version, [record.reason]
    else:
        kind, version = int(record.record_type), record.version if isinstance(record, Record) else None
        faults = member_faults(record.value) if isinstance(record, Record) else []
        reasons = [reason] if (reason := no_place_reason(raw)) else faults
    for reason in reasons:
        about = {"record_type": kind, "value_version": version, "reason": reason}
        yield {**place_of(raw), "key": raw["key"], "value": raw["value"], **about}
