"""The positions of the fields in every member's subscription, found for many subscriptions at once.

The layout is that of `consumer_protocol`. Each field is read and checked for all members in one step. A member whose bytes do
not follow the layout is marked, and the rest of its bytes is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.wire.columns import Bool, Int32, Int64, UInt8, distinct_slices, windows
from counterpoise.wire.primitives import java_text
from counterpoise.wire.topic_lists import Entries, TopicIndex, scan

__all__ = ["Fields", "read_fields", "subscribed_names", "subscribed_topics"]

_SHARED_LISTS = 8
"""Distinct topic lists that are remembered: most members of a group subscribe to the same ones."""


class _Shared(NamedTuple):
    """A topic list that many members send: its names' places in the buffer and the members."""

    entries: Entries
    members: Int64


class Fields(NamedTuple):
    """Where the fields of M subscriptions lie in one buffer; meaningful if `sound`."""

    sound: Bool  # bool[M]: the subscription can be read
    # version, generation (int64[M]): the numbers themselves; generation -1 below version 2
    version: Int64
    # user_start, user_length, rack_start, rack_length (int64[M]): slices of the buffer; length 0 if null or absent
    user_start: Int64
    user_length: Int64
    owned: Entries  # Of the owned partitions; `list_of` is the member. May hold entries of members that are not sound.
    generation: Int64
    rack_start: Int64
    rack_length: Int64
    # shared, others: The topic lists: those that several members send in the same bytes, and the entries of all others
    shared: list[_Shared]
    others: Entries


def read_fields(metadata: Sequence[bytes], data: UInt8, starts: Int64) -> Fields:
    """Walk the subscriptions that `padded(metadata)` put into `data`; O(bytes), a few steps per field."""
    begin, limit = starts[:-1], starts[1:]
    int16_at, int32_at = windows(data, np.dtype(">i2")), windows(data, np.dtype(">i4"))
    everywhere = np.ones(len(metadata), np.bool_)
    version, _, sound = _number(int16_at, begin, limit, everywhere, everywhere, 2)
    sound &= version >= 0
    at, shared, others = _topic_lists(metadata, data, begin, limit)
    sound &= at >= 0
    user_length, user_start, sound = _number(int32_at, at, limit, sound, everywhere, 4)
    user_length = np.maximum(user_length, 0)
    at = user_start + user_length
    sound &= at <= limit
    with_owned = np.flatnonzero(sound & ((version > 1) | ((version == 1) & (at < limit))))
    owned = scan(data, at[with_owned], limit[with_owned], with_partitions=True)
    at[with_owned] = owned.end
    sound[with_owned] &= owned.end >= 0
    owned = owned._replace(list_of=with_owned[owned.list_of])
    generation, at, sound = _number(int32_at, at, limit, sound, version >= 2, 4)
    rack_length, at, sound = _number(int16_at, at, limit, sound, version >= 3, 2)
    rack_length = np.maximum(rack_length, 0)
    sound &= at + rack_length <= limit
    return Fields(sound, version, user_start, user_length, owned, generation, at, rack_length, shared, others)


def subscribed_topics(data: UInt8, topics: TopicIndex, fields: Fields) -> tuple[Int64, Int32, Counter[str]]:
    """(member, topic code or -1) of every subscribed topic of the sound members, any order.

    And subscribed topics that are not in the index: how many of these members subscribe to each.
    """
    kept = fields.sound[fields.others.list_of]
    start, length = fields.others.name_start[kept], fields.others.name_length[kept]
    members, codes = [fields.others.list_of[kept]], [topics.find(data, start, length)]
    unknown = np.flatnonzero(codes[0] < 0)
    names = _names(data, start[unknown], length[unknown])
    missing = Counter(name for _, name in set(zip(members[0][unknown].tolist(), names, strict=True)))
    for each in fields.shared:
        start, length = each.entries.name_start, each.entries.name_length
        code = topics.find(data, start, length)
        readable = each.members[fields.sound[each.members]]
        members.append(np.repeat(readable, len(code)))
        codes.append(np.tile(code, len(readable)))
        missing.update(dict.fromkeys(_names(data, start[code < 0], length[code < 0]), len(readable)))
    return np.concatenate(members), np.concatenate(codes), missing


def subscribed_names(data: UInt8, fields: Fields) -> frozenset[str]:
    """Every topic to which a sound member subscribes."""
    kept = fields.sound[fields.others.list_of]
    names = distinct_slices(data, fields.others.name_start[kept], fields.others.name_length[kept])
    for each in fields.shared:
        if fields.sound[each.members].any():
            names |= distinct_slices(data, each.entries.name_start, each.entries.name_length)
    return frozenset(map(java_text, names))


def _names(data: UInt8, start: Int64, length: Int64) -> list[str]:
    return [java_text(data[at : at + size].tobytes()) for at, size in zip(start.tolist(), length.tolist(), strict=True)]


def _number(
    field_at: npt.NDArray[np.generic], at: Int64, limit: Int64, sound: Bool, present: Bool, width: int
) -> tuple[Int64, Int64, Bool]:
    """A fixed-width field where it is present (-1 elsewhere), the position behind it, and who is still sound."""
    fits = sound & present & (at + width <= limit)
    value = np.where(fits, field_at[np.where(fits, at, 0)], -1).astype(np.int64)
    return value, np.where(fits, at + width, at), sound & (fits | ~present)


def _topic_lists(metadata: Sequence[bytes], data: UInt8, begin: Int64, limit: Int64) -> tuple[Int64, list[_Shared], Entries]:
    """Where each member's topic list ends (-1: it has none), the lists that many share, and the entries of the others.

    A list's bytes say themselves where it ends, so a member whose metadata continues with a known list has that list.
    """
    end = np.full(len(metadata), -1, np.int64)
    shared: list[_Shared] = []
    pending = np.arange(len(metadata))
    for _ in range(_SHARED_LISTS):
        if not len(pending):
            break
        leader = int(pending[0])
        entries = scan(data, begin[leader : leader + 1] + 2, limit[leader : leader + 1], with_partitions=False)
        if entries.end[0] < 0:
            pending = pending[1:]
            continue
        size = int(entries.end[0] - begin[leader])
        segment = metadata[leader][2:size]
        matches = np.fromiter((metadata[at].startswith(segment, 2) for at in pending.tolist()), np.bool_, len(pending))
        shared.append(_Shared(entries, pending[matches]))
        end[pending[matches]] = begin[pending[matches]] + size
        pending = pending[~matches]
    others = scan(data, begin[pending] + 2, limit[pending], with_partitions=False)
    end[pending] = others.end
    return end, shared, others._replace(list_of=pending[others.list_of])
