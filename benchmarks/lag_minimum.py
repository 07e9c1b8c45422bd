"""A lower bound on the moves that bring a plan within a lag limit; `lag-sticky` is measured against it.

The proof. Every move has one giver, so it is counted there. Let f(x) be the smallest number of its heaviest partitions that a
member must give to lose the lag x. With balanced counts it takes one partition for each that it gives, none lighter than the
lightest that it may take; it takes one fewer if some balanced plan leaves it one partition fewer.

1. A member whose lag exceeds the limit by its *excess* gives partitions that weigh at least the excess: at least f(excess).
2. A heavy partition causes more moves than its own. Its taker must also end within the limit, so it gives what does not fit:
   f(weight - slack) of its own partitions. With balanced counts each taker gives one partition in any case (see 3), with free
   counts none. What the taker gives beyond that is the *charge* of the partition: the least one over all members that may take
   it. If one member takes several partitions, their charges add up, because the j heaviest partitions of a member weigh less per
   partition the larger j is. If the taker itself exceeds the limit, the charge is what it then gives beyond the number that is
   counted for it anyway. So a member over the limit costs at least the cheapest set of its partitions that weighs its excess,
   where each partition costs 1 plus its charge.
3. With balanced counts a member that takes must give, unless it ends with one partition more; as many members end with one fewer.
   All that members over the limit lose is taken by members with slack. The smallest number of members with enough slack in sum is
   found by taking those with the most slack. Each of them gives one partition, which neither 1 nor 2 counts. Members that may end
   with one more are not counted, up to the number of members over the limit that may end with one fewer. If balanced counts
   divide the members into sets between which no partition can pass, this holds for each set.

The sum of 2 (which includes 1) and 3 is a lower bound that counts what members give. With balanced counts there is a second one,
which counts light partitions at their takers (`benchmarks.lag_both_ends`). The larger one is the proven minimum.
"""

from __future__ import annotations

import numpy as np

from benchmarks.lag_both_ends import counted_at_both_ends
from benchmarks.lag_stock import NEVER, Stock, take_stock
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["least_moves"]


def least_moves(problem: Problem, owner: Int32, limit: float, *, fixed: bool) -> int:
    """A lower bound on moves from the plan `owner` to any within the limit; `fixed`: from a balanced plan to any balanced one.

    If capacities differ, `fixed` is ignored: counts are treated as free.
    """
    fixed = fixed and len(np.unique(problem.capacity)) == 1
    stock = take_stock(problem, owner, int(limit), fixed)
    over = np.flatnonzero(stock.excess > 0)
    if not len(over):
        return 0
    item = np.concatenate([stock.mine[member] for member in over.tolist()])
    charge = np.full(len(item), NEVER, np.int64)
    for taker in np.flatnonzero(stock.excess <= 0).tolist():
        charge = _cheaper(stock, charge, item, taker, _charge_with_slack(stock, item, taker, fixed))
    first = {member: _cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist()}
    for taker, counted in first.items():
        weight = stock.lag[item]
        more = stock.number(taker, stock.excess[taker] + weight) - counted
        more = np.maximum(np.minimum(more, stock.number(taker, weight) - 1), more - 1)
        charge = _cheaper(stock, charge, item, taker, np.where(owner[item] == taker, NEVER, more))
    givers = sum(_cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist())
    least = givers + _least_takers(stock)
    return max(least, counted_at_both_ends(stock, owner, int(limit))) if fixed else least


def _charge_with_slack(stock: Stock, item: Int64, taker: int, fixed: bool) -> Int64:
    """Charges if a member with slack takes: what it gives beyond one partition with balanced counts, beyond none with free ones.

    If it may end with one fewer, two are free of charge: it then gives at least two, and another member ends with one more. The
    second of the two stands for the partition that is counted for this other member.
    """
    weight = stock.lag[item]
    given = stock.number(taker, weight + stock.excess[taker])
    counted = 1 + int(stock.drops[taker])
    return given - counted if fixed else np.minimum(given, stock.number(taker, weight) - 1)


def _cheaper(stock: Stock, charge: Int64, item: Int64, taker: int, other: Int64) -> Int64:
    """The lower one of two charges, if the taker may own the partition; never below 0."""
    return np.where(stock.may[stock.class_of_partition[item], taker], np.minimum(charge, np.maximum(other, 0)), charge)


def _cheapest(stock: Stock, member: int, charge: Int64) -> int:
    """The least cost of partitions that weigh the member's excess and what it takes in return, at 1 plus the charge each.

    Exact, by dynamic programming over costs and numbers of partitions.
    """
    weight, excess = stock.lag[stock.mine[member]], int(stock.excess[member])
    back = stock.back(member, np.arange(len(weight) + 1) - stock.drops[member])
    free = np.concatenate(([0], np.cumsum(weight[charge == 0])))
    enough = np.flatnonzero(free - back[: len(free)] >= excess)
    most = int(enough[0]) if len(enough) else len(weight)
    reached = np.full((most + 1, most + 1), -NEVER, np.int64)  # by cost and number of partitions: the largest weight
    reached[:, 0] = 0
    for one_charge in np.unique(charge[charge < most]).tolist():
        total = np.concatenate(([0], np.cumsum(weight[charge == one_charge])))
        before, each = reached.copy(), one_charge + 1
        for number in range(1, min(len(total) - 1, most // each) + 1):
            rest = np.s_[: most + 1 - number * each, : most + 1 - number]
            weighed = np.where(before[rest] < 0, -NEVER, before[rest] + total[number])
            np.maximum(reached[number * each :, number:], weighed, out=reached[number * each :, number:])
    enough = np.flatnonzero(((reached >= 0) & (reached - back[: most + 1] >= excess)).any(axis=1))
    return int(enough[0]) if len(enough) else most


def _least_takers(stock: Stock) -> int:
    """The fewest members with slack for what members over the limit lose, and that must give; summed over the sets of `apart`."""
    takers = 0
    for members in stock.apart:
        excess = stock.excess[members]
        lost, slack = int(np.maximum(excess, 0).sum()), np.maximum(-excess, 0)
        rising = np.flatnonzero(stock.rises[members])
        rising = rising[np.argsort(-slack[rising], kind="stable")][: int(stock.drops[members][excess > 0].sum())]
        lost -= int(slack[rising].sum())
        rest = np.sort(np.delete(slack, rising))[::-1]
        takers += int(np.searchsorted(np.cumsum(rest), lost)) + 1 if lost > 0 else 0
    return takers
