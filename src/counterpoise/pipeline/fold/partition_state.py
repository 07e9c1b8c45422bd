"""The state of a bucket's partitions as bytes, without unused names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.pipeline.fold.health_groups import Units
from counterpoise.pipeline.fold.health_owners import Busy
from counterpoise.pipeline.fold.health_state import OWNER, WIDTH, Health
from counterpoise.pipeline.fold.ownership import Names, OwnerSpans, Steps
from counterpoise.pipeline.fold.partitions import Keys, PartitionStates
from counterpoise.pipeline.scan.aggregation import Aggregates

__all__ = ["decode_partitions", "encode_partitions"]

_TABLES = {"keys": Keys, "steps": Steps, "spans": OwnerSpans, "commits": Aggregates, "units": Units, "busy": Busy}
_OWNERS = ("owner_before", "lag_owner", "window_owner")
_COLUMNS = ("step_group", "step_time", "n_steps", "third_step", "owned_since")


def encode_partitions(parts: PartitionStates) -> bytes:
    """All of the state as MessagePack."""
    names, tables = _without_unused_names(parts)
    health, clients = tables.pop("health"), parts.names.clients
    encoded: dict[str, Any] = {
        name: [_encode(getattr(table, one.name)) for one in fields(table)] for name, table in tables.items()
    }
    columns = [_encode(getattr(parts, name)) for name in _COLUMNS]
    of = {member: clients[member] for member in names[2] if member in clients}
    encoded |= {"names": names, "clients": of, "columns": columns, "since": parts.since, "health": _encode(health)}
    return msgspec.msgpack.encode(encoded)


def decode_partitions(state: bytes) -> PartitionStates:
    """The inverse of `encode_partitions`."""
    saved, parts = msgspec.msgpack.decode(state), PartitionStates()
    groups, topics, members, ids = ({name: code for code, name in enumerate(names)} for names in saved["names"])
    parts.names = Names(groups, topics, members, ids, saved["clients"])
    for name, kind in _TABLES.items():
        setattr(parts, name, kind(*map(_decode, saved[name])))
    for name, column in zip(_COLUMNS, saved["columns"], strict=True):
        setattr(parts, name, _decode(column))
    parts.since, parts.health = saved["since"], Health.of(_decode(saved["health"]).reshape(WIDTH, -1))
    return parts


def _without_unused_names(parts: PartitionStates) -> tuple[list[list[str]], dict[str, Any]]:
    """Names by code, and the tables with these codes. New member ids and topic ids keep coming, so unused ones are dropped."""
    keys, steps, spans, commits = parts.keys, parts.steps, parts.spans, parts.commits
    left = np.fromiter(chain.from_iterable(steps.left), np.int64)
    units, matrix = parts.units, parts.health.matrix
    owner = matrix[OWNER].astype(np.int64)
    owners = (getattr(keys, name) for name in _OWNERS)
    members, of_member = _used(parts.members, (spans.owner, left, owner, units.member, parts.busy.member, *owners))
    matrix[OWNER] = of_member[owner]
    ids, of_id = _used(list(parts.names.ids), (commits.topic_id,))
    return [parts.groups, parts.topics, members, ids], {
        "keys": replace(keys, **{name: of_member[getattr(keys, name)] for name in _OWNERS}),
        "steps": replace(steps, left=[tuple(of_member[list(one)].tolist()) for one in steps.left]),
        "spans": replace(spans, owner=of_member[spans.owner]),
        "units": replace(units, member=of_member[units.member]),
        "busy": replace(parts.busy, member=of_member[parts.busy.member]),
        "health": matrix,
        "commits": replace(commits, topic_id=of_id[commits.topic_id].astype(np.int32)),
    }


def _used(names: list[str], codes: Sequence[npt.NDArray[Any]]) -> tuple[list[str], Int64]:
    """The names that occur, and the new code of each old one; -1 stays -1."""
    used = np.unique(np.concatenate(codes)).astype(np.int64)
    used = used[used >= 0]
    new = np.full(len(names) + 1, -1)
    new[used] = np.arange(len(used))
    return [names[code] for code in used.tolist()], new


def _encode(column: Any) -> Any:
    return column if isinstance(column, list) else [column.dtype.str, column.tobytes()]


def _decode(column: Any) -> Any:
    if len(column) == 2 and isinstance(column[0], str):
        return np.frombuffer(column[1], np.dtype(column[0])).copy()
    return [tuple(one) for one in column]
