"""Checks of what a person or a program says of a group; errors name the path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TypeVar
from uuid import UUID

import msgspec

from counterpoise.errors import SnapshotError, some
from counterpoise.snapshot.json_text import fitted, plain, shown
from counterpoise.snapshot.parts import Member, Topic, Topics

__all__ = [
    "FORM",
    "MOST_PARTITIONS",
    "check_claims",
    "check_ids",
    "check_lag",
    "checked",
    "counts_of",
    "known_topics",
    "refuse_sets",
]

T = TypeVar("T")

MOST_PARTITIONS = 100_000_000
"""Partitions of one group: ten times the largest group measured. A typing mistake must not fill the memory."""
_LISTED, _UNLISTED = 100, 10_000
"""A listing is wrong if its numbers imply more than 10,000 partitions plus 100 for each that it names."""
FORM = "docs/snapshot.md has the form of a snapshot"
"""How an error about a part of a wrong type ends."""
_NOT_JSON = (bytes, bytearray, memoryview, date, time, timedelta, Decimal, UUID)
"""Types that msgspec would turn into text."""


def checked(value: object, kind: type[T], path: str = "", advice: str = FORM) -> T:
    """A value that a program built as a `kind`; nothing is rounded or converted, except types that `plain` reads.

    Raises `SnapshotError` if a part has another type or is out of range, or a text cannot be written as UTF-8; the message has
    its path, or the text.
    """
    try:
        given = msgspec.to_builtins(value, builtin_types=_NOT_JSON, enc_hook=plain)
        with suppress(OverflowError):  # a number of more than 64 bits
            msgspec.msgpack.encode(given)  # raises if a text cannot be written as UTF-8
        return fitted(given, kind, path, advice)
    except UnicodeEncodeError as error:
        raise SnapshotError(f"{shown(error.object)} holds half a surrogate pair, which is no text") from None
    except (TypeError, RecursionError) as error:
        raise SnapshotError(f"{error}; {advice}") from None


def refuse_sets(lag: object) -> None:
    """Check that no topic's lags are a set: lags go by position, and a set has no order. `checked` reads sets as lists.

    Raises `SnapshotError` if some are; the message starts with the path.
    """
    for topic, lags in lag.items() if isinstance(lag, Mapping) else ():
        if isinstance(lags, Set):
            raise SnapshotError(f"lag.{topic}: expected a list of records behind, one per partition, not {shown(lags)}")


def known_topics(topics: Topics) -> dict[str, Topic]:
    """Topics with their racks, if known.

    Raises `SnapshotError` if there are too many partitions, or racks of another number of them; the message starts with the path.
    """
    total, known = 0, dict[str, Topic]()
    for name, about in topics.items():
        known[name] = topic = about if isinstance(about, Topic) else Topic(about)
        total += topic.partitions
        if total > MOST_PARTITIONS:
            raise SnapshotError(f"topics.{name}: {total} partitions so far; a group of at most {MOST_PARTITIONS} can be planned")
        if topic.racks is not None and len(topic.racks) != topic.partitions:
            raise SnapshotError(f"topics.{name}.racks: {len(topic.racks)} lists for {topic.partitions} partitions")
    return known


def counts_of(places: Collection[tuple[str, int]]) -> dict[str, int]:
    """Partition counts by topic, from the (topic, partition) pairs of a listing: the largest index and one more.

    Indices are at least 0.

    Raises `SnapshotError` if the listing names hardly any of the partitions that its numbers imply.
    """
    counts: dict[str, int] = {}
    for topic, partition in places:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    total = sum(counts.values())
    if total > _LISTED * len(places) + _UNLISTED:
        topic = max(counts, key=lambda name: counts[name])
        raise SnapshotError(f"{topic}: partition {counts[topic] - 1} is listed, but only {len(places)} of {total} partitions are")
    return counts


def check_ids(ids: Iterable[str]) -> None:
    """Check that members' ids are unique.

    Raises `SnapshotError` if one is not; the message starts with the path of its second member.
    """
    first: dict[str, int] = {}
    for at, member_id in enumerate(ids):
        if first.setdefault(member_id, at) != at:
            raise SnapshotError(f"members[{at}].id: {member_id!r} is also members[{first[member_id]}]; ids are unique")


def check_claims(members: Sequence[Member], topics: Mapping[str, Topic]) -> None:
    """Check that claimed partitions exist, if their topic does.

    Raises `SnapshotError` if one does not; the message starts with its path.
    """
    for at, member in enumerate(members):
        for topic, indices in member.owned.items():
            count = topics[topic].partitions if topic in topics else None
            if count is not None and max(indices, default=-1) >= count:
                place = next(place for place, index in enumerate(indices) if index >= count)
                path = f"members[{at}].owned.{topic}[{place}]"
                raise SnapshotError(f"{path}: partition {indices[place]} does not exist, {topic} has {count}")


def check_lag(lag: Mapping[str, Sequence[int]], topics: Mapping[str, Topic]) -> None:
    """Check that there is one number for each partition of each topic named.

    Raises `SnapshotError` if a topic does not exist, or has another number of partitions; the message starts with its path.
    """
    for topic, lags in lag.items():
        if topic not in topics:
            raise SnapshotError(f"lag.{topic}: topic does not exist; topics are {some(sorted(topics))}")
        if len(lags) != topics[topic].partitions:
            raise SnapshotError(f"lag.{topic}: {len(lags)} numbers, {topic} has {topics[topic].partitions} partitions")
