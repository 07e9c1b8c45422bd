"""Which claims go before anything is placed: what counts demand, and what members over their lag limit shed."""

from __future__ import annotations

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.desk import Desk, Index

__all__ = ["demand_counts", "fill_up", "shed_lag", "window"]


def demand_counts(desk: Desk, balanced: Int64, band: int) -> None:
    """Set the counts allowed, `balanced` give or take `band`, and release what no plan within them can keep.

    With one topic class the number released is the least possible; otherwise members above their most are cut to it,
    and members that stay below their least are the business of `fill_up`.
    """
    widest = min(band, int(desk.count.max(initial=0)) + int(balanced.max(initial=0)))
    desk.least, desk.most = np.maximum(balanced - band, 0), balanced + widest
    keep = np.minimum(desk.count, desk.most)
    if len(desk.may) == 1:
        keep = _keep_one_class(desk.count, balanced, desk.least, widest, int((desk.class_of >= 0).sum()))
    surplus = desk.count - keep
    for member, mine in desk.holdings(np.flatnonzero(surplus)):
        number = int(surplus[member])
        share = int(desk.load[member]) * number // len(mine)
        excess = int(desk.load[member] - desk.limit[member])
        desk.release(window(desk.weight[mine], mine, number, max(share, excess)))


def _keep_one_class(count: Int64, balanced: Int64, least: Int64, band: int, total: int) -> Int64:
    """The most claims each member can keep so that what is free suffices to lift everybody to the least."""

    def lacking(width: int) -> int:
        keep = np.minimum(count, balanced + width)
        return int(np.maximum(least - keep, 0).sum()) - (total - int(keep.sum()))

    if lacking(band) <= 0:
        return np.minimum(count, balanced + band)
    low, high = 0, band  # lacking(low) <= 0 < lacking(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if lacking(middle) <= 0 else (low, middle)
    keep: Int64 = np.minimum(count, balanced + high)
    keep[np.flatnonzero(keep == balanced + high)[: lacking(high)]] -= 1
    return keep


def shed_lag(desk: Desk) -> None:
    """Members over their limit release the fewest partitions that bring them under it, worst first.

    As many as the least count and the moves left allow. Of all sets of that size, neighbours in weight with the
    smallest sum that suffices: mid-sized partitions find a new owner more easily than the heaviest. What is heavier
    than the room of any member stays where it is, unless nothing else suffices.
    """
    room = int((desk.limit - desk.load).max(initial=0))
    over = np.flatnonzero(desk.load > desk.limit)
    if not len(over):
        return
    excess = desk.load - desk.limit
    ratio = -(excess[over] // desk.capacity[over])
    spare = np.minimum(desk.count - 1, desk.count - desk.least).tolist()
    shed, moves_left = [], desk.moves_left
    for member, mine in desk.holdings(over[np.argsort(ratio, kind="stable")]):
        weights = desk.weight[mine]
        total = np.cumsum(weights)
        light = int(np.searchsorted(weights, room, side="right"))
        if light and int(total[light - 1]) >= excess[member]:
            mine, weights, total = mine[:light], weights[:light], total[:light]
        # As many of the heaviest as weigh the excess: where the rest weighs no more than what may stay.
        number = len(mine) - int(np.searchsorted(total, total[-1] - excess[member], side="right"))
        number = min(number, spare[member], moves_left)
        if number > 0:
            chosen = window(weights, mine, number, int(excess[member]))
            moves_left -= int(np.count_nonzero(desk.previous[chosen] == member))
            shed.append(chosen)
    if shed:
        desk.release(np.concatenate(shed))


def window(weights: Int64, mine: Index, number: int, wanted: int) -> Index:
    """`number` neighbours of `mine` (rising weights) with the smallest sum of at least `wanted`, else the heaviest."""
    total = np.concatenate(([0], np.cumsum(weights)))
    at = int(np.searchsorted(total[number:] - total[:-number], wanted))
    at = min(at, len(mine) - number)
    return mine[at : at + number]


def fill_up(desk: Desk) -> bool:
    """Lift members below their least count by single moves from those who can spare; False where that does not do."""
    for member in np.flatnonzero(desk.count < desk.least).tolist():
        for giver in np.argsort(desk.least - desk.count, kind="stable").tolist():
            lacking = int(desk.least[member] - desk.count[member])
            spare = int(desk.count[giver] - desk.least[giver])
            if lacking <= 0 or spare <= 0:
                break
            mine = desk.items_of(giver)
            fitting = mine[desk.may[desk.class_of[mine], member]]
            for partition in fitting[: min(lacking, spare)].tolist():
                desk.give(partition, member)
        if desk.count[member] < desk.least[member]:
            return False
    return True
