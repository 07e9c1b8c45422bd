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
