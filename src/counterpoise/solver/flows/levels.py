"""Levels: how many units each member of a block must take, and who may take one more.

Balanced loads of a block (members that can trade units freely) minimise ``sum(load**2 / capacity)``. The j-th unit of a
member costs ``(2j - 1) / capacity`` more than its (j-1)-th, so the optimum takes the cheapest units: every unit under some
price (the *base* of each member), and enough of those at exactly that price (at most one a member: the *extras*). With equal
capacities the base is N div m and the extras are N mod m. This is Webster's apportionment; see Frank & Murota, *Decreasing
minimization on M-convex sets*, for why a local price suffices inside a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

__all__ = ["Demand", "Quotas", "quotas"]


@dataclass(frozen=True, slots=True)
class Demand:
    """What does not change while blocks are cut: who takes part, how strong, and what is theirs already.

    Attributes
    ----------
    capacity : int64[M] or None
        Weight of each member; None: all equal.
    offset : int64[M] or None
        Units a member holds beyond dispute (they count for the balance and are not dealt); None: none.
    """

    capacity: Int64 | None = None
    offset: Int64 | None = None


@dataclass(frozen=True, slots=True)
class Quotas:
    """The balanced loads of every block.

    Attributes
    ----------
    base : int64[M]
        Units a member takes at least (offsets not counted); 0 outside every block.
    eligible : bool[M]
        Who may take one unit more.
    extras : int64[B]
        How many of a block's eligible members take one more.
    """

    base: Int64
    eligible: npt.NDArray[np.bool_]
    extras: Int64


def quotas(units: Int64, block: Int64, demand: Demand) -> Quotas:
    """Share out ``units[b]`` units among the members of each block b.

    Parameters
    ----------
    units : int64[B]
        Units of each block.
    block : int64[M]
        Block of each member, -1 for none. A block with units has members.
    demand : Demand

    Notes
    -----
    O(M) with equal capacities and no offsets; otherwise O(M log(units * capacity**2)), exact integers throughout.
    """
    inside = block >= 0
    everybody = bool(inside.all())
    members = np.bincount(block if everybody else block[inside], minlength=len(units))
    if demand.capacity is None and demand.offset is None:
        each, extras = np.divmod(units, np.maximum(members, 1))
        base, spare = each[block], (extras > 0)[block]
        return Quotas(base, spare, extras) if everybody else Quotas(np.where(inside, base, 0), spare & inside, extras)
    base = np.zeros(len(block), np.int64)
    eligible = np.zeros(len(block), np.bool_)
    extras = np.zeros(len(units), np.int64)
    order = np.argsort(block, kind="stable")[len(block) - int(inside.sum()) :]
    for b, who in enumerate(np.split(order, np.cumsum(members)[:-1])):
        if len(who) and units[b]:
            base[who], eligible[who], extras[b] = _priced(int(units[b]), who, demand)
    return Quotas(base, eligible, extras)


def _priced(units: int, who: npt.NDArray[np.intp], demand: Demand) -> tuple[Int64, npt.NDArray[np.bool_], int]:
    """Base, eligibility and number of extras of one block, by bisection on the price.

    Prices are multiples of 1/scale apart at least, scale = max(capacity)**2, so a half-open step of that width holds one
    distinct price. Python integers take over where 64 bits might not do.
    """
    capacity = np.ones(len(who), np.int64) if demand.capacity is None else demand.capacity[who]
    offset = np.zeros(len(who), np.int64) if demand.offset is None else demand.offset[who]
    scale = int(capacity.max()) ** 2
    high = 2 * (units + int(offset.max())) * scale
    if (high + scale) * int(capacity.max()) >= 2**62:
        capacity, offset = capacity.astype(object), offset.astype(object)

    def taken(price: int) -> Int64:
        return np.maximum((price * capacity + scale) // (2 * scale) - offset, 0)  # type: ignore[no-any-return]

    low = 0
    while low < high:
        middle = (low + high) // 2
        if int(taken(middle).sum()) >= units:
            high = middle
        else:
            low = middle + 1
    base = taken(high - 1).astype(np.int64)
    eligible = taken(high).astype(np.int64) > base
    extras = units - int(base.sum())
    if extras == int(eligible.sum()):
        return base + eligible, np.zeros(len(who), np.bool_), 0
    return base, eligible, extras
