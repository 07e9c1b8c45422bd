"""Longest first: items by weight, largest first, each to the bin that is lowest; exact, but many items at a time.

While items go to bins in the order of their levels, and no bin that got one falls below a bin that did not, one array
step deals as many items as there are such bins. A heap takes over where only a few bins are low.
"""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.solver.flows.levels import Demand, quotas

_SMALL_BATCH = 24
_HEAP_STEPS = 1024

__all__ = ["deal_longest_first", "spread_by_count"]


def deal_longest_first(weights: Int64, level: Int64, slots: Int64) -> npt.NDArray[np.intp]:
    """The bin of every item, intp[n].

    Parameters
    ----------
    weights : int64[n]
        Falling. Zeros are fine, but they all follow the lowest level: see `spread_by_count`.
    level : int64[bins]
        Where each bin starts; may be negative (room left counts as depth).
    slots : int64[bins]
        How many items each may take; in all at least n.

    Notes
    -----
    Ties go to the first bin. About n / bins array steps of O(bins log bins) for weights without giant steps.
    """
    chosen = np.empty(len(weights), np.intp)
    level, slots = level.copy(), slots.copy()
    at = 0
    while at < len(weights):
        is_open = slots.nonzero()[0]
        height = level[is_open]
        rising = height.argsort(kind="stable")
        order = is_open[rising]
        left = len(weights) - at
        if len(order) == 1 and int(slots[order[0]]) >= left:
            chosen[at:] = order[0]
            break
        height = height[rising]
        size = _batch(height, weights[at : at + len(order)])
        if size < min(_SMALL_BATCH, left):
            size = min(_HEAP_STEPS, left, int(slots[order].sum()))
            chosen[at : at + size] = _by_heap(weights[at : at + size], level, slots, order)
        else:
            taker = order[:size]
            chosen[at : at + size] = taker
            level[taker] = height[:size] + weights[at : at + size]
            slots[taker] -= 1
        at += size
    return chosen


def _batch(level: Int64, weights: Int64) -> int:
    """How many items go one each to the lowest bins before a bin's turn comes again; `level` rises."""
    size = min(len(level), len(weights))
    again = np.minimum.accumulate(level[:size] + weights[:size])
    late = level[1:size] > again[: size - 1]
    first = int(late.argmax()) if size > 1 else 0
    return first + 1 if size > 1 and late[first] else size


def _by_heap(weights: Int64, level: Int64, slots: Int64, order: npt.NDArray[np.intp]) -> list[int]:
    """The same, one item at a time: the choice depends on the one before. Changes `level` and `slots`."""
    bits = len(level).bit_length()
    mask = (1 << bits) - 1
    heap = [(low << bits) | taker for low, taker in zip(level[order].tolist(), order.tolist(), strict=True)]
    heapify(heap)
    chosen: list[int] = []
    left, full = slots.tolist(), 1 << 127
    for weight in weights.tolist():
        lowest = heap[0]  # level and bin in one number: compared at once
        taker = lowest & mask
        chosen.append(taker)
        left[taker] -= 1
        heapreplace(heap, lowest + (weight << bits) if left[taker] else full)
    np.add.at(level, chosen, weights)
    slots[:] = left
    return chosen


def spread_by_count(units: int, counts: Int64, slots: Int64, capacity: Int64) -> Int64:
    """How many of `units` equal items each bin takes so that counts per capacity end as even as slots allow, int64[bins].

    `counts` is what each bin holds already; `slots` in all at least `units`.
    """
    taken = np.zeros(len(counts), np.int64)
    if units > 0 and int(capacity.min()) == int(capacity.max()):
        even = _fill(units, counts)
        if (even <= slots).all():
            return even
    while units > 0:
        block = np.where(slots > taken, 0, -1)
        share = quotas(np.array([units]), block, Demand(capacity, counts + taken))
        step = share.base.copy()
        step[np.flatnonzero(share.eligible)[: int(share.extras[0])]] += 1
        step = np.minimum(step, slots - taken)
        if not step.any():
            step[np.flatnonzero(slots > taken)[0]] = 1
        taken += step
        units -= int(step.sum())
    return taken


def _fill(units: int, counts: Int64) -> Int64:
    """How many each bin takes of equal capacity and with slots enough: the lowest up to one level, ties by bin."""
    rising = np.sort(counts)
    total, number = rising.cumsum(), np.arange(1, len(counts) + 1)
    reached = int((rising * number - total).searchsorted(units))
    level, extras = divmod(units + int(total[reached - 1]), reached)
    taken = np.maximum(level - counts, 0)
    taken[np.flatnonzero(counts <= level)[:extras]] += 1
    return taken
