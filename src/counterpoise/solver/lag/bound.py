"""A lower bound on the largest lag per capacity: density of topic sets, heaviest partitions, pigeonhole (Graham, 1969)."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate, compress

import numpy as np
import numpy.typing as npt

from counterpoise.solver.lag.state import LagGroup

_CELLS = 10**8
"""Steps for comparing topic classes pairwise. If it takes more, only the set of all topics is compared."""
_CLASSES_COMPLETED = 8
"""`_completion_bound` looks at this many topic classes, those with the heaviest partitions first."""
_LIGHTEST_PER_COUNT = 4
"""`_completion_bound` reads the `_LIGHTEST_PER_COUNT` * max(counts) + 16 lightest partitions."""

Bools = npt.NDArray[np.bool_]
LagPerCapacity = tuple[int, int]
"""Lag and capacity."""

__all__ = ["lower_bound"]


def lower_bound(
    group: LagGroup,
    counts: list[int] | None,  # The counts of one balanced plan: the bound then holds of balanced plans only, and may be higher
) -> Fraction:
    """No plan has a smaller largest lag per capacity.

    The largest of:

    - the lag of a set of topics over the capacity of its subscribers. Sets: all topics, and for each topic class those that only
      its subscribers read;
    - the heaviest partition of a topic class over the largest capacity of its subscribers;
    - the j heaviest partitions over the j largest capacities;
    - the k + 1 lightest of the k * M + 1 heaviest partitions over the largest capacity: one of M members owns as many;
    - with balanced counts at equal capacities, a heavy partition and the lightest ones that complete its owner's count.

    Exact. O(P log P + C**2 M) for C topic classes.
    """
    if not group.heaviest_first:
        return Fraction(0)
    may = np.frombuffer(b"".join(group.takes), np.bool_).reshape(len(group.takes), -1)
    dense, able = ([True], group.takes[0]) if len(may) == 1 else _densest(group, may)
    strong = sorted(compress(group.capacity, able), reverse=True)
    bound = _heaviest([group.lag[p] for p in group.heaviest_first if dense[group.topic_class[p]]], strong)
    heaviest = {group.topic_class[partition]: lag for lag, partition in group.lightest_first}
    alike = len(set(group.capacity)) == 1
    strongest = group.capacity[:1] * len(may) if alike else np.where(may, group.capacity, 0).max(axis=1).tolist()
    for number, lag in heaviest.items():
        bound = _larger(bound, (lag, strongest[number]))
    if counts is not None and alike:
        bound = _larger(bound, (_completion_bound(group, may, heaviest, counts), strong[0]))
    return Fraction(*bound)


def _larger(one: LagPerCapacity, other: LagPerCapacity) -> LagPerCapacity:
    return one if one[0] * other[1] >= other[0] * one[1] else other


def _densest(group: LagGroup, may: Bools) -> tuple[list[bool], bytes]:
    """Which topic classes are in the densest of the sets looked at, and 1 for each member that subscribes to any of these."""
    lag, capacity = np.zeros(len(may), np.int64), np.array(group.capacity)
    np.add.at(lag, [group.topic_class[p] for _, p in group.lightest_first], [weight for weight, _ in group.lightest_first])
    best, dense = (int(lag.sum()), int(capacity[may.any(axis=0)].sum())), np.ones(len(may), np.bool_)
    if len(may) * may.size <= _CELLS:
        subscribers = np.packbits(may, axis=1)
        for mine, strength in zip(subscribers, (may @ capacity).tolist(), strict=True):
            within = ~(subscribers & ~mine).any(axis=1)
            found = int(lag[within].sum())
            if found * best[1] > best[0] * strength:
                best, dense = (found, strength), within
    return dense.tolist(), may[dense].any(axis=0).tobytes()


def _heaviest(falling: list[int], strong: list[int]) -> LagPerCapacity:
    """What these partitions demand of members of falling capacity: all of them, and the heaviest ones."""
    n, total, strength = len(strong), [0, *accumulate(falling)], 0
    bound = total[-1], sum(strong)
    for weight, capacity in zip(total[1:], strong, strict=False):
        strength += capacity
        bound = _larger(bound, (weight, strength))
    crowd = max((total[k * n + 1] - total[k * n - k] for k in range(1, (len(falling) - 1) // n + 1)), default=0)
    return _larger(bound, (crowd, strong[0]))


def _completion_bound(group: LagGroup, may: Bools, heaviest: dict[int, int], counts: list[int]) -> int:
    """The least that the owner of some heavy partition bears once its count is complete."""
    known = set(counts)
    others = [max(count - 1 - (count - 1 in known), 0) for count in counts]  # in any balanced plan, besides that one
    lightest = group.lightest_first[: _LIGHTEST_PER_COUNT * max(counts) + 16]
    lag, bound = [weight for weight, _ in lightest], 0
    if len(may) == 1:  # whoever takes the fewest bears least
        few = min(bisect_left(lag, heaviest[0]), *compress(others, group.takes[0]))
        return heaviest[0] + sum(lag[:few])
    number_of_others, lags = np.array(others), np.array(lag)
    chosen = np.arange(len(others))
    if any(group.member_class):  # members with equal subscriptions and counts bear the same
        representative = {pair: member for member, pair in enumerate(zip(group.member_class, others, strict=True))}
        chosen = np.array(list(representative.values()))
    topic_class, most = np.array([group.topic_class[partition] for _, partition in lightest]), sum(lag)
    for number, weight in sorted(heaviest.items(), key=lambda item: (-item[1], item[0]))[:_CLASSES_COMPLETED]:
        if weight + most <= bound:
            break
        lighter, members = bisect_left(lag, weight), chosen[may[number, chosen]]
        able = may[topic_class[:lighter]][:, members]
        taken = able & (able.cumsum(axis=0) <= number_of_others[members])
        bound = max(bound, weight + int((lags[:lighter] @ taken).min()))
    return bound
