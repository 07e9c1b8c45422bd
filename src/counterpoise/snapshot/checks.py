"""What a snapshot may hold: every field of a topic, a member and the lags checked, errors by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.errors import SnapshotError
from counterpoise.model.problem import MOST_CAPACITY, Int64

if TYPE_CHECKING:
    from counterpoise.snapshot.group import Member, Topic

__all__ = ["MOST_PARTITIONS", "check_lag", "check_members", "check_topics", "indices_of"]

MOST_PARTITIONS = 100_000_000
"""Partitions of one group: ten times the largest group measured. A typing mistake must not fill the memory."""
_INT32 = 2**31


def check_topics(topics: Mapping[str, Topic]) -> None:
    """Names, counts and rack lists.

    Raises
    ------
    SnapshotError
    """
    total = 0
    for name, known in topics.items():
        if not isinstance(name, str):
            raise SnapshotError(f"topics: {name!r} is no topic name")
        if not _is_integer(known.partitions):
            raise SnapshotError(f"topics.{name}: a partition count is wanted, not {known.partitions!r}")
        if known.partitions < 0:
            raise SnapshotError(f"topics.{name}: {known.partitions} partitions; a count is at least 0")
        total += int(known.partitions)
        if total > MOST_PARTITIONS:
            raise SnapshotError(f"topics.{name}: {total} partitions so far; a group of at most {MOST_PARTITIONS} can be planned")
        if known.racks is not None and len(known.racks) != known.partitions:
            raise SnapshotError(f"topics.{name}.racks: {len(known.racks)} lists for {known.partitions} partitions")


def check_members(members: Sequence[Member]) -> None:
    """Ids, subscriptions, generations and weights. Claims are checked where they are read (`indices_of`).

    Raises
    ------
    SnapshotError
    """
    seen: dict[str, int] = {}
    for at, member in enumerate(members):
        if not isinstance(member.id, str):
            raise SnapshotError(f"members[{at}].id: {member.id!r} is no text")
        if member.id in seen:
            raise SnapshotError(f"members[{at}].id: {member.id!r} is also members[{seen[member.id]}]; ids are unique")
        seen[member.id] = at
        if isinstance(member.topics, str) or not all(isinstance(topic, str) for topic in member.topics):
            raise SnapshotError(f"members[{at}].topics: a list of topic names is wanted, not {member.topics!r}")
        if not _is_integer(member.generation) or not -_INT32 <= member.generation < _INT32:
            raise SnapshotError(f"members[{at}].generation: {member.generation!r} is no generation (-1, 0, 1, ...)")
        if not _is_integer(member.capacity) or not 1 <= member.capacity <= MOST_CAPACITY:
            raise SnapshotError(f"members[{at}].capacity: {member.capacity!r}; 1 to {MOST_CAPACITY} is wanted")
        if not isinstance(member.owned, Mapping):
            raise SnapshotError(f"members[{at}].owned: {{topic: [partitions]}} is wanted, not {member.owned!r}")


def check_lag(lag: Mapping[str, Sequence[int]], topics: Mapping[str, Topic]) -> None:
    """One whole number, at least 0, for each partition of each topic named.

    Raises
    ------
    SnapshotError
    """
    for topic, lags in lag.items():
        if topic not in topics:
            raise SnapshotError(f"lag.{topic}: topic does not exist; topics are {_some(topics)}")
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


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
