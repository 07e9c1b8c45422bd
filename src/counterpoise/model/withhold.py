"""What a cooperative round hands out now, and what waits until its holder has revoked it (KIP-429)."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["withhold"]


def withhold(problem: Problem, target: Int32) -> Int32:
    """The owners of this round, int32[P]: the target's owner, or UNOWNED if the partition must wait.

    A partition is handed out when nobody holds it or its holder is the target's owner. What another member
    holds, or two claim (CONTESTED), waits for one round. So no partition is given to one member in
    the round in which another revokes it: the check Kafka's coordinator runs on foreign cooperative assignors.
    O(P).
    """
    free = (problem.holder == UNOWNED) | (problem.holder == target)
    return np.where(free, target, np.int32(UNOWNED))
