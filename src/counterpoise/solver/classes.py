"""Classes: partitions that are interchangeable, and members that are.

A *topic class* is a set of partitions whose topics have the same subscribers (and, with racks, the same racks of replicas). A
*member class* is a set of members that subscribe to the same topic classes (and stand in the same rack). Whether loads are
feasible depends on these classes alone, and real groups have 1 to 20 of each. Equal sets have equal hashes, so a hash proves
difference; equality is then verified exactly, and a collision takes an exact, slower path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = [
    "DENSE_CELLS",
    "Classes",
    "classify",
    "classify_members",
    "equal_slices",
    "first_seen",
    "mix",
    "split_topic_classes",
    "sum_by",
    "topic_classes",
]

DENSE_CELLS = 4_000_000
"""Up to this many cells (topic classes x members) a table beats sorting; beyond it would cost memory."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The class network of a problem with C topic classes and G member classes."""

    topic_class: Int32  # int32[P]: topic class of each partition; -1 if nobody subscribes
    size: Int64  # int64[C]: partitions of each topic class; at least 1
    edge_start: Int64  # int64[C+1]: slice of `edge_member` per topic class
    edge_member: Int64  # int64[E]: members that may take partitions of the topic class, ascending within a topic class
    member_class: Int64  # int64[M]: member class of each member; -1 if it subscribes to nothing that has partitions
    n_member_classes: int  # G
    # link_topic_class, link_member_class (int64[K]): the edges between topic classes and member classes, sorted by topic class,
    # then member class
    link_topic_class: Int64
    link_member_class: Int64

    @property
    def n_topic_classes(self) -> int:
        """C."""
        return len(self.size)

    def per_member_class(self, values: npt.NDArray[np.integer | np.bool_]) -> Int64:
        """Sum of the members' values in each member class, int64[G]."""
        taking = np.flatnonzero(self.member_class >= 0)
        return sum_by(self.member_class[taking], values[taking], self.n_member_classes)

    def edge_topic_class(self) -> Int64:
        """Topic class of each entry of `edge_member`, int64[E]."""
        return np.repeat(np.arange(self.n_topic_classes), np.diff(self.edge_start))


def mix(n: int) -> npt.NDArray[np.uint64]:
    """A fixed 64-bit number for each of 0..n-1, without pattern (SplitMix64's finaliser)."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def classify(problem: Problem) -> Classes:
    """The classes of a problem, in order of their first topic and first member; O(S + P), vectorised."""
    n, partitions = problem.n_members, problem.n_partitions
    if len(problem.subscriber) == n * problem.n_topics > 0 and bool((problem.topic_start[1:] > problem.topic_start[:-1]).all()):
        none = np.zeros(1, np.int64)
        whole = np.zeros(partitions, np.int32), np.array([partitions]), np.array([0, n]), np.arange(n)
        return Classes(*whole, np.zeros(n, np.int64), 1, none, none)
    class_of_topic, first = topic_classes(problem)
    sizes = np.diff(problem.topic_start)
    size = np.zeros(len(first), np.int64)
    np.add.at(size, class_of_topic[class_of_topic >= 0], sizes[class_of_topic >= 0])
    if len(first) == problem.n_topics:  # each topic its own class
        edge_start, edge_member = problem.subscriber_start.astype(np.int64), problem.subscriber.astype(np.int64)
    else:
        begin, end = problem.subscriber_start[first], problem.subscriber_start[first + 1]
        edge_start = np.concatenate([[0], np.cumsum(end - begin)])
        edge_member = problem.subscriber[ranges(begin, end - begin)].astype(np.int64)
    return classify_members(np.repeat(class_of_topic, sizes), size, edge_start, edge_member, problem.n_members, None)


def topic_classes(problem: Problem) -> tuple[Int32, Int64]:
    """Class of each topic, -1 without subscribers or partitions, and the first topic of each class; O(S + T)."""
    starts = problem.subscriber_start
    live = np.flatnonzero((starts[1:] > starts[:-1]) & (problem.topic_start[1:] > problem.topic_start[:-1]))
    class_of_topic = np.full(problem.n_topics, -1, np.int32)
    everybody = len(problem.subscriber) == problem.n_members * problem.n_topics
    begin = starts[live]
    slices = problem.subscriber, begin, starts[live + 1] - begin, problem.n_members
    class_of_topic[live], first = (0, live[:1] * 0) if everybody else equal_slices(*slices)
    return class_of_topic, live[first]


def classify_members(
    topic_class: Int32, size: Int64, edge_start: Int64, edge_member: Int64, n_members: int, rack_of_member: Int32 | None
) -> Classes:
    """Group members by the topic classes they may take (and by rack, where one is given)."""
    n_topic_classes = len(size)
    edge_topic_class = np.repeat(np.arange(n_topic_classes), np.diff(edge_start))
    degree = np.bincount(edge_member, minlength=n_members)
    live = np.flatnonzero(degree)
    signature = np.zeros(n_members, np.uint64)
    np.add.at(signature, edge_member, mix(n_topic_classes)[edge_topic_class])
    if rack_of_member is not None:
        signature ^= mix(int(rack_of_member.max(initial=-1)) + 2)[rack_of_member + 1] * np.uint64(2)
    class_of_live, first = first_seen(signature[live])
    representative = np.arange(n_members)
    representative[live] = live[first][class_of_live]
    if not _same_topic_classes(edge_topic_class, edge_member, representative, degree, rack_of_member, n_topic_classes):
        class_of_live, first = _member_classes_without_hash(edge_topic_class, edge_member, live, rack_of_member)
        representative[live] = live[first][class_of_live]
    member_class = np.full(n_members, -1, np.int64)
    member_class[live] = class_of_live
    linked = representative[edge_member] == edge_member
    link_topic_class, link_member_class = edge_topic_class[linked], member_class[edge_member[linked]]
    return Classes(topic_class, size, edge_start, edge_member, member_class, len(first), link_topic_class, link_member_class)


def split_topic_classes(classes: Classes, part: npt.NDArray[np.integer]) -> tuple[Int32, Int64, Int64, Int64, Int64]:
    """Topic classes split by a number >= 0 of each partition (int[P]), in order of their first partitions; O(P), vectorised.

    Returns ``topic_class, size, edge_start, edge_member`` as in `Classes`, and the first partition of each topic class.
    """
    live = np.flatnonzero(classes.topic_class >= 0)
    number, example = first_seen(part[live] * np.int64(classes.n_topic_classes) + classes.topic_class[live])
    topic_class = np.full(len(classes.topic_class), -1, np.int32)
    topic_class[live] = number
    first = live[example]
    before = classes.topic_class[first]
    count = np.diff(classes.edge_start)[before]
    edge_member = classes.edge_member[ranges(classes.edge_start[before], count)]
    size = np.bincount(number, minlength=len(first)).astype(np.int64)
    return topic_class, size, np.concatenate([[0], np.cumsum(count)]), edge_member, first


def sum_by(index: Int64, values: npt.NDArray[np.integer | np.bool_], n: int) -> Int64:
    """Sum of the values at each index, int64[n]. Counts stay below 2**53, where bincount's doubles are exact integers."""
    return np.bincount(index, values, n).astype(np.int64)


def first_seen(values: npt.NDArray[np.generic]) -> tuple[Int64, Int64]:
    """Number equal values in order of first appearance: (number of each value, index of each number's first value)."""
    ordered = np.sort(values)
    if not bool((ordered[1:] == ordered[:-1]).any()):  # all differ, as in sparse groups: found ten times quicker
        return np.arange(len(values)), np.arange(len(values))
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first))
    return number[inverse], first[order].astype(np.int64)


def equal_slices(values: Int32, begin: Int64, count: Int64, n_values: int) -> tuple[Int64, Int64]:
    """Number equal slices, with values in 0..n_values-1, as `first_seen` numbers values: hashed, then verified exactly."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(n_values)[values], dtype=np.uint64)])
    number, first = first_seen(total[begin + count] - total[begin])
    others = np.flatnonzero(first[number] != np.arange(len(begin)))
    model = first[number[others]]
    if np.array_equal(count[others], count[model]):
        mine = values[ranges(begin[others], count[others])]
        if np.array_equal(mine, values[ranges(begin[model], count[others])]):
            return number, first
    seen: dict[bytes, int] = {}
    bounds = zip(begin.tolist(), (begin + count).tolist(), strict=True)
    return first_seen(np.array([seen.setdefault(values[b:e].tobytes(), len(seen)) for b, e in bounds], np.int64))


def _same_topic_classes(
    edge_topic_class: Int64, edge_member: Int64, representative: Int64, degree: Int64, rack: Int32 | None, n_topic_classes: int
) -> bool:
    """Whether every member has exactly the topic classes (and the rack) of its representative."""
    n_members = len(degree)
    if not np.array_equal(degree, degree[representative]):
        return False
    if rack is not None and not np.array_equal(rack, rack[representative]):
        return False
    stands_for = representative[edge_member]
    other = np.flatnonzero(stands_for != edge_member)
    wanted = edge_topic_class[other] * n_members + stands_for[other]
    return bool(_among(wanted, edge_topic_class * n_members + edge_member, n_topic_classes * n_members).all())


def _among(wanted: Int64, ascending: Int64, cells: int) -> npt.NDArray[np.bool_]:
    """Which of `wanted` occur in `ascending`; values lie in 0..cells-1."""
    if not len(ascending) or not len(wanted):
        return np.zeros(len(wanted), np.bool_)
    if cells <= DENSE_CELLS:
        table = np.zeros(cells, np.bool_)
        table[ascending] = True
        return table[wanted]
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.asarray(ascending[at] == wanted, np.bool_)


def _member_classes_without_hash(
    edge_topic_class: Int64, edge_member: Int64, live: Int64, rack: Int32 | None
) -> tuple[Int64, Int64]:
    """Member classes by comparing whole sets, for two different sets of one hash (tests force this)."""
    order = np.argsort(edge_member, kind="stable")
    starts = np.searchsorted(edge_member[order], live)
    ends = np.searchsorted(edge_member[order], live, side="right")
    seen: dict[tuple[bytes, int], int] = {}
    racks = [0] * len(live) if rack is None else rack[live].tolist()
    bounds = zip(starts.tolist(), ends.tolist(), racks, strict=True)
    return first_seen(np.array([seen.setdefault((edge_topic_class[order[s:e]].tobytes(), r), len(seen)) for s, e, r in bounds]))
