"""The strategy `lag`: exactly KAFKA-5337, largest lags first to the member with the fewest partitions."""

from __future__ import annotations

from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.assignors.strategy import EAGER, Option, Strategy
from counterpoise.model.arrays import ranges, ranks_in_runs
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

Index: TypeAlias = npt.NDArray[np.intp]

_FEW_MEMBERS = 16
"""Below this many subscribers a heap step per partition is cheaper than a sort per round."""

__all__ = ["LAG", "assign_by_lag"]


def assign_by_lag(
    problem: Problem,
    *,
    # What "fewest partitions" and "least lag" count: those of the topic at hand ("topic"), as the prototype of that name does, or
    # all that the member has been given so far ("total")
    scope: str = "topic",
) -> Int32:
    """Owners by the rule of KAFKA-5337, int32[P].

    Topic by topic, in name order: its partitions by lag, largest first (ties: lower index first), each to the
    subscribed member with the fewest partitions, then the least lag, then the first id.

    Guarantee: equal to the rule, partition by partition. Without `Problem.lag` every lag is 0 and only counts
    matter; history, racks and capacities play no part. Cost: O(P log P + S log S) and one sort of the subscribers
    per round (a round gives every subscriber one partition); for few subscribers, or scope "total", a heap step per
    partition in Python, since each choice depends on the one before.
    """
    lag = np.zeros(problem.n_partitions, np.int64) if problem.lag is None else problem.lag
    by_lag = np.lexsort((-lag, problem.topic_of_partition()))
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    members = np.diff(problem.subscriber_start)
    wanted = (members > 0) & (np.diff(problem.topic_start) > 0)
    if scope == "total":
        _deal_in_total(problem, lag, by_lag, np.flatnonzero(wanted), owner)
        return owner
    for topic in np.flatnonzero(wanted & (members < _FEW_MEMBERS)).tolist():
        heap = [(0, 0, member) for member in problem.subscribers(topic).tolist()]
        _deal(heap, lag, _partitions(problem, by_lag, topic), owner)
    _deal_in_rounds(problem, lag, by_lag, np.flatnonzero(wanted & (members >= _FEW_MEMBERS)), owner)
    return owner


def _partitions(problem: Problem, by_lag: Index, topic: int) -> Index:
    """The topic's partitions, largest lag first: `by_lag` sorts within each topic's own slice."""
    return by_lag[problem.topic_start[topic] : problem.topic_start[topic + 1]]


def _deal(heap: list[tuple[int, int, int]], lag: Int64, partitions: Index, owner: Int32) -> None:
    """Give `partitions` in order to the least (count, lag, member) of a heap."""
    chosen = []
    for records in lag[partitions].tolist():
        count, behind, member = heap[0]
        chosen.append(member)
        heapreplace(heap, (count + 1, behind + records, member))
    owner[partitions] = chosen


def _deal_in_total(problem: Problem, lag: Int64, by_lag: Index, topics: Index, owner: Int32) -> None:
    """Topic by topic, counts and lags carried over; one heap serves consecutive topics of equal subscribers."""
    given: dict[int, tuple[int, int, int]] = {}
    heap: list[tuple[int, int, int]] = []
    current: list[int] = []
    for topic in topics.tolist():
        members: list[int] = problem.subscribers(topic).tolist()
        if members != current:
            given.update((entry[2], entry) for entry in heap)
            heap = [given.get(member, (0, 0, member)) for member in members]
            heapify(heap)
            current = members
        _deal(heap, lag, _partitions(problem, by_lag, topic), owner)


def _deal_in_rounds(problem: Problem, lag: Int64, by_lag: Index, topics: Index, owner: Int32) -> None:
    """All topics at once, a round at a time: within one, each subscriber gets one partition, the least lag first."""
    size = np.diff(problem.topic_start)
    members = np.diff(problem.subscriber_start)
    behind = np.zeros(len(problem.subscriber), np.int64)
    given = 0
    while len(topics):
        entry = ranges(problem.subscriber_start[topics], members[topics])
        topic = np.repeat(np.arange(len(topics)), members[topics])
        # Subscribers stand in code order and the sort is stable: equal lags go by id.
        ranked = entry if not given else entry[np.lexsort((behind[entry], topic))]
        index = ranks_in_runs(members[topics]) + given * members[topics][topic]
        there = index < size[topics][topic]
        partition = by_lag[problem.topic_start[topics][topic][there] + index[there]]
        owner[partition] = problem.subscriber[ranked[there]]
        behind[ranked[there]] += lag[partition]
        given += 1
        topics = topics[size[topics] > given * members[topics]]


LAG = Strategy(
    name="lag",
    protocols=(EAGER,),
    kernel=assign_by_lag,
    guarantee="exactly the rule of KAFKA-5337: largest lag first, to the member with the fewest partitions, then the least lag",
    options=MappingProxyType(
        {"scope": Option("count a member's partitions and lag per topic, or in total", "topic", ("topic", "total"))}
    ),
    reads=frozenset({"lag"}),
)
