"""Opening a desk: valid claims, who may take what, and all partitions by weight, for a lag-aware plan to start from."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.classes import Classes, classify
from counterpoise.solver.lag.arcs import exchangeable
from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index

_WORD = 63

__all__ = ["open_desk"]


def open_desk(problem: Problem, weight: Int64, max_moves: int, balanced: Int32 | None = None) -> Desk:
    """A desk on which valid claims are kept and nothing is limited yet; O(S + P).

    With `balanced`, the owners of any balanced plan, members may take only what some balanced plan gives them, and claims
    on anything else are released.
    """
    classes, n = classify(problem), problem.n_members
    camp, subscribed = _table(classes)
    kind, may_camp = classes.kind, subscribed
    if balanced is not None:
        may_camp = exchangeable(subscribed, camp, kind, balanced, problem.capacity)
    may = may_camp[:, camp]
    previous = _valid_claims(problem, kind, may if may_camp is subscribed else subscribed[:, camp])
    owner, across = previous.copy(), np.empty(0, np.intp)
    if may_camp is not subscribed:
        across = _elsewhere(previous, kind, may)
        owner[across] = UNOWNED
    by_weight, falling = _heaviest_first(weight)
    return Desk(
        weight=weight,
        by_weight=by_weight,
        falling=falling,
        class_of=kind,
        camp=camp,
        may_camp=may_camp,
        may=may,
        capacity=problem.capacity,
        previous=previous,
        owner=owner,
        load=_sums(owner, weight, n),
        count=np.bincount(owner + 1, minlength=n + 1)[1:].astype(np.int64),
        least=np.zeros(n, np.int64),
        most=np.full(n, problem.n_partitions, np.int64),
        limit=np.zeros(n, np.int64),
        trade_counts=False,
        moves_left=max_moves - len(across),
    )


def _valid_claims(problem: Problem, kind: Int32, subscribed: Bools) -> Int32:
    """A copy of the previous owners, UNOWNED where there is none who still subscribes."""
    previous, n = problem.previous_owner.copy(), problem.n_members
    if int(previous.max(initial=UNOWNED)) < 0:
        previous[:] = UNOWNED
        return previous
    if int(previous.max()) >= n or int(previous.min()) < UNOWNED:
        previous[(previous < 0) | (previous >= n)] = UNOWNED
    if int(kind.min()) < 0:
        previous[kind < 0] = UNOWNED
    if not subscribed.all():
        previous[_elsewhere(previous, kind, subscribed)] = UNOWNED
    return previous


def _elsewhere(owner: Int32, kind: Int32, may: Bools) -> Index:
    """Owned partitions whose owner may not have them."""
    if int(owner.min(initial=0)) >= 0:
        return np.flatnonzero(~may[kind, owner])
    owned = np.flatnonzero(owner != UNOWNED)
    return owned[~may[kind[owned], owner[owned]]]


def _heaviest_first(weight: Int64) -> tuple[Index, Int64]:
    """Partitions by falling weight, ties by partition, and the weights in this order.

    Weight and partition are packed into one number each, which sort much faster.
    """
    top, bits = int(weight.max(initial=0)), len(weight).bit_length()
    if top.bit_length() + bits > _WORD:
        order = np.argsort(-weight, kind="stable")
        return order, weight[order]
    packed: Index = ((top - weight) << bits) | np.arange(len(weight))
    packed.sort()
    falling: Int64 = top - (packed >> bits)
    packed &= (1 << bits) - 1
    return packed, falling


def _table(classes: Classes) -> tuple[Int64, Bools]:
    """Member class of each member, and bool[topic classes, member classes] of who may take what."""
    camp = np.where(classes.camp >= 0, classes.camp, classes.n_camps)
    may = np.zeros((classes.n_kinds, classes.n_camps + 1), np.bool_)
    may[classes.link_kind, classes.link_camp] = True
    return camp, may


def _sums(owner: Int32, weight: Int64, n: int) -> Int64:
    """Summed weight per owner in integers (`bincount` would go through floats)."""
    total = np.zeros(n + 1, np.int64)
    np.add.at(total, owner + 1, weight)
    return total[1:]
