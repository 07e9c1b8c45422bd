"""Stickiness along a chain: with prices fixed, who takes the larger load, and how many units pass between neighbours.

Units between members of different prices all go to the cheaper one. Between members of one price, the number passed to the
right follows from the loads to the left: each member of the *stretch* takes its price or one less. So the choice is one bit a
member, and dynamic programming decides: `most[x]` is how many claims to the left can stay if x units pass to the right. It is
concave, so all that is kept is where its slopes fall: a member's bit adds a slope of 0, a claim on either side raises or lowers
slopes by 1 up to a place or from it on, and the limits of a link cut off both ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.flows.flow import Bools

__all__ = ["Row", "keep_most"]


@dataclass(frozen=True, slots=True)
class Row:
    """Members in a row, and what lies between each and the next.

    Attributes
    ----------
    own, own_claims : int64[N]
        Units that only this member may take, and its claims among them.
    shared : int64[N]
        Units between this member and the next; the last is 0.
    first_claims, second_claims : int64[N]
        Claims among `shared` of this member, and of the next.
    price : int64[N]
        Its load is the price or one less; at least 1.
    """

    own: Int64
    own_claims: Int64
    shared: Int64
    first_claims: Int64
    second_claims: Int64
    price: Int64


def keep_most(row: Row) -> tuple[Int64, Int64]:
    """How many of the shared units pass to the next member, and the load of each; among all such, most claims stay.

    Stretches in which everything is claimed and level already stay as they are. Ties: larger loads come as early in the row as
    they can.
    """
    n = len(row.price)
    falls = np.append(row.price[:-1] > row.price[1:], False)
    inside = np.append(row.price[:-1] == row.price[1:], False) & (row.shared > 0)
    passed = np.where(falls, row.shared, 0)  # to the cheaper of two; inside a stretch this is not known yet
    fixed_in = np.append(0, passed[:-1])
    loose = np.where(inside, row.shared, 0)
    units = row.own + fixed_in + np.where(inside, 0, row.shared - passed)
    asleep = _settled(row, inside, falls, units + loose)
    passed[inside] = row.second_claims[inside]
    busy = np.flatnonzero(~asleep)
    if len(busy):
        passed[busy] = np.where(
            inside[busy],
            _choose(
                (units + loose - row.price + 1)[busy].tolist(),
                loose[busy].tolist(),
                row.first_claims[busy].tolist(),
                row.second_claims[busy].tolist(),
            ),
            passed[busy],
        )
    coming = np.append(0, np.where(inside, passed, 0)[:-1])
    load = units + loose + coming - np.where(inside, passed, 0)
    return passed, load[:n]


def _settled(row: Row, inside: Bools, falls: Bools, units: Int64) -> Bools:
    """Members of stretches that may stay as they are: all units claimed by members that may have them, all loads as wanted."""
    stretch = np.cumsum(np.append(True, ~inside[:-1])) - 1
    before = np.append(False, inside[:-1] | falls[:-1])
    held = row.own_claims + np.where(falls, 0, row.first_claims) + np.where(before, np.append(0, row.second_claims[:-1]), 0)
    level = (held <= row.price) & (held >= row.price - 1)
    starts = np.flatnonzero(np.append(True, ~inside[:-1]))
    good = np.logical_and.reduceat(level, starts) & (np.add.reduceat(held, starts) == np.add.reduceat(units, starts))
    return np.asarray(good[stretch], np.bool_)


def _choose(surplus: list[int], loose: list[int], first: list[int], second: list[int]) -> list[int]:
    """Units that each member passes on.

    Parameters
    ----------
    surplus : list of int
        What a member has above its smaller load before anything comes in or is passed on; negative if it has less.
    loose : list of int
        Most that it can pass; 0 where a stretch ends.
    first, second : list of int
        Claims on `loose` of this member, and of the next.
    """
    low = high = 0  # the least and the most that can come in
    rises: list[int] = []  # where slopes above 0 fall by one, ascending; to be shifted by `up`
    falls: list[int] = []  # and slopes of 0 and less, by `down`
    up = down = 0
    turns = []
    for more, units, mine, theirs in zip(surplus, loose, first, second, strict=True):
        # With the smaller load x + more is passed on, with the larger one less: so a slope of 0 comes in where they turn.
        low += more - 1
        high += more
        up += more - 1
        down += more
        turns.append((rises[-1] + up if rises else low) + 1)
        if low < 0:
            low = 0
            del rises[: bisect_right(rises, -up)]
            under = bisect_left(falls, -down)
            falls[:under] = [-down] * under
        if high > units:
            high = units
            upto = bisect_right(rises, high - up)
            rises[upto:] = [high - up] * (len(rises) - upto)
            del falls[bisect_left(falls, high - down) :]
        if low == high:
            rises.clear()
            falls.clear()
            continue
        if theirs > low:  # one slope more up to there: the first fall becomes a rise
            insort(falls, min(theirs, high) - down)
            bend = falls.pop(0) + down
            if bend > low:
                insort(rises, bend - up)
        if mine and units - mine < high:  # one less from there on
            insort(rises, max(units - mine, low) - up)
            bend = rises.pop() + up
            if bend < high:
                insort(falls, bend - down)
    passed = []
    x = 0
    for more, turn in zip(reversed(surplus), reversed(turns), strict=True):
        passed.append(x)
        x += (x < turn) - more
    passed.reverse()
    return passed
