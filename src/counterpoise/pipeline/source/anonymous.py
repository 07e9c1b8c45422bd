"""Tables that may be shown outside: names become short hashes, the same everywhere; what holds names in its bytes is left out."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

__all__ = ["anonymous", "fingerprint"]

_DIGITS = 12
_NAMES = {
    "group_id": "group",
    "topic": "topic",
    "topic_id": "topic-id",
    "member_id": "member",
    "leader": "member",
    "owner": "member",
    "owner_before": "member",
    "client_id": "client",
    "client_host": "host",
    "group_instance_id": "instance",
    "rack_id": "rack",
}
"""Column -> what it names; the word is part of the hash, so a topic named like a group gets another one."""
_LISTS = {"joined": "member", "left": "member", "restarted": "client", "topics": "topic", "recreated": "topic"}
_OPAQUE = ("detail", "key", "metadata", "payload", "reason", "user_data", "value")
"""Texts and bytes that may hold any name: null."""


def anonymous(table: DataFrame, salt: str) -> DataFrame:
    """`table` with every group, topic, client, member, host and rack name hashed.

    Parameters
    ----------
    table : DataFrame
        Any table of the audit up to `metrics`; `group_report` and `findings` are made from hashed tables.
    salt : str
        Equal salts give equal hashes. Whoever knows it can test a guessed name; whoever does not, cannot.

    Notes
    -----
    Salted SHA-256, the first 48 bits of it, in the JVM. Done after the replays: strategies settle ties by name.
    """
    return table.select(*(_column(name, fn.col(name), table, salt).alias(name) for name in table.columns))


def fingerprint(salt: str) -> str:
    """What tells two salts apart without giving them away more than the hashed names do."""
    return sha256(f"{salt}\nsalt\n".encode()).hexdigest()[:_DIGITS]


def _column(name: str, column: Column, table: DataFrame, salt: str) -> Column:
    if name in _OPAQUE:
        return fn.lit(None).cast(table.schema[name].dataType)
    if name in _NAMES:
        return _hashed(column, _NAMES[name], salt)
    if name in _LISTS:
        return fn.transform(column, _hash(_LISTS[name], salt))
    if name == "assignment":
        return fn.transform(column, lambda member: _member(member, ("member_id", "client_id"), ("assigned",), salt))
    if name == "subscriptions":
        return fn.transform(column, lambda member: _asking(member, ("member_id", "group_instance_id"), salt))
    if name == "skewed_topics":
        return fn.transform(column, lambda one: _skewed(one, salt))
    if name == "members":
        return fn.transform(column, lambda member: _whole_member(member, salt))
    return column


def _whole_member(member: Column, salt: str) -> Column:
    hidden = _asking(
        member,
        ("member_id", "group_instance_id", "client_id", "client_host", "rack_id"),
        salt,
        ("owned", "assigned"),
    )
    return hidden.withField("user_data", fn.lit(None).cast("binary"))


def _asking(member: Column, names: tuple[str, ...], salt: str, held: tuple[str, ...] = ()) -> Column:
    """A member with the topics it asked for."""
    topics = fn.transform(member["topics"], _hash("topic", salt))
    return _member(member, names, held, salt).withField("topics", topics)


def _skewed(one: Column, salt: str) -> Column:
    for name, what in (("topic", "topic"), ("most_client", "client"), ("fewest_client", "client")):
        one = one.withField(name, _hashed(one[name], what, salt))
    return one


def _member(member: Column, names: tuple[str, ...], held: tuple[str, ...], salt: str) -> Column:
    for name in names:
        member = member.withField(name, _hashed(member[name], _NAMES[name], salt))
    for name in held:
        hidden = fn.transform(member[name], lambda pair: pair.withField("topic", _hashed(pair["topic"], "topic", salt)))
        member = member.withField(name, hidden)
    return member


def _hash(what: str, salt: str) -> Callable[[Column], Column]:
    return lambda column: _hashed(column, what, salt)


def _hashed(column: Column, what: str, salt: str) -> Column:
    digest = fn.sha2(fn.concat(fn.lit(f"{salt}\n{what}\n"), column).cast("binary"), 256)
    return fn.concat(fn.lit(f"{what}-"), fn.substring(digest, 1, _DIGITS))
