"""Waves: much flow at once through a layered graph, in whole-array steps.

Every node passes on what comes in, in proportion to what its neighbours nearer to the sink could pass on in their turn. Where
several overrate the same neighbour, it hands back what it cannot take, to those who came last.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import ranges, sum_by

__all__ = ["depths_by_layer", "wave"]

GOLDEN = 40_503
"""Multiples of it are spread evenly over 2**16: the golden section."""

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]


def depths_by_layer(start: Int64, head: Int32s, open_back: Bools) -> Int64:
    """Steps from each node to the last one; the number of nodes where there is no way.

    Parameters
    ----------
    start, head
        Entries by node, both directions of every arc.
    open_back : bool[A]
        Whether the other direction of an entry has room.
    """
    n = len(start) - 1
    depth = np.full(n, n, np.int64)
    depth[-1] = 0
    frontier, steps = np.array([n - 1]), 0
    while len(frontier):
        steps += 1
        entries = ranges(start[frontier], start[frontier + 1] - start[frontier])
        reached = head[entries[open_back[entries]]]
        reached = reached[depth[reached] == n]
        depth[reached] = steps
        frontier = np.flatnonzero(depth == steps)
    return depth


def wave(start: Int64, head: Int32s, mate: Int64, room: Int64, depth: Int64) -> None:
    """Push from the first node to the last along shortest ways, in place: as much as one wave carries, at least one unit."""
    n = len(start) - 1
    tail = np.repeat(np.arange(n), np.diff(start))
    entry = np.flatnonzero((room > 0) & (depth[tail] == depth[head] + 1) & (depth[tail] <= depth[0]))
    entry = entry[np.argsort(depth[tail[entry]], kind="stable")]
    tail, to = tail[entry], head[entry].astype(np.int64)
    bounds = np.searchsorted(depth[tail], np.arange(1, int(depth[0]) + 2)).tolist()
    layers = [slice(a, b) for a, b in pairwise(bounds)]  # from the sink's side
    most = int(room[: start[1]].sum())
    able = np.zeros(n, np.int64)
    able[-1] = most
    could = np.empty(len(entry), np.int64)
    for layer in layers:
        could[layer] = np.minimum(room[entry[layer]], able[to[layer]])
        able += sum_by(tail[layer], could[layer], n)
    stock = np.zeros(n, np.int64)
    stock[0] = min(most, int(able[0]))
    moved = np.zeros(len(entry), np.int64)
    for layer in reversed(layers):
        moved[layer] = _split(stock, tail[layer], could[layer])
        stock += sum_by(to[layer], moved[layer], n) - sum_by(tail[layer], moved[layer], n)
    stock[-1] = 0
    for layer in layers[1:]:
        back = _return(stock, to[layer], moved[layer])
        moved[layer] -= back
        stock += sum_by(tail[layer], back, n) - sum_by(to[layer], back, n)
    room[entry] -= moved
    room[mate[entry]] += moved


def _split(stock: Int64, tail: Int64, could: Int64) -> Int64:
    """What each node's stock sends along its entries, sorted by node: shares in proportion, rounded so that they add up.

    Where a node has less than one unit for each entry, another node starts at another place: so they meet less.
    """
    upto = np.cumsum(could)
    first = np.flatnonzero(np.append(True, tail[1:] != tail[:-1]))
    size = np.diff(np.append(first, len(tail)))
    before = np.repeat((upto - could)[first], size)
    whole = np.repeat(upto[np.append(first[1:], len(tail)) - 1], size) - before
    sent = np.minimum(stock[tail], whole)
    upto -= before
    if int(whole.max()) >= 2**46 or int(sent.max()) * int(whole.max()) >= 2**62:
        return np.asarray(np.clip(sent - (upto - could), 0, could), np.int64)
    whole = np.maximum(whole, 1)
    start = np.repeat(np.arange(len(first)) * GOLDEN % 2**16, size) * whole >> 16
    return np.asarray((sent * upto + start) // whole - (sent * (upto - could) + start) // whole, np.int64)


def _return(stock: Int64, to: Int64, moved: Int64) -> Int64:
    """What each node hands back of what came in, the last entries first."""
    order = np.argsort(to, kind="stable")[::-1]
    node, came = to[order], moved[order]
    upto = np.cumsum(came)
    first = np.flatnonzero(np.append(True, node[1:] != node[:-1]))
    upto -= np.repeat((upto - came)[first], np.diff(np.append(first, len(node))))
    back: Int64 = np.empty(len(to), np.int64)
    back[order] = np.clip(stock[node] - (upto - came), 0, came)
    return back
