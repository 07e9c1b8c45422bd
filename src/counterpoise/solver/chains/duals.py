"""Duals along a chain: the level of every member of a row in which each shares units with the one before and the one after.

Between members i and i + 1 lie `shared[i]` units that either of them may take. Balanced loads minimise the convex cost
sum(load**2). Its dual has one variable per member: the load is the dual or one less, and a unit goes to the member with the lower
dual. Every optimal plan fits the same duals.

Duals come from one pass to the right and one back, in integers, in constant time per step on average. Let want(v) be the units
that member i would take of those it shares with the next member if its dual were v and all members before it did their best:

    want(v) = v - own - shared[i-1] + (want of i-1, clipped to 0..shared[i-1])

It rises by at least 1 with v, so there is a `low` dual at which member i takes none and a `high` one at which it takes all; its
dual is the next member's, clipped to low..high. This is the taut string (Davies & Kovac), or Johnson's dynamic programming for
the fused lasso, on integers.
"""

from __future__ import annotations

__all__ = ["duals"]


def duals(own: list[int], shared: list[int]) -> list[int]:
    """The dual of each member of the row, by one pass to the right and one back; O(N).

    Parameters
    ----------
    own : list of int
        Units that only this member may take.
    shared : list of int
        Units between this member and the next; 0 where a chain ends, so several chains make one row. The last is 0.
    """
    found = []
    dual = 0
    for low, high in zip(*(reversed(bounds) for bounds in _bounds(own, shared)), strict=True):
        if dual < low:
            dual = low
        elif dual > high:
            dual = high
        found.append(dual)
    found.reverse()
    return found


def _bounds(own: list[int], shared: list[int]) -> tuple[list[int], list[int]]:
    """`low` and `high` of each member.

    The clipped want of the member before is stored as breakpoints: from `at` on its slope is larger by `bend`. Every step removes
    breakpoints at both ends and adds at most two, so they lie in the middle of two lists. A chain spends its time in this loop,
    hence the plain integers.
    """
    middle = 2 * len(own)
    at, bend = [0] * (2 * middle + 2), [0] * (2 * middle + 2)
    head = tail = middle
    lows, highs = [], []
    before = 0
    for mine, units in zip(own, shared, strict=True):
        slope, back = 1, mine + before  # left of all bends, want(v) = slope * v - back
        while head < tail:
            last = at[head] - 1
            if slope * last >= back:
                break
            slope += bend[head]
            back += bend[head] * last
            head += 1
        low = back if slope == 1 else -(-back // slope)
        lows.append(low)
        before = units
        if not units:
            highs.append(low)
            head = tail = middle
            continue
        rise, first = slope, slope * low - back
        slope, back = 1, mine  # and right of all bends
        while head < tail:
            last = at[tail - 1] - 1
            if slope * last < units + back:
                break
            tail -= 1
            slope -= bend[tail]
            back -= bend[tail] * last
        high = units + back if slope == 1 else -(-(units + back) // slope)
        highs.append(high)
        if low == high:  # none below this dual, all at it
            head, tail = middle, middle
            rise = slope = 0
            first = units
        head -= 1
        at[head], bend[head] = low + 1, rise - first
        if first:
            head -= 1
            at[head], bend[head] = low, first
        if low < high:
            last = units + back - slope * (high - 1)
            if last != slope:
                at[tail], bend[tail] = high, last - slope
                tail += 1
            at[tail], bend[tail] = high + 1, -last
            tail += 1
    return lows, highs
