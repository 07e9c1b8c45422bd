"""Fewer moves: in a plan within its limits partitions change places, on a walk that is the same each time, towards their homes.

What the repair finds step by step can mostly be had for less. From home, all members over their limit are relieved at once; what
has fewer moves goes on. Then a walk: a partition that moved goes home, and something else of about its weight comes from there,
which has moved as well or moves now instead. Every step stays within all limits and counts and mostly costs nothing; rarely,
later ever more rarely, it costs a move (simulated annealing: Kirkpatrick, Gelatt, Vecchi, 1983). The plan with fewest moves on
the way is the outcome. Lists and bisection, one step at a time: the next one depends on the one before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32
from counterpoise.solver.equal_small import SMALL
from counterpoise.solver.lag.desk import Desk, exact_sums
from counterpoise.solver.lag.moves.giants import at_home, is_settled, with_giants_dealt_anew
from counterpoise.solver.lag.moves.noise import splitmix
from counterpoise.solver.lag.moves.relief import relieve
from counterpoise.solver.lag.repair import repair

LARGE = 5_000
"""In groups of more partitions there is more to choose from, and plans are near the proven minimum without this."""
STEPS_PER_MOVE, STEPS_AT_MOST = 1_000, 60_000
_SQUARE = 64
"""In groups of fewer than 2,000 partitions one step at most for so many pairs of them: there is less to choose from."""
RELIEVED = 1_500
"""In groups of fewer partitions members over their limit are not relieved at once: the walk finds as much in less time."""
_STEPS_AFTER = 20_000
"""Where that moves less so many steps of the walk are enough."""
_PHASES = 10
_FIRST = 5
"""In the first phase a step that costs a move is taken once in 2**5 times, in each later one half as often as before."""
_HOME, _ELSEWHERE = 2**31, int(0.95 * 2**32)
"""Of 2**32 steps so many go to the partition's home, up to so many to where another one that moved is, the others anywhere."""
_NUMBERS = 3

__all__ = ["LARGE", "STEPS_AT_MOST", "STEPS_PER_MOVE", "fewer_moves", "moves_of", "surely_moved"]


def fewer_moves(desk: Desk) -> Int32:
    """The desk's owners, or such as are as good by all limits and counts and for which fewer partitions change hands.

    Notes
    -----
    For groups of more than `SMALL` and up to `LARGE` partitions; work is bounded by `STEPS_AT_MOST`, whatever the group. A plan
    that moves nothing, or no more than `surely_moved`, stays as it is.
    """
    if not SMALL < len(desk.owner) <= LARGE or desk.excess():
        return desk.owner
    moves, least = moves_of(desk), surely_moved(desk)
    if moves <= least:
        return desk.owner
    steps = min(STEPS_PER_MOVE * moves, STEPS_AT_MOST, len(desk.owner) ** 2 // _SQUARE)
    home = None
    for dealt, rival in with_giants_dealt_anew(desk):
        if moves_of(rival) < moves:
            home, desk, moves = dealt, rival, moves_of(rival)
    if len(desk.owner) >= RELIEVED and is_settled(desk):
        relieved = home or at_home(desk)
        relieve(relieved)
        repair(relieved, relays=False)
        if moves_of(relieved) < moves and not relieved.excess():
            desk, steps = relieved, min(steps, _STEPS_AFTER)
    walk = _Walk(desk, least)
    walk.go(steps)
    return np.array(walk.best, np.int32)


def moves_of(desk: Desk) -> int:
    """How many partitions change hands that could stay."""
    return len(desk.moved())


def surely_moved(desk: Desk) -> int:
    """So many partitions change hands in any plan as good: one of each member over its limit, and what is beyond all counts.

    One more where counts are balanced and all the same: those who give take as many, and among themselves they lose no lag.
    """
    n = len(desk.load)
    owned = desk.previous != UNOWNED
    before = np.bincount(desk.previous[owned], minlength=n)
    over = exact_sums(desk.previous[owned], desk.weight[owned], n) > desk.limit
    if not desk.trade_counts:
        return int(np.maximum(over, before - desk.most).sum())
    if int(desk.capacity.min()) < int(desk.capacity.max()):
        return int(over.sum())
    moves = int(np.maximum(over, before - int(desk.count.max())).sum())
    return moves + int(moves > 0 and bool((before * n == len(desk.owner)).all()))


@dataclass(slots=True)
class _Walk:
    """The plan in lists; `moved` are the partitions that changed hands, `rank` says where in there each of them is."""

    desk: Desk
    least: int
    weight: list[int] = field(init=False)
    home: list[int] = field(init=False)
    owner: list[int] = field(init=False)
    best: list[int] = field(init=False)
    items: list[list[int]] = field(init=False)
    weights: list[list[int]] = field(init=False)
    room: list[int] = field(init=False)
    moved: list[int] = field(init=False)
    rank: dict[int, int] = field(init=False)
    capacity: list[int] = field(init=False)
    least_count: list[int] = field(init=False)
    most_count: list[int] = field(init=False)

    def __post_init__(self) -> None:
        desk = self.desk
        self.weight, self.home, self.owner = desk.weight.tolist(), desk.previous.tolist(), desk.owner.tolist()
        self.best = list(self.owner)
        self.room, self.capacity = (desk.limit - desk.load).tolist(), desk.capacity.tolist()
        self.least_count, self.most_count = desk.least.tolist(), desk.most.tolist()
        held = [(mine.tolist(), desk.weight[mine].tolist()) for _, mine in desk.holdings(np.arange(len(desk.load)))]
        self.items, self.weights = [items for items, _ in held], [weights for _, weights in held]
        self.moved = desk.moved().tolist()
        self.rank = {partition: at for at, partition in enumerate(self.moved)}

    def go(self, steps: int) -> None:
        """So many steps, or until no more can be saved."""
        weight, home, owner, items, weights, room = self.weight, self.home, self.owner, self.items, self.weights, self.room
        moved, kind, n = self.moved, self.desk.kinds(), len(self.room)
        may = None if self.desk.may.all() else [row.tobytes() for row in self.desk.may]
        fewest = len(moved)
        for phase in range(_PHASES):
            rare = 2**32 >> _FIRST + phase
            for way, which, where, one, other, chance in _draw(phase, steps // _PHASES):
                partition = moved[which * len(moved) >> 32]
                giver, base = owner[partition], home[partition]
                taker = base if way < _HOME else owner[moved[where * len(moved) >> 32]] if way < _ELSEWHERE else where * n >> 32
                if giver == taker or (may and not may[kind[partition]][taker]):
                    continue
                heavy, price, back = weight[partition], (taker != base) - 1, -1
                if not (chance & 1 and heavy <= room[taker] and self._may_hand_over(giver, taker)):
                    theirs, lag = items[taker], weights[taker]
                    first = bisect_left(lag, heavy - room[taker])
                    fitting = bisect_right(lag, heavy + room[giver], first) - first
                    if not fitting:
                        continue
                    back = theirs[first + (one * fitting >> 32)]
                    second = theirs[first + (other * fitting >> 32)]
                    if _price(home[second], taker, giver) < _price(home[back], taker, giver):
                        back = second
                    if may and not may[kind[back]][giver]:
                        continue
                    price += _price(home[back], taker, giver)
                if price > 0 and chance >= (rare if price == 1 else rare * rare >> 32):
                    continue
                self._change(partition, back, giver, taker)
                if len(moved) < fewest:
                    fewest, self.best = len(moved), list(owner)
                    if fewest <= self.least:
                        return

    def _may_hand_over(self, giver: int, taker: int) -> bool:
        """Whether the taker may get one partition more, and the giver have one fewer."""
        have, get = len(self.items[giver]), len(self.items[taker])
        if self.desk.trade_counts:  # as in `Desk.may_trade`
            return (2 * have - 1) * self.capacity[taker] == (2 * get + 1) * self.capacity[giver]
        return have > self.least_count[giver] and get < self.most_count[taker]

    def _change(self, partition: int, back: int, giver: int, taker: int) -> None:
        """One partition goes over; another, if any (not -1), comes back."""
        if back >= 0:
            self._pass(back, taker, giver)
        self._pass(partition, giver, taker)

    def _pass(self, partition: int, giver: int, taker: int) -> None:
        weight, home = self.weight[partition], self.home[partition]
        at = self.items[giver].index(partition)
        del self.items[giver][at], self.weights[giver][at]
        at = bisect_left(self.weights[taker], weight)
        self.items[taker].insert(at, partition)
        self.weights[taker].insert(at, weight)
        self.owner[partition] = taker
        self.room[giver] += weight
        self.room[taker] -= weight
        if taker == home:
            at, last = self.rank.pop(partition), self.moved.pop()
            if last != partition:
                self.moved[at], self.rank[last] = last, at
        elif giver == home:
            self.rank[partition] = len(self.moved)
            self.moved.append(partition)


def _price(home: int, owner: int, taker: int) -> int:
    """By how much there are more moves if a partition goes from one to the other; nothing without a home."""
    return (home == owner) - (home == taker)


def _draw(phase: int, steps: int) -> Iterator[tuple[int, ...]]:
    """Six numbers below 2**32 for each step, always the same (splitmix64)."""
    halves = splitmix(phase << 32, _NUMBERS * steps)
    return zip(*halves.reshape(2 * _NUMBERS, steps).tolist(), strict=True)
