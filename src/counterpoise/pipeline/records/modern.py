"""Decoder of records of KIP-848, share and streams groups: one row per record, with the value as JSON, its epoch and member."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from counterpoise.pipeline.records.place import nowhere, place_of
from counterpoise.pipeline.schemas import MODERN_GROUP_RECORDS
from counterpoise.wire.offsets_topic.keys import MemberKey, RegexKey
from counterpoise.wire.offsets_topic.records import Record, Tombstone, Undecodable
from counterpoise.wire.offsets_topic.values import uuid_text

__all__ = ["MODERN_COLUMNS", "modern_row", "payload"]

MODERN_COLUMNS = MODERN_GROUP_RECORDS.remove(0)
"""`MODERN_GROUP_RECORDS` without the cluster."""
_CLASSIC = (0, 1, 2)
_OF_MEMBER = ("client_id", "rebalance_timeout_ms")
_EPOCHS = ("epoch", "assignment_epoch", "member_epoch")


def modern_row(raw: Mapping[str, Any], record: Record | Tombstone | Undecodable) -> dict[str, Any] | None:
    """The row of one record, and its `value` as a dict; None: it is a classic one, or has no place in the log."""
    if isinstance(record, Undecodable) or record.record_type in _CLASSIC or nowhere(raw):
        return None
    return {**place_of(raw), "group_id": record.key.group, "record_type": int(record.record_type), **_columns(record)}


def _columns(record: Record | Tombstone) -> dict[str, Any]:
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
