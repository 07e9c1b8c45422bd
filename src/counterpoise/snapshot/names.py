"""Owners as integers back to names, and names to integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from counterpoise.errors import SnapshotError
from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["Assignment", "named", "owners_of", "partitions_by_topic"]

Assignment = dict[str, dict[str, list[int]]]
"""{member id: {topic: [partition indices, ascending]}}; every member is present."""


def named(problem: Problem, owner: Int32, member_ids: Sequence[str], topic_names: Sequence[str]) -> Assignment:
    """`owner` int32[P] by names; topics in name order, members in id order. O(P log P), loops over runs only."""
    owned = np.flatnonzero(owner >= 0)
    owned = owned[np.argsort(owner[owned], kind="stable")]
    result: Assignment = {member: {} for member in member_ids}
    for code, topic, indices in _runs(problem, owner[owned], owned):
        result[member_ids[code]][topic_names[topic]] = indices
    return result


def partitions_by_topic(problem: Problem, mask: np.ndarray, topic_names: Sequence[str]) -> dict[str, list[int]]:
    """The partitions of a bool[P] mask as {topic: [indices]}."""
    chosen = np.flatnonzero(mask)
    return {topic_names[topic]: indices for _, topic, indices in _runs(problem, np.zeros(len(chosen), np.int32), chosen)}


def owners_of(
    problem: Problem,
    assignment: Mapping[str, Mapping[str, Sequence[int]]],
    member_ids: Sequence[str],
    topic_names: Sequence[str],
) -> Int32:
    """The inverse of `named`: int32[P], UNOWNED where the assignment leaves a partition out.

    Raises
    ------
    SnapshotError
        An unknown member or topic, a partition that does not exist or that two members are given; the path is named.
    """
    member_code = {name: code for code, name in enumerate(member_ids)}
    topic_code = {name: code for code, name in enumerate(topic_names)}
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    for member, topics in assignment.items():
        if member not in member_code:
            raise SnapshotError(f"{member}: no such member in the group")
        for topic, listed in topics.items():
            if topic not in topic_code:
                raise SnapshotError(f"{member}.{topic}: no such topic in the group")
            first, end = problem.topic_start[topic_code[topic] : topic_code[topic] + 2].tolist()
            indices = np.asarray(listed, np.int64).reshape(-1)
            bad = np.flatnonzero((indices < 0) | (indices >= end - first))
            if len(bad):
                at = int(bad[0])
                raise SnapshotError(f"{member}.{topic}[{at}]: partition {indices[at]} does not exist, {topic} has {end - first}")
            taken = np.flatnonzero(owner[first + indices] != UNOWNED)
            if len(taken) or len(np.unique(indices)) != len(indices):
                at = int(taken[0]) if len(taken) else 0
                raise SnapshotError(f"{member}.{topic}[{at}]: {topic}-{indices[at]} is given twice")
            owner[first + indices] = member_code[member]
    return owner


def _runs(problem: Problem, owner: Int32, partition: np.ndarray) -> list[tuple[int, int, list[int]]]:
    """Runs of equal (owner, topic) in partitions sorted by (owner, partition): (owner, topic, indices)."""
    if not len(partition):
        return []
    topic = problem.topic_of_partition()[partition]
    index = partition - problem.topic_start[topic]
    new = np.flatnonzero((np.diff(owner) != 0) | (np.diff(topic) != 0)) + 1
    bounds = [0, *new.tolist(), len(partition)]
    starts = bounds[:-1]
    listed = index.tolist()
    owners, topics = owner[starts].tolist(), topic[starts].tolist()
    return [(owners[at], topics[at], listed[bounds[at] : bounds[at + 1]]) for at in range(len(starts))]
