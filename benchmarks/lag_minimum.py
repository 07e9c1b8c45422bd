"""The fewest moves that could bring a plan within a lag limit: a lower bound, proven, by which `lag-sticky` is measured.

The proof. Every move has one giver, so moves are counted by who gives.

1. A member over the limit gives partitions that weigh its excess at least, of its heaviest so many. With balanced counts it takes
   one for each that it gives, none lighter than the lightest it may take; one fewer, if some balanced plan leaves it one fewer.
2. A heavy partition is not moved for one move alone. Whoever takes it ends within the limit and so gives what does not
   fit, of its own heaviest f(weight - room). With balanced counts a taker gives one partition in any case (3), with free ones
   none: what is beyond that is the *charge* of the partition, the least over the members that may take it. Charges add up when
   one member takes several: the j heaviest weigh the less per piece the more they are. For a taker that is itself over
   the limit the charge is what its gives are then more than what is counted for it anyhow. A member over the
   limit hence costs the cheapest set of its partitions, at 1 and their charge each, that weighs its excess.
3. With balanced counts whoever takes must give, but for members that end with one more; as many end with one fewer. What members
   over the limit lose in all is taken by members with room below it; the fewest that have so much room together are those with
   the most. Each of them gives one partition, and is counted in neither of the above; not counted are as many of those that may
   end with one more as there are members over the limit that may end with one fewer. Where counts keep sets of members apart (no
   balanced plan lets a partition pass between them) this holds for each set.

That counts what is given. With balanced counts a second bound counts light partitions where they are taken
(`benchmarks.lag_both_ends`); the larger of the two is the minimum.
"""

from __future__ import annotations

import numpy as np

from benchmarks.lag_both_ends import counted_at_both_ends
from benchmarks.lag_stock import NEVER, Stock, take_stock
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["least_moves"]


def least_moves(problem: Problem, owner: Int32, limit: float, *, fixed: bool) -> int:
    """A lower bound on moves, from a plan to any within the limit; `fixed`: from a balanced plan to any balanced one.

    Where capacities differ counts are taken for free.
    """
    fixed = fixed and len(np.unique(problem.capacity)) == 1
    stock = take_stock(problem, owner, int(limit), fixed)
    over = np.flatnonzero(stock.excess > 0)
    if not len(over):
        return 0
    item = np.concatenate([stock.mine[member] for member in over.tolist()])
    charge = np.full(len(item), NEVER, np.int64)
    for taker in np.flatnonzero(stock.excess <= 0).tolist():
        charge = _cheaper(stock, charge, item, taker, _charge_of_roomy(stock, item, taker, fixed))
    first = {member: _cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist()}
    for taker, counted in first.items():
        weight = stock.lag[item]
        more = stock.number(taker, stock.excess[taker] + weight) - counted
        more = np.maximum(np.minimum(more, stock.number(taker, weight) - 1), more - 1)
        charge = _cheaper(stock, charge, item, taker, np.where(owner[item] == taker, NEVER, more))
    givers = sum(_cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist())
    least = givers + _least_takers(stock)
    return max(least, counted_at_both_ends(stock, owner, int(limit))) if fixed else least


def _charge_of_roomy(stock: Stock, item: Int64, taker: int, fixed: bool) -> Int64:
    """What a member with room gives beyond what is counted for it: one partition where counts are fixed, else none.

    If it ends with one fewer it gives two at least, and lets another end with one more: that one's is counted for it.
    """
    weight = stock.lag[item]
    given = stock.number(taker, weight + stock.excess[taker])
    counted = 1 + int(stock.drops[taker])
    return given - counted if fixed else np.minimum(given, stock.number(taker, weight) - 1)


def _cheaper(stock: Stock, charge: Int64, item: Int64, taker: int, other: Int64) -> Int64:
    """The lower of two charges, where the taker may have the partition; never below 0."""
    return np.where(stock.may[stock.kind[item], taker], np.minimum(charge, np.maximum(other, 0)), charge)


def _cheapest(stock: Stock, member: int, charge: Int64) -> int:
    """The least price of partitions that weigh the member's excess and what it takes back, at 1 and their charge each: exact."""
    weight, excess = stock.lag[stock.mine[member]], int(stock.excess[member])
    back = stock.back(member, np.arange(len(weight) + 1) - stock.drops[member])
    free = np.concatenate(([0], np.cumsum(weight[charge == 0])))
    enough = np.flatnonzero(free - back[: len(free)] >= excess)
    most = int(enough[0]) if len(enough) else len(weight)
    reached = np.full((most + 1, most + 1), -NEVER, np.int64)  # by price and number: what they weigh
    reached[:, 0] = 0
    for price in np.unique(charge[charge < most]).tolist():
        total = np.concatenate(([0], np.cumsum(weight[charge == price])))
        before, each = reached.copy(), price + 1
        for number in range(1, min(len(total) - 1, most // each) + 1):
            rest = np.s_[: most + 1 - number * each, : most + 1 - number]
            weighed = np.where(before[rest] < 0, -NEVER, before[rest] + total[number])
            np.maximum(reached[number * each :, number:], weighed, out=reached[number * each :, number:])
    enough = np.flatnonzero(((reached >= 0) & (reached - back[: most + 1] >= excess)).any(axis=1))
    return int(enough[0]) if len(enough) else most


def _least_takers(stock: Stock) -> int:
    """The fewest members that have room for what the others must lose, and that must give, in each set that counts keep apart."""
    takers = 0
    for members in stock.apart:
        excess = stock.excess[members]
        lost, room = int(np.maximum(excess, 0).sum()), np.maximum(-excess, 0)
        rising = np.flatnonzero(stock.rises[members])
        rising = rising[np.argsort(-room[rising], kind="stable")][: int(stock.drops[members][excess > 0].sum())]
        lost -= int(room[rising].sum())
        rest = np.sort(np.delete(room, rising))[::-1]
        takers += int(np.searchsorted(np.cumsum(rest), lost)) + 1 if lost > 0 else 0
    return takers
