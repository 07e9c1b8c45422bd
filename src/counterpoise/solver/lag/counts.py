"""Counts: which claims are released so that counts can be reached, and how many partitions each member takes."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

from counterpoise.model.problem import UNOWNED
from counterpoise.solver.lag.placement import CountSlack
from counterpoise.solver.lag.state import PlanState

__all__ = ["Quotas", "balanced_slack", "band_slack", "counts_allowed", "fill_up", "quotas", "release_excess"]


class Quotas(NamedTuple):
    """Balanced counts, whoever has the ceiling slots.

    Attributes
    ----------
    floor : list of int
        Per member: its count without a ceiling slot.
    ceilings : dict of int to int
        Ceiling slots by marginal cost.
    """

    floor: list[int]
    ceilings: dict[int, int]


def quotas(counts: list[int], weight: list[int]) -> Quotas:
    """The quotas of balanced counts: a member has a ceiling slot if another's next partition costs as much as its last one."""
    floor, ceilings = counts[:], dict[int, int]()
    following = {(2 * count + 1) * unit for count, unit in zip(counts, weight, strict=True)}
    for member, (count, unit) in enumerate(zip(counts, weight, strict=True)):
        last = (2 * count - 1) * unit
        if last in following:
            ceilings[last] = ceilings.get(last, 0) + 1
            floor[member] = count - 1
    return Quotas(floor, ceilings)


def release_excess(state: PlanState, target: list[int]) -> None:
    """Release the claims that a balanced plan gives up.

    Parameters
    ----------
    state : PlanState
        All claims are with their owners.
    target : list of int
        Owners in a balanced plan that keeps as many claims as any. Only its numbers per topic class and member count, as
        partitions of one class may change places: of those that a member may keep, it releases such that take off its excess.
    """
    group, owner = state.group, state.owner
    surplus: dict[tuple[int, int], int] = defaultdict(int)
    for number, before, after in zip(group.topic_class, owner, target, strict=True):
        if before != after:
            surplus[number, before] += 1
            surplus[number, after] -= 1
    claims: dict[tuple[int, int], list[int]] = {cell: [] for cell, number in surplus.items() if number > 0 and cell[1] != UNOWNED}
    for _, partition in group.lightest_first if claims else ():
        cell = group.topic_class[partition], owner[partition]
        if cell in claims:
            claims[cell].append(partition)
    for cell, mine in claims.items():
        _release(state, cell[1], mine, surplus[cell])


def _release(state: PlanState, member: int, mine: list[int], number: int) -> None:
    """Release so many of `mine` (lightest first): neighbours in lag, the lightest that take off the excess and their share."""
    lag = state.group.lag
    share = max(-state.slack(member), state.load[member] * number // state.count[member])
    total = [0, *accumulate(lag[partition] for partition in mine)]
    last = len(mine) - number
    at = next((at for at in range(last) if total[at + number] - total[at] >= share), last)
    for partition in mine[at : at + number]:
        state.release(partition)


def balanced_slack(state: PlanState, balanced: Quotas) -> CountSlack | None:
    """How many partitions each member may take so that counts end balanced; None if a member holds more than its quota."""
    ceilings = dict(balanced.ceilings)
    least = [floor - has for floor, has in zip(balanced.floor, state.count, strict=True)]
    if min(least) < 0:
        for member, more in enumerate(least):
            if more < 0:
                cost = state.last_cost(member)
                if more < -1 or not ceilings.get(cost):
                    return None
                ceilings[cost] -= 1
                least[member] = 0
    return CountSlack(least, [floor + 1 for floor in balanced.floor], ceilings, state.group.subscribers)


def band_slack(state: PlanState) -> CountSlack:
    """Release what members hold above `most`, and return how many partitions each member may then take."""
    assert state.most is not None
    for member, most in enumerate(state.most):
        if state.count[member] > most:
            held = [p for _, p in state.group.lightest_first if state.owner[p] == member]
            _release(state, member, held, state.count[member] - most)
    least = [most - count for count, most in zip(state.count, state.most, strict=True)]
    return CountSlack(least, state.most, {}, state.group.subscribers)


def fill_up(state: PlanState) -> bool:
    """Lift members below `least` by transfers from those that can spare most; whether all counts are allowed then."""
    assert state.least is not None
    assert state.most is not None
    allowed = state.least
    short = [member for member, least in enumerate(allowed) if state.count[member] < least]
    if short:
        state.index()
    givers = sorted(range(len(state.count)), key=lambda one: (allowed[one] - state.count[one], one))
    for member in short:
        for giver in givers:
            if state.count[member] >= allowed[member]:
                break
            for _, partition in list(state.holding[giver]):
                if state.count[member] >= allowed[member] or not state.may_transfer(giver, member):
                    break
                if state.group.may_take(partition, member):
                    state.pass_on([(partition, member)])
    return counts_allowed(state)


def counts_allowed(state: PlanState) -> bool:
    """Whether each count is between `least` and `most`."""
    assert state.least is not None
    assert state.most is not None
    return all(least <= count <= most for count, least, most in zip(state.count, state.least, state.most, strict=True))
