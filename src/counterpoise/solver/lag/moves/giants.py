"""Giants dealt anew: who owns the partitions heavier than half of the limit decides how much else must move; so that comes first.

The owner of a giant must fill up with light partitions, a move for each of them and one for what it gives for it. Another member
may have to give less. What each member would have to exchange with each giant makes a table, and its cheapest assignment says who
should own them. From there the repair plans as ever.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterpoise.model.problem import UNOWNED, Int64
from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index, exact_sums
from counterpoise.solver.lag.repair import repair

_LOOK = 4
"""Among so many times the largest count of the lightest partitions is looked for what a member may take."""
_MOST = 64
"""With more giants there are not many members without one, and the table grows with their square."""
_NEVER = 10**6
_MARGINS = (0, 5)
"""So much (‰ of the limit) members should stay below it when costs are estimated: mostly one of these makes the rest easier."""

__all__ = ["at_home", "is_settled", "with_giants_dealt_anew"]


def with_giants_dealt_anew(desk: Desk) -> list[tuple[Desk, Desk]]:
    """Home with giants where they cost least, and a plan within all limits from there; none where that is as now, or will not do.

    Only of what `is_settled`.
    """
    giants = desk.by_weight[: int(np.searchsorted(-2 * desk.falling, -int(desk.limit.max(initial=0))))]
    if not 0 < len(giants) <= min(_MOST, len(desk.load)) or not is_settled(desk):
        return []
    plans, tried = [], []
    for margin in _MARGINS:
        home = at_home(desk)
        owner = _cheapest(home, giants, margin * int(desk.limit[0]) // 1000)
        if owner is None or owner in tried:
            continue
        tried.append(owner)
        if all(_swap(home, giant, taker) for giant, taker in zip(giants.tolist(), owner, strict=True)):
            plan = home.saved()
            repair(plan, relays=False)
            if not plan.excess():
                plans.append((home, plan))
    return plans


def _cheapest(desk: Desk, giants: Index, margin: int) -> list[int] | None:
    """Who should own each giant; None where that is as now, or somebody has two of them."""
    owner = desk.owner[giants]
    table = _table(desk, giants, margin)
    every, now, dealt = np.arange(len(table)), np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    now[owner] = 1 + np.arange(len(giants))
    member = _assigned((table[:, 1:] - table[:, :1]).T)
    dealt[member] = 1 + np.arange(len(giants))
    if len(np.unique(owner)) < len(owner) or int(table[every, dealt].sum()) >= int(table[every, now].sum()):
        return None
    return member


def _assigned(cost: Int64) -> list[int]:
    """A column of its own for each row, at the least cost in all: by shortest augmenting paths (Kuhn, Munkres).

    As SciPy has it, but which of several that cost the same is found does not depend on a release.
    """
    rows, columns = cost.shape
    row_of = np.full(columns + 1, -1)  # the last column is where a row comes from
    row_price, price = np.zeros(rows, np.int64), np.zeros(columns + 1, np.int64)
    for row in range(rows):
        row_of[columns], at = row, columns
        slack, before = np.full(columns, _NEVER * _NEVER), np.full(columns, columns)
        used = np.zeros(columns + 1, np.bool_)
        while row_of[at] >= 0:
            used[at] = True
            other = row_of[at]
            reduced = cost[other] - row_price[other] - price[:-1]
            nearer = ~used[:-1] & (reduced < slack)
            slack[nearer], before[nearer] = reduced[nearer], at
            following = int(np.where(used[:-1], _NEVER * _NEVER, slack).argmin())
            step = slack[following]
            row_price[row_of[used]] += step
            price[used] -= step
            slack[~used[:-1]] -= step
            at = following
        while at != columns:
            row_of[at], at = row_of[before[at]], int(before[at])
    found = np.empty(rows, np.int64)
    taken = np.flatnonzero(row_of[:-1] >= 0)
    found[row_of[taken]] = taken
    columns_of: list[int] = found.tolist()
    return columns_of


def is_settled(desk: Desk) -> bool:
    """Whether everything has an owner who may keep it, counts are balanced as they are, and capacities equal."""
    if not desk.trade_counts or int(desk.capacity.min()) < int(desk.capacity.max()):
        return False
    if int(desk.previous.min(initial=0)) == UNOWNED or not desk.may[desk.class_of, desk.previous].all():
        return False
    before = np.bincount(desk.previous, minlength=len(desk.load))
    return bool((np.sort(before) == np.sort(desk.count)).all())


def at_home(desk: Desk) -> Desk:
    """Everything where it was."""
    n, owner = len(desk.load), desk.previous.copy()
    count = np.bincount(owner, minlength=n).astype(np.int64)
    load = exact_sums(owner, desk.weight, n)
    return replace(
        desk, owner=owner, load=load, count=count, least=count.copy(), most=count.copy(), held={}, lists={}, moves_left=2**62
    )


def _table(desk: Desk, giants: Index, margin: int) -> Int64:
    """What each member would have to move with no giant (first column) and with each of them, by a rough count.

    So many of its heaviest partitions for as many of the lightest as bring it to its limit, two moves each, and the giant.
    """
    n, limit = len(desk.load), int(desk.limit[0])
    weight = desk.weight[giants]
    own = np.zeros(n, np.int64)
    np.add.at(own, desk.owner[giants], weight)
    lightest = desk.by_weight[::-1][: _LOOK * int(desk.count.max())]
    able: Bools = desk.may[desk.class_of[lightest]] & (desk.owner[lightest][:, None] != np.arange(n))
    table = np.full((n, len(giants) + 1), _NEVER, np.int64)
    for member, mine in desk.holdings(np.arange(n)):
        heaviest = desk.weight[mine[::-1]]
        heaviest = heaviest[2 * heaviest <= limit]
        back = desk.weight[lightest[able[:, member]]][: len(heaviest)]
        gain = heaviest[: len(back)] - back
        relief = np.concatenate(([0], np.cumsum(gain[gain > 0])))
        rest = int(desk.load[member] - own[member]) - limit
        excess = np.concatenate(([rest], rest + weight)) + margin
        pairs = np.searchsorted(relief, excess)
        moved = np.concatenate(([0], desk.owner[giants] != member))
        allowed = np.concatenate(([True], desk.may[desk.class_of[giants], member])) & (pairs < len(relief))
        table[member] = np.where(allowed, 2 * pairs + moved, _NEVER)
    return table


def _swap(desk: Desk, giant: int, taker: int) -> bool:
    """The giant to its new owner, for the heaviest that the old one may have: another giant, if there is one."""
    giver = int(desk.owner[giant])
    if giver == taker:
        return True
    theirs = desk.items_of(taker)[::-1]
    fitting = theirs[desk.may[desk.class_of[theirs], giver]]
    if not len(fitting):
        return False
    desk.give(giant, taker)
    desk.give(int(fitting[0]), giver)
    return True
