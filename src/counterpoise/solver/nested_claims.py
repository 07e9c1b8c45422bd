"""Stickiness in nested sets: how many claims each member of the row keeps, and who takes the larger load.

Kept claims leave room for the rest exactly if, for every k, the first k members still have room for the free units that only
they may take. Of its claims a member gives up those that most others could take. If that suffices with everybody at the most its
load allows, no plan keeps more; else a min-cost flow decides, on a network that hands units along the row instead of one
arc for each member and topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import sum_by
from counterpoise.solver.decode import ranks_in_runs
from counterpoise.solver.flow import Arcs

__all__ = ["Cells", "keep_most"]


@dataclass(frozen=True, slots=True)
class Cells:
    """Claims of one place in the row on topics of one reach, sorted by place, then reach.

    Attributes
    ----------
    place, reach, count : int64[K]
    """

    place: Int64
    reach: Int64
    count: Int64


def keep_most(cells: Cells, must: Int64, price: Int64, start: Int64) -> tuple[Int64, Int64]:
    """How many claims of each cell stay, and the load of each place.

    Parameters
    ----------
    cells : Cells
        Only claims on units that stay among members of one price.
    must : int64[N+1]
        Units that the first k places take at least.
    price, start : int64[N]
        Of each place; and the first place with the same price.
    """
    extras = _extras(must, price, start)
    held = sum_by(cells.place, cells.count, len(price))
    keen = np.flatnonzero(held >= price)
    keen = keen[np.lexsort((keen, -held[keen], start[keen]))]
    extra = np.zeros(len(price), np.bool_)
    extra[keen[_rank(start[keen]) < extras[start[keen]]]] = True
    load = price - 1 + extra
    kept = np.clip(load[cells.place] - _before(cells), 0, cells.count)
    late = _latest(_missing(cells, kept, must, load).tolist(), (~extra).tolist(), start.tolist())
    if late is None:
        return _by_flow(cells, must, price, start, extras)
    load[late] += 1
    return kept, load


def _extras(must: Int64, price: Int64, start: Int64) -> Int64:
    """Of each first place of a price, how many take the price itself, not one less; 0 at other places."""
    first = np.unique(start)
    end = np.append(first[1:], len(price))
    extras = np.zeros(len(price), np.int64)
    extras[first] = must[end] - must[first] - (price[first] - 1) * (end - first)
    return extras


def _rank(block: Int64) -> Int64:
    """Position within its run of equal values."""
    change = np.flatnonzero(np.append(True, block[1:] != block[:-1])) if len(block) else np.empty(0, np.int64)
    return ranks_in_runs(np.diff(np.append(change, len(block))))


def _before(cells: Cells) -> Int64:
    """Claims of the same place on topics of less reach."""
    before = np.cumsum(cells.count) - cells.count
    return before - before[np.searchsorted(cells.place, cells.place)] if len(before) else before


def _missing(cells: Cells, kept: Int64, must: Int64, load: Int64) -> Int64:
    """How much room the first k places lack for the free units that only they may take, for every k from 1 on."""
    n = len(load)
    room = np.cumsum(load - sum_by(cells.place, kept, n))
    free = must - np.cumsum(sum_by(cells.reach, kept, n + 1))
    return np.asarray(free[1:] - room, np.int64)


def _latest(missing: list[int], willing: list[bool], start: list[int]) -> list[int] | None:
    """The last places that can take one more so that nothing is missing, or None where more would be needed than there are.

    Late places hold what most others could take: who comes later finds more that may be handed on.
    """
    chosen: list[int] = []
    waiting: list[int] = []
    for place, (lack, will, first) in enumerate(zip(missing, willing, start, strict=True)):
        if first == place:  # those of another price are all served
            if place and len(chosen) > missing[place - 1]:
                return None
            waiting.clear()
        if will:
            waiting.append(place)
        while len(chosen) < lack:
            if not waiting:
                return None
            chosen.append(waiting.pop())
    return chosen if len(chosen) == missing[-1] else None


def _by_flow(cells: Cells, must: Int64, price: Int64, start: Int64, extras: Int64) -> tuple[Int64, Int64]:
    """The most claims by min-cost flow: a unit stays with its owner at no cost, or goes along the row at a cost of 1."""
    n = len(price)
    places, units = np.arange(n), np.diff(must)
    kinds, hubs = np.flatnonzero(units), np.flatnonzero(extras)
    passing = np.flatnonzero(start < places)[::-1]
    sparing = np.flatnonzero(extras[start])
    total = int(must[-1])
    # Arcs lead to higher numbers, and units are handed from later places to earlier ones: so the row is numbered backwards.
    arcs = Arcs(kind=n, row=n, member=n, hub=n)
    arcs.add("kinds", "source", ("kind", kinds), units[kinds])
    arcs.add("kept", ("kind", cells.reach - 1), ("member", cells.place), cells.count)
    arcs.add("moved", ("kind", kinds), ("row", n - 1 - kinds), units[kinds], 1)
    arcs.add("passed", ("row", n - 1 - passing), ("row", n - passing), np.full(len(passing), total))
    arcs.add("taken", ("row", places), ("member", n - 1 - places), price[::-1])
    arcs.add("base", ("member", places), "sink", price - 1)
    arcs.add("spare", ("member", sparing), ("hub", start[sparing]), np.ones(len(sparing), np.int64))
    arcs.add("extras", ("hub", hubs), "sink", extras[hubs])
    network = arcs.build()
    network.push_cheaply(total)
    load = network.of("base").copy()
    load[sparing] += network.of("spare")
    return network.of("kept").copy(), load
