"""A lower bound on the largest lag per capacity: density of topic sets, heaviest partitions, pigeonhole (Graham, 1969)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.state import LagGroup

_CELLS = 10**8
"""Topic classes are compared pairwise if that takes at most so many steps; beyond, only all of them together count."""
_HEAVIEST = 8
"""For the heaviest partition of so many topic classes the bound includes what else its owner must take."""
_LIGHTEST = 4
"""That is looked for among so many times the largest count of the lightest partitions."""

Bools = npt.NDArray[np.bool_]

__all__ = ["lower_bound"]


def lower_bound(group: LagGroup, counts: Int64 | None) -> Fraction:
    """No plan has a smaller largest lag per capacity.

    Parameters
    ----------
    group : LagGroup
    counts : int64[M], optional
        The counts of one balanced plan: the bound then holds of balanced plans only, and may be higher.

    Notes
    -----
    The largest of:

    - the lag of a set of topics over the capacity of its subscribers. Sets: all topics, and for each topic class those that only
      its subscribers read;
    - the j heaviest partitions over the j largest capacities;
    - the k + 1 lightest of the k * M + 1 heaviest partitions over the largest capacity: one of M members owns as many;
    - with balanced counts at equal capacities, a heavy partition and the lightest ones that complete its owner's count.

    Exact. O(P log P + C**2 M) for C topic classes.
    """
    if not group.heaviest_first:
        return Fraction(0)
    lag, capacity = np.array(group.lag, np.int64), np.array(group.capacity, np.int64)
    order = np.array(group.heaviest_first)
    topic_class = np.array(group.topic_class)
    may = np.frombuffer(b"".join(group.takes), np.bool_).reshape(len(group.takes), len(capacity))
    bound, dense = _densest(lag[order], topic_class[order], may, capacity)
    inside = order[dense[topic_class[order]]]
    bound = max(bound, _heaviest(lag[inside], np.sort(capacity[may[dense].any(axis=0)])[::-1]))
    strongest = np.where(may, capacity, 0).max(axis=1).tolist()
    heaviest = np.zeros(len(may), np.int64)
    np.maximum.at(heaviest, topic_class[order], lag[order])
    alone = dict(sorted(zip(strongest, heaviest.tolist(), strict=True)))  # the heaviest for each capacity
    bound = max(bound, *(Fraction(weight, most) for most, weight in alone.items()))
    if counts is not None and int(capacity.min()) == int(capacity.max()):
        return max(bound, Fraction(_completed(lag, order[::-1], topic_class, may, heaviest, counts), int(capacity[0])))
    return bound


def _densest(lag: Int64, topic_class: Int64, may: Bools, capacity: Int64) -> tuple[Fraction, Bools]:
    """The densest of the sets looked at, and which topic classes it holds."""
    of_class = np.zeros(len(may), np.int64)
    np.add.at(of_class, topic_class, lag)
    best, dense = Fraction(int(of_class.sum()), int(capacity[may.any(axis=0)].sum())), np.ones(len(may), np.bool_)
    if len(may) > 1 and len(may) * may.size <= _CELLS:
        subscribers = np.packbits(may, axis=1)
        for mine, strength in zip(subscribers, np.where(may, capacity, 0).sum(axis=1).tolist(), strict=True):
            within = ~(subscribers & ~mine).any(axis=1)
            found = Fraction(int(of_class[within].sum()), strength)
            if found > best:
                best, dense = found, within
    return best, dense


def _heaviest(falling: Int64, capacity: Int64) -> Fraction:
    """What heavy partitions demand of members of falling capacity."""
    total = np.concatenate(([0], np.cumsum(falling)))
    n, most = len(capacity), min(len(falling), len(capacity))
    share = total[1 : most + 1] / np.cumsum(capacity[:most])
    j = int(np.argmax(share)) + 1
    last = np.arange(1, (len(falling) - 1) // n + 1) * n + 1
    crowd = int((total[last] - total[last - 1 - np.arange(1, len(last) + 1)]).max(initial=0))
    return max(Fraction(int(total[j]), int(capacity[:j].sum())), Fraction(crowd, int(capacity[0])))


def _completed(lag: Int64, lightest: Int64, topic_class: Int64, may: Bools, heaviest: Int64, counts: Int64) -> int:
    """The least that the owner of some heavy partition bears once its count is complete."""
    others = np.maximum(counts - np.isin(counts - 1, counts) - 1, 0)  # in any balanced plan, besides the heavy one
    lightest = lightest[: _LIGHTEST * (int(others.max(initial=0)) + 1) + 16]
    most, bound = int(lag[lightest].sum()), 0
    for number in np.argsort(-heaviest, kind="stable")[:_HEAVIEST].tolist():
        weight = int(heaviest[number])
        if weight + most <= bound:
            break
        lighter = lightest[lag[lightest] < weight]
        able = may[topic_class[lighter]][:, may[number]]
        taken = able & (np.cumsum(able, axis=0) <= others[may[number]])
        bound = max(bound, weight + int((taken * lag[lighter][:, None]).sum(axis=0).min()))
    return bound
