"""Every member's JoinGroup metadata to flat arrays, in vectorised steps: what a leader reads.

The same rules as `consumer_protocol` and `user_data`, without a step per topic or partition in Python: a million
entries of two thousand members take a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.errors import WireError
from counterpoise.wire.columns import Bool, Int32, Int64, UInt8, windows
from counterpoise.wire.consumer_protocol import TopicPartitions, decode_subscription
from counterpoise.wire.primitives import java_text
from counterpoise.wire.subscription_fields import Fields, read_fields, subscribed_names, subscribed_topics
from counterpoise.wire.topic_lists import Entries, TopicIndex, padded, scan
from counterpoise.wire.user_data import TRAILER, TRAILER_SIZE, ProtocolKind, StickyData, decode_cooperative, decode_sticky

__all__ = ["JoinMetadata", "MembersSummary", "decode_group", "summarise"]

_STRAY = 1


@dataclass(frozen=True, eq=False)
class JoinMetadata:
    """What M members sent, as arrays; a topic is its code in the index."""

    # subscription_member, subscription_topic (int32[S]): who subscribes to what, any order; a repeated topic is repeated
    subscription_member: Int32
    subscription_topic: Int32
    # claim_member, claim_topic, claim_partition (int32[K]): claims on topics of the index, any order; partition numbers as the
    # member gave them, existing or not
    claim_member: Int32
    claim_topic: Int32
    claim_partition: Int32
    generation: Int64  # int64[M]: of the claims, -1 = none
    rack: tuple[str | None, ...]
    unreadable: Bool  # bool[M]: the member's user data mattered and could not be read: no history
    unknown_claims: int  # Partitions claimed whose topic the index does not have
    missing: Mapping[str, int]  # Subscribed topics that are not in the index: how many members subscribe to each
    # Members whose subscription cannot be read, ascending; they have no subscription and no claim
    errors: tuple[tuple[int, WireError], ...]


@dataclass(frozen=True, eq=False)
class MembersSummary:
    """What M members sent, as far as it can be read before topics are known."""

    topics: frozenset[str]  # Subscribed by some member
    user_data: tuple[bytes, ...]  # M; empty if null
    any_owned: bool  # Whether a member owns partitions while it joins
    errors: tuple[tuple[int, WireError], ...]  # As in `JoinMetadata`; these members have no topics and no user data


def summarise(
    metadata: Sequence[bytes],  # A ConsumerProtocolSubscription per member
) -> MembersSummary:
    """Read topics and user data of all members; never raises, whatever the bytes.

    O(bytes), vectorised over members: no step per topic or partition in Python, except for distinct topics.
    """
    data, starts = padded(metadata)
    fields = read_fields(metadata, data, starts)
    length = np.where(fields.sound, fields.user_length, 0)
    return MembersSummary(
        subscribed_names(data, fields),
        tuple(data[at : at + size].tobytes() for at, size in zip(fields.user_start.tolist(), length.tolist(), strict=True)),
        bool(fields.sound[fields.owned.list_of].any()),
        _errors(metadata, fields),
    )


def decode_group(
    metadata: Sequence[bytes],  # A ConsumerProtocolSubscription per member, in code order
    topics: TopicIndex,  # What exists
    kind: ProtocolKind,  # Where claims are (see `user_data.claims`)
) -> JoinMetadata:
    """Read the metadata of all members; never raises, whatever the bytes.

    O(bytes), vectorised over members. Python loops only over subscribed topics that are not in the index: once per list that
    members share, and once per member with a list of its own. Equal to reading member by member with `decode_subscription`
    and `claims`.
    """
    data, starts = padded(metadata)
    fields = read_fields(metadata, data, starts)
    subscriber, subscribed, unknown = subscribed_topics(data, topics, fields)
    exists = subscribed >= 0
    claimed, generation, unreadable, extra = _claims(data, fields, kind)
    code = topics.find(data, claimed.name_start, claimed.name_length)
    member, topic, partition, unknown_partitions = _expand(data, claimed, code)
    if extra:
        *more, missing = _arrays_of_extra(topics, extra)
        member, topic, partition = (np.concatenate(pair) for pair in zip((member, topic, partition), more, strict=True))
        unknown_partitions += missing
    rack = [
        java_text(data[at : at + size].tobytes()) if size > 0 and sound else None
        for at, size, sound in zip(fields.rack_start.tolist(), fields.rack_length.tolist(), fields.sound.tolist(), strict=True)
    ]
    return JoinMetadata(
        subscriber[exists].astype(np.int32),
        subscribed[exists],
        member,
        topic,
        partition,
        generation,
        tuple(rack),
        unreadable,
        unknown_partitions,
        unknown,
        _errors(metadata, fields),
    )


_Extra = list[tuple[int, tuple[TopicPartitions, ...]]]
"""Claims of single members that were read one by one."""


def _claims(data: UInt8, fields: Fields, kind: ProtocolKind) -> tuple[Entries, Int64, Bool, _Extra]:
    """Claimed entries, generations, whose user data is unreadable, and claims of members in rare dialects."""
    unreadable = np.zeros(len(fields.sound), np.bool_)
    fields = fields._replace(user_length=_length_without_trailers(data, fields))
    if kind == "eager":
        wanted = np.flatnonzero(fields.sound & (fields.user_length > 0))
        entries, generation, rare = _sticky_lists(data, fields, wanted)
        owned, read = entries, decode_sticky
    else:
        owned = _only(fields.owned, fields.sound)
        generation = np.where(fields.sound & (fields.version >= 2), np.maximum(fields.generation, -1), -1)
        rare = np.flatnonzero(fields.sound & (generation < 0) & (fields.user_length > 0))
        read = decode_cooperative
    extra: _Extra = []
    for at in rare.tolist():
        start = int(fields.user_start[at])
        found: StickyData = read(data[start : start + int(fields.user_length[at])].tobytes())
        unreadable[at] = not found.readable
        generation[at] = -1 if found.generation is None else max(found.generation, -1)
        if found.owned and (kind == "eager" or fields.version[at] < 1):
            extra.append((at, found.owned))
    return owned, generation, unreadable, extra


def _length_without_trailers(data: UInt8, fields: Fields) -> Int64:
    """The length of each member's user data without the fields that counterpoise writes behind the layouts."""
    word_at, length, marker = windows(data, np.dtype(">u4")), fields.user_length.copy(), int.from_bytes(TRAILER)
    members = np.flatnonzero(fields.sound)
    while len(members):
        members = members[length[members] >= TRAILER_SIZE]
        members = members[word_at[fields.user_start[members] + length[members] - TRAILER_SIZE].astype(np.int64) >> 8 == marker]
        length[members] -= TRAILER_SIZE
    return length


def _sticky_lists(data: UInt8, fields: Fields, wanted: Int64) -> tuple[Entries, Int64, Int64]:
    """Entries and generations of the members whose sticky user data fits a layout to the last byte, and the others."""
    int16_at, int32_at = windows(data, np.dtype(">i2")), windows(data, np.dtype(">i4"))
    generation = np.full(len(fields.version), -1, np.int64)
    found: list[Entries] = []
    for skipped in (0, 2):
        start = fields.user_start[wanted]
        limit = start + fields.user_length[wanted]
        entries = scan(data, start + skipped, limit, with_partitions=True)
        left = limit - entries.end
        exact = (entries.end >= 0) & ((left == 0) | (left == 4))
        if skipped:
            exact &= int16_at[start] == _STRAY
        dated = exact & (left == 4)
        generation[wanted[dated]] = np.maximum(int32_at[entries.end[dated]].astype(np.int64), -1)
        fitting = _only(entries, exact)
        found.append(fitting._replace(list_of=wanted[fitting.list_of]))
        wanted = wanted[~exact]
    joined = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return Entries(*joined), generation, wanted


def _only(entries: Entries, lists: Bool) -> Entries:
    """The entries of some lists."""
    kept = lists[entries.list_of]
    if kept.all():
        return entries
    list_of, name_start, name_length, part_start, part_count, end = entries
    return Entries(list_of[kept], name_start[kept], name_length[kept], part_start[kept], part_count[kept], end)


def _expand(data: UInt8, entries: Entries, code: Int32) -> tuple[Int32, Int32, Int32, int]:
    """Entries to single claims (member, topic, partition), and how many are on unknown topics."""
    known = code >= 0
    unknown = int(entries.part_count[~known].sum())
    member, start, count, code = entries.list_of[known], entries.part_start[known], entries.part_count[known], code[known]
    if len(count) and int(count.min()) == int(count.max()) == 1:
        position = start
    else:
        member, code = np.repeat(member, count), np.repeat(code, count)
        position = np.repeat(start - 4 * (np.cumsum(count) - count), count) + 4 * np.arange(len(member))
    partition = windows(data, np.dtype(">i4"))[position].astype(np.int32)
    return member.astype(np.int32), code, partition, unknown


def _arrays_of_extra(topics: TopicIndex, extra: _Extra) -> tuple[Int32, Int32, Int32, int]:
    """Member, topic code and partition of each claim in `extra`, and the number of claims on unknown topics."""
    entries = [(member, name, partitions) for member, owned in extra for name, partitions in owned]
    data, starts = padded([name.encode("utf-8", "surrogatepass") for _, name, _ in entries])
    count = [len(partitions) for _, _, partitions in entries]
    member = np.repeat(np.array([number for number, _, _ in entries], np.int32), count)
    code = np.repeat(topics.find(data, starts[:-1], np.diff(starts)), count)
    partition = np.array([each for _, _, partitions in entries for each in partitions], np.int32)
    known = code >= 0
    return member[known], code[known], partition[known], int(np.count_nonzero(~known))


def _errors(metadata: Sequence[bytes], fields: Fields) -> tuple[tuple[int, WireError], ...]:
    """Why subscriptions cannot be read: the row-wise decoder's own words."""
    errors = []
    for at in np.flatnonzero(~fields.sound).tolist():
        try:
            decode_subscription(metadata[at])
        except WireError as error:
            errors.append((at, error))
        else:
            raise AssertionError("the vectorised reader refuses what the row-wise one reads")
    return tuple(errors)
