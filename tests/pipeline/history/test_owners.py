"""Owners of partitions as arrays: the last one of a partition counts, and damage is left out."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import UNOWNED
from counterpoise.pipeline.history.protocol_fold import Owners, owners_of


def listed(owners: Owners) -> dict[str, list[int]]:
    assert all(array.dtype == np.int32 for array in owners.values())
    return {topic: array.tolist() for topic, array in owners.items()}


def test_the_later_of_two_owners_stands() -> None:
    pairs = [(0, [{"topic": "t", "partitions": [0, 1]}]), (1, [{"topic": "t", "partitions": [1, 3]}])]
    assert listed(owners_of(pairs)) == {"t": [0, 1, UNOWNED, 1]}


def test_indices_that_no_topic_has_are_left_out() -> None:
    assert listed(owners_of([(0, [{"topic": "t", "partitions": [-3, 1, 20_000_000]}, {"topic": "u", "partitions": [-1]}])])) == {
        "t": [UNOWNED, 0]
    }


def test_no_memory_is_given_for_indices_far_beyond_what_is_assigned() -> None:
    """A damaged index, or one that a leader made up; a topic of which every tenth partition is assigned is believed."""
    topics = [{"topic": f"t{number}", "partitions": [0, 9_999_999]} for number in range(3)]
    assert listed(owners_of([(0, topics)])) == {one["topic"]: [0] for one in topics}
    tenth = list(range(0, 3_000_000, 10))
    (owners,) = owners_of([(0, [{"topic": "t", "partitions": tenth}])]).values()
    assert len(owners) == tenth[-1] + 1
