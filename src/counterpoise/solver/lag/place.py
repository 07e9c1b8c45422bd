"""Placing what waits: longest first where all subscribe alike, by even shares where they do not; zero lag by count."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.desk import Desk, Index, exact_sums
from counterpoise.solver.lag.longest_first import deal_longest_first, fill_evenly, spread_by_count
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
    lagging = int(np.count_nonzero(desk.weights_of(waiting)))
    behind = waiting[:lagging] if lagging < len(waiting) else waiting
    if len(desk.may) == 1:
        _longest_first(desk, behind, goal, spare=len(waiting) - lagging)
    else:
        _by_shares(desk, blocks, behind, goal)
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

    `homes` says which members a class may go to, and `columns` lists them; `supply` is how much of it is left, `level` how far
    each member is above its goal.
    """

    weight: Int64
    kind: Int32
    homes: Bools
    columns: list[Index]
    supply: Int64
    level: Int64
    slots: Int64
    taker: Int64


def _by_shares(desk: Desk, blocks: LagBlocks, items: Index, goal: Int64) -> None:
    """Heavy ones (`items` fall) one by one; the rest part by part, each topic class by its shares."""
    homes = desk.may & (blocks.block_of_topic_class[:, None] == blocks.block_of_member_class[desk.camp][None, :])
    homes = np.where(homes.any(axis=1)[:, None], homes, desk.may)  # outside its own block a class is the last resort
    weight, kind = desk.weights_of(items), desk.class_of[items]
    columns = [row.nonzero()[0] for row in homes]
    supply, slots = exact_sums(kind, weight, len(homes)), desk.most - desk.count
    table = _Table(weight, kind, homes, columns, supply, desk.load - goal, slots, np.empty(len(items), np.int64))
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
    total = np.zeros(len(lags) + 1, np.int64)
    lags.cumsum(out=total[1:])
    for number, first, last in runs:
        column, before = table.columns[number], int(total[first])
        whole = int(total[last]) - before
        wanted = shares.column[column] * (scale[number] * whole) + over[column]
        if exactly:
            mine, free = lags[first:last], table.slots[column]
            free = free if int(free.sum()) >= last - first else np.full(len(column), last - first)
            place = deal_longest_first(mine, np.rint(-wanted).astype(np.int64), free)
            table.slots[column] -= np.bincount(place, minlength=len(column))
            over[column] = wanted - np.bincount(place, weights=mine, minlength=len(column))
            takers[first:last] = column[place]
        else:
            ends = _along(total[first : last + 1], wanted)
            reached = total[first + ends]
            over[column] = wanted - (reached[1:] - reached[:-1])
            takers[first:last] = column.repeat(ends[1:] - ends[:-1])
        table.supply[number] -= whole
    table.taker[begin + order] = takers
    table.level += exact_sums(table.taker[begin:end], table.weight[begin:end], len(table.level))


def _liked(supply: Int64, room: Int64, homes: Bools) -> Bools:
    """Where heavy partitions of each class may go: not to members whose room the other classes need."""
    column = even_shares(supply, room, homes, near=_NEAR).column
    part = np.where(room > 0, column / np.maximum(room, 1), 0)
    most = np.where(homes, part, 0).max(axis=1, initial=0)
    liked: Bools = homes & (part * _RARELY >= most[:, None])
    return liked


def _along(total: Int64, wanted: Floats) -> Index:
    """Lay lags one after another along what the columns want, scaled to fit: each goes to the column at its middle.

    `total` is where each lag begins, and at last where they end. What comes back is the same for the columns: where among the
    lags each begins, and at last how many lags there are.
    """
    edge = np.maximum(wanted, 0).cumsum()
    if not edge[-1] > 0:
        edge = (wanted - wanted.min() + 1).cumsum()
    middle = total[1:] + total[:-1]  # twice as far
    middle -= 2 * int(total[0])
    ends = np.empty(len(edge) + 1, np.intp)
    ends[0], ends[-1] = 0, len(middle)
    ends[1:-1] = (middle * (edge[-1] / int(total[-1] - total[0]) / 2)).searchsorted(edge[:-1], side="right")
    return ends


def _spread_idle(desk: Desk, items: Index) -> None:
    """Partitions without lag: the classes with fewest subscribers first, to the members with the fewest partitions."""
    if not len(items):
        return
    order, runs = by_class(desk.class_of[items], len(desk.may))
    held, given = desk.count.copy(), np.zeros(desk.may.shape, np.int64)
    alike = int(desk.capacity.min()) == int(desk.capacity.max())
    unbounded = alike and not (desk.count < desk.least).any() and bool((desk.most - desk.count >= len(items)).all())
    subscribers = desk.may.sum(axis=1).tolist()
    for kind, begin, end in sorted(runs, key=lambda run: subscribers[run[0]]):
        members = desk.may[kind].nonzero()[0]
        count = held[members]
        if unbounded:
            taken = fill_evenly(end - begin, count)
            given[kind, members] = taken
            held[members] = count + taken
            continue
        lacking = np.maximum(desk.least[members] - count, 0)
        taken = lacking if 0 < int(lacking.sum()) <= end - begin else np.zeros_like(lacking)
        slots = np.maximum(desk.most[members] - count - taken, 0)
        rest = end - begin - int(taken.sum())
        slots = slots if int(slots.sum()) >= rest else np.full(len(members), rest)
        taken = taken + spread_by_count(rest, count + taken, slots, desk.capacity[members])
        given[kind, members] = taken
        held[members] = count + taken
    taker = np.empty(len(items), np.int64)
    taker[order] = in_turns(given)
    desk.place(items, taker)
