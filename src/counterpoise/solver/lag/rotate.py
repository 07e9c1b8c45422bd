"""Rotations: several members over their lag limit brought under it along one circle, a move each, counts untouched.

That is one move for each member relieved and one for the light partition that the first of them takes, where an exchange for
each of them would take two. Where the first has a partition more than the member with room, it takes nothing: their
counts change places.
"""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag.circle import MANY, Circles
from counterpoise.solver.lag.descent import descend
from counterpoise.solver.lag.desk import Desk

HANDS = 32
"""So many of the members with most room are tried for the way down of a heavy partition, and the owners of so many of the
heaviest, who may have little room and yet pass on something almost as heavy."""
LONGEST = 5
"""Through so many hands it may go."""
MISSES = 24
"""So many members with room in a row that nothing fits into end the search: the next ones have less."""
_MISSES_APART = 96
"""The same where subscriptions differ: the next ones may be the first that may take anything."""

__all__ = ["HANDS", "LONGEST", "MISSES", "rotate"]


def rotate(desk: Desk) -> None:
    """Relieve members over their limit by circles, those with most room first.

    Every circle takes from each of its members what it is over its limit, or as much as one partition can, and brings nobody
    above. Heavy partitions that must move go first, while there is room; then those circles in which counts change places,
    as they save a move; circles of two come last, as they cost no less than an exchange. What none can help is left
    to the repair. O(members over the limit) steps in Python.
    """
    over = np.flatnonzero(desk.load > desk.limit)
    if not len(over):
        return
    waiting = over[np.argsort(-(desk.load[over] - desk.limit[over]), kind="stable")].tolist()
    if len(waiting) > 1:
        desk.hold_all()
    circles = Circles(desk, len(waiting) > MANY)
    alike = int(desk.capacity.min()) == int(desk.capacity.max())
    patience = MISSES if len(desk.may) == 1 else _MISSES_APART
    waiting = _down(desk, circles, waiting)
    for trading, least in ((True, 1), (False, 2), (False, 1)):
        room, misses = desk.limit - desk.load, 0
        counts = set(desk.count[waiting].tolist()) if trading and alike else set()
        for roomy in np.argsort(-room, kind="stable").tolist():
            if not waiting or room[roomy] <= 0 or desk.moves_left < 2 or misses == patience:
                break
            misses += 1
            if trading and alike and int(desk.count[roomy]) + 1 not in counts:
                continue
            links, trades = circles.find(roomy, waiting, trading=trading)
            if len(links) - (trades < 0) >= min(least, len(waiting)):
                misses = 0
                for member in _turn(desk, roomy, links, trades):
                    if member != roomy and desk.room(member) >= 0:
                        waiting.remove(member)
                if trading:
                    counts = set(desk.count[waiting].tolist())


def _down(desk: Desk, circles: Circles, waiting: list[int]) -> list[int]:
    """Relieve those who would have to give several light partitions, where a heavy one finds a shorter way; the others."""
    room = desk.limit - desk.load
    widest = int(room.max())
    for member in list(waiting):
        pieces = circles.pieces(member, -int(room[member]), widest)
        if pieces == 1 or desk.moves_left < 2:
            continue
        hands = np.argsort(desk.load - desk.limit, kind="stable")[:HANDS]
        heavy = desk.owner[desk.by_weight[:HANDS]]
        hands = np.concatenate((hands, np.unique(heavy[(heavy >= 0) & ~np.isin(heavy, hands)])))
        roomy = hands[desk.load[hands] < desk.limit[hands]]
        links = descend(desk, member, roomy.tolist(), min(pieces or LONGEST, LONGEST))
        if links:
            _turn(desk, member, links, -1)
            waiting.remove(member)
    return waiting


def _turn(desk: Desk, roomy: int, links: list[int], trades: int) -> list[int]:
    """Each partition to the owner of the next, the last to `roomy`; everybody whose partitions changed."""
    givers = [int(desk.owner[partition]) for partition in links]
    takers = [*givers[1:], roomy]
    for partition, taker in zip(links, takers, strict=True):
        desk.give(partition, taker)
    if trades >= 0:
        desk.trade_bounds(trades, roomy)
    return [*givers, roomy]
