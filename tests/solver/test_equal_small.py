"""Small groups are dealt in plain Python: to the partition what arrays deal."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from counterpoise.model.problem import Problem
from counterpoise.solver import equal
from counterpoise.solver.equal import common_subscribers, deal_equal
from counterpoise.solver.equal_small import SMALL, is_small


def group(rng: np.random.Generator) -> Problem:
    """Claims of anybody, of few, of nobody, or nearly balanced; empty topics among the rest."""
    members, counts = int(rng.integers(1, 20)), rng.integers(0, 12, int(rng.integers(1, 5)))
    start = np.concatenate(([0], np.cumsum(counts)))
    size, topics = int(start[-1]), len(counts)
    claims = [
        rng.integers(-2, members + 2, size),
        rng.integers(-1, min(members, 3), size),
        np.full(size, -1),
        rng.permutation(size) % max(1, members - int(rng.integers(0, 3))),
    ][int(rng.integers(0, 4))]
    return Problem(members, start, np.arange(topics + 1) * members, np.tile(np.arange(members), topics), claims)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("history", ["prefer", "ignore", "pin"])
def test_small_groups_are_dealt_as_large_ones(
    seed: int, history: Literal["prefer", "ignore", "pin"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With both orders of what is free."""
    rng, small = np.random.default_rng(seed), 0
    for _ in range(40):
        problem = group(rng)
        members = common_subscribers(problem)
        assert members is not None
        small += is_small(problem)
        for by_index in (False, True):
            quick = deal_equal(problem, members, history=history, by_index=by_index)
            with monkeypatch.context() as patched:
                patched.setattr(equal, "is_small", lambda _: False)
                wanted = deal_equal(problem, members, history=history, by_index=by_index)
            assert quick.dtype == wanted.dtype == np.int32
            assert quick.tolist() == wanted.tolist()
    assert small > 25


def test_only_small_groups_that_are_alike_go_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones, unequal weights, a member that subscribes to nothing: arrays."""
    assert is_small(Problem(2, [0, SMALL], [0, 2], [0, 1]))
    assert not is_small(Problem(2, [0, SMALL + 1], [0, 2], [0, 1]))
    assert not is_small(Problem(2, [0, 4], [0, 2], [0, 1], capacity=[1, 2]))
    assert not is_small(Problem(2, [0, 4], [0, 1], [1]))
    monkeypatch.setattr(equal, "_valid_claims", None)
    assert deal_equal(Problem(2, [0, 4], [0, 2], [0, 1]), np.arange(2, dtype=np.int32)).tolist() == [0, 1, 0, 1]
