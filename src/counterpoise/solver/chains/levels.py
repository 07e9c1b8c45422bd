"""Levels along a chain: what every member of a row can have, where each shares units with the one before and the one after.

Between member i and member i + 1 lie `shared[i]` units that either of them may take. A *price* per member says what is optimal:
its load is the price or one less, and units go to the cheaper of their two members. Prices and loads that fit together so
minimise the sum of load**2 (they are the dual solution of that convex flow), and then every optimum fits the same prices.

Prices come from the left to the right and back, in integers, each step in constant time on average. Let want(v) be the units
that member i would take from the right if its own price were v and everybody to its left did what is best for them:

    want(v) = v - own - shared[i-1] + (want of i-1, cut to 0..shared[i-1])

It rises by at least 1 with v, so there is a lowest price `low` at which member i takes none, and one `high` at which it takes
all; given the price of the member to its right, its own is that price, cut to low..high. This is the taut string (Davies &
Kovac), or Johnson's dynamic programming for the fused lasso, on integers.
"""

from __future__ import annotations

__all__ = ["prices"]


def prices(own: list[int], shared: list[int]) -> list[int]:
    """The price of each member of the row, by one pass to the right and one back; O(N).

    Parameters
    ----------
    own : list of int
        Units that only this member may take.
    shared : list of int
        Units between this member and the next; 0 where a chain ends, so several chains make one row. The last is 0.
    """
    found = []
    price = 0
    for low, high in zip(*(reversed(bounds) for bounds in _bounds(own, shared)), strict=True):
        if price < low:
            price = low
        elif price > high:
            price = high
        found.append(price)
    found.reverse()
    return found


def _bounds(own: list[int], shared: list[int]) -> tuple[list[int], list[int]]:
    """`low` and `high` of each member.

    What is known of the member before is its want, cut, as bends: from `at` on it rises by `bend` more a step than before.
    Every step cuts off bends at both ends and puts at most two in their place, so they lie in the middle of two lists. This is
    the one loop a chain spends its time in, hence the plain integers.
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
        if low == high:  # none below this price, all at it
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
