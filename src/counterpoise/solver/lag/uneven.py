"""Uneven exchanges: two partitions for one between members whose counts tie, where capacities differ."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.desk import Desk, Index

_FEW = 24
"""Members with more partitions find a fit one for one."""
_SMALL = 100
"""In groups of more partitions there is choice enough, too."""
_PARTNERS = 24
_MOVES = 3

__all__ = ["exchange_unevenly"]

_Found = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Lag that goes over, the partitions out, and those back."""


def exchange_unevenly(desk: Desk, giver: int, mine: Index, room: Int64) -> bool:
    """Two for one or one for two with a member with room, where counts stay as balanced as they are and the excess goes.

    Of all such exchanges with the member with most room that has any, the one that gives the least that suffices.
    """
    if len(desk.weight) > _SMALL or not 0 < len(mine) <= _FEW or desk.moves_left < _MOVES:
        return False
    excess = int(desk.load[giver] - desk.limit[giver])
    for partner in np.argsort(-room, kind="stable")[:_PARTNERS].tolist():
        most = int(room[partner])
        if most < excess or partner == giver or desk.count[partner] > _FEW:
            continue
        found: list[_Found] = []
        if desk.may_trade(giver, partner):
            found += _pairs(desk, giver, partner, excess, most, 2, 1)
        if desk.may_trade(partner, giver):
            found += _pairs(desk, giver, partner, excess, most, 1, 2)
        if found:
            _, out, back = min(found)
            for partition in out:
                desk.give(partition, partner)
            for partition in back:
                desk.give(partition, giver)
            desk.trade_bounds(*((giver, partner) if len(out) > len(back) else (partner, giver)))
            return True
    return False


def _pairs(desk: Desk, giver: int, partner: int, excess: int, room: int, out: int, back: int) -> list[_Found]:
    """Exchanges of `out` partitions for `back` others that suffice and fit."""
    weight = desk.weight
    mine, theirs = _groups(desk, giver, partner, out), _groups(desk, partner, giver, back)
    lags = np.array([[int(weight[list(group)].sum())] for group in mine], np.int64).reshape(-1, 1)
    gain = lags - np.array([int(weight[list(group)].sum()) for group in theirs], np.int64)
    fits = np.argwhere((gain >= excess) & (gain <= room)).tolist()
    return [(int(gain[one, other]), mine[one], theirs[other]) for one, other in fits]


def _groups(desk: Desk, owner: int, taker: int, size: int) -> list[tuple[int, ...]]:
    """So many at a time of what one has and the other may take."""
    items = desk.items_of(owner)
    return list(combinations(items[desk.may[desk.class_of[items], taker]].tolist(), size))
