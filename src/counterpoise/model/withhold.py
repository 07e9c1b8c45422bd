"""The two rounds of a cooperative rebalance (KIP-429): what is handed out now, and what waits until its holder has revoked it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["after_round", "final_owners", "withhold"]


def withhold(problem: Problem, target: Int32) -> Int32:
    """The owners of this round, int32[P]: the target's owner, or UNOWNED if the partition must wait.

    A partition is handed out when nobody holds it or its holder is the target's owner. What another member holds, or two claim
    (CONTESTED), waits for one round. So no partition is given to one member in the round in which another revokes it. Java's
    consumer checks this if it leads a group with a cooperative assignor other than its own (`validateCooperativeAssignment`).
    O(P).
    """
    free = (problem.holder == UNOWNED) | (problem.holder == target)
    return np.where(free, target, np.int32(UNOWNED))


def after_round(problem: Problem, owner: Int32) -> Problem:
    """A copy of the problem for the next round, before which members hold and claim what `owner` int32[P] gave them."""
    return problem.replace(previous_owner=owner)


def final_owners(problem: Problem, assign: Callable[[Problem], Int32], *, depends_on_kept: bool = False) -> Int32:
    """Target owners, int32[P], of a cooperative rebalance: `assign` plans the same owners in the second round.

    A plan may leave ties. The second round has other claims and may break them differently: other members then get what the first
    round withheld. So the second round is planned here as well, and its owners are returned. If it gives a partition back to its
    holder, the first round need not withhold it, and the second round is planned once more.

    Guarantee: holds if `assign` keeps all claims wherever one of its plans can, as exact strategies do. For other strategies the
    second round may move what the first one handed out; then ``assign(problem)`` is returned, and rounds may differ. Cost: one
    more plan, two if a partition is given back, none if nothing is withheld.
    `depends_on_kept`: `assign` gives the same plan without the claims that it does not keep. If the first round leaves just the
    claims that are kept, the second round need not be planned.
    """
    owner = planned = assign(problem)
    if not (problem.holder != UNOWNED).any():
        return owner
    waits = withhold(problem, owner) != owner
    if depends_on_kept and (waits == (problem.previous_owner != owner)).all():
        return owner
    while waits.any():
        first = np.where(waits, np.int32(UNOWNED), owner)
        end = assign(after_round(problem, first))
        if not (waits | (end == first)).all():
            return planned
        before, owner, waits = waits, end, withhold(problem, end) != end
        if (waits == before).all():
            break
    return owner
