"""Quotas: how many units each member of a block must take, and who may take one more.

Balanced loads of a block (members that can trade units freely) minimise ``sum(load**2 / capacity)``. The j-th unit of a member
has the marginal cost ``(2j - 1) / capacity``, so the optimum takes the cheapest units: every unit below some marginal cost
(the *floor* of each member), and enough of those at exactly that cost, at most one per member (the *ceiling slots*). With
equal capacities the floor is N div m and there are N mod m ceiling slots. This is Webster's apportionment; see Frank & Murota,
*Decreasing minimization on M-convex sets*, for why one marginal cost suffices inside a block.

A *unit* is one partition, whichever it is. The next unit of a *candidate* has exactly the last marginal cost. The *quota* of a
member is its floor, plus one if it is given a ceiling slot; *slack* is what it lacks of the quota, *excess* what it has above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

__all__ = ["Capacities", "Quotas", "quotas_of"]


@dataclass(frozen=True, slots=True)
class Capacities:
    """Capacities of the members and their pinned units; the same for every split into blocks."""

    capacity: Int64 | None = None  # int64[M]; None: all equal
    # int64[M]: units a member keeps in any case (they count for the balance and are not assigned); None: none
    pinned: Int64 | None = None

    @classmethod
    def of(cls, capacity: Int64, pinned: Int64 | None = None) -> Self:
        """Capacities of a problem; equal ones are None, because they need no bisection."""
        return cls(capacity if bool((capacity[1:] != capacity[:-1]).any()) else None, pinned)


@dataclass(frozen=True, slots=True)
class Quotas:
    """The balanced loads of every block."""

    floor: Int64  # int64[M]: units a member takes at least, beside its pinned ones; 0 outside every block
    candidate: npt.NDArray[np.bool_]  # bool[M]: who may take one unit more
    ceiling_slots: Int64  # int64[B]: how many of a block's candidates take one more


def quotas_of(
    units: Int64,  # int64[B]: units of each block
    block: Int64,  # int64[M]: block of each member, -1 for none. A block with units has members.
    capacities: Capacities,
) -> Quotas:
    """Floors, candidates and ceiling slots if the members of each block b take ``units[b]`` units.

    O(M) with equal capacities and nothing pinned; otherwise O(M log(units * capacity**2)), exact integers throughout.
    """
    inside = block >= 0
    everybody = bool(inside.all())
    members = np.bincount(block if everybody else block[inside], minlength=len(units))
    if capacities.capacity is None and capacities.pinned is None:
        each, ceiling_slots = np.divmod(units, np.maximum(members, 1))
        floor, candidate = each[block], (ceiling_slots > 0)[block]
        if everybody:
            return Quotas(floor, candidate, ceiling_slots)
        return Quotas(np.where(inside, floor, 0), candidate & inside, ceiling_slots)
    floor = np.zeros(len(block), np.int64)
    candidate = np.zeros(len(block), np.bool_)
    ceiling_slots = np.zeros(len(units), np.int64)
    order = np.argsort(block, kind="stable")[len(block) - int(inside.sum()) :]
    for b, who in enumerate(np.split(order, np.cumsum(members)[:-1])):
        if len(who) and units[b]:
            floor[who], candidate[who], ceiling_slots[b] = _by_marginal_cost(int(units[b]), who, capacities)
    return Quotas(floor, candidate, ceiling_slots)


def _by_marginal_cost(units: int, who: npt.NDArray[np.intp], capacities: Capacities) -> tuple[Int64, npt.NDArray[np.bool_], int]:
    """Floor, candidates and number of ceiling slots of one block, by bisection on the marginal cost.

    Marginal costs differ by at least 1/scale, scale = max(capacity)**2, so a half-open step of that width holds one distinct
    cost. Python integers are used if 64 bits may not be enough.
    """
    capacity = np.ones(len(who), np.int64) if capacities.capacity is None else capacities.capacity[who]
    pinned = np.zeros(len(who), np.int64) if capacities.pinned is None else capacities.pinned[who]
    scale = int(capacity.max()) ** 2
    high = 2 * (units + int(pinned.max())) * scale
    if (high + scale) * int(capacity.max()) >= 2**62:
        capacity, pinned = capacity.astype(object), pinned.astype(object)

    def taken(cost: int) -> Int64:
        return np.maximum((cost * capacity + scale) // (2 * scale) - pinned, 0)  # type: ignore[no-any-return]

    low = 0
    while low < high:
        middle = (low + high) // 2
        if int(taken(middle).sum()) >= units:
            high = middle
        else:
            low = middle + 1
    floor = taken(high - 1).astype(np.int64)
    candidate = taken(high).astype(np.int64) > floor
    ceiling_slots = units - int(floor.sum())
    if ceiling_slots == int(candidate.sum()):
        return floor + candidate, np.zeros(len(who), np.bool_), 0
    return floor, candidate, ceiling_slots
