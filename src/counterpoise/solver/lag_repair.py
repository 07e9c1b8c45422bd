"""Repair: while a member is over its lag limit, the cheapest step that helps: one move, or an exchange of two.

Python steps, one per step of the repair, each O(P) in NumPy: what helps next depends on the step before.
"""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag_blocks import Bools
from counterpoise.solver.lag_desk import Desk, Index

_PARTNERS = 24
"""How many of the members with most room are tried for an exchange."""

__all__ = ["repair"]


def repair(desk: Desk) -> None:
    """Bring members under their limits, worst first, until none is over or nothing helps any more.

    Each step lowers the worst excess without creating one, so it ends; at most 4 steps per member are made.
    """
    stuck = np.zeros(len(desk.load), np.bool_)
    for _ in range(4 * len(desk.load)):
        excess = np.where(stuck, 0, desk.load - desk.limit)
        worst = int(np.argmax(excess // desk.capacity)) if (excess > 0).any() else -1
        if worst < 0 or excess[worst] <= 0:
            worst = int(np.argmax(excess)) if (excess > 0).any() else -1
        if worst < 0:
            return
        mine = desk.items_of(worst)
        mine = mine[desk.weight[mine] > 0]
        if not (_hand_over(desk, worst, mine) or _exchange(desk, worst, mine)):
            stuck[worst] = True


def _takers(desk: Desk, giver: int) -> Bools:
    """Members to whom the giver may hand one partition without leaving the counts allowed."""
    able = (desk.count < desk.most) & bool(desk.count[giver] > desk.least[giver])
    if desk.trade_counts:
        able |= (desk.count == desk.count[giver] - 1) & (desk.capacity == desk.capacity[giver])
    able[giver] = False
    return able


def _hand_over(desk: Desk, giver: int, mine: Index) -> bool:
    """One partition to a member with room: the lightest that suffices, else the heaviest that fits."""
    room = np.where(_takers(desk, giver), desk.limit - desk.load, 0)
    if not len(mine) or int(room.max(initial=0)) <= 0:
        return False
    kinds = np.unique(desk.class_of[mine])
    widest = np.zeros(len(desk.may), np.int64)
    widest[kinds] = np.where(desk.may[kinds], room, 0).max(axis=1)
    weights = desk.weight[mine]
    fits = weights <= widest[desk.class_of[mine]]
    if desk.moves_left <= 0:
        fits &= desk.price(mine, -1) <= 0
    if not fits.any():
        return False
    excess = int(desk.load[giver] - desk.limit[giver])
    enough = np.flatnonzero(fits & (weights >= excess))
    at = int(enough[0]) if len(enough) else int(np.flatnonzero(fits)[-1])
    partition = int(mine[at])
    taker = int(np.argmax(np.where(desk.may[desk.class_of[partition]], room, 0)))
    traded = desk.count[taker] >= desk.most[taker] or desk.count[giver] <= desk.least[giver]
    desk.give(partition, taker)
    if traded:
        for bounds in (desk.least, desk.most):
            bounds[[giver, taker]] = bounds[[taker, giver]]
    return True


def _exchange(desk: Desk, giver: int, mine: Index) -> bool:
    """A heavier partition against a lighter one: by just what is needed, else by as much as possible."""
    if not len(mine):
        return False
    room = np.where(_sharing(desk, mine), desk.limit - desk.load, 0)
    room[giver] = 0
    partners = np.argsort(-room, kind="stable")[:_PARTNERS]
    excess = int(desk.load[giver] - desk.limit[giver])
    best: tuple[int, int, int] | None = None
    for partner in partners[room[partners] > 0].tolist():
        found = _best_pair(desk, giver, mine, partner, excess, int(room[partner]))
        if found and (best is None or found[0] > best[0]):
            best = found
        if best and best[0] >= excess:
            break
    if best is None:
        return False
    gain, out, back = best
    partner = int(desk.owner[back])
    desk.give(out, partner)
    desk.give(back, giver)
    return gain > 0


def _sharing(desk: Desk, mine: Index) -> Bools:
    """Members that may take at least one of `mine`."""
    return np.asarray(desk.may[np.unique(desk.class_of[mine])].any(axis=0))


def _best_pair(desk: Desk, giver: int, mine: Index, partner: int, excess: int, room: int) -> tuple[int, int, int] | None:
    """(lag that goes over, partition out, partition back): the least that suffices, else the most that fits."""
    out = mine[desk.may[desk.class_of[mine], partner]]
    theirs = desk.items_of(partner)
    back = theirs[desk.may[desk.class_of[theirs], giver]]
    if desk.moves_left < 2:
        out, back = out[desk.price(out, partner) <= 0], back[desk.price(back, giver) <= 0]
    if not len(out) or not len(back):
        return None
    heavy, light = desk.weight[out], desk.weight[back]
    at = np.minimum(np.searchsorted(heavy, light + excess), len(out) - 1)
    gain = heavy[at] - light
    fit = np.flatnonzero((gain >= excess) & (gain <= room))
    if len(fit):
        one = fit[int(np.argmin(gain[fit]))]
        return int(gain[one]), int(out[at[one]]), int(back[one])
    below = np.searchsorted(heavy, light + min(excess, room), side="right") - 1
    gain = np.where(below >= 0, heavy[np.maximum(below, 0)] - light, 0)
    one = int(np.argmax(gain))
    return (int(gain[one]), int(out[below[one]]), int(back[one])) if gain[one] > 0 else None
