"""A second attempt near the first: members over their limit and a few others put everything on the table and deal it anew."""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.cells import place_in_cells
from counterpoise.solver.lag.desk import Desk, Index
from counterpoise.solver.lag.place import place_waiting
from counterpoise.solver.lag.repair import repair

WIDTHS = (1, 3, 7, 15)
"""So many partners for each member over its limit, one attempt after another: each touches twice as many members."""
AT_MOST = 2
"""No more than this part of all members takes part."""

_HOSTS = 4
"""So many other owners are tried for a partition whose owner cannot fill up lightly enough."""
_LOOK = 4
"""Among so many times the largest count of the lightest partitions is looked for what a host may take."""

__all__ = ["AT_MOST", "WIDTHS", "settle_near"]


def settle_near(desk: Desk, blocks: LagBlocks, *, cells: bool) -> Desk | None:
    """A desk within all limits on which only a few members differ from `desk`; None where that does not do.

    With `cells` everybody gets as many of each topic class as before, as counts demand. Moves are bounded by what members over
    their limit own and as many partners do; where that does not do, by what twice as many do, and so on. At last, where
    subscriptions differ, the heaviest partition of the worst member is tried elsewhere.
    """
    for width in WIDTHS:
        members = _involved(desk, width)
        if len(members) * AT_MOST > len(desk.load):
            break
        near = desk.saved()
        target = near.owner.copy()
        near.release(np.flatnonzero(np.isin(near.owner, members)))
        if cells:
            place_in_cells(near, target, blocks)
        else:
            place_waiting(near, blocks)
        repair(near)
        if not near.excess():
            return near
    return _rehoused(desk) if len(desk.may) > 1 else None


def _rehoused(desk: Desk) -> Desk | None:
    """The heaviest partition of the worst member given to another, who could fill up with lighter ones, for one of its class.

    What the other has too much then is the business of the repair.
    """
    worst = int(((desk.load - desk.limit) / desk.capacity).argmax())
    giant = int(desk.items_of(worst)[-1])
    for host in _hosts(desk, worst, int(desk.class_of[giant])):
        near = desk.saved()
        theirs = near.items_of(host)
        back = int(theirs[near.class_of[theirs] == near.class_of[giant]][-1])
        near.give(giant, host)
        near.give(back, worst)
        repair(near)
        if not near.excess():
            return near
    return None


def _hosts(desk: Desk, worst: int, kind: int) -> list[int]:
    """Members that hold something of a topic class, those first whose other partitions could be lightest."""
    holds = np.zeros(len(desk.load), np.bool_)
    holds[desk.owner[(desk.class_of == kind) & (desk.owner >= 0)]] = True
    holds[worst] = False
    hosts = np.flatnonzero(holds)
    lightest = desk.by_weight[::-1]
    lightest = lightest[desk.class_of[lightest] >= 0][: _LOOK * int(desk.count.max())]
    able = desk.may[desk.class_of[lightest]][:, hosts]
    taken = able & (able.cumsum(axis=0) < desk.count[hosts])
    filling = (taken * desk.weight[lightest][:, None]).sum(axis=0)
    chosen: list[int] = hosts[filling.argsort(kind="stable")[:_HOSTS]].tolist()
    return chosen


def _involved(desk: Desk, width: int) -> Index:
    """Members over their limit, and for each so many of those with most room that may take some of what it has."""
    room = desk.limit - desk.load
    over = np.flatnonzero(room < 0)
    chosen = room < 0
    for member in over[np.argsort(room[over], kind="stable")].tolist():
        kinds = np.unique(desk.class_of[desk.items_of(member)])
        able = np.flatnonzero(desk.may[kinds].any(axis=0) & ~chosen & (room > 0))
        chosen[able[np.argsort(-room[able], kind="stable")[:width]]] = True
    return np.flatnonzero(chosen)
