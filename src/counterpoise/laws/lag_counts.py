"""The law of counts within a band: no member lies further from balance than `lag-sticky` was allowed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.laws.balance import MarginalCosts, heaviest, loads, marginal_costs, walk
from counterpoise.laws.exchange import along_walk
from counterpoise.laws.exchange_graph import ExchangeGraph, classes, exchange_graph
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["count_band"]


def count_band(
    problem: Problem, owner: Int32, *, options: Mapping[str, object] | None = None, words: Words | None = None
) -> list[Violation]:
    """Law ``counts``: every member's count lies within the band of one that it has in some balanced plan.

    Parameters
    ----------
    owner : int32[P]
        A valid, complete plan.
    options : mapping, optional
        `counts` as in `lag-sticky`; "balanced" and none given are a band of 0.

    Raises
    ------
    OptionError
        The option is no such band.

    Notes
    -----
    A balanced plan is made from the plan at hand by walks that each pass one partition from a heavy to a light member: no solver
    takes part. O(P + S) for each partition of imbalance; a band as large as the group holds of every plan.
    """
    band = (options or {}).get("counts", 0)
    band = 0 if band == "balanced" else band
    if isinstance(band, bool) or not isinstance(band, int) or band < 0:
        raise OptionError(f"the plan's option 'counts': {band!r} is neither 'balanced' nor a whole number, 0 or more")
    if band >= problem.n_partitions:
        return []
    words = Words(problem) if words is None else words
    load = loads(problem.n_members, owner)
    graph, marginal, balanced = _balanced(problem, owner)
    low, high = balanced.copy(), balanced.copy()
    for member in np.flatnonzero(balanced - load > band).tolist():
        low[member] -= _can_give(graph, marginal, member)
    for member in np.flatnonzero(load - balanced > band).tolist():
        high[member] += _can_take(graph, marginal, member)
    off = np.maximum(low - load, load - high)
    if not len(off) or int(off.max()) <= band:
        return []
    worst = int(np.argmax(off))
    share = int(low[worst] if load[worst] < low[worst] else high[worst])
    message = (
        f"{words.member(worst)} has {int(load[worst])} partitions, {int(off[worst])} from the nearest balanced count of {share}; "
        f"{band} are allowed"
    )
    return [Violation("counts", message, int(np.count_nonzero(off > band)))]


def _balanced(problem: Problem, owner: Int32) -> tuple[ExchangeGraph, MarginalCosts, Int64]:
    """The exchange graph, marginal costs and counts of a balanced plan near this one."""
    owner, claims, known = owner.copy(), np.full_like(owner, UNOWNED), classes(problem)
    while True:
        graph = exchange_graph(problem, owner, claims, known)
        load = loads(problem.n_members, owner)
        marginal = marginal_costs(load, problem.capacity)
        top = heaviest(graph, marginal)
        excess = marginal.last[top] - marginal.following
        if not len(excess) or int(excess.max()) <= 0:
            return graph, marginal, load
        taker = int(np.argmax(excess))
        for move in along_walk(problem, owner, claims, known, walk(graph, int(top[taker]), taker)):
            owner[move.partition] = move.taker


def _can_take(graph: ExchangeGraph, marginal: MarginalCosts, member: int) -> bool:
    """In another balanced plan it has one more: a member whose last partition costs as much can pass one on to it."""
    return bool(marginal.last[heaviest(graph, marginal)[member]] == marginal.following[member])


def _can_give(graph: ExchangeGraph, marginal: MarginalCosts, member: int) -> bool:
    """In another balanced plan it has one fewer: it can pass one on to a member whose next partition costs as much."""
    alone = np.zeros_like(marginal.last)
    alone[member] = 1
    reached = heaviest(graph, MarginalCosts(alone, marginal.following)) == member
    reached[member] = False
    return bool((reached & (marginal.following == marginal.last[member])).any())
