"""Counts of members in binary: what is taken, and what is left, is the same as with a set for each count."""

from __future__ import annotations

import numpy as np

from counterpoise.solver.level.bitsets import levels_of, take_most
from counterpoise.solver.level.planes import Planes


def test_binary_counts_take_the_same_members_as_a_set_for_each_count_in_500_groups() -> None:
    rng = np.random.default_rng(5)
    for number in range(500):
        members = int(rng.integers(1, 80))
        levels = levels_of(rng.integers(0, int(rng.integers(1, 40)), members))
        planes = Planes(levels)
        for _ in range(12):
            who, n = int.from_bytes(rng.bytes(10), "little"), int(rng.integers(1, members + 2))
            assert planes.take_most(who, n) == take_most(levels, who, n), f"group {number}"
            assert planes.levels() == levels, f"group {number}"
