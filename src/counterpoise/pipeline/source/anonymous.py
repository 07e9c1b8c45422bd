"""Tables that may be shown outside: names become short hashes, the same everywhere; what holds names in its bytes is left out."""

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
}
"""Column or field -> what it names; the word is part of the hash, so a topic named like a group gets another one."""
_LISTS = {
    "joined": "member",
    "left": "member",
    "restarted": "client",
    "topics": "topic",
    "recreated": "topic",
    **dict.fromkeys(("storm_clients", "idle_clients", "restart_clients", "leave_clients", "busiest_clients"), "client"),
    "poll_kick_clients": "client",
}
_OPAQUE = ("detail", "key", "metadata", "payload", "reason", "user_data", "value")
"""Texts and bytes that may hold any name: null."""


def anonymous(rows: pa.RecordBatch, salt: str | None) -> pa.RecordBatch:
    """`rows` with every group, topic, client, member, host and rack name hashed, in nested columns too.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        Rows of any table but `findings`, whose texts are made from rows of `group_report` that are hashed already.
    salt : str, optional
        Equal salts give equal hashes. Whoever knows it can test a guessed name; whoever does not, cannot. None: as it is.

    Notes
    -----
    Salted SHA-256, the first 48 bits of it, once per different name and batch. Done when rows are written: strategies settle ties
    by name.
    """
    if salt is None:
        return rows
    whole = rows.take(pa.array(np.arange(rows.num_rows)))  # nested columns without an offset
    columns = [_column(field.name, column, salt) for field, column in zip(whole.schema, whole.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def fingerprint(salt: str) -> str:
    """What tells two salts apart without giving them away more than the hashed names do."""
    return sha256(f"{salt}\nsalt\n".encode()).hexdigest()[:_DIGITS]


def _column(name: str, column: Any, salt: str) -> pa.Array:
    kind = column.type
    if name in _OPAQUE:
        return pa.nulls(len(column), kind)
    if pa.types.is_list(kind):
        item = _LISTS.get(name)
        values = _fields(column.values, salt) if item is None else _hashed(column.values, item, salt)
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=column.is_null() if column.null_count else None)
    return _hashed(column, _NAMES[name], salt) if name in _NAMES else column


def _fields(values: Any, salt: str) -> pa.Array:
    """The same for the fields of structs."""
    if not pa.types.is_struct(values.type):
        return values
    fields = list(values.type)
    children = [_column(field.name, values.field(at), salt) for at, field in enumerate(fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())


def _hashed(names: Any, what: str, salt: str) -> pa.Array:
    coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    digests = [sha256(f"{salt}\n{what}\n{name}".encode()).hexdigest()[:_DIGITS] for name in coded.dictionary.to_pylist()]
    hashed = pa.array([f"{what}-{digest}" for digest in digests], pa.string())
    if pa.types.is_dictionary(names.type):
        return pa.DictionaryArray.from_arrays(coded.indices, hashed)
    return hashed.take(coded.indices)
