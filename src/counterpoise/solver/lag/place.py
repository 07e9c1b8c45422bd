"""Placing what waits: longest first where all subscribe alike, by even shares where they do not; zero lag by count."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.desk import Desk, Index
from counterpoise.solver.lag.longest_first import deal_longest_first, spread_by_count
from counterpoise.solver.lag.parts import by_class, cut, goals, in_turns
from counterpoise.solver.lag.share import Bools, Floats, even_shares

_PARTS = (600, 950)
"""Thousandths of the waiting lag after which shares are made anew from what room is really left."""
_RARELY = 8
"""Heavy ones keep away from members that even shares give so many times less of their class than others."""
_VERY_FEW = 1000
"""So many go one by one, heavy or not."""
_FEW = 20_000
"""So many are dealt longest first, to the letter, within a topic class."""
_NEAR = 1e-3

__all__ = ["place_waiting"]


def place_waiting(desk: Desk, blocks: LagBlocks) -> None:
    """Give every waiting partition an owner; counts stay within `most` wherever the subscribers have room."""
    goal = goals(desk, blocks)
    waiting = desk.waiting()
    lagging = int(np.count_nonzero(desk.weight[waiting]))
    if len(desk.may) == 1:
        _longest_first(desk, waiting[:lagging], goal, spare=len(waiting) - lagging)
    else:
        _by_shares(desk, blocks, waiting[:lagging], goal)
    _spread_idle(desk, waiting[lagging:])


def _longest_first(desk: Desk, items: Index, goal: Int64, *, spare: int) -> None:
    """Deal `items` (falling) by room left, keeping enough (`spare` more follow) to lift all to their least."""
    members = np.flatnonzero(desk.may[0])
    while len(items):
        lacking = np.maximum(desk.least[members] - desk.count[members], 0)
        free = len(items) + spare - int(lacking.sum())
        size = min(len(items), free) if free > 0 else len(items)
        slots = desk.most[members] - desk.count[members] if free > 0 else lacking
        slots = slots if int(slots.sum()) >= size else np.full(len(members), size)
        taker = deal_longest_first(desk.weight[items[:size]], (desk.load - goal)[members], slots)
        desk.place(items[:size], members[taker])
        items = items[size:]


@dataclass(slots=True)
class _Table:
    """What is being placed: weight and class of each item (falling), and what has been given so far.

    `homes` says which members a class may go to, `supply` how much of it is left, `level` how far each member is above its goal.
    """

    weight: Int64
    kind: Int32
    homes: Bools
    supply: Int64
    level: Int64
    slots: Int64
    taker: Int64


def _by_shares(desk: Desk, blocks: LagBlocks, items: Index, goal: Int64) -> None:
    """Heavy ones (`items` fall) one by one; the rest part by part, each topic class by its shares."""
    homes = desk.may & (blocks.block_of_topic_class[:, None] == blocks.block_of_member_class[desk.camp][None, :])
    homes = np.where(homes.any(axis=1)[:, None], homes, desk.may)  # outside its own block a class is the last resort
    weight, kind = desk.weight[items], desk.class_of[items]
    supply = np.zeros(len(homes), np.int64)
    np.add.at(supply, kind, weight)
    slots = desk.most - desk.count
    table = _Table(weight, kind, homes, supply, desk.load - goal, slots, np.empty(len(items), np.int64))
    exactly = len(items) <= _FEW or bool((slots < len(items)).any())
    parts = cut(weight, goal, _PARTS) if len(items) > _VERY_FEW else [len(items)]
    _one_by_one(table, parts[0], desk.may)
    for begin, end in pairwise(parts):
        _part(table, begin, end, exactly=exactly)
    desk.place(items, table.taker)


def _one_by_one(table: _Table, number: int, may: Bools) -> None:
    """The first so many, each to the lowest it may go to: whose turn it is depends on the one before."""
    if not number:
        return
    liked, likely = _liked(table.supply, -table.level, table.homes), dict[int, Index]()
    for at, (kind, weight) in enumerate(zip(table.kind[:number].tolist(), table.weight[:number].tolist(), strict=True)):
        if kind not in likely:
            able = np.flatnonzero(liked[kind] & (table.slots > 0))
            able = able if len(able) else np.flatnonzero(may[kind] & (table.slots > 0))
            likely[kind] = able if len(able) else np.flatnonzero(may[kind])
        able = likely[kind]
        one = able[table.level[able].argmin()]
        table.taker[at] = one
        table.level[one] += weight
        table.slots[one] -= 1
        table.supply[kind] -= weight
        if table.slots[one] <= 0:
            likely.clear()


def _part(table: _Table, begin: int, end: int, *, exactly: bool) -> None:
    """Each topic class by its shares; what a member gets above or below its share of one is made good with the next."""
    shares = even_shares(table.supply, -table.level, table.homes, near=_NEAR)
    over = np.minimum(-table.level, 0).astype(np.float64)
    scale = int(table.supply.sum()) * shares.row / np.maximum(table.supply, 1)
    order, runs = by_class(table.kind[begin:end], len(table.homes))
    lags, takers = table.weight[begin:end][order], np.empty(end - begin, np.intp)
    total, half = lags.cumsum(), lags / 2
    for number, first, last in runs:
        mine, column = lags[first:last], np.flatnonzero(table.homes[number])
        before = int(total[first] - lags[first])
        whole = int(total[last - 1]) - before
        wanted = shares.column[column] * (scale[number] * whole) + over[column]
        if exactly:
            free = table.slots[column]
            free = free if int(free.sum()) >= last - first else np.full(len(column), last - first)
            place = deal_longest_first(mine, np.rint(-wanted).astype(np.int64), free)
            np.subtract.at(table.slots, column[place], 1)
        else:
            place = _along(total[first:last] - before - half[first:last], whole, wanted)
        over[column] = wanted - np.bincount(place, weights=mine, minlength=len(column))
        takers[first:last] = column[place]
    table.taker[begin + order] = takers
    np.add.at(table.level, table.taker[begin:end], table.weight[begin:end])
    np.subtract.at(table.supply, table.kind[begin:end], table.weight[begin:end])


def _liked(supply: Int64, room: Int64, homes: Bools) -> Bools:
    """Where heavy partitions of each class may go: not to members whose room the other classes need."""
    column = even_shares(supply, room, homes, near=_NEAR).column
    part = np.where(room > 0, column / np.maximum(room, 1), 0)
    most = np.where(homes, part, 0).max(axis=1, initial=0)
    liked: Bools = homes & (part * _RARELY >= most[:, None])
    return liked


def _along(middle: Floats, total: int, wanted: Floats) -> Index:
    """Lay lags along what the columns want, scaled to fit; the column at the middle of each lag.

    `middle` is where that is when the lags are laid one after another; `total` is where they end.
    """
    edge = np.maximum(wanted, 0).cumsum()
    if not edge[-1] > 0:
        edge = (wanted - wanted.min() + 1).cumsum()
    column: Index = np.minimum(edge.searchsorted(middle * (edge[-1] / total)), len(edge) - 1)
    return column


def _spread_idle(desk: Desk, items: Index) -> None:
    """Partitions without lag: the classes with fewest subscribers first, to the members with the fewest partitions."""
    order, runs = by_class(desk.class_of[items], len(desk.may))
    held, given = desk.count.copy(), np.zeros(desk.may.shape, np.int64)
    for kind, begin, end in sorted(runs, key=lambda run: int(desk.may[run[0]].sum())):
        members = np.flatnonzero(desk.may[kind])
        count = held[members]
        lacking = np.maximum(desk.least[members] - count, 0)
        taken = lacking if 0 < int(lacking.sum()) <= end - begin else np.zeros_like(lacking)
        slots = np.maximum(desk.most[members] - count - taken, 0)
        rest = end - begin - int(taken.sum())
        slots = slots if int(slots.sum()) >= rest else np.full(len(members), rest)
        taken = taken + spread_by_count(rest, count + taken, slots, desk.capacity[members])
        given[kind, members] = taken
        held[members] += taken
    taker = np.empty(len(items), np.int64)
    taker[order] = in_turns(given)
    desk.place(items, taker)
