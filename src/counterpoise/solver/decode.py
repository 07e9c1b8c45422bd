"""Decode: from counts back to partitions, without a loop over partitions.

Sorting uses packed int64 keys and one `np.sort`, several times faster than an argsort of the same length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int32, Int64

__all__ = ["excess_claims", "ranks_in_runs", "slots"]


def ranks_in_runs(run_length: Int64) -> Int64:
    """0, 1, .. within each run: ``[2, 3] -> [0, 1, 0, 1, 2]``; O(sum of lengths)."""
    ends = np.cumsum(run_length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - run_length, run_length)


def slots(need: Int64, level: Int64) -> Int32:
    """The order in which members take free units: the lowest level first, ties by member.

    Parameters
    ----------
    need : int64[M]
        Units each member takes.
    level : int64[M]
        Where each member starts: its load before the first of them, or 0 for plain turns.

    Returns
    -------
    int32[sum(need)]
        Member of each unit. O(K log K), or O(K) when all start at one level and need the same.
    """
    n = len(need)
    takers = np.flatnonzero(need)
    if not len(takers):
        return np.empty(0, np.int32)
    counts = need[takers]
    first, most = int(counts[0]), int(counts.max())
    if most == 1 and len(takers) == 1:
        return takers.astype(np.int32)
    levels = level[takers]
    if bool((levels == levels[0]).all()) and bool((counts >= first).all()) and most - first <= 1:
        whole = np.tile(takers.astype(np.int32), first)
        return whole if most == first else np.concatenate([whole, takers[counts > first].astype(np.int32)])
    key = np.repeat(levels, counts) + ranks_in_runs(counts)
    key *= n
    key += np.repeat(takers, counts)
    key.sort()
    return (key % n).astype(np.int32)


def excess_claims(cell: Int64, position: Int64, excess: Int64, *, spread: bool) -> Int64:
    """Which claims a cell gives up.

    A cell is a set of interchangeable claims (one member, one class of topics). With `spread`, what is given up is spaced
    evenly over the cell's claims in partition order, and cells one after another are shifted against each other: then it
    touches many topics a little, not one topic a lot. Without, the last claims go.

    Parameters
    ----------
    cell : int64[K]
        Cell of each claim that may go, 0..len(excess)-1.
    position : int64[K]
        Partition of each claim.
    excess : int64[cells]
        How many each cell gives up; at most as many as it has.

    Returns
    -------
    int64[sum(excess)]
        Partitions given up, grouped by cell.
    """
    if not len(cell):
        return np.empty(0, np.int64)
    width = int(position.max()) + 1
    key = cell * width + position
    key.sort()
    held = np.bincount(cell, minlength=len(excess))
    rank = ranks_in_runs(held)
    gone: npt.NDArray[np.bool_]
    if spread:
        phase = np.concatenate([[0], np.cumsum(excess)[:-1]]) % np.maximum(held, 1)
        upto = rank * np.repeat(excess, held) + np.repeat(phase, held)
        size = np.repeat(held, held)
        gone = (upto + np.repeat(excess, held)) // size > upto // size
    else:
        gone = rank >= np.repeat(held - excess, held)
    return key[gone] % width
