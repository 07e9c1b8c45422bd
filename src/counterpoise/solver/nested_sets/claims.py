"""Stickiness in nested sets: how many claims each member of the row keeps, and who takes the larger load.

Kept claims leave room for the rest exactly if, for every k, the first k members still have room for the free units that only
they may take. Of its claims a member gives up those that most others could take. If that suffices with everybody at the most its
load allows, no plan keeps more; else `nested_sets.sweep` decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.classes import sum_by
from counterpoise.solver.decode import ranks_in_runs
from counterpoise.solver.nested_sets.sweep import Block, sweep

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
        return _by_sweep(cells, must, price, start, extras)
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


def _by_sweep(cells: Cells, must: Int64, price: Int64, start: Int64, extras: Int64) -> tuple[Int64, Int64]:
    """The most claims where the bound is out of reach, price by price."""
    kept = np.clip(price[cells.place] - _before(cells), 0, cells.count)
    load = price.copy()
    upto = cells.place.searchsorted(np.arange(len(price) + 1)).tolist()
    reach, stays, units = cells.reach.tolist(), kept.tolist(), must.tolist()
    first = np.unique(start).tolist()
    for begin, end in zip(first, [*first[1:], len(price)], strict=True):
        spans = [slice(a, b) for a, b in zip(upto[begin:end], upto[begin + 1 : end + 1], strict=True)]
        block = Block(
            price=int(price[begin]),
            shorts=end - begin - int(extras[begin]),
            must=[here - units[begin] for here in units[begin + 1 : end + 1]],
            reach=[[far - begin for far in reach[span]] for span in spans],
            kept=[stays[span] for span in spans],
        )
        load[begin:end] -= np.array(sweep(block), np.int64)
        kept[spans[0].start : spans[-1].stop] = [count for counts in block.kept for count in counts]
    return kept, load
