"""The strategy `roundrobin`: partitions dealt one by one around the circle of members, as Kafka's RoundRobinAssignor does."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from counterpoise.assignors.ranges import subscribers_by_rank
from counterpoise.assignors.strategy import EAGER, Strategy
from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["ROUNDROBIN", "deal_round_robin"]


def deal_round_robin(problem: Problem) -> Int32:
    """Owners as Kafka's `roundrobin` gives them, int32[P].

    Topics in name order, partitions in index order; members stand in a circle (`Problem.static_rank`: static ones
    by instance id, then dynamic ones by id), and each partition goes to the next member that subscribes to its
    topic. History and racks play no part.

    Guarantee: equal to kafka-clients 4.3.1 to the partition. Cost: O(S log S + P) in NumPy and a Python step per topic: where a
    topic begins in the circle depends on where the one before it ended.
    """
    ranked = subscribers_by_rank(problem)
    rank = problem.static_rank[ranked].tolist()
    start = problem.subscriber_start.tolist()
    size = np.diff(problem.topic_start)
    begin = np.zeros(problem.n_topics, np.int64)
    members = np.diff(problem.subscriber_start)
    turn = 0  # the rank whose turn it is
    for topic in np.flatnonzero((members > 0) & (size > 0)).tolist():
        first, last = start[topic], start[topic + 1]
        # The first subscriber whose turn it is, around the circle.
        begin[topic] = at = (bisect_left(rank, turn, first, last) - first) % (last - first)
        turn = rank[first + (at + int(size[topic]) - 1) % (last - first)] + 1
    topic_of = np.repeat(np.arange(problem.n_topics), np.where(members > 0, size, 0))
    at_partition = np.flatnonzero(np.repeat(members > 0, size))
    position = (begin[topic_of] + at_partition - problem.topic_start[topic_of]) % members[topic_of]
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    owner[at_partition] = ranked[problem.subscriber_start[topic_of] + position]
    return owner


ROUNDROBIN = Strategy(
    name="roundrobin",
    protocols=(EAGER,),
    kernel=deal_round_robin,
    guarantee="exactly Kafka's RoundRobinAssignor",
    reads=frozenset({"static_rank"}),
)
