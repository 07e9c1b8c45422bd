"""Annealing: exchanges by the thousand in array steps; members may be over their limits on the way, at a price that rises.

So chains of exchanges come about that no walk within all limits finds. For each of many partitions every exchange of a kind is
looked at, and one is drawn by the Boltzmann distribution of its price (heat bath); of those that touch the same member the first
is made. What is over its limit at some points on the way is repaired as ever, on a copy. Kirkpatrick, Gelatt, Vecchi (1983).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int64
from counterpoise.solver.lag.desk import Desk, Index, exact_sums
from counterpoise.solver.lag.noise import Noise
from counterpoise.solver.lag.repair import repair

_KINDS = ("home", "home", "between", "near", "alone")
"""The kinds of exchange, one after another: back home twice as often as any other."""
_WARM, _COLD = 0.2, 0.08
"""What costs a move more is done with probability exp(-1 / this), at first and at last."""
_LENIENT, _STRICTER, _TIMES = 60.0, 1.0325, 100
"""So many moves is a whole limit of lag beyond limits worth at first; by this factor more, so many times."""
_ROWS, _ROWS_ALONE, _BETWEEN = 48, 24, 64
"""So many partitions at once: for any other one, for nothing, and of those that moved already."""
_FAR = (1, 2, 4, 7, 12, 20, 33, 55, 90, 150, 240, 380, 600, 900)
"""So many places away in the order of weights, or part of it, are those for which a partition changes places with any."""
_SPARE = 8
"""So many more partitions than anybody had at first a member may have on the way."""
_REPAIRED = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""After these parts of the way what is over its limit is repaired."""
_NEVER = 1e18

__all__ = ["annealed"]

Floats = npt.NDArray[np.float64]


def annealed(desk: Desk, least: int, batches: int) -> Desk:
    """The desk, or the one with fewest moves of those met: within all limits and counts as well.

    Parameters
    ----------
    least : int
        So many moves are few enough: the search ends.
    batches : int
        Array steps. Each looks at a few thousand exchanges.
    """
    crowd = _Crowd(desk)
    moved = crowd.moved()
    best, fewest = desk, len(moved)
    look = {int(part * batches) - 1 for part in _REPAIRED}
    for batch in range(batches):
        crowd.step(_KINDS[batch % len(_KINDS)], moved, batch / batches)
        moved = crowd.moved()
        if not len(moved):
            break
        if len(moved) >= fewest:
            continue
        within = int(crowd.room.min()) >= 0
        if not within and batch not in look:
            continue
        found = crowd.on_desk()
        if not within:
            repair(found, relays=False)
        moves = len(found.moved())
        if moves < fewest and not found.excess():
            best, fewest = found, moves
            if fewest <= least:
                break
    return best


@dataclass(slots=True)
class _Crowd:
    """The plan in arrays: `hold[member, slot]` are the partitions, with `lag`, `kind` and what they cost to take along.

    `room` is below 0 beyond a limit; `leaves` is 1 for what is at home, 0 for what has moved, and out of reach where nothing is.
    """

    desk: Desk
    home: Int64 = field(init=False)
    owner: Int64 = field(init=False)
    room: Int64 = field(init=False)
    count: Int64 = field(init=False)
    class_of: Int64 = field(init=False)
    hold: Int64 = field(init=False)
    lag: Int64 = field(init=False)
    kind: Int64 = field(init=False)
    leaves: Floats = field(init=False)
    slot: Int64 = field(init=False)
    order: Index = field(init=False)
    rank: Int64 = field(init=False)
    away: Int64 = field(init=False)
    noise: Noise = field(init=False)
    dear: Floats = field(init=False)
    times: int = 0
    heat: float = _WARM
    all_may: bool = field(init=False)
    fixed: bool = field(init=False)

    def __post_init__(self) -> None:
        desk, n, weight = self.desk, len(self.desk.load), self.desk.weight
        self.home, self.owner = desk.previous.astype(np.int64), desk.owner.astype(np.int64)
        self.room, self.count, self.class_of = desk.limit - desk.load, desk.count.copy(), desk.class_of.astype(np.int64)
        self.order = desk.by_weight[::-1][self.owner[desk.by_weight[::-1]] != UNOWNED]
        self.rank, self.slot = np.zeros(len(weight), np.int64), np.zeros(len(weight), np.int64)
        self.rank[self.order] = np.arange(len(self.order))
        size = (n, int(self.count.max()) + _SPARE)
        self.hold, self.lag, self.kind = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.leaves = np.full(size, _NEVER)
        for member, mine in desk.holdings(np.arange(n)):
            self._put(np.full(len(mine), member), np.arange(len(mine)), mine)
        self.away = np.array([way * far for far in _FAR for way in (1, -1)], np.int64)
        self.dear = _LENIENT / np.maximum(desk.limit, 1)
        self.noise, self.all_may = Noise(), bool(desk.may.all())
        alike = int(desk.capacity.min()) == int(desk.capacity.max()) and int(self.count.min()) == int(self.count.max())
        self.fixed = desk.trade_counts and alike

    def moved(self) -> Index:
        """The partitions that change hands, in order."""
        return np.flatnonzero((self.owner != self.home) & (self.home != UNOWNED))

    def on_desk(self) -> Desk:
        """As it is now."""
        desk, n, owned = self.desk, len(self.count), np.flatnonzero(self.owner != UNOWNED)
        owner, count = self.owner.astype(np.int32), self.count.copy()
        load = exact_sums(owner[owned], desk.weight[owned], n)
        least, most = (count.copy(), count.copy()) if desk.trade_counts else (desk.least.copy(), desk.most.copy())
        return replace(desk, owner=owner, load=load, count=count, least=least, most=most, held={}, lists={}, moves_left=2**62)

    def step(self, what: str, moved: Index, part: float) -> None:
        """One batch of a kind, at a part of the way."""
        self.heat = _WARM + (_COLD - _WARM) * part
        while self.times < int(part * _TIMES):
            self.dear *= _STRICTER
            self.times += 1
        if what == "home" or (what == "alone" and self.fixed):
            self._home(moved)
        elif what == "between":
            self._between(moved)
        elif what == "near":
            self._near(moved)
        else:
            self._alone(moved)

    def _home(self, moved: Index) -> None:
        """What moved goes home, for anything its home has now."""
        giver, taker = self.owner[moved], self.home[moved]
        more = self.lag[taker] - self.desk.weight[moved][:, None]
        price = self._beyond(giver[:, None], more) + self._beyond(taker[:, None], -more) + self.leaves[taker]
        if not self.all_may:
            price[~self.desk.may[self.kind[taker], giver[:, None]]] = _NEVER
        now = 1 + self._beyond(giver) + self._beyond(taker)
        row, column = self._drawn(price, now)
        self._exchange(moved[row], self.hold[taker[row], column])

    def _between(self, moved: Index) -> None:
        """Two that moved change places."""
        one = moved if len(moved) <= _BETWEEN else moved[self.noise.below(len(moved), _BETWEEN)]
        owner, weight = self.owner[one], self.desk.weight[one]
        each = self._beyond(owner[:, None], weight - weight[:, None]) - (owner[:, None] == self.home[one])
        price = each + each.T
        bad = owner[:, None] == owner
        if not self.all_may:
            able = self.desk.may[self.class_of[one]][:, owner]
            bad |= ~(able & able.T)
        price[bad] = _NEVER
        now = self._beyond(owner)
        row, column = self._drawn(price - now, now)
        self._exchange(one[row], one[column])

    def _near(self, moved: Index) -> None:
        """Some change places with any other, nearer or further in the order of weights."""
        one = self._some(moved, _ROWS)
        away = self.away * (1 + self.noise.below(1000, 1)) // 1000
        other = self.order[np.clip(self.rank[one][:, None] + away, 0, len(self.order) - 1)]
        giver, taker, weight = self.owner[one][:, None], self.owner[other], self.desk.weight
        home, back = self.home[one][:, None], self.home[other]
        more = weight[other] - weight[one][:, None]
        price = self._beyond(giver, more) + self._beyond(taker, -more) - self._beyond(taker)
        price += (taker != home).astype(np.float64) + (giver != back) - (taker != back)
        bad = giver == taker
        if not self.all_may:
            bad |= ~(self.desk.may[self.class_of[one][:, None], taker] & self.desk.may[self.class_of[other], giver])
        price[bad] = _NEVER
        row, column = self._drawn(price, (giver != home)[:, 0] + self._beyond(giver[:, 0]))
        self._exchange(one[row], other[row, column])

    def _alone(self, moved: Index) -> None:
        """Some go to anybody, and nothing comes back: where counts allow that."""
        one, desk, every = self._some(moved, _ROWS_ALONE), self.desk, np.arange(len(self.count))
        giver, home, weight = self.owner[one], self.home[one], desk.weight[one][:, None]
        have, get = self.count[giver][:, None], self.count
        if desk.trade_counts:  # as in `Desk.may_trade`
            able = (2 * have - 1) * desk.capacity == (2 * get + 1) * desk.capacity[giver][:, None]
        else:
            able = (have > desk.least[giver][:, None]) & (get < desk.most)
        able &= desk.may[self.class_of[one]] & (get < self.hold.shape[1]) & (giver[:, None] != every)
        price = self._beyond(every, weight) - self._beyond(every) + self._beyond(giver[:, None], -weight)
        price += home[:, None] != every
        price[~able] = _NEVER
        row, taker = self._drawn(price, (giver != home) + self._beyond(giver))
        self._hand_over(one[row], taker)

    def _some(self, moved: Index, rows: int) -> Index:
        """So many. Half of them have moved, half are with members over their limit, or anywhere if there is none."""
        over = np.flatnonzero(self.room < 0)
        if len(over):
            giver = over[self.noise.below(len(over), rows)]
            one = self.hold[giver, self.noise.below(1 << 20, rows) % np.maximum(self.count[giver], 1)]
        else:
            one = self.order[self.noise.below(len(self.order), rows)]
        one[: rows // 2] = moved[self.noise.below(len(moved), rows // 2)]
        return one

    def _beyond(self, member: Int64, more: Int64 | int = 0) -> Floats:
        """What it costs that members are over their limits with so much more lag."""
        beyond: Floats = np.maximum(more - self.room[member], 0) * self.dear[member]
        return beyond

    def _drawn(self, price: Floats, now: Floats) -> tuple[Index, Index]:
        """For some rows a column, drawn by price; the others stay as they are, at what that costs."""
        column = (price - self.heat * self.noise.gumbel(*price.shape)).argmin(axis=1)
        chosen = price[np.arange(len(price)), column]
        row = np.flatnonzero(chosen < now - self.heat * self.noise.gumbel(len(price)))
        return row, column[row]

    def _exchange(self, one: Int64, other: Int64) -> None:
        """Those change places that touch no member twice, the first of those that do."""
        first = self._apart(self.owner[one], self.owner[other])
        one, other = one[first], other[first]
        giver, taker, less = self.owner[one], self.owner[other], self.desk.weight[one] - self.desk.weight[other]
        self.room[giver] += less
        self.room[taker] -= less
        here, there = self.slot[one], self.slot[other]
        self._put(giver, here, other)
        self._put(taker, there, one)

    def _hand_over(self, one: Int64, taker: Int64) -> None:
        """Those go that touch no member twice, the first of those that do."""
        first = self._apart(self.owner[one], taker)
        one, taker = one[first], taker[first]
        giver, weight = self.owner[one], self.desk.weight[one]
        self.room[giver] += weight
        self.room[taker] -= weight
        self.count[giver] -= 1
        here, end = self.slot[one], self.count[giver]
        self._put(giver, here, self.hold[giver, end])
        self.lag[giver, end], self.leaves[giver, end] = 0, _NEVER
        self._put(taker, self.count[taker], one)
        self.count[taker] += 1

    def _put(self, member: Int64, slot: Int64, one: Int64) -> None:
        """Each partition into its member's slot."""
        self.owner[one], self.slot[one], self.hold[member, slot] = member, slot, one
        self.lag[member, slot], self.kind[member, slot] = self.desk.weight[one], self.class_of[one]
        self.leaves[member, slot] = self.home[one] == member

    def _apart(self, giver: Int64, taker: Int64) -> Index:
        """In an order that changes each time, the pairs that have no member of an earlier one."""
        order = np.argsort(self.noise.below(1 << 31, len(giver)), kind="stable")
        giver, taker, at = giver[order], taker[order], np.arange(len(order))
        first = np.full(len(self.count), len(order))
        np.minimum.at(first, giver, at)
        np.minimum.at(first, taker, at)
        apart: Index = order[(first[giver] == at) & (first[taker] == at)]
        return apart
