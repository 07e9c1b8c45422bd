"""Opening a desk: valid claims, who may take what, and all partitions by weight, for a lag-aware plan to start from."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.classes import Classes, classify
from counterpoise.solver.lag.arcs import exchangeable
from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index, exact_sums

_WORD = 63
_LARGE, _ARRAYS = 20_000, 8
"""From so many partitions on memory for half as many arrays as are alive at once is kept between steps."""

__all__ = ["open_desk"]


def open_desk(problem: Problem, weight: Int64, max_moves: int, balanced: Int32 | None = None) -> Desk:
    """A desk on which valid claims are kept and nothing is limited yet; O(S + P).

    With `balanced`, the owners of any balanced plan, members may take only what some balanced plan gives them, and claims
    on anything else are released.
    """
    _keep_memory(problem.n_partitions)
    classes, n = classify(problem), problem.n_members
    camp, subscribed = _table(classes)
    kind, may_camp = classes.topic_class, subscribed
    if balanced is not None:
        may_camp = exchangeable(subscribed, camp, kind, balanced, problem.capacity)
    may = _per_member(may_camp, camp)
    previous = _valid_claims(problem, kind, may if may_camp is subscribed else _per_member(subscribed, camp))
    owner, across = previous.copy(), np.empty(0, np.intp)
    if may_camp is not subscribed:
        across = _elsewhere(previous, kind, may)
        owner[across] = UNOWNED
    by_weight, falling = _heaviest_first(weight)
    nobody = int(owner.max(initial=UNOWNED)) < 0
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
        load=np.zeros(n, np.int64) if nobody else exact_sums(owner + 1, weight, n + 1)[1:],
        count=np.zeros(n, np.int64) if nobody else np.bincount(owner + 1, minlength=n + 1)[1:].astype(np.int64),
        least=np.zeros(n, np.int64),
        most=np.full(n, problem.n_partitions, np.int64),
        limit=np.zeros(n, np.int64),
        trade_counts=False,
        moves_left=max_moves - len(across),
    )


def _keep_memory(partitions: int) -> None:
    """Have the C library keep the memory that arrays of so many partitions free.

    glibc hands back what exceeds twice the largest block freed so far; then each array of a plan is faulted in anew, page by
    page: a tenth of the time that a large plan takes. The block is never touched and costs nothing; elsewhere it does no harm.
    """
    if partitions >= _LARGE:
        np.empty(_ARRAYS * partitions, np.int64)


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
    packed: Index = top - weight
    packed <<= bits
    packed |= np.arange(len(weight))
    packed.sort()
    falling: Int64 = packed >> bits
    np.subtract(top, falling, out=falling)
    packed &= (1 << bits) - 1
    return packed, falling


def _table(classes: Classes) -> tuple[Int64, Bools]:
    """Member class of each member, and bool[topic classes, member classes] of who may take what."""
    camp = np.where(classes.member_class >= 0, classes.member_class, classes.n_member_classes)
    may = np.zeros((classes.n_topic_classes, classes.n_member_classes + 1), np.bool_)
    may[classes.link_topic_class, classes.link_member_class] = True
    return camp, may


def _per_member(may_camp: Bools, camp: Int64) -> Bools:
    """Who may take what by member, from the same by member class; mostly one and the same, where subscriptions are random."""
    n = len(camp)
    if n < may_camp.shape[1] and bool((camp == np.arange(n)).all()):
        return np.ascontiguousarray(may_camp[:, :n])
    return may_camp[:, camp]
