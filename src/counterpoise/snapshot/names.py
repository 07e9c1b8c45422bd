"""Converts owners from integers to names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np

from counterpoise.model.problem import Int32, Problem
from counterpoise.snapshot.json_text import visible

__all__ = ["Assignment", "Offsets", "index_runs", "named", "partition_list", "partitions_by_topic"]

Assignment = dict[str, dict[str, list[int]]]
"""{member id: {topic: [partition indices, ascending]}}; every member is present."""
Offsets = dict[str, dict[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=-2, le=2**63 - 1)]]]
"""{topic: {partition: offset}}; -2 stands for the first record, -1 for the end of the log."""


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


def partition_list(topics: Mapping[str, Sequence[int]]) -> str:
    """{"t": [0, 1]} -> "t 0-1"."""
    runs = ((topic, index_runs(sorted(indices))) for topic, indices in topics.items())
    return ", ".join(f"{visible(topic)} {' '.join(listed)}" for topic, listed in runs if listed)


def index_runs(indices: Sequence[int]) -> list[str]:
    """Ascending indices in words: [0, 1, 2, 5] -> ["0-2", "5"]."""
    cuts = [0, *(at for at, (a, b) in enumerate(pairwise(indices), 1) if b != a + 1), len(indices)] if indices else []
    return [str(indices[a]) if b - a == 1 else f"{indices[a]}-{indices[b - 1]}" for a, b in pairwise(cuts)]


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
