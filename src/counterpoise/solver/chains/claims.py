"""Stickiness along a chain: with duals fixed, which members take the larger load, and how many units pass between neighbours.

Units between members of different duals all go to the lower one. Inside a *stretch* of members of equal duals, the number
passed to the right follows from the loads to the left, and each member takes its dual or one less. So there is one binary
choice per member, made by dynamic programming: `most[x]` is how many claims to the left can stay if x units pass to the right.
It is concave, so only the places where its slope falls are stored: a choice adds a slope of 0, a claim on either side raises or
lowers slopes by 1 up to a place or from it on, and the capacity of a link cuts off both ends.
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
    """Members in a row, and the units between each and the next.

    Attributes
    ----------
    own, own_claims : int64[N]
        Units that only this member may take, and its claims among them.
    shared : int64[N]
        Units between this member and the next; the last is 0.
    first_claims, second_claims : int64[N]
        Claims among `shared` of this member, and of the next.
    dual : int64[N]
        Its load is the dual or one less; at least 1.
    """

    own: Int64
    own_claims: Int64
    shared: Int64
    first_claims: Int64
    second_claims: Int64
    dual: Int64


def keep_most(row: Row) -> tuple[Int64, Int64]:
    """How many of the shared units pass to the next member, and the load of each member, so that most claims stay.

    Stretches in which every unit is claimed and loads fit the duals stay as they are. Ties: larger loads come as early in the row
    as possible.
    """
    n = len(row.dual)
    falls = np.append(row.dual[:-1] > row.dual[1:], False)
    inside = np.append(row.dual[:-1] == row.dual[1:], False) & (row.shared > 0)
    passed = np.where(falls, row.shared, 0)  # to the lower dual; inside a stretch this is not known yet
    fixed_in = np.append(0, passed[:-1])
    loose = np.where(inside, row.shared, 0)
    units = row.own + fixed_in + np.where(inside, 0, row.shared - passed)
    done = _settled(row, inside, falls, units + loose)
    passed[inside] = row.second_claims[inside]
    busy = np.flatnonzero(~done)
    if len(busy):
        passed[busy] = np.where(
            inside[busy],
            _choose(
                (units + loose - row.dual + 1)[busy].tolist(),
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
    """Members of stretches that stay as they are: all units are claimed by members that may have them, loads fit."""
    stretch = np.cumsum(np.append(True, ~inside[:-1])) - 1
    before = np.append(False, inside[:-1] | falls[:-1])
    held = row.own_claims + np.where(falls, 0, row.first_claims) + np.where(before, np.append(0, row.second_claims[:-1]), 0)
    level = (held <= row.dual) & (held >= row.dual - 1)
    starts = np.flatnonzero(np.append(True, ~inside[:-1]))
    good = np.logical_and.reduceat(level, starts) & (np.add.reduceat(held, starts) == np.add.reduceat(units, starts))
    return np.asarray(good[stretch], np.bool_)


def _choose(surplus: list[int], loose: list[int], first: list[int], second: list[int]) -> list[int]:
    """Units that each member passes on.

    Parameters
    ----------
    surplus : list of int
        Units above the smaller load before any unit comes in or is passed on; negative if below.
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
