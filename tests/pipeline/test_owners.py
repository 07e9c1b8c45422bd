"""Owners of partitions as arrays; claims settled one by one and all at once are settled alike."""

from __future__ import annotations

import numpy as np
import pytest

from counterpoise.model import claims
from counterpoise.pipeline.history.owners import NOBODY, Owners, owners_of


def listed(owners: Owners) -> dict[str, list[int]]:
    assert all(array.dtype == np.int32 for array in owners.values())
    return {topic: array.tolist() for topic, array in owners.items()}


def test_the_later_of_two_owners_stands() -> None:
    pairs = [(0, [{"topic": "t", "partitions": [0, 1]}]), (1, [{"topic": "t", "partitions": [1, 3]}])]
    assert listed(owners_of(pairs)) == {"t": [0, 1, NOBODY, 1]}


def test_indices_that_no_topic_has_are_left_out() -> None:
    assert listed(owners_of([(0, [{"topic": "t", "partitions": [-3, 1, 20_000_000]}, {"topic": "u", "partitions": [-1]}])])) == {
        "t": [NOBODY, 0]
    }


def test_claims_settled_one_by_one_are_settled_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few generations and many, claims that are repeated, and members without a generation."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        members, partitions, number = int(rng.integers(1, 9)), int(rng.integers(1, 12)), int(rng.integers(0, 40))
        of = rng.integers(0, members, number).astype(np.int32), rng.integers(0, partitions, number)
        generation = rng.integers(-1, int(rng.integers(0, 8)), members)
        quick = claims.settle(partitions, *of, generation)
        with monkeypatch.context() as patched:
            patched.setattr(claims, "FEW", -1)
            wanted = claims.settle(partitions, *of, generation)
        assert quick.dtype == wanted.dtype == np.int32
        assert quick.tolist() == wanted.tolist()
