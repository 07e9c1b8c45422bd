"""What no plan can undercut: a lower bound on the largest lag per capacity, and the levels that go with it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.blocks import LagBlocks, lag_blocks
from counterpoise.solver.lag.desk import Desk, Index, exact_sums

_LOOK = 4
"""Among so many times the least count of the lightest partitions is looked for what fills up a member; beyond is left out."""
_HEAVIEST = 16
"""Among so many times the number of topic classes of the heaviest partitions one of each class is looked for first."""
_EXACT = 2**53
"""Below it sums of integers are exact in doubles, whatever their order, and BLAS is quick."""

__all__ = ["bound_of", "levels_of"]


def levels_of(desk: Desk) -> LagBlocks:
    """Lag levels of the group's classes (see `lag.blocks`); O(P), and a few max flows for unequal subscriptions."""
    kinds, camps = desk.may_camp.shape
    everybody = int(desk.class_of.min(initial=0)) >= 0
    lag = exact_sums(desk.class_of if everybody else desk.class_of + 1, desk.weight, kinds + 1)
    capacity = np.zeros(camps, np.int64)
    np.add.at(capacity, desk.camp, desk.capacity)
    return lag_blocks(lag[:-1] if everybody else lag[1:], capacity, desk.may_camp)


def bound_of(desk: Desk, blocks: LagBlocks, least: Int64, balanced: Int64 | None = None) -> Fraction:
    """The larger of the densest level, what single partitions demand, and what pairs and more must share a member.

    Among the partitions of a block's topics only its members can own, the k*M + 1 heaviest put k + 1 on some member
    (M members; capacities count at their largest). Where all subscribe alike, each owner of heavy partitions also
    fills up to its `least` count, with nothing lighter than the lightest of the group. With `balanced`, the counts of one
    balanced plan, it fills up to what it has in any such plan, with the lightest it may own.
    """
    bound = blocks.level[0] if blocks.level else Fraction(0)
    if not len(desk.may):
        return bound
    densest = blocks.block_of_member_class[desk.camp] == 0
    heaviest = _heaviest(desk)
    bound = max(bound, _largest_ratio(heaviest, _strongest(desk)))
    light = least[densest] if len(desk.may) == 1 else np.zeros(int(densest.sum()), np.int64)
    counted = np.append(blocks.block_of_topic_class == 0, False)  # the last is for partitions of no class
    all_of_them = bool(counted[:-1].all()) and int(desk.class_of.min(initial=0)) >= 0
    falling = desk.falling if all_of_them else desk.falling[counted[desk.class_of[desk.by_weight]]]
    bound = max(bound, _crowding(falling, desk.capacity[densest], light))
    return bound if balanced is None else _filled_up(desk, balanced, heaviest, bound)


def _heaviest(desk: Desk) -> Int64:
    """The heaviest partition of each topic class: mostly all of them are among a few of the heaviest."""
    kinds, partitions = len(desk.may), len(desk.by_weight)
    for number in (_HEAVIEST * kinds, partitions):
        kind = desk.class_of[desk.by_weight[:number]]
        heaviest = np.full(kinds + 1, -1, np.int64)
        heaviest[kind[::-1]] = desk.falling[:number][::-1]  # of the same class the last one stays; the last is for no class
        if number >= partitions or int(heaviest[:-1].min()) >= 0:
            break
    return np.maximum(heaviest[:-1], 0)


def _strongest(desk: Desk) -> Int64:
    """The largest capacity that may take each topic class."""
    capacity = desk.capacity
    if int(capacity.min()) == int(capacity.max()):
        return np.where(desk.may.any(axis=1), capacity[0], 1)
    strongest: Int64 = np.where(desk.may, capacity, 0).max(axis=1, initial=1)
    return strongest


def _filled_up(desk: Desk, balanced: Int64, heaviest: Int64, bound: Fraction) -> Fraction:
    """`bound`, or what the owner of a heavy partition bears in any balanced plan: it fills up with the lightest it may own.

    `balanced` are the counts of one such plan; the others have the same in another order, with nobody off by more than one.
    Nothing is claimed where capacities differ.
    """
    capacity = int(desk.capacity.max(initial=1))
    if int(desk.capacity.min(initial=1)) != capacity:
        return bound
    others = np.maximum(balanced - np.isin(balanced - 1, balanced) - 1, 0)
    lightest = _lightest(desk, _LOOK * (int(others.max(initial=0)) + 1) + 16)
    weight = desk.weight[lightest]
    most, filling, filled_with = int(weight.sum()), np.empty(0, np.int64), -1
    for kind in np.argsort(-heaviest, kind="stable").tolist():
        if int(heaviest[kind]) + most <= bound * capacity:
            break
        lighter = int((weight < heaviest[kind]).sum())
        if lighter != filled_with:  # mostly all of them are, for every class
            filling, filled_with = _filling(desk, lightest[:lighter], others), lighter
        least = int(filling[desk.may[kind]].min())  # somebody has it in any balanced plan
        bound = max(bound, Fraction(int(heaviest[kind]) + least, capacity))
    return bound


def _lightest(desk: Desk, wanted: int) -> Index:
    """So many of the lightest partitions of any class, lightest first."""
    lightest = desk.by_weight[::-1]
    if int(desk.class_of.min()) < 0:
        lightest = lightest[desk.class_of[lightest] >= 0]
    return lightest[:wanted]


def _filling(desk: Desk, lightest: Index, others: Int64) -> Int64:
    """The least that each member bears with so many `others` of the `lightest`, of those that it may own."""
    most = int(others.max(initial=0))
    for number in (2 * most + most // 2 + 32, len(lightest)):  # mostly the first of them suffice
        able = desk.may[desk.class_of[lightest[:number]]]
        place = able.cumsum(axis=0, dtype=np.int16 if number < 2**15 else np.int64)
        if number >= len(lightest) or (place[-1:] >= others).all():
            break
    able &= place <= others.astype(place.dtype)
    weight = desk.weight[lightest[: len(able)]]
    if int(weight.sum()) < _EXACT:
        return (weight.astype(np.float64) @ able.astype(np.float64)).astype(np.int64)
    filling: Int64 = weight @ able
    return filling


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
    total = _sums_from_0(falling)
    filling = _sums_from_0(falling[::-1][: int(least.max(initial=0))])
    alone = falling[0] + filling[np.maximum(least - 1, 0)]
    bound = max(bound, -_largest_ratio(-alone, capacity))
    k = np.arange(1, (len(falling) - 1) // len(strongest) + 1)
    if len(k):
        last = k * len(strongest) + 1
        crowd = total[last] - total[last - k - 1] + filling[np.maximum(int(least.min()) - k - 1, 0)]
        bound = max(bound, Fraction(int(crowd.max()), int(strongest[0])))
    return bound


def _sums_from_0(values: Int64) -> Int64:
    """0, the first, the first two, .."""
    total = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=total[1:])
    return total


def _largest_ratio(numerator: Int64, denominator: Int64) -> Fraction:
    """The largest of n/d, exactly: floats choose candidates, fractions decide."""
    ratio = numerator / denominator
    near = np.flatnonzero(ratio >= ratio.max() - abs(ratio.max()) * 1e-12)
    return max(Fraction(int(numerator[i]), int(denominator[i])) for i in near[:64].tolist())
