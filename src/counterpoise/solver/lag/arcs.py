"""Which member classes may own which topic classes in a balanced plan: exchange cycles, found as strong components."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.lag.blocks import Bools

_FEW = 64
"""Among so few nodes ways are found sooner by squaring a table than by building a graph."""

__all__ = ["exchangeable", "price"]


def exchangeable(may: Bools, camp: Int64, kind: Int32, owner: Int32, capacity: Int64) -> Bools:
    """`may` without what no balanced plan uses, bool[topic classes, member classes].

    Balanced plans differ from each other by exchanges along cycles: a topic class goes to any subscriber, a member can
    give what it holds, and members for which one partition more or less counts alike can change places. An arc from a topic
    class to a member class is used by some balanced plan exactly when both lie in one strong component.

    Parameters
    ----------
    may : bool[topic classes, member classes]
    camp, capacity : int64[M]
        Member class and capacity of each member.
    kind, owner : int32[P]
        Topic class of each partition (-1: none) and its owner in any balanced plan: which one does not matter.

    Notes
    -----
    O(P + cells of `may`).
    """
    kinds, camps = may.shape
    if kinds < 2:
        return may
    if int(owner.min(initial=0)) < 0:
        owned = np.flatnonzero(owner >= 0)
        owner, kind = owner[owned], kind[owned]
    holds = np.zeros((camps, kinds), np.bool_)
    holds[camp[owner], kind] = True
    if _all_together(may, holds):
        return may
    holding, held = np.nonzero(holds)
    load = np.bincount(owner, minlength=len(camp)).astype(np.int64)
    # A member gives its last partition at one price and takes another at the next: equal prices may change places.
    level, place = np.unique(np.concatenate([price(load, -1, capacity), price(load, 1, capacity)]), return_inverse=True)
    high, low = place[: len(camp)], place[len(camp) :]
    hub = kinds + camps
    takes = np.nonzero(may)
    tail = np.concatenate([takes[0], kinds + holding, kinds + camp, hub + high])
    head = np.concatenate([kinds + takes[1], held, hub + low, kinds + camp])
    component = _strong_components(tail, head, hub + len(level))
    together: Bools = may & (component[:kinds, None] == component[None, kinds:hub])
    return together


def _strong_components(tail: Int64, head: Int64, size: int) -> Int64:
    """A number for each node, the same for those from each of which a way leads to the other."""
    if size > _FEW:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        sparse: Any = csr_array  # its stub knows no (data, (row, column))
        graph = sparse((np.ones(len(tail), np.int8), (tail, head)), shape=(size, size))
        return np.asarray(connected_components(graph, directed=True, connection="strong")[1], np.int64)
    reached = np.eye(size, dtype=np.float32)
    reached[tail, head] = 1
    for _ in range(size.bit_length()):  # ways of twice as many steps each time
        reached = np.minimum(reached @ reached, 1)
    return np.asarray((reached * reached.T).argmax(axis=1), np.int64)  # the first of them stands for all


def _all_together(may: Bools, holds: Bools) -> bool:
    """Every arc lies on a cycle of topic classes and the member classes that hold them alone: one walk each way tells."""
    taking = may.any(axis=0)
    for onward, back in ((may, holds), (holds.T, may.T)):
        kinds = np.zeros(len(may), np.bool_)
        kinds[0] = True
        while not kinds.all():
            camps = onward[kinds].any(axis=0)
            further = back[camps].any(axis=0) | kinds
            if np.array_equal(further, kinds):
                return False
            kinds = further
        if not onward[:, taking].any(axis=0).all():
            return False
    return True


def price(load: Int64, way: int, capacity: Int64) -> Int64:
    """(2 load + way) / capacity in lowest terms, as one number per value: what one partition changes in load**2 / capacity."""
    top = 2 * load + way
    common = np.gcd(top, capacity)
    return (top // common) * (int(capacity.max(initial=1)) + 1) + capacity // common
