"""`lag` deals small groups in plain Python: to the partition what arrays deal."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from counterpoise.assignors import assignor, lag
from counterpoise.model.problem import Problem
from counterpoise.solver.equal_small import is_small
from tests.strategies import random_problem


def group(rng: np.random.Generator) -> Problem:
    """Mostly small and alike, with static members and lags that tie; empty topics among the rest."""
    if rng.random() < 0.2:
        return random_problem(rng)
    members, counts = int(rng.integers(1, 25)), rng.integers(0, 20, int(rng.integers(1, 5)))
    size, topics = int(counts.sum()), len(counts)
    return Problem(
        members,
        np.concatenate(([0], np.cumsum(counts))),
        np.arange(topics + 1) * members,
        np.tile(np.arange(members), topics),
        lag=None if rng.random() < 0.1 else rng.integers(0, int(rng.choice([2, 9, 10**6])), size),
        static_rank=rng.permutation(members),
    )


@pytest.mark.parametrize(("name", "module"), [("lag", lag)])
def test_small_groups_are_dealt_as_large_ones(name: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand groups, with and without the quick way."""
    rng, small = np.random.default_rng(17), 0
    for _ in range(1000):
        problem = group(rng)
        small += is_small(problem)
        quick = assignor(name)(problem)
        with monkeypatch.context() as patched:
            patched.setattr(module, "is_small", lambda _: False)
            wanted = assignor(name)(problem)
        assert quick.dtype == wanted.dtype == np.int32
        assert quick.tolist() == wanted.tolist()
    assert small > 500
