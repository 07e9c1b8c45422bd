"""Longest first: items by weight, largest first, each to the bin that is lowest; exact, but many items at a time.

While items go to bins in the order of their levels, and no bin that got one falls below a bin that did not, one array
step deals as many items as there are such bins. A heap takes over where only a few bins are low.
"""

from __future__ import annotations

from heapq import heapreplace

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.solver.flows.quotas import Demand, quotas

_SMALL_BATCH = 24
_HEAP_STEPS = 1024
_WORD = 63

__all__ = ["bins", "deal_longest_first", "deal_packed", "fill_evenly", "packed", "spread_by_count"]


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
    key, heavy, bits = packed(level, weights)
    return deal_packed(heavy, key, slots.copy(), bits)


def packed(level: Int64, weights: Int64) -> tuple[Int64, Int64, int]:
    """Level and bin in one number each, the weights to add to them, and how many low bits the bin takes.

    Sorted, such numbers tell who is lowest, ties by bin, several times faster than an argsort of levels does. Where they do not
    fit into 64 bits they are integers of Python.
    """
    lowest, bits = int(level.min(initial=0)), len(level).bit_length()
    highest = int(level.max(initial=0)) - lowest + int(weights.sum())
    if highest.bit_length() + bits > _WORD:
        level, weights = level.astype(object), weights.astype(object)
    return ((level - lowest) << bits) | np.arange(len(level)), weights << bits, bits


def deal_packed(weights: Int64, key: Int64, slots: Int64, bits: int) -> npt.NDArray[np.intp]:
    """As `deal_longest_first`, for what `packed` gives; changes `slots`."""
    chosen, mask, at = np.empty(len(weights), np.intp), (1 << bits) - 1, 0
    key = key[slots > 0]
    key.sort()
    while at < len(weights):
        left = len(weights) - at
        if len(key) == 1:
            only = int(key[0]) & mask
            chosen[at:] = only
            slots[only] -= left
            break
        raised = key[:left] + weights[at : at + len(key)]
        size = _batch(key, raised, mask)
        if size < min(_SMALL_BATCH, left):
            size = min(_HEAP_STEPS, left, int(slots[bins(key, mask)].sum()))
            chosen[at : at + size], key = _by_heap(weights[at : at + size], key, slots, mask, last=size == left)
        else:
            takers = bins(key[:size], mask)
            chosen[at : at + size] = takers
            rest = slots[takers] - 1
            slots[takers] = rest
            if size == left:
                break
            key[:size] = raised[:size]
            if not rest.all():
                key = np.concatenate((key[:size][rest > 0], key[size:]))
            key.sort()
        at += size
    return chosen


def bins(key: Int64, mask: int) -> npt.NDArray[np.intp]:
    """The bins of such numbers."""
    low = key & mask
    return low.astype(np.intp) if low.dtype.hasobject else low


def _batch(key: Int64, raised: Int64, mask: int) -> int:
    """How many items go one each to the lowest bins before a bin's turn comes again; `key` rises, `raised` is with the item."""
    size = len(raised)
    if size < 2:
        return size
    late = key[1:size] > (np.minimum.accumulate(raised[:-1]) | mask)  # by level alone: bins are no reason
    first = int(late.argmax())
    return first + 1 if late[first] else size


def _by_heap(weights: Int64, key: Int64, slots: Int64, mask: int, *, last: bool) -> tuple[list[int], Int64]:
    """The same, one item at a time: the choice depends on the one before. Who takes what, and the keys of those still open.

    Changes `slots`. After the `last` items nobody asks for the keys any more.
    """
    heap: list[int] = key[: len(weights)].tolist()  # it rises, so it is a heap; so many items go to no other bins
    chosen: list[int] = []
    tried = [one & mask for one in heap]
    left, full = dict(zip(tried, slots[tried].tolist(), strict=True)), 1 << 127
    for weight in weights.tolist():
        lowest = heap[0]  # level and bin in one number: compared at once
        taker = lowest & mask
        chosen.append(taker)
        left[taker] -= 1
        heapreplace(heap, lowest + weight if left[taker] else full)
    slots[tried] = list(left.values())
    if last:
        return chosen, key[:0]
    still = np.concatenate((np.array([one for one in heap if one != full], key.dtype), key[len(weights) :]))
    still.sort()
    return chosen, still


def spread_by_count(units: int, counts: Int64, slots: Int64, capacity: Int64) -> Int64:
    """How many of `units` equal items each bin takes so that counts per capacity end as even as slots allow, int64[bins].

    `counts` is what each bin holds already; `slots` in all at least `units`.
    """
    taken = np.zeros(len(counts), np.int64)
    if units > 0 and int(capacity.min()) == int(capacity.max()):
        even = fill_evenly(units, counts)
        if (even <= slots).all():
            return even
    while units > 0:
        block = np.where(slots > taken, 0, -1)
        share = quotas(np.array([units]), block, Demand(capacity, counts + taken))
        step = share.floor.copy()
        step[np.flatnonzero(share.candidate)[: int(share.ceiling_slots[0])]] += 1
        step = np.minimum(step, slots - taken)
        if not step.any():
            step[np.flatnonzero(slots > taken)[0]] = 1
        taken += step
        units -= int(step.sum())
    return taken


def fill_evenly(units: int, counts: Int64) -> Int64:
    """How many each bin takes of equal capacity and with slots enough: the lowest up to one level, ties by bin."""
    rising = np.sort(counts)
    total = rising.cumsum()
    rising *= np.arange(1, len(counts) + 1)
    rising -= total
    reached = int(rising.searchsorted(units))
    level, extras = divmod(units + int(total[reached - 1]), reached)
    taken = level - counts
    np.maximum(taken, 0, out=taken)
    taken[(counts <= level).nonzero()[0][:extras]] += 1
    return taken
