"""Hashed names in tables: each name becomes a short hash, the same in all tables; columns with names in free text become null."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["anonymous", "fingerprint"]

_DIGITS = 12
_NAMES = {
    "group_id": "group",
    "topic": "topic",
    "topic_id": "topic-id",
    "member_id": "member",
    "leader": "member",
    "owner": "member",
    "lag_owner": "member",
    "client_id": "client",
    "client_host": "host",
    "most_client": "client",
    "fewest_client": "client",
    "slow_leader": "client",
    "group_instance_id": "instance",
    "rack_id": "rack",
    # Lists
    **dict.fromkeys(("joined", "left"), "member"),
    **dict.fromkeys(("topics", "recreated"), "topic"),
    **dict.fromkeys(("storm_clients", "idle_clients", "restart_clients", "leave_clients", "busiest_clients"), "client"),
    **dict.fromkeys(("restarted", "poll_kick_clients"), "client"),
}
"""Column or field -> kind of name. The kind is part of the hash, so a topic and a group of one name have different hashes."""
_OPAQUE = ("detail", "key", "metadata", "payload", "reason", "user_data", "value")
"""Texts and bytes that may hold any name: null."""


def anonymous(rows: pa.RecordBatch, salt: str | None) -> pa.RecordBatch:
    """`rows` with every group, topic, client, member, host and rack name hashed, in nested columns too.

    `rows` are of any table except `findings`: its texts are made from rows of `group_report` with hashed names. Equal salts give
    equal hashes, and only who knows the salt can test a guessed name; without a salt, names stay as they are.

    The first 48 bits of a salted SHA-256, computed once per distinct name and batch. Names are hashed when rows are written,
    because strategies break ties by name.
    """
    if salt is None:
        return rows
    copied = rows.take(pa.array(np.arange(rows.num_rows)))  # nested columns without an offset
    columns = [_column(field.name, column, salt) for field, column in zip(copied.schema, copied.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def fingerprint(salt: str) -> str:
    """A hash of the salt, to compare the salts of two audits without storing them."""
    return sha256(f"{salt}\nsalt\n".encode()).hexdigest()[:_DIGITS]


def _column(name: str, column: Any, salt: str) -> pa.Array:
    kind = _NAMES.get(name)
    if name in _OPAQUE:
        return pa.nulls(len(column), column.type)
    if pa.types.is_list(column.type):
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, _column(name, column.values, salt), type=column.type, mask=mask)
    if pa.types.is_struct(column.type):
        children = [_column(field.name, column.field(at), salt) for at, field in enumerate(column.type)]
        return pa.StructArray.from_arrays(children, fields=list(column.type), mask=column.is_null())
    return column if kind is None else _hashed(column, kind, salt)


def _hashed(names: Any, kind: str, salt: str) -> pa.Array:
    coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    digests = [sha256(f"{salt}\n{kind}\n{name}".encode()).hexdigest()[:_DIGITS] for name in coded.dictionary.to_pylist()]
    hashed = pa.array([f"{kind}-{digest}" for digest in digests], pa.string())
    if pa.types.is_dictionary(names.type):
        return pa.DictionaryArray.from_arrays(coded.indices, hashed)
    return hashed.take(coded.indices)
