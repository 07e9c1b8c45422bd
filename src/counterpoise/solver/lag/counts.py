"""Counts: which claims are released so that counts can be reached, and how many partitions each member then takes."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

from counterpoise.model.problem import UNOWNED
from counterpoise.solver.lag.placement import CountSlack, Slots
from counterpoise.solver.lag.state import PlanState

__all__ = ["balanced_slack", "balanced_slots", "band_slack", "counts_allowed", "fill_up"]


def balanced_slots(state: PlanState, target: list[int]) -> list[Slots]:
    """Release the claims that a balanced plan gives up, and return how many of each topic class each member then takes.

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
    if claims:
        for partition in group.lightest_first:
            cell = group.topic_class[partition], owner[partition]
            if cell in claims:
                claims[cell].append(partition)
    for cell, mine in claims.items():
        _release(state, cell[1], mine, surplus[cell])
    slots: list[Slots] = [{} for _ in group.takes]
    for (number, member), more in surplus.items():
        if more < 0:
            slots[number][member] = -more
    return slots


def _release(state: PlanState, member: int, mine: list[int], number: int) -> None:
    """Release so many of `mine` (lightest first): neighbours in lag, the lightest that take off the excess and their share."""
    lag = state.group.lag
    share = max(-state.slack(member), state.load[member] * number // state.count[member])
    total = [0, *accumulate(lag[partition] for partition in mine)]
    last = len(mine) - number
    at = next((at for at in range(last) if total[at + number] - total[at] >= share), last)
    for partition in mine[at : at + number]:
        state.release(partition)


def balanced_slack(state: PlanState, target: list[int]) -> CountSlack:
    """How many partitions each member takes so that counts end as balanced as in the target; ceiling slots by marginal cost."""
    end = PlanState(state.group, target, [0] * len(state.load), [0] * len(state.load), state.limit, state.effort)
    for member in target:
        if member != UNOWNED:
            end.count[member] += 1
    least = [after - before for before, after in zip(state.count, end.count, strict=True)]
    ceilings = dict.fromkeys(map(end.next_cost, range(len(least))), 0)
    for member, more in enumerate(least):
        if more > 0 and end.last_cost(member) in ceilings:
            least[member] -= 1
            ceilings[end.last_cost(member)] += 1
    return CountSlack(least, ceilings)


def band_slack(state: PlanState) -> CountSlack:
    """Release what members hold above `most`, and return how many partitions each member may then take."""
    assert state.most is not None
    for member, most in enumerate(state.most):
        if state.count[member] > most:
            held = [p for p in state.group.lightest_first if state.owner[p] == member]
            _release(state, member, held, state.count[member] - most)
    return CountSlack([most - count for count, most in zip(state.count, state.most, strict=True)], {})


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
