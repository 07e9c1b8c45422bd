"""The two rounds of a cooperative rebalance (KIP-429): what is handed out now, and what waits until its holder has revoked it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["after_round", "final_owners", "withhold"]


def withhold(problem: Problem, target: Int32) -> Int32:
    """The owners of this round, int32[P]: the target's owner, or UNOWNED if the partition must wait.

    A partition is handed out when nobody holds it or its holder is the target's owner. What another member
    holds, or two claim (CONTESTED), waits for one round. So no partition is given to one member in
    the round in which another revokes it: the check Kafka's coordinator runs on foreign cooperative assignors.
    O(P).
    """
    return np.where(_waits(problem, target), np.int32(UNOWNED), target)


def _waits(problem: Problem, target: Int32) -> npt.NDArray[np.bool_]:
    """Whether somebody other than the target's owner holds each partition, bool[P]."""
    waits: npt.NDArray[np.bool_] = problem.holder != UNOWNED
    if waits.any():  # a group without claims needs no second pass
        waits &= problem.holder != target
    return waits


def after_round(problem: Problem, owner: Int32) -> Problem:
    """The group after a round: `owner` int32[P] is what members hold and send as ownedPartitions (`holder`, `previous_owner`)."""
    return problem.replace(previous_owner=owner)


def final_owners(problem: Problem, assign: Callable[[Problem], Int32], *, depends_on_kept: bool = False) -> Int32:
    """Owners of a cooperative rebalance, int32[P], that its second round plans again.

    Objectives leave ties. The second round has other claims and may break them differently: other members then get what the first
    round withheld. So the second round is planned here as well, and its owners are returned. If it gives a partition back to its
    holder, the first round need not withhold it, and the second round is planned once more.

    Guarantee: if `assign` keeps all claims whenever one of its plans does, as exact strategies do, its plan for the second round
    is the returned one. Otherwise that may not be found; then the plan for the first round is returned.
    `depends_on_kept`: the plan depends on claims only by those that it keeps. If the first round assigns these alone, the second
    one needs no plan.
    Cost: one more plan, in odd groups two; none if nothing is withheld. Each pass of the loop withholds fewer.
    """
    owner = planned = assign(problem)
    waits = _waits(problem, owner)
    if depends_on_kept and (waits == (problem.previous_owner != owner)).all():
        return owner
    while waits.any():
        first = np.where(waits, np.int32(UNOWNED), owner)
        end = assign(after_round(problem, first))
        if not (waits | (end == first)).all():
            return planned
        before, owner, waits = waits, end, _waits(problem, end)
        if (waits == before).all():
            break
    return owner
