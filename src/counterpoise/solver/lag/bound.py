"""What no plan can undercut: a lower bound on the largest lag per capacity, and the levels that go with it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.blocks import LagBlocks, lag_blocks
from counterpoise.solver.lag.desk import Desk

_LOOK = 4
"""Among so many times the least count of the lightest partitions is looked for what fills up a member; beyond is left out."""

__all__ = ["bound_of", "filled_up", "levels_of"]


def levels_of(desk: Desk) -> LagBlocks:
    """Lag levels of the group's classes (see `lag.blocks`); O(P), and a few max flows for unequal subscriptions."""
    kinds, camps = desk.may_camp.shape
    lag, capacity = np.zeros(kinds, np.int64), np.zeros(camps, np.int64)
    owned = np.flatnonzero(desk.class_of >= 0)
    np.add.at(lag, desk.class_of[owned], desk.weight[owned])
    np.add.at(capacity, desk.camp, desk.capacity)
    return lag_blocks(lag, capacity, desk.may_camp)


def bound_of(desk: Desk, blocks: LagBlocks, least: Int64) -> Fraction:
    """The larger of the densest level, what single partitions demand, and what pairs and more must share a member.

    Among the partitions of a block's topics only its members can own, the k*M + 1 heaviest put k + 1 on some member
    (M members; capacities count at their largest). Where all subscribe alike, each owner of heavy partitions also
    fills up to its `least` count, with nothing lighter than the lightest of the group.
    """
    bound = blocks.level[0] if blocks.level else Fraction(0)
    densest = blocks.block_of_member_class[desk.camp] == 0
    heaviest = np.zeros(len(desk.may) + 1, np.int64)
    np.maximum.at(heaviest, desk.class_of, desk.weight)
    strongest = np.where(desk.may, desk.capacity, 0).max(axis=1, initial=1)
    if len(strongest):
        bound = max(bound, _largest_ratio(heaviest[:-1], strongest))
    light = least[densest] if len(desk.may) == 1 else np.zeros(int(densest.sum()), np.int64)
    counted = np.append(blocks.block_of_topic_class == 0, False)  # the last is for partitions of no class
    items = desk.by_weight[counted[desk.class_of[desk.by_weight]]]
    return max(bound, _crowding(desk.weight[items], desk.capacity[densest], light))


def filled_up(desk: Desk, balanced: Int64, bound: Fraction) -> Fraction:
    """`bound`, or what the owner of a heavy partition bears in any balanced plan: it fills up with the lightest it may own.

    `balanced` are the counts of one such plan; the others have the same in another order, with nobody off by more than one.
    Nothing is claimed where capacities differ.
    """
    capacity = int(desk.capacity.max(initial=1))
    if int(desk.capacity.min(initial=1)) != capacity or not len(desk.may):
        return bound
    others = np.maximum(balanced - np.isin(balanced - 1, balanced) - 1, 0)
    lightest = desk.by_weight[::-1]
    lightest = lightest[desk.class_of[lightest] >= 0][: _LOOK * (int(others.max(initial=0)) + 1) + 16]
    most = int(desk.weight[lightest].sum())
    heaviest = np.zeros(len(desk.may) + 1, np.int64)
    np.maximum.at(heaviest, desk.class_of, desk.weight)
    for kind in np.argsort(-heaviest[:-1], kind="stable").tolist():
        if int(heaviest[kind]) + most <= bound * capacity:
            break
        members = np.flatnonzero(desk.may[kind])
        filling = lightest[desk.weight[lightest] < heaviest[kind]]
        able = desk.may[desk.class_of[filling]][:, members]
        taken = able & (able.cumsum(axis=0) <= others[members])
        least = int((taken * desk.weight[filling][:, None]).sum(axis=0).min(initial=most))
        bound = max(bound, Fraction(int(heaviest[kind]) + least, capacity))
    return bound


def _crowding(falling: Int64, capacity: Int64, least: Int64) -> Fraction:
    """What the heaviest partitions alone demand of the members that can own them.

    Two arguments: the j heaviest lie on at most j members, at best those of the largest capacities; and of the
    k*M + 1 heaviest some member owns k + 1, at least the k + 1 lightest of them.
    """
    strongest = -np.sort(-capacity)
    most = min(len(falling), len(strongest))
    if not most:
        return Fraction(0)
    bound = _largest_ratio(np.cumsum(falling[:most]), np.cumsum(strongest[:most]))
    total = np.concatenate(([0], np.cumsum(falling)))
    filling = np.concatenate(([0], np.cumsum(falling[::-1])))
    alone = falling[0] + filling[np.maximum(least - 1, 0)]
    bound = max(bound, -_largest_ratio(-alone, capacity))
    k = np.arange(1, (len(falling) - 1) // len(strongest) + 1)
    if len(k):
        last = k * len(strongest) + 1
        crowd = total[last] - total[last - k - 1] + filling[np.maximum(int(least.min()) - k - 1, 0)]
        bound = max(bound, Fraction(int(crowd.max()), int(strongest[0])))
    return bound


def _largest_ratio(numerator: Int64, denominator: Int64) -> Fraction:
    """The largest of n/d, exactly: floats choose candidates, fractions decide."""
    ratio = numerator / denominator
    near = np.flatnonzero(ratio >= ratio.max() - abs(ratio.max()) * 1e-12)
    return max(Fraction(int(numerator[i]), int(denominator[i])) for i in near[:64].tolist())
