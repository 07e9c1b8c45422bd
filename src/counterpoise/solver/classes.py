"""Classes: partitions that are interchangeable, and members that are.

A *topic class* is a set of partitions whose topics have the same subscribers (and, with racks, the same racks of replicas). A
*member class* is a set of members that subscribe to the same topic classes (and stand in the same rack). Whether loads are
feasible depends on these classes alone, and real groups have 1 to 20 of each. Sets are compared as bytes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = [
    "Classes",
    "classify",
    "classify_members",
    "equal_slices",
    "first_seen",
    "split_topic_classes",
    "subscriber_table",
    "sum_by",
    "topic_classes",
]


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

    def per_link(self, topic_class: Int64, member_class: Int64, values: Int64) -> Int64:
        """Sum of the values of each link's pairs of topic class and member class, int64[K]."""
        link = self.link_topic_class * self.n_member_classes + self.link_member_class
        return sum_by(np.searchsorted(link, topic_class * self.n_member_classes + member_class), values, len(link))


def classify(problem: Problem) -> Classes:
    """The classes of a problem, in order of their first topic and first member; O(S + P), vectorised."""
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
    class_of_topic[live], first = equal_slices(problem.subscriber, starts[live], starts[live + 1])
    return class_of_topic, live[first]


def subscriber_table(problem: Problem, topics: Int64, width: int) -> npt.NDArray[np.bool_]:
    """Whether member m subscribes to topics[i], at [i, m]: bool[len(topics), width].

    `topics` must be ascending, and `width` at least M; columns from M on are false. O(S + len(topics) * width).
    """
    begin = problem.subscriber_start[topics]
    degree = problem.subscriber_start[topics + 1] - begin
    member = problem.subscriber if len(topics) == problem.n_topics else problem.subscriber[ranges(begin, degree)]
    table = np.zeros(len(topics) * width, np.bool_)
    cell = np.repeat(np.arange(0, len(table), width), degree)
    cell += member
    table[cell] = True
    return table.reshape(len(topics), width)


def classify_members(
    topic_class: Int32, size: Int64, edge_start: Int64, edge_member: Int64, n_members: int, rack_of_member: Int32 | None
) -> Classes:
    """Group members by the topic classes they may take (and by rack, where one is given)."""
    edge_topic_class = np.repeat(np.arange(len(size)), np.diff(edge_start))
    degree = np.bincount(edge_member, minlength=n_members)
    live, end = np.flatnonzero(degree), np.cumsum(degree)
    short = edge_member.astype(np.min_scalar_type(n_members))  # sorts several times quicker
    by_member = np.argsort(short, kind="stable")
    class_of_live, first = equal_slices(edge_topic_class[by_member].astype(np.int32), (end - degree)[live], end[live])
    if rack_of_member is not None:
        class_of_live, first = first_seen(class_of_live * (int(rack_of_member.max(initial=-1)) + 2) + rack_of_member[live])
    member_class = np.full(n_members, -1, np.int64)
    member_class[live] = class_of_live
    stands_for_class = np.zeros(n_members, np.bool_)
    stands_for_class[live[first]] = True
    linked = stands_for_class[edge_member]
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
    degree = np.diff(classes.edge_start)[before]
    edge_member = classes.edge_member[ranges(classes.edge_start[before], degree)]
    size = np.bincount(number, minlength=len(first)).astype(np.int64)
    return topic_class, size, np.concatenate([[0], np.cumsum(degree)]), edge_member, first


def sum_by(index: Int64, values: npt.NDArray[np.integer | np.bool_], n: int) -> Int64:
    """Sum of the values at each index, int64[n]. Counts stay below 2**53, where bincount's doubles are exact integers."""
    return np.bincount(index, values, n).astype(np.int64)


def first_seen(values: npt.NDArray[np.generic]) -> tuple[Int64, Int64]:
    """Number equal values in order of first appearance: (number of each value, index of each number's first value)."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first))
    return number[inverse], first[order].astype(np.int64)


def equal_slices(values: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Number equal slices as `first_seen` numbers equal values; O(values), and a step per slice."""
    number_of: defaultdict[bytes, int] = defaultdict(count().__next__)
    data, bounds = values.tobytes(), zip((4 * begin).tolist(), (4 * end).tolist(), strict=True)
    number = np.array([number_of[data[b:e]] for b, e in bounds], np.int64)
    return number, np.flatnonzero(np.diff(np.maximum.accumulate(number), prepend=-1))
