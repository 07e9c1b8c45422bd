"""The strategy `range`: each topic cut into consecutive ranges, as Kafka's RangeAssignor (4.x) does."""

from __future__ import annotations

import numpy as np

from counterpoise.assignors.range_racks import match_racks
from counterpoise.assignors.strategy import EAGER, Strategy
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["RANGE", "assign_ranges", "subscribers_by_rank"]


def assign_ranges(problem: Problem) -> Int32:
    """Owners as Kafka's `range` gives them, int32[P].

    Per topic, the n partitions go in index order to the k subscribers in member order (`Problem.static_rank`:
    static members by instance id, then dynamic ones by id): n div k each, one more for the first n mod k. History
    plays no part.

    With racks (KIP-881) each topic first gives members partitions that have a replica in their rack, within the
    same counts, then deals the rest as above; topics with equal subscribers and partition counts stay aligned.

    Guarantee: equal to kafka-clients 4.3.1 to the partition. Cost: O(S log S + P) in NumPy; with racks that matter, also a Python
    step per replica and per subscription (see `range_racks`).
    """
    ranked = subscribers_by_rank(problem)
    matched = match_racks(problem, ranked)
    return _cut(problem, ranked) if matched is None else matched


def subscribers_by_rank(problem: Problem) -> Int32:
    """`Problem.subscriber` with each topic's slice in Kafka's member order, int32[S]; O(S log S)."""
    topic = np.repeat(np.arange(problem.n_topics, dtype=np.int64), np.diff(problem.subscriber_start))
    key = topic * max(problem.n_members, 1) + problem.static_rank[problem.subscriber]
    return problem.subscriber[np.argsort(key, kind="stable")]


def _cut(problem: Problem, ranked: Int32) -> Int32:
    """Range by range, without racks."""
    size: Int64 = np.diff(problem.topic_start)
    members: Int64 = np.diff(problem.subscriber_start)
    share, extra = np.divmod(size, np.maximum(members, 1))
    topic = np.repeat(np.arange(problem.n_topics), np.where(members > 0, size, 0))
    at = np.flatnonzero(np.repeat(members > 0, size))
    index = at - problem.topic_start[topic]
    longer = extra * (share + 1)  # partitions that lie in ranges one longer than the share
    position = np.where(
        index < longer[topic], index // (share + 1)[topic], extra[topic] + (index - longer[topic]) // np.maximum(share, 1)[topic]
    )
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    owner[at] = ranked[problem.subscriber_start[topic] + position]
    return owner


RANGE = Strategy(
    name="range",
    protocols=(EAGER,),
    kernel=assign_ranges,
    guarantee="exactly Kafka's RangeAssignor (4.x): static members first, rack-aware, co-partitioned topics aligned",
    reads=frozenset({"static_rank", "racks"}),
)
