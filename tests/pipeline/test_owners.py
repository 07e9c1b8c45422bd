"""Owners of small topics are found in lists, and of large ones in arrays: the same owners and the same changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterpoise.model import claims
from counterpoise.pipeline.history import owners
from counterpoise.pipeline.history.owners import NOBODY, Owners, count_moves, owners_of


def held(rng: np.random.Generator) -> list[tuple[int, list[dict[str, Any]]]]:
    """What each member holds: twice given and damaged partitions, topics named twice, nothing at all."""
    odd = [-3, 300, 20_000_000] if rng.random() < 0.3 else []
    entries = [
        {"topic": str(rng.choice(["t", "u"])), "partitions": rng.choice([*range(12), *odd], int(rng.integers(0, 6))).tolist()}
        for _ in range(8)
    ]
    return [(code, entries[2 * code : 2 * code + 2]) for code in range(4)]


def listed(owners: Owners) -> dict[str, list[int]]:
    assert all(array.dtype == np.int32 for array in owners.values())
    return {topic: array.tolist() for topic, array in owners.items()}


def test_lists_and_arrays_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    alive = np.array([True, False, True, True])
    for _ in range(300):
        pairs = [held(rng), held(rng)]
        quick = [owners_of(one) for one in pairs]
        with monkeypatch.context() as patched:
            patched.setattr(owners, "_FEW", -1)
            wanted = [owners_of(one) for one in pairs]
            moves = count_moves(wanted[0], wanted[1], alive)
        assert [listed(one) for one in quick] == [listed(one) for one in wanted]
        assert count_moves(quick[0], quick[1], alive) == moves


def test_the_later_of_two_owners_stands() -> None:
    pairs = [(0, [{"topic": "t", "partitions": [0, 1]}]), (1, [{"topic": "t", "partitions": [1, 3]}])]
    assert listed(owners_of(pairs)) == {"t": [0, 1, NOBODY, 1]}


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
