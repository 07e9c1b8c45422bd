"""The fewest moves that could bring a plan within a lag limit: a lower bound, proven, by which `lag-sticky` is measured.

The proof. Every move has one giver, so moves are counted by who gives.

1. A member over the limit gives partitions that weigh its excess at least, of its heaviest so many.
2. A heavy partition is not moved for one move alone. Whoever takes it ends within the limit and so gives what does not
   fit, of its own heaviest f(weight - room). With fixed counts a taker gives one partition in any case (3), with free ones
   none: what is beyond that is the *charge* of the partition, the least over the members that may take it. Charges add up when
   one member takes several: the j heaviest weigh the less per piece the more they are. For a taker that is itself over
   the limit the charge is what its gives are then more than what is counted for it anyhow. A member over the
   limit hence costs the cheapest set of its partitions, at 1 and their charge each, that weighs its excess.
3. With fixed counts whoever takes must give. What members over the limit lose in all is taken by members with room below it; the
   fewest that have so much room together are those with the most. Each of them gives one partition, and is counted in neither
   of the above. Where counts keep sets of members apart (no balanced plan lets a partition pass between them) this holds
   for each set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from counterpoise.model.problem import Int32, Int64, Problem
from counterpoise.solver.lag.desk import open_desk

__all__ = ["least_moves"]

_NEVER = 10**6
"""More moves than any partition can cost: nobody can take it."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Stock:
    """The plan before: `lag` per partition, `excess` over the limit per member (negative: room), `may[topic, member]`.

    `mine` are each member's partitions, heaviest first, `heaviest[m][k - 1]` the sum of its k heaviest.
    """

    lag: Int64
    excess: Int64
    mine: list[Int64]
    heaviest: list[Int64]
    topic: Int32
    may: Bools

    def number(self, member: int, wanted: Int64) -> Int64:
        """How many of the member's heaviest partitions weigh as much; `_NEVER` where all of them do not."""
        total = self.heaviest[member]
        number = np.searchsorted(total, wanted) + 1
        return np.where(wanted <= 0, 0, np.where(number > len(total), _NEVER, number)).astype(np.int64)


def least_moves(problem: Problem, owner: Int32, limit: float, *, fixed: bool) -> int:
    """A lower bound on moves, from a plan to any within the limit; with `fixed` counts to any with the same counts.

    Counts can only be fixed where all loads are equal (every balanced plan then has them); elsewhere they are taken for free.
    """
    stock = _stock(problem, owner, int(limit))
    over = np.flatnonzero(stock.excess > 0)
    if not len(over):
        return 0
    fixed = fixed and len(np.unique(np.bincount(owner, minlength=problem.n_members))) == 1
    item = np.concatenate([stock.mine[member] for member in over.tolist()])
    charge = np.full(len(item), _NEVER, np.int64)
    for taker in np.flatnonzero(stock.excess <= 0).tolist():
        charge = _cheaper(stock, charge, item, taker, _charge_of_roomy(stock, item, taker, fixed))
    first = {member: _cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist()}
    for taker, counted in first.items():
        weight = stock.lag[item]
        more = stock.number(taker, stock.excess[taker] + weight) - counted
        more = np.minimum(more, stock.number(taker, weight) - 1)
        charge = _cheaper(stock, charge, item, taker, np.where(owner[item] == taker, _NEVER, more))
    givers = sum(_cheapest(stock, member, charge[owner[item] == member]) for member in over.tolist())
    return givers + (_least_takers(problem, owner, stock.excess) if fixed else 0)


def _stock(problem: Problem, owner: Int32, limit: int) -> _Stock:
    lag, n = np.asarray(problem.lag), problem.n_members
    load = np.zeros(n, np.int64)
    np.add.at(load, owner, lag)
    order = np.lexsort((-lag, owner))
    mine = np.split(order, np.searchsorted(owner[order], np.arange(1, n)))
    may = np.zeros((problem.n_topics, n), np.bool_)
    may[np.repeat(np.arange(problem.n_topics), np.diff(problem.subscriber_start)), problem.subscriber] = True
    heaviest = [np.cumsum(lag[each]) for each in mine]
    return _Stock(lag, load - limit, mine, heaviest, problem.topic_of_partition(), may)


def _charge_of_roomy(stock: _Stock, item: Int64, taker: int, fixed: bool) -> Int64:
    """What a member with room gives beyond what is counted for it: one partition where counts are fixed, else none."""
    weight = stock.lag[item]
    given = stock.number(taker, weight + stock.excess[taker])
    return given - 1 if fixed else np.minimum(given, stock.number(taker, weight) - 1)


def _cheaper(stock: _Stock, charge: Int64, item: Int64, taker: int, other: Int64) -> Int64:
    """The lower of two charges, where the taker may have the partition; never below 0."""
    return np.where(stock.may[stock.topic[item], taker], np.minimum(charge, np.maximum(other, 0)), charge)


def _cheapest(stock: _Stock, member: int, charge: Int64) -> int:
    """The least price of partitions that weigh the member's excess, at 1 and their charge each: exact, by price."""
    weight, excess = stock.lag[stock.mine[member]], int(stock.excess[member])
    free = np.cumsum(weight[charge == 0])
    most = len(weight)
    if len(free) and int(free[-1]) >= excess:
        most = int(np.searchsorted(free, excess)) + 1
    reached = np.zeros(most + 1, np.int64)
    for price in np.unique(charge[charge < most]).tolist():
        total = np.concatenate(([0], np.cumsum(weight[charge == price])))
        before, each = reached.copy(), price + 1
        for number in range(1, min(len(total) - 1, most // each) + 1):
            np.maximum(reached[number * each :], before[: most + 1 - number * each] + total[number], out=reached[number * each :])
    enough = np.flatnonzero(reached >= excess)
    return int(enough[0]) if len(enough) else most


def _least_takers(problem: Problem, owner: Int32, excess: Int64) -> int:
    """The fewest members that have room for what the others must lose, in each set that counts keep apart."""
    takers = 0
    for members in _apart(problem, owner):
        lost = int(np.maximum(excess[members], 0).sum())
        room = np.cumsum(np.sort(np.maximum(-excess[members], 0))[::-1])
        takers += int(np.searchsorted(room, lost)) + 1 if lost else 0
    return takers


def _apart(problem: Problem, owner: Int32) -> list[Int64]:
    """Sets of members between which no partition can change hands while all counts stay."""
    may = open_desk(problem, np.asarray(problem.lag), 0, owner).may
    kind, member = np.nonzero(may)
    size = len(may) + problem.n_members
    arcs = coo_matrix((np.ones(len(kind)), (kind, len(may) + member)), shape=(size, size))
    _, component = connected_components(arcs, directed=False)
    of_member = component[len(may) :]
    return [np.flatnonzero(of_member == each) for each in np.unique(of_member)]
