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

__all__ = ["AT_MOST", "WIDTHS", "settle_near"]


def settle_near(desk: Desk, blocks: LagBlocks, *, cells: bool) -> Desk | None:
    """A desk within all limits on which only a few members differ from `desk`; None where that does not do.

    With `cells` everybody gets as many of each topic class as before, as counts demand. Moves are bounded by what members over
    their limit own and as many partners do; where that does not do, by what twice as many do, and so on.
    """
    for width in WIDTHS:
        members = _involved(desk, width)
        if len(members) * AT_MOST > len(desk.load):
            return None
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
    return None


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
