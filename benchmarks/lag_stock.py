"""A plan before its partitions move, in the numbers that lower bounds on its moves ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from counterpoise.laws.lag_bound import who_may_own
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["NEVER", "Bools", "Stock", "take_stock"]

NEVER = 10**6
"""More moves than any partition can cost: nobody can take it."""
_LOOK = 4
"""Among so many times the largest count of the lightest partitions is looked for what a member may take; more weighs nothing."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Stock:
    """The plan before: `lag` per partition, `excess` over the limit per member (negative: room), `may[class, member]`.

    `mine` are each member's partitions, heaviest first, `heaviest[m][k - 1]` the sum of its k heaviest, `lightest[m][k]` that
    of the k lightest it may take (0 where counts are free). `drops` and `rises`: who may end with one fewer, or one more.
    `apart` are the sets of members that balanced counts keep apart; none where counts are free.
    """

    lag: Int64
    excess: Int64
    mine: list[Int64]
    heaviest: list[Int64]
    lightest: list[Int64]
    drops: Int64
    rises: Bools
    kind: Int32
    may: Bools
    apart: list[Int64]

    def back(self, member: int, number: Int64) -> Int64:
        """What so many of the lightest weigh."""
        total = self.lightest[member]
        return total[np.clip(number, 0, len(total) - 1)]

    def number(self, member: int, wanted: Int64) -> Int64:
        """How many the member gives so that it is `wanted` lighter, not counting one that it takes; `NEVER`: all do not."""
        total = self.heaviest[member]
        net = np.maximum.accumulate(total - self.back(member, np.arange(len(total)) - self.drops[member]))
        number = np.searchsorted(net, wanted) + 1
        return np.where(wanted <= 0, 0, np.where(number > len(total), NEVER, number)).astype(np.int64)


def take_stock(problem: Problem, owner: Int32, limit: int, fixed: bool) -> Stock:
    """Look at a plan; `fixed`: with balanced counts, which stay."""
    lag, n = np.asarray(problem.lag), problem.n_members
    load = np.zeros(n, np.int64)
    np.add.at(load, owner, lag)
    order = np.lexsort((-lag, owner))
    mine = np.split(order, np.searchsorted(owner[order], np.arange(1, n)))
    count = np.bincount(owner, minlength=n)
    view = who_may_own(problem, lag, owner if fixed else None)
    apart, drops, rises = _apart(view.may) if fixed else [], np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for members in apart:
        drops[members] = np.isin(count[members] - 1, count[members])
        rises[members] = np.isin(count[members] + 1, count[members])
    lightest = [np.zeros(1, np.int64)] * n
    if fixed:
        light = np.argsort(lag, kind="stable")[: _LOOK * int(count.max())]
        able = view.may[view.class_of_partition[light]] & (owner[light, None] != np.arange(n))
        lightest = [np.concatenate(([0], np.cumsum(lag[light[able[:, member]]]))) for member in range(n)]
    heaviest = [np.cumsum(lag[each]) for each in mine]
    return Stock(
        lag, load - limit, mine, heaviest, lightest, drops, rises, view.class_of_partition.astype(np.int32), view.may, apart
    )


def _apart(may: Bools) -> list[Int64]:
    """Sets of members between which no partition can change hands while counts stay balanced."""
    number, member = np.nonzero(may)
    classes, n = may.shape
    arcs = coo_matrix((np.ones(len(number)), (number, classes + member)), shape=(classes + n, classes + n))
    _, component = connected_components(arcs, directed=False)
    of_member = component[classes:]
    return [np.flatnonzero(of_member == each) for each in np.unique(of_member)]
