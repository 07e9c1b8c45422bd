"""Rotations: several members over their lag limit brought under it along one circle, a move each, counts untouched.

That is one move for each member relieved and one for the light partition that the first of them takes, where an exchange for
each of them would take two. Where the first has a partition more than the member with room, it takes nothing: their
counts change places.
"""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag_circle import Circles
from counterpoise.solver.lag_desk import Desk

__all__ = ["rotate"]


def rotate(desk: Desk) -> None:
    """Relieve members over their limit by circles, those with most room first.

    Every circle takes from each of its members what it is over its limit, or as much as one partition can, and brings nobody
    above. A first pass leaves circles of two to a second one: they cost as much as an exchange. What neither can
    help is left to the repair. O(members over the limit) steps in Python.
    """
    over = np.flatnonzero(desk.load > desk.limit)
    if not len(over):
        return
    waiting = over[np.argsort(-(desk.load[over] - desk.limit[over]), kind="stable")].tolist()
    if len(waiting) > 1:
        desk.hold_all()
    circles = Circles(desk)
    for relieved in (2, 1):
        room = desk.limit - desk.load
        for roomy in np.argsort(-room, kind="stable").tolist():
            if not waiting or room[roomy] <= 0 or desk.moves_left < 2:
                break
            links, trades = circles.find(roomy, waiting)
            if len(links) - (trades < 0) >= min(relieved, len(waiting)):
                circles.forget(_turn(desk, roomy, links, trades))
                waiting = [member for member in waiting if desk.load[member] > desk.limit[member]]


def _turn(desk: Desk, roomy: int, links: list[int], trades: int) -> list[int]:
    """Each partition to the owner of the next, the last to `roomy`; everybody whose partitions changed."""
    givers = [int(desk.owner[partition]) for partition in links]
    takers = [*givers[1:], roomy]
    for partition, taker in zip(links, takers, strict=True):
        desk.give(partition, taker)
    if trades >= 0:
        for bounds in (desk.least, desk.most):
            bounds[[trades, roomy]] = bounds[[roomy, trades]]
    return [*givers, roomy]
