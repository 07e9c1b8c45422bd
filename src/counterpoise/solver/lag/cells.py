"""Placing what waits where counts say how much of each topic class each member gets: in turns, the heaviest first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.decode import ascending
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.desk import Desk, Index
from counterpoise.solver.lag.longest_first import bins, deal_packed, packed
from counterpoise.solver.lag.parts import by_class, cut, goals, in_turns

_PARTS = (600, 900, 990, 999)
"""Thousandths of the waiting lag that the parts end at: the lightest make good what the others left uneven."""
_PARTS_OF_MANY = (700, 980)
"""The same for large groups, which have enough of the lightest."""
_FEW = 20_000
"""So many partitions are dealt longest first, to the letter, wherever somebody gets two of a class at once."""
_TURNS = 8
"""Beyond, so many turns are taken before it pays."""

__all__ = ["place_in_cells"]


def place_in_cells(desk: Desk, target: Int32, blocks: LagBlocks) -> None:
    """Place what waits so that each member gets as many of each topic class as `target` gives it.

    What `target` keeps must have been kept on the desk, all else must wait.
    """
    waiting = desk.waiting()
    if not len(waiting):
        return
    goal, (kinds, n) = goals(desk, blocks), desk.may.shape
    weight, kind = desk.weights_of(waiting), desk.class_of[waiting]
    lagging = int(np.count_nonzero(weight))
    slots = np.bincount(kind.astype(np.int64) * n + target[waiting], minlength=kinds * n).reshape(kinds, n)
    deal = _Deal(desk.load - goal, weight[:lagging], slots)
    taker = np.empty(len(waiting), np.int64)
    parts = cut(weight[:lagging], goal, _PARTS if lagging <= _FEW else _PARTS_OF_MANY)
    for at, number in enumerate(kind[: parts[0]].tolist()):  # one by one: whose turn it is depends on the one before
        taker[at] = deal.lowest(number, at)
    for begin, end in pairwise(parts):
        at_most = 1 if min(lagging, 2 * end) <= _FEW else _TURNS
        order, runs = by_class(kind[begin:end], kinds)
        heavy, takers = deal.weight[begin:end][order], np.empty(end - begin, np.intp)
        for number, first, last in runs:
            deal.of_class(number, heavy[first:last], takers[first:last], turns_at_most=at_most)
        taker[begin + order] = takers
    if lagging < len(waiting):
        taker[lagging + ascending(kind[lagging:].astype(np.int64))] = in_turns(slots)
    desk.place(waiting, taker)


class _Deal:
    """What is being dealt, to the lowest that have a slot for it, ties by member; `longest_first.packed`. Changes `slots`."""

    def __init__(self, level: Int64, weight: Int64, slots: Int64) -> None:
        self.key, self.weight, self.bits = packed(level, weight)
        self.slots = slots

    def lowest(self, number: int, item: int) -> int:
        """Who takes one item of a topic class."""
        key = self.key[(self.slots[number] > 0).nonzero()[0]].min()
        member = int(key) & ((1 << self.bits) - 1)
        self.key[member] = key + self.weight[item]
        self.slots[number, member] -= 1
        return member

    def of_class(self, number: int, weight: Int64, taker: Index, *, turns_at_most: int) -> None:
        """Fill in who takes items of a topic class (weights fall): one each to those that have a slot, and again.

        Where that takes more turns, longest first to the letter.
        """
        slots, key, mask, at = self.slots[number], self.key, (1 << self.bits) - 1, 0
        free = (slots > 0).nonzero()[0]
        if len(weight) > turns_at_most * len(free):
            taker[:] = deal_packed(weight, key, slots, self.bits)
            np.add.at(key, taker, weight)
            return
        while True:
            rising = key[free]
            rising.sort()
            rising = rising[: len(weight) - at]
            lowest = bins(rising, mask)
            end = at + len(lowest)
            taker[at:end] = lowest
            rising += weight[at:end]
            key[lowest] = rising
            if end == len(weight):
                slots[lowest] -= 1
                return
            at = end
            slots[free] -= 1
            free = (slots > 0).nonzero()[0]
