"""A lower bound on moves that counts each of them at its giver or at its taker: for balanced counts.

The proof. Choose a weight: what is no heavier is light. Every move has one giver and one taker; that of a light partition is
counted for its taker, or a share of it for its giver and the rest for its taker; any other one is counted for its giver. So moves
are what members cost, and no plan has fewer than the least that each member can cost by itself, while it ends within the limit
and with as many partitions as before (one fewer or one more where balanced counts allow that). With so many given and so many
light ones taken that least is exact: it gives its heaviest, takes the lightest, and what is missing from its count is the
lightest of the heavier ones, which cost it nothing. Whoever owns a giant must take many light ones: this bound sees that, and
counting by givers alone does not.

Giants, heavier than half of the limit, are no matter of one member: each has one owner in the end, and nobody has two. What a
member costs with each of them and with none makes a table, and the cheapest assignment is the least of all.

The share of givers pays for takers too. What members lose in lag is what others gain: at a price per lag the loss of members over
the limit is worth at least their excess, the gain of the others at most their room, and whoever gains has given something, or
ends with one partition more. So the price of all excess, less what rooms are worth beyond one share, counts as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from benchmarks.lag_stock import NEVER, Bools, Stock
from counterpoise.model.problem import Int32, Int64

__all__ = ["counted_at_both_ends"]

_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What part of a light partition's move is counted for its giver: any is a bound."""
_LEVELS: tuple[float, ...] = (2, 4, 6, 9, 12, 16)
"""So many times the largest count of the lightest partitions are light: any number is a bound."""
_BEYOND = 4
"""So many times the largest count more are looked at for what else a member may take; what comes after weighs no less."""
_ROUNDING = 1e-6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Hand:
    """Sums of what a member may give (heavier, light; the heaviest first) and take (the lightest first), from none on."""

    heavier: Int64
    light: Int64
    light_back: Int64
    heavier_back: Int64

    def least(self, excess: int, given: int, ends: range) -> Floats:
        """The least cost for each share, so that the member ends `excess` lighter.

        `given` is how many giants it gives more than it takes, `ends` how many more it may give than take in all.
        """
        gives, takes = np.arange(len(self.heavier))[:, None], np.arange(len(self.light_back))[None, :]
        best = np.full(len(_SHARES), float(NEVER))
        for fewer in ends:
            other = gives + given - takes - fewer  # above 0 so many heavier ones are taken, below so many light ones given
            back, light = np.maximum(other, 0), np.maximum(-other, 0)
            net = self.heavier[gives] + _upto(self.light, light) - self.light_back[takes] - _upto(self.heavier_back, back)
            row, column = np.nonzero((net >= excess) & (light < len(self.light)))
            for number, share in enumerate(_SHARES):
                cost = row + (1 - share) * column + share * light[row, column]
                best[number] = min(best[number], float(cost.min(initial=NEVER)))
        return best


def counted_at_both_ends(stock: Stock, owner: Int32, limit: int) -> int:
    """A lower bound on moves from the plan `owner` with counts fixed, to any balanced one within the limit."""
    giants = np.flatnonzero(2 * stock.lag > limit)
    price, worth = _prices(stock, len(giants))
    most, rising = max(len(mine) for mine in stock.mine), np.sort(stock.lag)
    look = np.argsort(stock.lag, kind="stable")[: int((max(_LEVELS) + _BEYOND) * most)]
    able: Bools = stock.may[stock.kind[look]] & (owner[look, None] != np.arange(len(stock.mine)))
    best = 0.0
    for level in np.unique(rising[[min(int(times * most), len(rising) - 1) for times in _LEVELS]]).tolist():
        table = np.full((len(_SHARES), len(stock.mine), len(giants) + 1), float(NEVER))
        for member, mine in enumerate(stock.mine):
            weight, back = stock.lag[mine], stock.lag[look[able[:, member]]]
            given, taken = weight[2 * weight <= limit], len(mine) + 2
            hand = _Hand(
                _sums(given[given > level]),
                _sums(given[given <= level]),
                _sums(back[back <= level][:taken]),
                _sums(back[back > level][:taken]),
            )
            for option, cost in _options(stock, member, hand, giants, int(weight[2 * weight > limit].sum())):
                table[:, member, option] = cost + np.multiply(_SHARES, price[member] * stock.excess[member] * cost.any())
        for share, costs in zip(_SHARES, table, strict=True):
            best = max(best, _cheapest_in_all(costs) - share * worth)
    return math.ceil(best - _ROUNDING)


def _options(stock: Stock, member: int, hand: _Hand, giants: Int64, own_weight: int) -> Iterator[tuple[int, Floats]]:
    """What the member costs at least if it ends with no giant (0), or with one of them."""
    own = np.isin(giants, stock.mine[member])
    ends = range(-int(stock.rises[member]), int(stock.drops[member]) + 1)
    for option in range(len(giants) + 1):
        if option and not stock.may[stock.kind[giants[option - 1]], member]:
            continue
        keeps = bool(option and own[option - 1])
        given, taken = int(own.sum()) - keeps, int(option > 0 and not keeps)
        weight = int(stock.lag[giants[option - 1]]) if option else 0
        excess = int(stock.excess[member]) - own_weight + weight
        if not given and not taken and excess <= 0:
            yield option, np.zeros(len(_SHARES))
        else:
            yield option, given + hand.least(excess, given - taken, ends)


def _cheapest_in_all(costs: Floats) -> float:
    """The least sum over the members, where each giant (a column behind the first) is with one of them, nobody with two."""
    none = costs[:, 0]
    with_giant = np.minimum((costs[:, 1:] - none[:, None]).T, NEVER)
    giant, member = linear_sum_assignment(with_giant)
    return float(none.sum() + with_giant[giant, member].sum())


def _prices(stock: Stock, giants: int) -> tuple[Floats, float]:
    """A price per lag for each set of members that counts keep apart, by member, and what rooms are worth at these beyond a give.

    Who ends with one partition more may gain without a give; there are as many as members that end with one fewer: those over the
    limit, and takers of giants. Any other one that does so gives for nothing, which is worth as much.
    """
    price, worth = np.zeros(len(stock.excess)), 0.0
    for members in stock.apart:
        excess = stock.excess[members]
        room = np.maximum(-excess, 0)
        fewer = giants + int(stock.drops[members][excess > 0].sum())
        rising = np.sort(room[stock.rises[members]])[::-1][:fewer]
        best = 0.0
        for each in (1 / np.unique(room[room > 0])).tolist():
            beyond = float(np.maximum(each * room - 1, 0).sum() + np.minimum(each * rising, 1).sum())
            gain = each * float(np.maximum(excess, 0).sum()) - beyond
            if gain > best:
                best, price[members] = gain, each
        worth += price[members[0]] * float(np.maximum(excess, 0).sum()) - best
    return price, worth


def _sums(weights: Int64) -> Int64:
    """Of none, the first, the first two, .."""
    return np.concatenate(([0], np.cumsum(weights)))


def _upto(total: Int64, number: Int64) -> Int64:
    """The sum of so many, or of all that are known."""
    return total[np.minimum(number, len(total) - 1)]
