"""Lag levels: how much lag each member must bear at least, block by block, when topics go to subscribers only.

For a set S of topics, lag(S) / capacity(members reaching S) bounds the largest lag per capacity of any plan from below.
The densest set is found by Dinkelbach's iteration: at the ratio found so far, a min cut tells whether some set exceeds it.
Members reaching it bear exactly that; topics left over do best without them, and the search goes on with the rest.
Mostly no flow is needed: where even shares fill all members alike, no set is denser than the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.share import Bools, even_shares

_FLOW_UNITS = 2**30
"""Lags are scaled to this total: SciPy's max flow counts in 32 bits. Rounding costs tightness, never validity."""
_BLOCKS = 64
"""After this many blocks the rest is one: deep nests gain nothing from finer levels."""
_SMALL = 4096
"""A table of so few cells takes a max flow less time than even shares."""
_WORD = 62
_TRIED = 2**14
"""So many cells, sets of topic classes times member classes, are looked at one by one: that takes less time than one flow."""
_EVEN = 1e-6
"""What even shares may miss of an equal level: so much, of itself, the bound may be too low."""

__all__ = ["Bools", "LagBlocks", "lag_blocks", "overfull"]


@dataclass(frozen=True, slots=True)
class LagBlocks:
    """Levels from densest to lightest.

    Attributes
    ----------
    level : tuple of Fraction
        Lag per capacity of each block, strictly falling.
    block_of_topic_class, block_of_member_class : int64
        Block of each class; -1 for members that nothing is left for.
    """

    level: tuple[Fraction, ...]
    block_of_topic_class: Int64
    block_of_member_class: Int64


def lag_blocks(lag: Int64, capacity: Int64, may: Bools) -> LagBlocks:
    """Decompose: `lag` per topic class, `capacity` per member class (sums), and who may take what."""
    topics, members = np.ones(len(lag), np.bool_), may.any(axis=0)
    block_of_topic = np.full(len(lag), -1, np.int64)
    block_of_member = np.full(len(capacity), -1, np.int64)
    levels: list[Fraction] = []
    while topics.any():
        if len(levels) == _BLOCKS - 1 or len(topics) == 1 or may[np.ix_(topics, members)].all():
            densest = topics
        else:
            densest = _densest(lag, capacity, may & members, topics)
        level = _density(lag, capacity, may & members, densest)
        reached = members & may[densest].any(axis=0)
        if not levels or level < levels[-1]:
            levels.append(level)
        block_of_topic[densest], block_of_member[reached] = len(levels) - 1, len(levels) - 1
        topics, members = topics & ~densest, members & ~reached
    return LagBlocks(tuple(levels), block_of_topic, block_of_member)


def _density(lag: Int64, capacity: Int64, may: Bools, chosen: Bools) -> Fraction:
    return Fraction(int(lag[chosen].sum()), max(1, int(capacity[may[chosen].any(axis=0)].sum())))


def _densest(lag: Int64, capacity: Int64, may: Bools, topics: Bools) -> Bools:
    """The set S with the largest lag(S) / capacity(reached by S): each round either proves it or finds a denser one."""
    if may.shape[1] << min(int(topics.sum()), _WORD) <= _TRIED:
        return _densest_of_all(lag, capacity, may, topics)
    best, proven = _guess(lag, capacity, may, topics) if may.size > _SMALL else (topics, False)
    if proven:
        return best
    rows = np.flatnonzero(topics)
    level = _density(lag, capacity, may, best)
    while True:
        top, bottom = level.as_integer_ratio()
        if int(lag.sum()) * bottom >= _FLOW_UNITS:  # scaled in any case: fractions of a record do not matter
            top, bottom = top // bottom, 1
        short = overfull(lag[rows] * bottom, top * capacity, may[rows])
        denser = np.zeros(len(lag), np.bool_)
        denser[rows[short]] = True
        found = _density(lag, capacity, may, denser) if denser.any() else Fraction(0)
        if found <= level:
            return _closed(may, topics, best)
        best, level = denser, found


def _densest_of_all(lag: Int64, capacity: Int64, may: Bools, topics: Bools) -> Bools:
    """The densest set of a few topic classes, every one tried; of equals the largest."""
    rows = np.flatnonzero(topics)
    sets = (np.arange(1, 1 << len(rows))[:, None] >> np.arange(len(rows)) & 1).astype(np.bool_)
    reached = (sets[:, :, None] & may[rows]).any(axis=1)
    top, bottom = sets @ lag[rows], np.maximum(np.where(reached, capacity, 0).sum(axis=1), 1)
    ratio = top / bottom
    near = np.flatnonzero(ratio >= ratio.max() * (1 - 1e-12)).tolist()  # floats choose candidates, fractions decide
    best = max(near, key=lambda one: (Fraction(int(top[one]), int(bottom[one])), int(sets[one].sum())))
    densest = np.zeros(len(lag), np.bool_)
    densest[rows[sets[best]]] = True
    return densest


def _guess(lag: Int64, capacity: Int64, may: Bools, topics: Bools) -> tuple[Bools, bool]:
    """All topics with lag if even shares fill their members alike; else the densest of the sets that press hardest on theirs.

    The set, and whether no other is denser: what is left fits lower on the other members, and each fills its own alike.
    """
    behind = topics & (lag > 0)
    if not behind.any():
        return topics, True
    rows = np.flatnonzero(behind)
    shares = even_shares(lag[rows], capacity, may[rows], near=_EVEN)
    if shares.fullest <= 1 + _EVEN:
        return _closed(may, topics, behind), True
    hardest = rows[np.argsort(-shares.row, kind="stable")]
    covered = np.logical_or.accumulate(may[hardest], axis=0)
    density = np.cumsum(lag[hardest]) / np.maximum(np.where(covered, capacity, 0).sum(axis=1), 1)
    best = np.zeros_like(topics)
    best[hardest[: int(np.argmax(density)) + 1]] = True
    reached = may[best].any(axis=0)
    left, others = behind & ~best, may & ~reached
    fits = others[left].any(axis=1).all() and all(
        even_shares(lag[rows], capacity, columns[rows], near=_EVEN).fullest <= 1 + _EVEN
        for rows, columns in ((best, may & reached), (left, others))
    )
    best = _closed(may, topics, best)
    return best, bool(fits) and _density(lag, capacity, others, left) <= _density(lag, capacity, may, best)


def _closed(may: Bools, topics: Bools, chosen: Bools) -> Bools:
    """`chosen` and every other topic that only its members may take."""
    reached = may[chosen].any(axis=0)
    return chosen | (topics & ~(may & ~reached).any(axis=1))


def overfull(supply: Int64, room: Int64, may: Bools) -> Bools:
    """Rows on the source side of the min cut, bool[rows]: together they do not fit into what they reach. None if all fit.

    Which flow is found does not matter: every maximum flow leaves the same rows there. Dinic's algorithm in SciPy on
    rows + columns + 2 nodes; amounts are scaled to 32 bits, so a set that exceeds its room by a few units may pass.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    sparse: Any = csr_array  # its stub knows no (data, (row, column)) of int32
    rows, columns = may.shape
    unit = max(1, -(-int(max(supply.sum(), 1)) // _FLOW_UNITS))
    out, into = supply // unit, np.minimum(-(-np.maximum(room, 0) // unit), _FLOW_UNITS)
    r, c = np.nonzero(may & (out > 0)[:, None])
    if not len(r):
        return out > 0
    source, sink = rows + columns, rows + columns + 1
    tail = np.concatenate([np.full(rows, source), r, rows + np.arange(columns)])
    head = np.concatenate([np.arange(rows), rows + c, np.full(columns, sink)])
    size = np.concatenate([out, out[r], into]).astype(np.int32)
    some = size > 0
    graph = sparse((size[some], (tail[some], head[some])), shape=(sink + 1, sink + 1), dtype=np.int32)
    graph.sort_indices()
    residual = sparse(graph - maximum_flow(graph, source, sink, method="dinic").flow)
    residual.eliminate_zeros()
    seen = np.zeros(sink + 1, np.bool_)
    seen[breadth_first_order(residual, source, return_predecessors=False)] = True
    short: Bools = seen[:rows] & (out > 0)
    return short
