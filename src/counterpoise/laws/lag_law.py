"""The laws of `lag-sticky`: counts near balance, lag near a proven bound, and true figures about lag."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from counterpoise.errors import OptionError
from counterpoise.laws.balance import MarginalCosts, heaviest, loads, marginal_costs, walk
from counterpoise.laws.certificate import balance_violation
from counterpoise.laws.exchange import along_walk
from counterpoise.laws.exchange_graph import ExchangeGraph, classes, exchange_graph
from counterpoise.laws.lag_bound import in_records, lag_report
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.arrays import sums_by_code
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.snapshot.json_text import shown

__all__ = ["TOLERANCE", "carried_lag", "count_band", "lag"]

TOLERANCE = 0.1
"""The tolerance for a plan that names none: the default of `lag-sticky`."""


def lag(
    problem: Problem,
    owner: Int32,  # int32[P]: a valid, complete plan
    *,
    options: Mapping[str, object] | None = None,  # `tolerance` and `min_lag_gain` as in `lag-sticky`; default 0.1 and 0
    words: Words | None = None,
) -> list[Violation]:
    """Law ``lag``: every member's lag is at most a lower bound for every plan, times one plus the tolerance.

    Raises `OptionError` if the group's lag is not known.

    A balanced plan is compared with balanced plans, any other with all plans. Limits are rounded up to whole records. The bound
    is a lower bound and may be loose: a plan that fails may still be optimal, a plan that passes is certainly within the limit.
    Cost: that of `lag_report`, and one search for a more balanced plan.
    """
    if problem.lag is None:
        raise OptionError("laws: 'lag' needs the lag of the group, and it is not known; put it into the snapshot")
    words = Words(problem) if words is None else words
    given = options or {}
    share = _number("tolerance", given.get("tolerance", TOLERANCE))
    gain = _number("min_lag_gain", given.get("min_lag_gain", 0))
    report = lag_report(problem, owner, counts=None if balance_violation(problem, owner) else "balanced")
    behind = sums_by_code(owner, problem.lag, problem.n_members)
    over = [
        (Fraction(load, capacity), member)
        for member, (load, capacity) in enumerate(zip(behind.tolist(), problem.capacity.tolist(), strict=True))
        if load > ceil(report.bound * (1 + share) * capacity) and load > ceil(report.bound * capacity) + gain
    ]
    if not over:
        return []
    _, worst = max(over, key=lambda each: (each[0], -each[1]))
    bound = _words(in_records(report.bound, problem.capacity))
    message = (
        f"{words.member(worst)} is {int(behind[worst])} records behind at capacity {int(problem.capacity[worst])}, "
        f"{report.gap:.1%} above the proven bound of {bound} per capacity; {float(share):.1%} are tolerated"
    )
    return [Violation("lag", message, len(over))]


def carried_lag(problem: Problem, owner: Int32, said: Mapping[str, Any], true: Mapping[str, Any]) -> list[Violation]:
    """Compare the figures that a plan carries with the true ones; both as `snapshot.plan.lag_figures`."""
    if true["counts"] == "balanced" and balance_violation(problem, owner):
        return [Violation("lag", "the plan is not balanced, and the bound it carries is one of balanced plans")]
    for name in (*true, *said):
        if said.get(name) != true.get(name):
            return [Violation("lag", f"the plan says {name} {shown(said.get(name))} of its lag, but it is {true.get(name)!r}")]
    return []


def count_band(
    problem: Problem,
    owner: Int32,  # int32[P]: a valid, complete plan
    *,
    options: Mapping[str, object] | None = None,  # `counts` as in `lag-sticky`; "balanced" and none given are a band of 0
    words: Words | None = None,
) -> list[Violation]:
    """Law ``counts``: each member's count differs by at most the band from a count that it has in some balanced plan.

    Raises `OptionError` if the option `counts` is neither "balanced" nor a whole number.

    A balanced plan is made from the plan at hand by walks that each pass one partition from a heavy to a light member: no solver
    takes part. O(P + S) for each partition of imbalance. Every plan satisfies a band of P or more.
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
    owner, known = owner.copy(), classes(problem)
    problem = problem.replace(previous_owner=np.full_like(owner, UNOWNED))
    while True:
        graph = exchange_graph(problem, owner, known)
        load = loads(problem.n_members, owner)
        marginal = marginal_costs(load, problem.capacity)
        top = heaviest(graph, marginal)
        excess = marginal.last[top] - marginal.following
        if not len(excess) or int(excess.max()) <= 0:
            return graph, marginal, load
        taker = int(np.argmax(excess))
        for move in along_walk(problem, owner, known, walk(graph, int(top[taker]), taker)):
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


def _number(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise OptionError(f"the plan's option {name!r}: {value!r} is no number, 0 or more")
    return Fraction(str(value))


def _words(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.1f}"
