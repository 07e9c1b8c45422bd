"""The rack-aware pass of `range` (KIP-881): who gets a partition from its own rack before ranges are cut.

This takes Python steps per replica and subscription, not array passes, because each step depends on the ones before it: they
decide which partitions are left, and whether a member may still take one more than its equal share.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Problem, Racks

__all__ = ["match_racks"]


def match_racks(
    problem: Problem,
    ranked: Int32,  # int32[S]: subscribers of each topic in Kafka's member order
) -> Int32 | None:
    """Rack-aware owners, int32[P]; None if racks make no difference to the group and plain ranges apply.

    Cost: O(P + S) plus a Python step per replica and subscription of topics where a pass is made.
    """
    racks = problem.racks
    if racks is None:
        return None
    needs = [_needs_racks(problem, racks, topic) for topic in range(problem.n_topics)]
    if not any(needs):
        return None
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    for topics in _co_partitioned(problem):
        topic = topics[0]
        first, last = problem.topic_start[topic : topic + 2].tolist()
        members = ranked[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]]
        member_racks = racks.rack_of_member[members].tolist()
        quota = _Quota(last - first, len(members))
        chosen = [UNOWNED] * (last - first)
        if len(topics) > 1:
            shared = _shared_racks(problem, racks, topics)
            _partition_by_partition(chosen, quota, member_racks, shared)
        elif needs[topic]:
            _member_by_member(chosen, quota, member_racks, _racks_of(racks, first, last))
        result = members[_fill(chosen, quota)]
        for one in topics:
            owner[problem.topic_start[one] : problem.topic_start[one + 1]] = result
    return owner


class _Quota:
    """How many partitions of a topic each subscriber may take: the floor share, and one more while ceiling slots are left."""

    def __init__(self, n_partitions: int, n_members: int) -> None:
        self.share, self.ceiling_slots = divmod(n_partitions, n_members)
        self.taken = [0] * n_members

    def left(self, position: int) -> int:
        return max(0, self.share + (self.ceiling_slots > 0) - self.taken[position])

    def take(self, position: int, count: int) -> None:
        self.taken[position] += count
        if count and self.taken[position] > self.share:
            self.ceiling_slots -= 1


def _needs_racks(problem: Problem, racks: Racks, topic: int) -> bool:
    """Whether some subscriber's rack holds replicas of the topic, and not every partition is in all of its racks."""
    members = problem.subscribers(topic)
    of_members = set(racks.rack_of_member[members].tolist()) - {-1}
    start = racks.replica_start[problem.topic_start[topic] : problem.topic_start[topic + 1] + 1]
    everywhere = set(racks.replica_rack[start[0] : start[-1]].tolist())
    return not of_members.isdisjoint(everywhere) and bool(np.any(np.diff(start) != len(everywhere)))


def _co_partitioned(problem: Problem) -> list[list[int]]:
    """Topics with equal subscribers and equal partition counts, together, if they have both."""
    groups: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
    for topic in range(problem.n_topics):
        members = problem.subscribers(topic)
        size = int(problem.topic_start[topic + 1] - problem.topic_start[topic])
        if len(members) and size:
            groups[size, members.tobytes()].append(topic)
    return list(groups.values())


def _racks_of(racks: Racks, first: int, last: int) -> list[list[int]]:
    """Rack codes of each partition in first..last-1."""
    start = racks.replica_start[first : last + 1].tolist()
    return [racks.replica_rack[a:b].tolist() for a, b in pairwise(start)]


def _shared_racks(problem: Problem, racks: Racks, topics: list[int]) -> list[set[int]]:
    """Per partition index, the racks in which every one of the co-partitioned topics has a replica."""
    shared: list[set[int]] = []
    for topic in topics:
        mine = _racks_of(racks, int(problem.topic_start[topic]), int(problem.topic_start[topic + 1]))
        shared = [set(r) for r in mine] if not shared else [a.intersection(b) for a, b in zip(shared, mine, strict=True)]
    return shared


def _partition_by_partition(chosen: list[int], quota: _Quota, member_racks: list[int], shared: list[set[int]]) -> None:
    """Give each partition to the first member with slack whose rack holds a replica (a member without a rack matches always).

    Slack never grows, so members of one rack are used up in order: a queue per rack, the earliest head wins.
    """
    queues: defaultdict[int, list[int]] = defaultdict(list)
    for position in reversed(range(len(member_racks))):
        queues[member_racks[position]].append(position)
    for index, suitable in enumerate(shared):
        heads = []
        for rack in (-1, *suitable):
            queue = queues.get(rack, [])
            while queue and not quota.left(queue[-1]):
                queue.pop()
            heads += queue[-1:]
        if heads:
            chosen[index] = min(heads)
            quota.take(chosen[index], 1)


def _member_by_member(chosen: list[int], quota: _Quota, member_racks: list[int], replicas: list[list[int]]) -> None:
    """Give each member in order the first free partitions of its rack, as many as its slack allows.

    Free partitions of a rack (and of all, for members without one) are kept in queues: a partition is passed once
    per replica, not once per member.
    """
    queues: defaultdict[int, list[int]] = defaultdict(list)
    for index in reversed(range(len(replicas))):
        for rack in (-1, *replicas[index]):
            queues[rack].append(index)
    for position, rack in enumerate(member_racks):
        queue = queues.get(rack, [])
        slack = quota.left(position)
        count = 0
        while queue and count < slack:
            index = queue.pop()
            if chosen[index] == UNOWNED:
                chosen[index] = position
                count += 1
        quota.take(position, count)


def _fill(chosen: list[int], quota: _Quota) -> Int32:
    """Assign the partitions that are left: to members in order, up to their counts; positions among the subscribers."""
    result = np.array(chosen, np.int32)
    taken = np.array(quota.taken, np.int64)
    missing = np.maximum(quota.share - taken, 0)
    candidates = np.flatnonzero(taken <= quota.share)
    missing[candidates[: quota.ceiling_slots]] += 1
    result[result == UNOWNED] = np.repeat(np.arange(len(taken), dtype=np.int32), missing)
    return result
