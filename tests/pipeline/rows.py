"""Rows of `group_generations` and steps of `rebalances`, made by hand for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.decode import decoded
from counterpoise.pipeline.records.group_records import error_rows, generation_row, modern_row
from counterpoise.pipeline.scan.key_dictionary import KeyDictionary
from counterpoise.pipeline.schemas import COLUMNS
from counterpoise.wire.offsets_topic.records import decode_record

START = datetime(2026, 1, 1, tzinfo=UTC)
_offset = count()

Partitions = Mapping[str, Sequence[int]]


def pairs(partitions: Partitions) -> list[dict[str, Any]]:
    """{topic: partitions} as the tables hold it."""
    return [{"topic": topic, "partitions": list(listed)} for topic, listed in partitions.items()]


def member(
    name: str,
    assigned: Partitions,
    *,
    topics: Sequence[str] = ("t",),
    owned: Partitions | None = None,
    generation: int = -1,
    instance: str | None = None,
    client: str | None = None,
    library: str = "java",
    user_data: bytes | None = None,
) -> dict[str, Any]:
    """A member of a generation; its client id is its name without what follows a dash."""
    return {
        "member_id": name,
        "group_instance_id": instance,
        "client_id": client or name.split("-")[0],
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60000,
        "session_timeout_ms": 10000,
        "topics": list(topics),
        "owned": pairs(owned or {}),
        "owned_generation": generation,
        "rack_id": None,
        "subscription_version": 3,
        "user_data": user_data,
        "assigned": pairs(assigned),
        "assignment_version": 3,
        "library": library,
    }


def generation(
    number: int,
    *members: dict[str, Any],
    protocol: str | None = "range",
    seconds: float = 0.0,
    latency_ms: int = 5,
    protocol_type: str = "consumer",
    group: str = "g",
) -> dict[str, Any]:
    """A GroupMetadata row; without members it is an empty group."""
    at = START + timedelta(seconds=seconds)
    return {
        "cluster": "default",
        "group_id": group,
        "log_partition": 0,
        "log_offset": next(_offset),
        "log_ts": at,
        "protocol_type": protocol_type,
        "protocol": protocol if members else None,
        "generation": number,
        "leader": members[0]["member_id"] if members else None,
        "state_ts": at - timedelta(milliseconds=latency_ms),
        "value_version": 3,
        "deleted": False,
        "members": list(members),
        "leader_library": members[0]["library"] if members else None,
        "record_type": None,
    }


def created() -> dict[str, Any]:
    """The birth of a group."""
    return generation(0, protocol_type="")


def tombstone(seconds: float = 0.0) -> dict[str, Any]:
    """The end of a group."""
    return {**generation(0, seconds=seconds), "generation": None, "protocol_type": None, "state_ts": None, "deleted": True}


def modern(record_type: int, payload: str | None, name: str | None = None, *, seconds: float = 0.0) -> dict[str, Any]:
    """A record of a KIP-848 group; a null payload is a tombstone."""
    return {
        "cluster": "default",
        "group_id": "g",
        "log_partition": 0,
        "log_offset": next(_offset),
        "log_ts": START + timedelta(seconds=seconds),
        "record_type": record_type,
        "member_id": name,
        "payload": payload,
        "deleted": payload is None,
    }


def member_848(
    name: str, *topics: str, pattern: str | None = None, instance: str | None = None, assignor: str | None = "uniform"
) -> str:
    """What a member of a KIP-848 group asks for (type 5)."""
    about = {"instance_id": instance, "client_id": name, "subscribed_topic_names": topics, "subscribed_topic_regex": pattern}
    return json.dumps({**about, "server_assignor": assignor})


def target(*partitions: int, topic_id: str = "id-of-t") -> str:
    """What such a member is to have (type 7)."""
    return json.dumps({"topic_partitions": [{"topic_id": topic_id, "partitions": partitions}]})


def current(epoch: int, state: int = 0) -> str:
    """How far such a member is (type 8)."""
    return json.dumps({"member_epoch": epoch, "state": state})


def epoch(
    number: int, held: Mapping[str, Sequence[int]], *, seconds: float = 0.0, topic_id: str = "id-of-t"
) -> list[dict[str, Any]]:
    """The targets of members, and the epoch they belong to (types 7 and 6)."""
    targets = [modern(7, target(*partitions, topic_id=topic_id), name, seconds=seconds) for name, partitions in held.items()]
    return [*targets, modern(6, json.dumps({"assignment_epoch": number}), seconds=seconds)]


NAMED = {**modern(-1, json.dumps({"id-of-t": "t", "id-of-t-anew": "t", "id-of-u": "u"})), "log_ts": None}
"""What the ids of topics stand for."""


def errors_in(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Why raw records cannot be decoded."""
    return [row for raw in batch.to_pylist() for row in error_rows(raw, decode_record(raw["key"], raw["value"]))]


def commit_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The commits among raw records."""
    return KeyDictionary().commits(batch)[0].cast(COLUMNS["offset_commits"])


def undecided(batch: pa.RecordBatch) -> Any:
    """The rows of raw records that are no commits, or damaged ones."""
    return KeyDictionary().commits(batch)[1].rest


generation_batches = partial(decoded, generation_row, "group_generations")
modern_batches = partial(decoded, modern_row, "modern_group_records")


def generation_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The classic generations among raw records."""
    rows = (generation_row(raw, decode_record(raw["key"], raw["value"])) for raw in batch.to_pylist())
    return [row for row in rows if row is not None]


def modern_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records of KIP-848, share and streams groups among raw records."""
    rows = (modern_row(raw, decode_record(raw["key"], raw["value"])) for raw in batch.to_pylist())
    return [row for row in rows if row is not None]
