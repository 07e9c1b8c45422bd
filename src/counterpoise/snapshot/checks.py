"""Checks of a snapshot: every field of a topic, a member and the lags; errors name the path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import chain
from types import NoneType
from typing import Any, TypeGuard

import numpy as np

from counterpoise.errors import SnapshotError, some
from counterpoise.model.problem import MOST_CAPACITY, Int64
from counterpoise.snapshot.json_text import fields_of, shown
from counterpoise.snapshot.parts import Member, Topic

__all__ = [
    "MOST_PARTITIONS",
    "as_topic",
    "check_capacities",
    "check_claims",
    "check_lag",
    "check_members",
    "check_parts",
    "check_topics",
    "counts_of",
    "indices_of",
    "is_list",
]

MOST_PARTITIONS = 100_000_000
"""Partitions of one group: ten times the largest group measured. A typing mistake must not fill the memory."""
_INT32 = 2**31
_LISTED, _UNLISTED = 100, 10_000
"""A listing is wrong if its numbers imply more than 10,000 partitions plus 100 for each that it names."""


def check_parts(topics: object, members: object, lag: object = None, name: object = None) -> None:
    """Check the types of the parts: mappings, a list of members, a name. The other functions check their content.

    Raises
    ------
    SnapshotError
        One has another type; the message names it.
    """
    if not isinstance(topics, Mapping):
        raise SnapshotError(f"topics: expected {{name: partition count}}, not {shown(topics)}")
    if not isinstance(members, Iterable) or isinstance(members, str | bytes | Mapping) or _is_number(members):
        raise SnapshotError(f"members: expected a list of members, not {shown(members)}")
    if lag is not None and not isinstance(lag, Mapping):
        raise SnapshotError(f"lag: expected {{topic: [records behind]}}, not {shown(lag)}")
    if not isinstance(name, str | NoneType):
        raise SnapshotError(f"group: expected a name, not {shown(name)}")
    _check_text("group", name or "")


def as_topic(name: str, value: object) -> Topic:
    """A Topic from a partition count or from what JSON says of a topic; `check_topics` checks its content.

    Raises
    ------
    SnapshotError
        A field of the object is missing or unknown.
    """
    if isinstance(value, Topic):
        return value
    if not isinstance(value, Mapping):
        return Topic(value)  # type: ignore[arg-type]  # check_topics refuses what is no count
    return Topic(**fields_of(value, f"topics.{name}", ("partitions",), ("racks",)))


def check_topics(topics: Mapping[str, Topic]) -> None:
    """Check names, counts and rack lists.

    Raises
    ------
    SnapshotError
        One of them does not fit; the message starts with its path.
    """
    total = 0
    for name, known in topics.items():
        if not isinstance(name, str):
            raise SnapshotError(f"topics: {name!r} is no topic name")
        _check_text("topics", name)
        if not _is_integer(known.partitions):
            raise SnapshotError(f"topics.{name}: expected a partition count, not {known.partitions!r}")
        if known.partitions < 0:
            raise SnapshotError(f"topics.{name}: {known.partitions} partitions; a count is at least 0")
        total += int(known.partitions)
        if total > MOST_PARTITIONS:
            raise SnapshotError(f"topics.{name}: {total} partitions so far; a group of at most {MOST_PARTITIONS} can be planned")
        if known.racks is not None:
            _check_racks(f"topics.{name}.racks", known.racks, known.partitions)


def counts_of(places: Collection[tuple[str, int]]) -> dict[str, int]:
    """Partition counts by topic, from the (topic, partition) pairs of a listing: the largest index and one more.

    Indices are at least 0.

    Raises
    ------
    SnapshotError
        The listing names hardly any of the partitions that its numbers imply.
    """
    counts: dict[str, int] = {}
    for topic, partition in places:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    total = sum(counts.values())
    if total > _LISTED * len(places) + _UNLISTED:
        topic = max(counts, key=lambda name: counts[name])
        raise SnapshotError(f"{topic}: partition {counts[topic] - 1} is listed, but only {len(places)} of {total} partitions are")
    return counts


def check_members(members: Sequence[object]) -> None:
    """Check ids, subscriptions, generations and weights. Claims are checked where they are read (`indices_of`).

    Raises
    ------
    SnapshotError
        One of them does not fit, or an id is there twice; the message starts with its path.
    """
    seen: dict[str, int] = {}
    for at, member in enumerate(members):
        if not isinstance(member, Member):
            raise SnapshotError(f"members[{at}]: expected a Member, not {shown(member)}")
        if not isinstance(member.id, str):
            raise SnapshotError(f"members[{at}].id: {member.id!r} is no text")
        _check_text(f"members[{at}].id", member.id)
        if member.id in seen:
            raise SnapshotError(f"members[{at}].id: {member.id!r} is also members[{seen[member.id]}]; ids are unique")
        seen[member.id] = at
        if not is_list(member.topics) or not all(isinstance(topic, str) for topic in member.topics):
            raise SnapshotError(f"members[{at}].topics: expected a list of topic names, not {shown(member.topics)}")
        _check_text(f"members[{at}].topics", *member.topics)
        if not _is_integer(member.generation) or not -1 <= member.generation < _INT32:
            raise SnapshotError(f"members[{at}].generation: {member.generation!r} is no generation (-1, 0, 1, ...)")
        _check_capacity(f"members[{at}].capacity", member.capacity)
        _check_names(f"members[{at}]", member)
        _check_owned(f"members[{at}].owned", member.owned)


def check_capacities(capacity: object, ids: Set[str]) -> None:
    """Check weights by member id; None: no member has one.

    Raises
    ------
    SnapshotError
        It is no mapping, names no member of the group, or a weight does not fit; the message starts with its path.
    """
    if not isinstance(capacity, Mapping | NoneType):
        raise SnapshotError(f"capacity: expected {{member: weight}}, not {shown(capacity)}")
    for member, weight in (capacity or {}).items():
        if member not in ids:
            raise SnapshotError(f"capacity.{member}: no such member; members are {some(sorted(ids))}")
        _check_capacity(f"capacity.{member}", weight)


def check_claims(members: Sequence[Member], topics: Mapping[str, Topic], *, strict: bool) -> None:
    """Check the claimed indices: from 0, also for topics that do not exist; if `strict`, only those that the topic has.

    Raises
    ------
    SnapshotError
        An index is negative, beyond int32 or, if `strict`, beyond its topic; the message starts with its path.
    """
    for at, member in enumerate(members):
        for topic, indices in member.owned.items():
            path = f"members[{at}].owned.{topic}"
            values = indices_of(indices, path)
            count = topics[topic].partitions if strict and topic in topics else _INT32
            wrong = np.flatnonzero((values < 0) | (values >= count))
            if len(wrong):
                index = int(values[wrong[0]])
                exists = f"{index} is no partition index" if not 0 <= index < _INT32 else (
                    f"partition {index} does not exist, {topic} has {count}"
                )  # fmt: skip
                raise SnapshotError(f"{path}[{wrong[0]}]: {exists}")


def check_lag(lag: Mapping[str, Sequence[int]], topics: Mapping[str, Topic]) -> None:
    """Check the lags: one whole number, at least 0, for each partition of each topic named.

    Raises
    ------
    SnapshotError
        A topic does not exist, or its numbers do not fit; the message starts with its path.
    """
    for topic, lags in lag.items():
        if topic not in topics:
            raise SnapshotError(f"lag.{topic}: topic does not exist; topics are {some(sorted(topics))}")
        if not is_list(lags) or isinstance(lags, Set):
            raise SnapshotError(f"lag.{topic}: expected a list of records behind, one per partition, not {shown(lags)}")
        if len(lags) != topics[topic].partitions:
            raise SnapshotError(f"lag.{topic}: {len(lags)} numbers, {topic} has {topics[topic].partitions} partitions")
        values = indices_of(lags, f"lag.{topic}", "lag")
        negative = np.flatnonzero(values < 0)
        if len(negative):
            raise SnapshotError(f"lag.{topic}[{negative[0]}]: {values[negative[0]]}; a lag is at least 0")


def indices_of(values: Iterable[int], path: str, what: str = "partition index") -> Int64:
    """Whole numbers as int64; nothing is rounded or converted.

    Raises
    ------
    SnapshotError
        Something else is among them; the message names its place.
    """
    listed = values if isinstance(values, np.ndarray) else list(values)
    try:
        array: np.ndarray[Any, Any] = np.asarray(listed)
    except ValueError:  # lists of different lengths
        array = np.zeros((), np.float64)
    if array.ndim == 1 and (not array.size or array.dtype.kind == "i" or (array.dtype.kind == "u" and array.max() < 2**63)):
        return array.astype(np.int64)
    wrong = (at for at, value in enumerate(listed) if not _is_integer(value) or not -(2**63) <= value < 2**63)
    at = next(wrong, 0)
    raise SnapshotError(f"{path}[{at}]: {listed[at]!r} is no {what}")


def _check_capacity(path: str, weight: object) -> None:
    if not _is_integer(weight) or not 1 <= weight <= MOST_CAPACITY:
        raise SnapshotError(f"{path}: {shown(weight)}; expected 1 to {MOST_CAPACITY}")


def _check_names(path: str, member: Member) -> None:
    for what, name in (("instance_id", member.instance_id), ("rack", member.rack)):
        if not isinstance(name, str | NoneType):
            raise SnapshotError(f"{path}.{what}: {shown(name)} is no text; None means none")
        _check_text(f"{path}.{what}", name or "")


def _check_owned(path: str, owned: object) -> None:
    if not isinstance(owned, Mapping):
        raise SnapshotError(f"{path}: expected {{topic: [partitions]}}, not {shown(owned)}")
    for topic, indices in owned.items():
        if not isinstance(topic, str):
            raise SnapshotError(f"{path}: {shown(topic)} is no topic name")
        _check_text(path, topic)
        if not is_list(indices):
            raise SnapshotError(f"{path}.{topic}: expected a list of partition indices, not {shown(indices)}")


def _check_racks(path: str, racks: Sequence[Sequence[str | None]], partitions: int) -> None:
    if not is_list(racks):
        raise SnapshotError(f"{path}: expected a list of racks per partition, not {shown(racks)}")
    if len(racks) != partitions:
        raise SnapshotError(f"{path}: {len(racks)} lists for {partitions} partitions")
    for at, listed in enumerate(racks):
        if not is_list(listed):
            raise SnapshotError(f"{path}[{at}]: expected a list of rack names, not {shown(listed)}")
    if not set(map(type, chain.from_iterable(racks))) <= {str, NoneType}:
        for at, listed in enumerate(racks):
            if not all(isinstance(rack, str | NoneType) for rack in listed):
                raise SnapshotError(f"{path}[{at}]: expected a list of rack names, not {shown(listed)}")
    _check_text(path, *{rack for rack in chain.from_iterable(racks) if rack})


def _check_text(path: str, *names: str) -> None:
    """Check that names can be written as UTF-8, as names in Kafka and in plans are."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise SnapshotError(f"{path}: {shown(''.join(names))} holds half a surrogate pair, which is no text") from None


def is_list(value: object) -> TypeGuard[Collection[Any]]:
    """Whether it is a collection that can be read twice: not text, and not an iterator, which a check would use up."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes) and not _is_number(value)


def _is_number(value: object) -> bool:
    """Whether it is an array without dimensions, which passes for an Iterable."""
    return isinstance(value, np.ndarray) and not value.ndim


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
