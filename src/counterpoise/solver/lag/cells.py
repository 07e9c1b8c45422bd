"""Placing what waits where counts say how much of each topic class each member gets: in turns, the heaviest first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.decode import slots as turns
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.longest_first import deal_longest_first
from counterpoise.solver.lag.parts import by_class, cut, goals

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
    goal, waiting = goals(desk, blocks), desk.waiting()
    kinds, n = len(desk.may), len(desk.load)
    cell = desk.class_of[waiting].astype(np.int64) * n + target[waiting]
    slots = np.bincount(cell, minlength=kinds * n).reshape(kinds, n)
    lagging = int(np.count_nonzero(desk.weight[waiting]))
    weight, kind, level = desk.weight[waiting], desk.class_of[waiting], desk.load - goal
    taker = np.empty(len(waiting), np.int64)
    parts = cut(weight[:lagging], goal, _PARTS if lagging <= _FEW else _PARTS_OF_MANY)
    for at in range(parts[0]):  # one by one: whose turn it is depends on the one before
        free = np.flatnonzero(slots[kind[at]] > 0)
        one = taker[at] = free[level[free].argmin()]
        slots[kind[at], one] -= 1
        level[one] += weight[at]
    for begin, end in pairwise(parts):
        at_most = 1 if min(lagging, 2 * end) <= _FEW else _TURNS
        for number, where in by_class(kind[begin:end], kinds):
            taker[begin + where] = _deal(weight[begin + where], level, slots[number], turns_at_most=at_most)
    for number, where in by_class(kind[lagging:], kinds):
        taker[lagging + where] = turns(slots[number], np.zeros(n, np.int64))
    desk.place(waiting, taker)


def _deal(weights: Int64, level: Int64, slots: Int64, *, turns_at_most: int) -> Int64:
    """Deal `weights` (falling): one each to the lowest that have a slot, and again. Changes `level` and `slots`.

    Where that takes more turns, longest first to the letter.
    """
    taker: Int64 = np.empty(len(weights), np.int64)
    free = slots.nonzero()[0]
    if len(weights) > turns_at_most * len(free):
        taker[:] = deal_longest_first(weights, level, slots)
        np.add.at(level, taker, weights)
        np.subtract.at(slots, taker, 1)
        return taker
    at = 0
    while at < len(weights):
        height = level[free]
        order = height.argsort(kind="stable")[: len(weights) - at]
        lowest, end = free[order], at + len(order)
        taker[at:end] = lowest
        level[lowest] = height[order] + weights[at:end]
        slots[lowest] -= 1
        at = end
        free = slots.nonzero()[0] if at < len(weights) else free
    return taker
