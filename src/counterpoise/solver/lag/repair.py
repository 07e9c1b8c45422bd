"""Repair: while a member is over its lag limit, the cheapest step that helps: one move, or an exchange of two.

Python steps, one per step of the repair, over the partitions of a few members in NumPy: what helps next depends on the
step before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index
from counterpoise.solver.lag.rotate import rotate
from counterpoise.solver.lag.uneven import exchange_unevenly

PARTNERS = 24
PARTNERS_AT_MOST = 256
"""How many of the members with most room are tried for an exchange: the first of these, more only if none helps."""

WORTH_WHILE = 1024
"""A step that does not suffice must at least take away this part of the limit: crumbs are not worth moves."""

STEPS_PER_MEMBER = 16
_STEPS_ASIDE = 256
"""So many where excess may go round in a ring."""

__all__ = ["PARTNERS", "PARTNERS_AT_MOST", "STEPS_PER_MEMBER", "WORTH_WHILE", "repair"]


def repair(desk: Desk, *, relays: bool = True) -> None:
    """Bring members under their limits, worst first, until none is over or nothing helps any more.

    Every step brings the worst member down and nobody else above its limit. Where that is not enough and
    subscriptions differ, excess is relayed over members without room: towards those that have some, then for some steps also to
    members that are no nearer to them, as much as some room can take. A relay that leaves the worst member no better is
    taken back. Without `relays` that is left out.
    """
    if desk.trade_counts:
        rotate(desk)
    _settle(desk, None)
    if relays and len(desk.may) > 1:
        for aside in (False, True):
            before = desk.excess()
            if before > 0:
                saved = desk.saved()
                _settle(desk, _Relay(aside))
                _settle(desk, None)
                if desk.excess() >= before:
                    desk.restore(saved)


def _settle(desk: Desk, relay: _Relay | None) -> None:
    """One step after another; ends when nobody is over, or after a whole pass in which nobody could be helped."""
    stuck = np.zeros(len(desk.load), np.bool_)
    helped, uneven = False, desk.trade_counts and int(desk.capacity.min()) < int(desk.capacity.max())
    steps = STEPS_PER_MEMBER * len(desk.load)
    for _ in range(min(steps, _STEPS_ASIDE) if relay and relay.aside else steps):
        excess = np.where(stuck, 0, np.maximum(desk.load - desk.limit, 0))
        if not excess.any():
            if not helped or not stuck.any():
                return
            stuck[:], helped = False, False
            continue
        worst = int(np.argmax(excess / desk.capacity))
        mine = desk.items_of(worst)
        mine = mine[desk.weight[mine] > 0]
        room = np.maximum(desk.limit - desk.load, 0)
        if relay:
            room = relay.room(desk, worst, room)
        done = _hand_over(desk, worst, mine, room) or _exchange(desk, worst, mine, room)
        if not done and uneven:
            done = exchange_unevenly(desk, worst, mine, room)
        stuck[worst] = not done
        helped |= done


@dataclass(frozen=True, slots=True)
class _Relay:
    """Who may take more than it has room for; `aside`: also members that are no nearer to any, or have too little."""

    aside: bool

    def room(self, desk: Desk, worst: int, room: Int64) -> Int64:
        """How much each may take for now: what the worst member is over its limit, or as much as half of the widest room."""
        excess, half = int(desk.load[worst] - desk.limit[worst]), int(room.max()) // 2
        distance = _distance_to_room(desk, room >= min(excess, half + 1))
        if self.aside:
            return np.where(distance <= distance[worst], np.maximum(room, max(excess, half)), room)
        passed: Int64 = np.where((distance > 0) & (distance < distance[worst]), excess, room)
        return passed


def _distance_to_room(desk: Desk, roomy: Bools) -> Int64:
    """Over how many hands a member's lag can reach a roomy one; 0 for those, n where none can be reached."""
    n, kinds = len(roomy), len(desk.may)
    owned = np.flatnonzero((desk.class_of >= 0) & (desk.weight > 0))
    held = np.bincount(desk.class_of[owned].astype(np.int64) * n + desk.owner[owned], minlength=kinds * n).reshape(kinds, n) > 0
    distance = np.where(roomy, 0, n)
    for steps in range(1, n):
        near = distance < n
        leads = desk.may[:, near].any(axis=1)
        found = held[leads].any(axis=0) & ~near
        if not found.any():
            break
        distance[found] = steps
    return distance


def _takers(desk: Desk, giver: int) -> Bools:
    """Members to whom the giver may hand one partition without leaving the counts allowed."""
    able = (desk.count < desk.most) & bool(desk.count[giver] > desk.least[giver])
    if desk.trade_counts:
        last = 2 * desk.count[giver] - 1  # as in `Desk.may_trade`
        able |= (2 * desk.count + 1) * desk.capacity[giver] == last * desk.capacity
    able[giver] = False
    return able


def _hand_over(desk: Desk, giver: int, mine: Index, room: Int64) -> bool:
    """One partition to a member with room: the lightest that suffices, else the heaviest that fits."""
    room = np.where(_takers(desk, giver), room, 0)
    if not len(mine) or not room.any():
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
    if not _worth_while(desk, giver, int(weights[at]), excess):
        return False
    partition = int(mine[at])
    taker = int(np.argmax(np.where(desk.may[desk.class_of[partition]], room, 0)))
    traded = desk.count[taker] >= desk.most[taker] or desk.count[giver] <= desk.least[giver]
    desk.give(partition, taker)
    if traded:
        desk.trade_bounds(giver, taker)
    return True


def _exchange(desk: Desk, giver: int, mine: Index, room: Int64) -> bool:
    """A heavier partition against a lighter one: by just what is needed, else by as much as possible."""
    if not len(mine):
        return False
    room = np.where(_sharing(desk, mine), room, 0)
    room[giver] = 0
    partners = np.argsort(-room, kind="stable")[:PARTNERS_AT_MOST]
    excess = int(desk.load[giver] - desk.limit[giver])
    best: tuple[int, int, int] | None = None
    for tried, partner in enumerate(partners[room[partners] > 0].tolist()):
        if tried >= PARTNERS and best and _worth_while(desk, giver, best[0], excess):
            break
        found = _best_pair(desk, giver, mine, partner, excess, int(room[partner]))
        if found and (best is None or found[0] > best[0]):
            best = found
        if best and best[0] >= excess:
            break
    if best is None or not _worth_while(desk, giver, best[0], excess):
        return False
    _, out, back = best
    partner = int(desk.owner[back])
    desk.give(out, partner)
    desk.give(back, giver)
    return True


def _worth_while(desk: Desk, giver: int, gain: int, excess: int) -> bool:
    return gain >= excess or gain * WORTH_WHILE >= int(desk.limit[giver])


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
