"""The figures of a plan that lower bounds on the moves away from it need."""

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
"""A cost above any number of moves: of a partition that no member can take."""
_LOOK = 4
"""The partitions that a member may take are looked for among this many times the largest count of the lightest ones. If a member
takes more than are found there, the others count as weightless."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Stock:
    """A plan as arrays; a member's lag is the sum of its partitions' lags.

    lag : per partition
    excess : per member, its lag minus the limit; if negative, its slack
    mine : per member, its partitions, heaviest first
    heaviest : `heaviest[m][k - 1]` is the sum of the k heaviest partitions of member m
    lightest : `lightest[m][k]` is the sum of the k lightest partitions that m may take; only `[0]` if counts are free
    drops, rises : per member, whether another balanced plan gives it one partition fewer, or one more
    class_of_partition : topic class per partition
    may : `may[class, member]`: the member may own partitions of the class (in some balanced plan, unless counts are free)
    apart : the sets of members between which balanced counts let no partition pass; empty if counts are free
    """

    lag: Int64
    excess: Int64
    mine: list[Int64]
    heaviest: list[Int64]
    lightest: list[Int64]
    drops: Int64
    rises: Bools
    class_of_partition: Int32
    may: Bools
    apart: list[Int64]

    def back(self, member: int, number: Int64) -> Int64:
        """The sum of the `number` lightest partitions that the member may take."""
        total = self.lightest[member]
        return total[np.clip(number, 0, len(total) - 1)]

    def number(self, member: int, wanted: Int64) -> Int64:
        """The fewest partitions that the member gives to lose `wanted` besides one that it takes; `NEVER` if all are too few."""
        total = self.heaviest[member]
        net = np.maximum.accumulate(total - self.back(member, np.arange(len(total)) - self.drops[member]))
        number = np.searchsorted(net, wanted) + 1
        return np.where(wanted <= 0, 0, np.where(number > len(total), NEVER, number)).astype(np.int64)


def take_stock(problem: Problem, owner: Int32, limit: int, fixed: bool) -> Stock:
    """The figures of the plan `owner`; `fixed`: it is balanced, and only balanced plans are considered."""
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
    """The sets of members between which no partition can pass while counts stay balanced."""
    number, member = np.nonzero(may)
    classes, n = may.shape
    arcs = coo_matrix((np.ones(len(number)), (number, classes + member)), shape=(classes + n, classes + n))
    _, component = connected_components(arcs, directed=False)
    of_member = component[classes:]
    return [np.flatnonzero(of_member == each) for each in np.unique(of_member)]
