"""A lower bound on moves by Lagrangian relaxation, for balanced counts: each move is counted at its giver or at its taker.

**Moves as costs of members.** Choose a level and a share between 0 and 1. A partition is light if its lag is at most the level,
and heavy otherwise. Every move has one giver and one taker. The move of a heavy partition costs its giver 1. The move of a light
partition costs its giver the share, and its taker the rest. The number of moves is the sum of the costs of all members.

**Constraints.** Each member must end within the limit, and with as many partitions as before, or one fewer or one more if some
balanced plan has it so. These constraints concern one member at a time. Others couple members: balanced counts divide them into
sets between which no partition can pass, and within each set the lags that members lose sum to zero, because what one member
loses another one gains. So do the numbers of partitions that they lose.

**Relaxation.** The coupling constraints of each set are relaxed with two dual multipliers, one for lag and one for counts. The
reduced cost of a member is its cost, plus the lag multiplier times the lag that it loses, minus the count multiplier times the
number of partitions that it loses (a gain is a negative loss). In every balanced plan the terms with multipliers sum to zero. So
no plan has fewer moves than the sum, over all members, of the least reduced cost under the member's own constraints (weak
duality). This holds for every level and share, every lag multiplier of 0 or more, and every count multiplier.

**The least reduced cost of a member.** A member that neither gives nor takes costs nothing. For any other one, fix how many heavy
partitions it gives and how many light ones it takes. It loses most lag if it gives its heaviest ones, takes the lightest ones,
and completes its count with the lightest heavy ones, which cost a taker nothing (if it must give more instead: with its heaviest
light ones). If this loss reaches the member's excess over the limit, the exchange is possible. It counts with a loss of only the
excess, because no exchange that meets the limit loses less. Below the limit the excess is negative: the member gains its slack.
A member that gives but takes nothing is an exception: it gives one partition, ends with one fewer, and loses all of that
partition's lag, which is mostly more than its excess.

The owner of an oversized partition must take many light partitions. This bound counts those moves; a bound that counts only what
is given does not.

**Oversized partitions** weigh more than half of the limit. Each has one owner in the end, and no member has two. This couples
members, too, but is not relaxed: a table has each member's least reduced cost with no oversized partition, and with each of them.
The cheapest assignment of oversized partitions to members gives the least sum.
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
"""The share of a light partition's move that its giver is charged: the bound holds for any."""
_LEVELS: tuple[float, ...] = (2, 4, 7, 12, 18, 27, 40)
"""This many times the largest count of the lightest partitions are light: the bound holds for any number."""
_BEYOND = 4
"""What else a member may take is among this many times the largest count more; later partitions weigh no less."""
_LAG_MULTIPLIERS, _COUNT_MULTIPLIERS = 8, 5
"""How many multipliers of each kind are compared: the bound holds for any."""
_TRIED = 3
"""How many of the best pairs of multipliers are tried with oversized partitions free to move."""
_SOME = 8
"""How many partitions of a kind a member gives or takes at most, at first."""
_ROUNDING = 1e-6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Exchanges:
    """Prefix sums of what a member may give (`heavy`, `light`: heaviest first) and take (`.._back`: lightest first), from 0."""

    heavy: Int64
    light: Int64
    light_back: Int64
    heavy_back: Int64

    def least(self, excess: int, given: int, taken: int, ends: range) -> Floats:
        """The least cost of losing `excess` or more, by number of partitions lost (`ends`: -1, 0 or 1) and share.

        `given` and `taken` are numbers of oversized partitions; their moves are not included. The cases in which the member takes
        nothing are left out (`_Table` has them). A few partitions mostly suffice, so up to `_SOME` of a kind are tried first. Any
        other exchange costs at least `_SOME - given`; if the costs found are no higher, they are the least.
        """
        some = self._least(excess, given, taken, ends, _SOME)
        return some if some[[end + 1 for end in ends]].max() <= _SOME - given else self._least(excess, given, taken, ends, NEVER)

    def _least(self, excess: int, given: int, taken: int, ends: range, most: int) -> Floats:
        """The same with at most `most` heavy partitions given and at most `most` light ones taken."""
        gives = np.arange(min(len(self.heavy), most + 1))[:, None]
        takes = np.arange(min(len(self.light_back), most + 1))[None, :]
        best = np.full((3, len(_SHARES)), float(NEVER))
        for fewer in ends:
            other = gives + given - taken - takes - fewer  # positive: heavy ones taken; negative: light ones given
            back, light = np.maximum(other, 0), np.maximum(-other, 0)
            alone = (takes == 0) & (other <= 0) & (taken == 0)  # it takes nothing: add a light one for a heavy one
            back, light = back + alone, light + alone
            net = self.heavy[gives] + _upto(self.light, light) - self.light_back[takes] - _upto(self.heavy_back, back)
            row, column = np.nonzero((net >= excess) & (light < len(self.light)))
            for number, share in enumerate(_SHARES):
                cost = row + (1 - share) * column + share * light[row, column]
                best[fewer + 1, number] = float(cost.min(initial=NEVER))
        return best


@dataclass(frozen=True)
class _Table:
    """Costs of members at a level, by member and option: to end without an oversized partition, or with one of them.

    `moves`: the cost of an exchange, by number of partitions lost, and share. `nothing`: 0 if the member may stay as it is.
    `alone`: the smallest sufficient lag if it gives one partition and takes none: a heavy or oversized one (cost 1), or a
    light one (cost: the share); `barred` is `NEVER` if there is none, else 0. `excess`: lag above the limit, per member.
    """

    excess: Int64
    moves: Floats
    nothing: Floats
    alone: Floats
    barred: Floats

    def costs(self, share: int, lag_multiplier: Floats, count_multiplier: Floats) -> Floats:
        """The least reduced costs at these multipliers (one per member)."""
        paid, fewer = (lag_multiplier * self.excess)[:, None], count_multiplier[:, None]
        ends = [self.moves[:, :, end, share] + paid - (end - 1) * fewer for end in range(3)]
        lost = lag_multiplier[:, None, None] * self.alone + self.barred
        single = [cost + lost[:, :, which] - fewer for which, cost in enumerate((1.0, _SHARES[share]))]
        least: Floats = np.minimum.reduce([self.nothing, *ends, *single])
        return least


def counted_at_both_ends(stock: Stock, owner: Int32, limit: int) -> int:
    """A lower bound on moves from the balanced plan `owner` to any balanced plan within the limit."""
    oversized = np.flatnonzero(2 * stock.lag > limit)
    has = np.zeros(len(stock.mine), np.int64)
    has[owner[oversized]] = 1 + np.arange(len(oversized))
    best = 0.0
    for level in _levels(stock):
        table = _table(stock, owner, limit, oversized, level)
        for share in range(len(_SHARES)):
            for lag_multiplier, count_multiplier in _multipliers(stock, table, share, has):
                best = max(best, _cheapest_in_all(table.costs(share, lag_multiplier, count_multiplier)))
    return math.ceil(best - _ROUNDING)


def _levels(stock: Stock) -> list[int]:
    most, rising = max(len(mine) for mine in stock.mine), np.sort(stock.lag)
    levels: list[int] = np.unique(rising[[min(int(times * most), len(rising) - 1) for times in _LEVELS]]).tolist()
    return levels


def _table(stock: Stock, owner: Int32, limit: int, oversized: Int64, level: int) -> _Table:
    n, most = len(stock.mine), max(len(mine) for mine in stock.mine)
    look = np.argsort(stock.lag, kind="stable")[: int((max(_LEVELS) + _BEYOND) * most)]
    able: Bools = stock.may[stock.class_of_partition[look]] & (owner[look, None] != np.arange(n))
    moves = np.full((n, len(oversized) + 1, 3, len(_SHARES)), float(NEVER))
    nothing = np.full((n, len(oversized) + 1), float(NEVER))
    alone = np.full((n, len(oversized) + 1, 2), np.inf)
    for member, mine in enumerate(stock.mine):
        weight, back = stock.lag[mine], stock.lag[look[able[:, member]]]
        given, taken = weight[2 * weight <= limit], len(mine) + 2
        heavy, light = given[given > level], given[given <= level]
        exchanges = _Exchanges(_sums(heavy), _sums(light), _sums(back[back <= level][:taken]), _sums(back[back > level][:taken]))
        ends = range(-int(stock.rises[member]), int(stock.drops[member]) + 1)
        own = weight[2 * weight > limit]
        for option, gives, takes in _options(stock, member, oversized):
            more = int(stock.lag[oversized[option - 1]]) if option else 0
            excess = int(stock.excess[member]) - int(own.sum()) + more
            moves[member, option] = gives + exchanges.least(excess, gives, takes, ends)
            if takes:
                continue
            if not gives and excess <= 0:
                nothing[member, option] = 0
            if 1 in ends and gives == 1 and excess <= 0:
                alone[member, option, 0] = own.sum() - more
            if 1 in ends and not gives:
                for which, some in enumerate((heavy, light)):
                    alone[member, option, which] = some[some >= excess].min(initial=np.iinfo(np.int64).max)
    barred = alone > float(stock.lag.sum())
    return _Table(stock.excess, moves, nothing, np.where(barred, 0, alone), np.where(barred, float(NEVER), 0))


def _options(stock: Stock, member: int, oversized: Int64) -> Iterator[tuple[int, int, int]]:
    """Options of a member (0: it ends with no oversized partition): how many of these it gives, and how many it takes."""
    own = np.isin(oversized, stock.mine[member])
    for option in range(len(oversized) + 1):
        keeps = bool(option and own[option - 1])
        if not option or stock.may[stock.class_of_partition[oversized[option - 1]], member]:
            yield option, int(own.sum()) - keeps, int(option > 0 and not keeps)


def _cheapest_in_all(costs: Floats) -> float:
    """The least sum of costs if each oversized partition (a column after the first) has one owner, and no member has two."""
    none = costs[:, 0]
    with_oversized = np.minimum((costs[:, 1:] - none[:, None]).T, NEVER)
    partition, member = linear_sum_assignment(with_oversized)
    return float(none.sum() + with_oversized[partition, member].sum())


def _multipliers(stock: Stock, table: _Table, share: int, has: Int64) -> Iterator[tuple[Floats, Floats]]:
    """Multipliers to try, one of each kind per member: zeros, then those with the highest bounds while oversized partitions stay.

    They are chosen for each set of members between which no partition can pass.
    """
    n = len(stock.mine)
    lag_multiplier, count_multiplier = np.zeros((_TRIED, n)), np.zeros((_TRIED, n))
    yield lag_multiplier[0], count_multiplier[0]
    stay = np.arange(n), has
    now = _Table(
        stock.excess,
        table.moves[stay][:, None],
        table.nothing[stay][:, None],
        table.alone[stay][:, None],
        table.barred[stay][:, None],
    )
    for members in stock.apart:
        slack = np.unique(-stock.excess[members][stock.excess[members] < 0])
        if not len(slack):
            continue
        found = []
        for each in np.unique(1 / np.quantile(slack, np.linspace(0.1, 1, _LAG_MULTIPLIERS))).tolist():
            for part in np.linspace(0, 1, _COUNT_MULTIPLIERS).tolist():
                for scale in (0.5, 1.0):
                    costs = now.costs(share, np.full(n, scale * each), np.full(n, part))
                    found.append((float(np.minimum(costs[members, 0], NEVER).sum()), scale * each, part))
        for tried, (_, each, part) in enumerate(sorted(found, reverse=True)[:_TRIED]):
            lag_multiplier[tried, members], count_multiplier[tried, members] = each, part
    yield from zip(lag_multiplier, count_multiplier, strict=True)


def _sums(weights: Int64) -> Int64:
    """Prefix sums: of none, the first, the first two, .."""
    return np.concatenate(([0], np.cumsum(weights)))


def _upto(total: Int64, number: Int64) -> Int64:
    """The sum of the first `number`, or of all that are known."""
    return total[np.minimum(number, len(total) - 1)]
