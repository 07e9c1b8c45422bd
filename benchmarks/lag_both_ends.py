"""A lower bound on moves that counts each of them at its giver or at its taker, with prices on lag and counts: where these stay.

The proof. Choose a weight: what is no heavier is light. Every move has one giver and one taker; that of a light partition is
counted for its taker, or a share of it for its giver and the rest for its taker; any other one is counted for its giver. So moves
are what members cost. What some lose in lag others gain, and so it is with counts, in each set of members that counts keep apart:
so whatever members pay for lag lost and are paid for lag gained, at one price, and likewise for counts, adds up to nothing.
Hence no plan has fewer moves than the least that each member can cost by itself at these prices, while it ends within the limit
and with as many partitions as before (one fewer or one more where balanced counts allow that). Any weight, share and prices do.

What a member can cost at least: nothing, if it gives and takes nothing. With so many given and so many light ones taken it loses
most if it gives its heaviest, takes the lightest, and fills up its count with the lightest of the heavier ones, which cost it
nothing; if that is as much as its excess, such an exchange counts, with a loss of just the excess (a gain of its room). But who
takes nothing gives a single partition, ends with one fewer, and loses what it weighs: mostly more. Whoever owns a giant must
take many light ones: this bound sees that, and counting by givers alone does not.

Giants, heavier than half of the limit, are no matter of one member: each has one owner in the end, and nobody has two. What a
member costs with each of them and with none makes a table, and the cheapest assignment is the least of all.
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
_LEVELS: tuple[float, ...] = (2, 4, 7, 12, 18, 27, 40)
"""So many times the largest count of the lightest partitions are light: any number is a bound."""
_BEYOND = 4
"""So many times the largest count more are looked at for what else a member may take; what comes after weighs no less."""
_PRICES, _COUNT_PRICES = 8, 5
"""So many prices per lag, and per partition, are tried: any are a bound."""
_TRIED = 3
_SOME = 8
_ROUNDING = 1e-6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Hand:
    """Sums of what a member may give (heavier, light; the heaviest first) and take (the lightest first), from none on."""

    heavier: Int64
    light: Int64
    light_back: Int64
    heavier_back: Int64

    def least(self, excess: int, given: int, taken: int, ends: range) -> Floats:
        """The least cost by `ends` (how many fewer in the end: -1, 0, 1) and share, so that the member ends `excess` lighter.

        Giants given and taken are not counted; who gives or takes nothing at all is left out. Mostly a few partitions do: who
        gives or takes more than `_SOME` of a kind costs so many, less giants given; where others cost no more they decide.
        """
        some = self._least(excess, given, taken, ends, _SOME)
        return some if some[[end + 1 for end in ends]].max() <= _SOME - given else self._least(excess, given, taken, ends, NEVER)

    def _least(self, excess: int, given: int, taken: int, ends: range, most: int) -> Floats:
        """The same among those who give up to so many heavier ones and take up to so many light ones."""
        gives = np.arange(min(len(self.heavier), most + 1))[:, None]
        takes = np.arange(min(len(self.light_back), most + 1))[None, :]
        best = np.full((3, len(_SHARES)), float(NEVER))
        for fewer in ends:
            other = gives + given - taken - takes - fewer  # above 0 so many heavier are taken, below so many light given
            back, light = np.maximum(other, 0), np.maximum(-other, 0)
            alone = (takes == 0) & (other <= 0) & (taken == 0)  # takes nothing: unless a light one goes for a heavier one as well
            back, light = back + alone, light + alone
            net = self.heavier[gives] + _upto(self.light, light) - self.light_back[takes] - _upto(self.heavier_back, back)
            row, column = np.nonzero((net >= excess) & (light < len(self.light)))
            for number, share in enumerate(_SHARES):
                cost = row + (1 - share) * column + share * light[row, column]
                best[fewer + 1, number] = float(cost.min(initial=NEVER))
        return best


@dataclass(frozen=True)
class _Table:
    """What members cost at a level, by member and option (no giant, or one of them).

    `moves` by how many fewer it ends with, and share; `nothing`: 0 where it may stay as it is. `alone`: the least weight that
    suffices where it gives one partition and takes nothing, a heavier one (at 1) or a light one (at the share), or `barred`.
    """

    excess: Int64
    moves: Floats
    nothing: Floats
    alone: Floats
    barred: Floats

    def costs(self, share: int, lag_price: Floats, count_price: Floats) -> Floats:
        """The table at these prices (per member)."""
        paid, fewer = (lag_price * self.excess)[:, None], count_price[:, None]
        ends = [self.moves[:, :, end, share] + paid - (end - 1) * fewer for end in range(3)]
        lost = lag_price[:, None, None] * self.alone + self.barred
        single = [cost + lost[:, :, which] - fewer for which, cost in enumerate((1.0, _SHARES[share]))]
        least: Floats = np.minimum.reduce([self.nothing, *ends, *single])
        return least


def counted_at_both_ends(stock: Stock, owner: Int32, limit: int) -> int:
    """A lower bound on moves from the plan `owner` with counts fixed, to any balanced one within the limit."""
    giants = np.flatnonzero(2 * stock.lag > limit)
    has = np.zeros(len(stock.mine), np.int64)
    has[owner[giants]] = 1 + np.arange(len(giants))
    best = 0.0
    for level in _levels(stock):
        table = _table(stock, owner, limit, giants, level)
        for share in range(len(_SHARES)):
            for lag_price, count_price in _prices(stock, table, share, has):
                best = max(best, _cheapest_in_all(table.costs(share, lag_price, count_price)))
    return math.ceil(best - _ROUNDING)


def _levels(stock: Stock) -> list[int]:
    most, rising = max(len(mine) for mine in stock.mine), np.sort(stock.lag)
    levels: list[int] = np.unique(rising[[min(int(times * most), len(rising) - 1) for times in _LEVELS]]).tolist()
    return levels


def _table(stock: Stock, owner: Int32, limit: int, giants: Int64, level: int) -> _Table:
    n, most = len(stock.mine), max(len(mine) for mine in stock.mine)
    look = np.argsort(stock.lag, kind="stable")[: int((max(_LEVELS) + _BEYOND) * most)]
    able: Bools = stock.may[stock.kind[look]] & (owner[look, None] != np.arange(n))
    moves = np.full((n, len(giants) + 1, 3, len(_SHARES)), float(NEVER))
    nothing = np.full((n, len(giants) + 1), float(NEVER))
    alone = np.full((n, len(giants) + 1, 2), np.inf)
    for member, mine in enumerate(stock.mine):
        weight, back = stock.lag[mine], stock.lag[look[able[:, member]]]
        given, taken = weight[2 * weight <= limit], len(mine) + 2
        heavier, light = given[given > level], given[given <= level]
        hand = _Hand(_sums(heavier), _sums(light), _sums(back[back <= level][:taken]), _sums(back[back > level][:taken]))
        ends = range(-int(stock.rises[member]), int(stock.drops[member]) + 1)
        own = weight[2 * weight > limit]
        for option, gives, takes in _options(stock, member, giants):
            more = int(stock.lag[giants[option - 1]]) if option else 0
            excess = int(stock.excess[member]) - int(own.sum()) + more
            moves[member, option] = gives + hand.least(excess, gives, takes, ends)
            if takes:
                continue
            if not gives and excess <= 0:
                nothing[member, option] = 0
            if 1 in ends and gives == 1 and excess <= 0:
                alone[member, option, 0] = own.sum() - more
            if 1 in ends and not gives:
                for which, some in enumerate((heavier, light)):
                    alone[member, option, which] = some[some >= excess].min(initial=np.iinfo(np.int64).max)
    barred = alone > float(stock.lag.sum())
    return _Table(stock.excess, moves, nothing, np.where(barred, 0, alone), np.where(barred, float(NEVER), 0))


def _options(stock: Stock, member: int, giants: Int64) -> Iterator[tuple[int, int, int]]:
    """With no giant in the end (0), or with one of them: how many it gives, and how many it takes."""
    own = np.isin(giants, stock.mine[member])
    for option in range(len(giants) + 1):
        keeps = bool(option and own[option - 1])
        if not option or stock.may[stock.kind[giants[option - 1]], member]:
            yield option, int(own.sum()) - keeps, int(option > 0 and not keeps)


def _cheapest_in_all(costs: Floats) -> float:
    """The least sum over the members, where each giant (a column behind the first) is with one of them, nobody with two."""
    none = costs[:, 0]
    with_giant = np.minimum((costs[:, 1:] - none[:, None]).T, NEVER)
    giant, member = linear_sum_assignment(with_giant)
    return float(none.sum() + with_giant[giant, member].sum())


def _prices(stock: Stock, table: _Table, share: int, has: Int64) -> Iterator[tuple[Floats, Floats]]:
    """Prices to try, per member: none, and such as are best, in each set of members that counts keep apart, while giants stay."""
    n = len(stock.mine)
    lag_price, count_price = np.zeros((_TRIED, n)), np.zeros((_TRIED, n))
    yield lag_price[0], count_price[0]
    stay = np.arange(n), has
    now = _Table(
        stock.excess,
        table.moves[stay][:, None],
        table.nothing[stay][:, None],
        table.alone[stay][:, None],
        table.barred[stay][:, None],
    )
    for members in stock.apart:
        room = np.unique(-stock.excess[members][stock.excess[members] < 0])
        if not len(room):
            continue
        found = []
        for each in np.unique(1 / np.quantile(room, np.linspace(0.1, 1, _PRICES))).tolist():
            for part in np.linspace(0, 1, _COUNT_PRICES).tolist():
                for scale in (0.5, 1.0):
                    costs = now.costs(share, np.full(n, scale * each), np.full(n, part))
                    found.append((float(np.minimum(costs[members, 0], NEVER).sum()), scale * each, part))
        for tried, (_, each, part) in enumerate(sorted(found, reverse=True)[:_TRIED]):
            lag_price[tried, members], count_price[tried, members] = each, part
    yield from zip(lag_price, count_price, strict=True)


def _sums(weights: Int64) -> Int64:
    """Of none, the first, the first two, .."""
    return np.concatenate(([0], np.cumsum(weights)))


def _upto(total: Int64, number: Int64) -> Int64:
    """The sum of so many, or of all that are known."""
    return total[np.minimum(number, len(total) - 1)]
