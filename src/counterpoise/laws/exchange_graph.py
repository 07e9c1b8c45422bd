"""The exchange graph of a plan, compressed: which member could pass a partition on to which, and at what cost.

Topics with equal subscriber sets form a topic class, members that subscribe to the same topic classes a member
class. Partitions of one topic class can take each other's place, so a walk member -> topic class -> member stands
for a partition that changes hands. The laws build these classes themselves: nothing here comes from the solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import ranges
from counterpoise.model.problem import DENSE_CELLS, Int32, Int64, Problem

__all__ = ["Arcs", "Classes", "ExchangeGraph", "classes", "equal_slices", "exchange_graph"]


@dataclass(frozen=True, eq=False)
class Arcs:
    """Arcs grouped by their head, so that one reduction relaxes them all."""

    tail: Int32  # int32[A]
    cost: Int64  # int64[A]
    head: Int32  # int32[H]: the distinct heads, ascending
    start: Int64  # int64[H]: first arc of each head

    @classmethod
    def of(cls, head: npt.NDArray[np.int64], tail: npt.NDArray[np.int64], cost: Int64 | None = None) -> Arcs:
        """From pairs sorted by head; cost 0 unless given."""
        first = np.ones(len(head), np.bool_)
        first[1:] = head[1:] != head[:-1]
        start = np.flatnonzero(first)
        cost = np.zeros(len(head), np.int64) if cost is None else cost
        return cls(tail.astype(np.int32), cost, head[start].astype(np.int32), start)


@dataclass(frozen=True, eq=False)
class Classes:
    """Equal subscriptions, grouped."""

    of_topic: Int32  # int32[T]: topic class of each topic
    n: int  # Number of topic classes C
    of_member: Int32  # int32[M]: member class of each member
    n_member_classes: int
    offer: Arcs  # Topic class -> member class that subscribes to it


@dataclass(frozen=True, eq=False)
class ExchangeGraph:
    """What each member can pass on, and what it claims from others."""

    classes: Classes
    # Member -> topic class it holds a partition of that may move: cost 0 if one of them is not its claim, else 1 (passing it on
    # loses a partition that stays)
    hold: Arcs
    claim: Arcs  # Topic class -> member that claims a partition of it that another has: cost -1


def classes(problem: Problem) -> Classes:
    """Group topics by subscriber set, then members by the topic classes they subscribe to.

    Exact: sets are compared as bytes, not by a hash alone. O(S + T + M), one dictionary entry per topic and member.
    """
    n_members, n_topics = problem.n_members, problem.n_topics
    if len(problem.subscriber) == n_members * n_topics and n_members and n_topics:
        zero = np.zeros(1, np.int64)
        return Classes(np.zeros(n_topics, np.int32), 1, np.zeros(n_members, np.int32), 1, Arcs.of(zero, zero))
    of_topic, first = equal_slices(problem.subscriber, problem.subscriber_start)
    lengths = np.diff(problem.subscriber_start)[first]
    class_of_pair = np.repeat(np.arange(len(first), dtype=np.int64), lengths)
    member_of_pair = problem.subscriber[ranges(problem.subscriber_start[first], lengths)].astype(np.int64)
    order = np.argsort(member_of_pair, kind="stable")
    start = np.searchsorted(member_of_pair[order], np.arange(n_members + 1))
    subscribed = class_of_pair[order].astype(np.int32)
    of_member, model = equal_slices(subscribed, start)
    counts = np.diff(start)[model]
    head = np.repeat(np.arange(len(model), dtype=np.int64), counts)
    tail = subscribed[ranges(start[model], counts)].astype(np.int64)
    return Classes(of_topic, len(first), of_member, len(model), Arcs.of(head, tail))


def exchange_graph(
    problem: Problem,
    owner: Int32,  # int32[P]
    known: Classes,
    movable: npt.NDArray[np.bool_] | None = None,  # bool[P]: partitions that may change hands; default all
) -> ExchangeGraph:
    """The graph of a valid plan.

    O(P + C * M) with a dense table of bytes, O(P log P) beyond 50 million cells; no loop over partitions.
    """
    class_of = np.repeat(known.of_topic.astype(np.int64), np.diff(problem.topic_start))
    n_members, claims = max(problem.n_members, 1), problem.previous_owner
    held = owner >= 0 if movable is None else (owner >= 0) & movable
    kept = held & (owner == claims)
    keys = class_of * n_members + owner
    cells = known.n * n_members
    key, level = _marked(cells, keys[kept], keys[held & ~kept])
    hold = Arcs.of(key // n_members, key % n_members, (level == 1).astype(np.int64))
    wanted = (claims >= 0) & (claims != owner)
    claim_key, _ = _marked(cells, claims[wanted].astype(np.int64) * known.n + class_of[wanted], class_of[:0])
    claim = Arcs.of(claim_key // max(known.n, 1), claim_key % max(known.n, 1), np.full(len(claim_key), -1, np.int64))
    return ExchangeGraph(known, hold, claim)


def _marked(cells: int, low: Int64, high: Int64) -> tuple[Int64, npt.NDArray[np.integer]]:
    """Distinct keys, ascending, each with 2 if it occurs in `high`, else 1."""
    if cells <= DENSE_CELLS:
        table = np.zeros(cells, np.uint8)
        table[low] = 1
        table[high] = 2
        key = np.flatnonzero(table)
        return key, table[key]
    key = np.union1d(low, high)
    return key, np.isin(key, high).astype(np.int64) + 1


def equal_slices(values: Int32, start: npt.NDArray[np.int64]) -> tuple[Int32, npt.NDArray[np.int64]]:
    """Number the distinct slices of `values` in order of appearance: (number of each slice, first slice of each number)."""
    numbers: dict[bytes, int] = {}
    data = np.ascontiguousarray(values, np.int32).tobytes()
    bounds = (np.asarray(start) * 4).tolist()
    of_slice = [numbers.setdefault(data[a:b], len(numbers)) for a, b in pairwise(bounds)]
    result = np.array(of_slice, np.int32)
    first = np.full(len(numbers), len(of_slice), np.int64)
    np.minimum.at(first, result, np.arange(len(of_slice)))
    return result, first
