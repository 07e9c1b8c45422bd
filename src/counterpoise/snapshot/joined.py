"""A leader's whole group at once: every member's metadata, whatever its client library, to one Problem, vectorised.

A leader of a million partitions cannot afford a step per partition in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.errors import SnapshotError, WireError
from counterpoise.model.assemble import assemble, lag_array, rack_codes, static_rank
from counterpoise.model.problem import Problem
from counterpoise.snapshot.checks import check_ids
from counterpoise.snapshot.frozen import frozen
from counterpoise.snapshot.parts import JoinMember, Topic
from counterpoise.wire.join_metadata import decode_group
from counterpoise.wire.primitives import java_order
from counterpoise.wire.topic_lists import TopicIndex
from counterpoise.wire.user_data import ProtocolKind

__all__ = ["JoinMember", "JoinedProblem", "join_problem", "unreadable_member"]

_LONGEST_TOPIC = 249


def unreadable_member(member_id: str, error: WireError) -> SnapshotError:
    """The error for a member whose metadata cannot be read."""
    return SnapshotError(f"member {member_id!r}, metadata: {error}; it is no ConsumerProtocolSubscription")


@dataclass(frozen=True, eq=False)
class JoinedProblem:
    """What members' metadata says, as arrays."""

    problem: Problem
    members: tuple[JoinMember, ...]  # In code order
    topics: TopicIndex  # Names in code order
    unreadable: tuple[str, ...]  # Members whose user data could not be read: they have no history
    # unknown_topic, vanished_partition: Claims dropped because the topic, or the partition index, does not exist
    unknown_topic: int
    vanished_partition: int
    # Subscribed topics that are not in the leader's metadata, by name: how many members subscribe to each
    missing_topics: Mapping[str, int]

    @property
    def member_ids(self) -> tuple[str, ...]:
        """Member ids in code order."""
        return tuple(member.id for member in self.members)


def join_problem(
    topics: Mapping[str, Topic],  # What the leader's metadata knows
    members: Sequence[JoinMember],  # Any order
    kind: ProtocolKind,  # Where claims are
    *,
    lag: Mapping[str, Sequence[int]] | None = None,  # Topics without an entry count as zero
    capacity: Mapping[str, int] | None = None,  # Members without an entry weigh 1
) -> JoinedProblem:
    """Read every member's metadata into a Problem.

    Raises `SnapshotError` if a member id is given twice, a topic name is longer than Kafka's can be, or a subscription cannot be
    read (member, byte and field are named).

    O(bytes + P + S), no step per topic or partition in Python, except for topics that are not in `topics` (`decode_group`).
    """
    by_id = {member.id: member for member in members}
    if len(by_id) < len(members):
        check_ids(member.id for member in members)
    ordered = tuple(by_id[member_id] for member_id in java_order(by_id))
    names = java_order(topics)
    if len(longest := max(names, key=len, default="")) > _LONGEST_TOPIC:
        raise SnapshotError(f"topics.{longest}: {len(longest)} characters; a topic name in Kafka has at most {_LONGEST_TOPIC}")
    index = TopicIndex(names)
    read = decode_group([member.metadata for member in ordered], index, kind)
    for at, error in read.errors:
        raise unreadable_member(ordered[at].id, error)
    counts = np.array([topics[name].partitions for name in names], np.int64)
    exists = (read.claim_partition >= 0) & (read.claim_partition < counts[read.claim_topic])
    problem = assemble(
        len(ordered),
        counts,
        read.subscription_member,
        read.subscription_topic,
        read.claim_member[exists],
        (np.cumsum(counts) - counts)[read.claim_topic[exists]] + read.claim_partition[exists],
        read.generation,
        capacity=None if capacity is None else np.array([capacity.get(member.id, 1) for member in ordered], np.int64),
        lag=lag_array(names, counts, lag),
        racks=rack_codes(read.rack, [topics[name].racks for name in names], counts.tolist()),
        rank=static_rank([member.id for member in ordered], [member.instance_id for member in ordered]),
    )
    unreadable = tuple(ordered[at].id for at in np.flatnonzero(read.unreadable).tolist())
    missing = frozen({topic: read.missing[topic] for topic in java_order(read.missing)})
    vanished = int(len(exists) - np.count_nonzero(exists))
    return JoinedProblem(problem, ordered, index, unreadable, read.unknown_claims, vanished, missing)
