"""Placing what waits: longest first where all subscribe alike, guided by flows where they do not; zero lag by count."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.solver.decode import slots as turns
from counterpoise.solver.lag_blocks import LagBlocks, transport
from counterpoise.solver.lag_desk import Desk, Index
from counterpoise.solver.longest_first import deal_longest_first, spread_by_count

_HEAVY_FIRST = (50, 80, 95)
"""Percent of the waiting lag after which the flow is asked again with what room is really left."""

__all__ = ["place_in_cells", "place_waiting"]


def place_waiting(desk: Desk, blocks: LagBlocks) -> None:
    """Give every waiting partition an owner; counts stay within `most` wherever the subscribers have room."""
    goal = _goals(desk, blocks)
    waiting = desk.waiting()
    heavy = waiting[desk.weight[waiting] > 0]
    if len(desk.may) == 1:
        _longest_first(desk, heavy, np.flatnonzero(desk.may[0]), goal, spare=len(waiting) - len(heavy))
    else:
        _by_flow(desk, blocks, heavy, goal)
    _spread_idle(desk, waiting[len(heavy) :])


def place_in_cells(desk: Desk, target: Int32, blocks: LagBlocks) -> None:
    """Place what waits so that each member gets as many of each topic class as `target` gives it.

    What `target` keeps must have been kept on the desk, all else must wait.
    """
    goal = _goals(desk, blocks)
    waiting = desk.waiting()
    kinds, n = len(desk.may), len(desk.load)
    cell = desk.class_of[waiting].astype(np.int64) * n + target[waiting]
    slots = np.bincount(cell, minlength=kinds * n).reshape(kinds, n)
    for part in _parts(desk, waiting):
        for kind, items in _by_class(desk, part):
            taker = deal_longest_first(desk.weight[items], desk.load - goal, slots[kind])
            slots[kind] -= np.bincount(taker, minlength=n)
            desk.place(items, taker)


def _goals(desk: Desk, blocks: LagBlocks) -> Int64:
    """The lag each member would bear if lag were divisible: its block's level times its capacity."""
    level = [*blocks.level, Fraction(0)]
    block = blocks.block_of_member_class[desk.camp]
    goal = np.zeros(len(desk.load), np.int64)
    for number in range(len(blocks.level)):
        mine = block == number
        top, bottom = level[number].as_integer_ratio()
        goal[mine] = [top * c // bottom for c in desk.capacity[mine].tolist()] if bottom > 1 else top * desk.capacity[mine]
    return goal


def _longest_first(desk: Desk, items: Index, members: Index, goal: Int64, *, spare: int) -> None:
    """Deal `items` (falling) to `members` by room left, keeping enough (`spare` more follow) to lift all to their least."""
    while len(items):
        lacking = np.maximum(desk.least[members] - desk.count[members], 0)
        free = len(items) + spare - int(lacking.sum())
        size = min(len(items), free) if free > 0 else len(items)
        slots = desk.most[members] - desk.count[members] if free > 0 else lacking
        slots = slots if int(slots.sum()) >= size else np.full(len(members), size)
        taker = deal_longest_first(desk.weight[items[:size]], (desk.load - goal)[members], slots)
        desk.place(items[:size], members[taker])
        items = items[size:]


def _by_flow(desk: Desk, blocks: LagBlocks, items: Index, goal: Int64) -> None:
    """Heavy parts first: shares of each topic class per member class by max flow, then longest first within each."""
    member_class = desk.camp
    n_classes = desk.may_camp.shape
    same_block = blocks.block_of_topic_class[:, None] == blocks.block_of_member_class[None, :]
    may = desk.may_camp & same_block
    members_of = [np.flatnonzero(member_class == number) for number in range(n_classes[1])]
    alone = np.array([int(members[0]) if len(members) == 1 else UNOWNED for members in members_of])
    for part in _parts(desk, items):
        left = items[desk.owner[items] == UNOWNED]
        supply = np.zeros(n_classes[0], np.int64)
        np.add.at(supply, desk.class_of[left], desk.weight[left])
        room = np.zeros(n_classes[1], np.int64)
        np.add.at(room, member_class, np.maximum(goal - desk.load, 0))
        amount = transport(supply, room, may)[0]
        slots = np.zeros(n_classes[1], np.int64)
        np.add.at(slots, member_class, np.maximum(desk.most - desk.count, 0))
        chosen = np.full(len(part), -1, np.int64)
        for kind, at in _by_class(desk, part, positions=True):
            columns = np.flatnonzero(desk.may_camp[kind])
            # Outside its own block a class is the last resort: no share there, and the block's level against it.
            level = -amount[kind, columns] + np.where(may[kind, columns], 0, 2**40)
            open_slots = slots[columns] if int(slots[columns].sum()) >= len(at) else np.full(len(columns), len(at))
            taker = deal_longest_first(desk.weight[part[at]], level, open_slots)
            chosen[at] = columns[taker]
            slots -= np.bincount(chosen[at], minlength=n_classes[1])
        settled = np.flatnonzero(alone[chosen] != UNOWNED)
        desk.place(part[settled], alone[chosen[settled]])
        chosen[settled] = UNOWNED
        order = np.argsort(chosen, kind="stable")
        start = np.searchsorted(chosen[order], np.arange(n_classes[1] + 1))
        for number in np.flatnonzero(np.diff(start)).tolist():
            mine = part[order[start[number] : start[number + 1]]]
            _longest_first(desk, mine, members_of[number], goal, spare=len(desk.owner))


def _parts(desk: Desk, items: Index) -> list[Index]:
    """`items` (falling) cut where given shares of their lag are reached."""
    total = np.cumsum(desk.weight[items])
    if not len(items):
        return []
    cut = [int(np.searchsorted(total, int(total[-1]) * share // 100)) + 1 for share in _HEAVY_FIRST]
    return [part for part in np.split(items, cut) if len(part)]


def _by_class(desk: Desk, items: Index, *, positions: bool = False) -> list[tuple[int, Index]]:
    """Topic classes among `items`, each with its items (or their positions) in the same order."""
    kinds = desk.class_of[items]
    order = np.argsort(kinds, kind="stable")
    start = np.searchsorted(kinds[order], np.arange(len(desk.may) + 1))
    present = np.flatnonzero(np.diff(start)).tolist()
    return [(k, order[start[k] : start[k + 1]] if positions else items[order[start[k] : start[k + 1]]]) for k in present]


def _spread_idle(desk: Desk, items: Index) -> None:
    """Partitions without lag: the classes with fewest subscribers first, to the members with the fewest partitions."""
    by_class = _by_class(desk, items)
    by_class.sort(key=lambda pair: int(desk.may[pair[0]].sum()))
    for kind, idle in by_class:
        members = np.flatnonzero(desk.may[kind])
        count = desk.count[members]
        lacking = np.maximum(desk.least[members] - count, 0)
        taken = np.zeros(len(members), np.int64)
        if 0 < int(lacking.sum()) <= len(idle):
            taken = lacking
        slots = np.maximum(desk.most[members] - count - taken, 0)
        rest = len(idle) - int(taken.sum())
        slots = slots if int(slots.sum()) >= rest else np.full(len(members), rest)
        taken = taken + spread_by_count(rest, count + taken, slots, desk.capacity[members])
        desk.place(idle, members[turns(taken, np.zeros_like(taken))])
