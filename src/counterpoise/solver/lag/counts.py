"""Which claims stay so that counts can be what they must be, and how many partitions each member takes besides."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate

from counterpoise.model.problem import UNOWNED
from counterpoise.solver.lag.placement import Slots
from counterpoise.solver.lag.state import PlanState

__all__ = ["balanced_slots", "band_slots", "fill_up"]


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
    group, slots = state.group, [defaultdict[int, int](int) for _ in state.group.subscribers]
    claims: dict[tuple[int, int], list[int]] = defaultdict(list)
    for partition in reversed(group.heaviest_first):
        number, member = group.topic_class[partition], state.owner[partition]
        slots[number][target[partition]] += 1
        if member != UNOWNED:
            slots[number][member] -= 1
            claims[number, member].append(partition)
    for (number, member), mine in claims.items():
        if slots[number][member] < 0:
            _release(state, member, mine, -slots[number][member])
            slots[number][member] = 0
    return [dict(table) for table in slots]


def _release(state: PlanState, member: int, mine: list[int], number: int) -> None:
    """Release so many of `mine` (lightest first): neighbours in lag, the lightest that take off the excess and their share."""
    lag = state.group.lag
    wanted = max(-state.slack(member), state.load[member] * number // state.count[member])
    total = [0, *accumulate(lag[partition] for partition in mine)]
    last = len(mine) - number
    at = next((at for at in range(last) if total[at + number] - total[at] >= wanted), last)
    for partition in mine[at : at + number]:
        state.release(partition)


def band_slots(state: PlanState) -> list[Slots]:
    """Release what members hold above `most`, and return how many partitions each member may then take, of any topic class."""
    assert state.most is not None
    for member, most in enumerate(state.most):
        if state.count[member] > most:
            held = [p for p in reversed(state.group.heaviest_first) if state.owner[p] == member]
            _release(state, member, held, state.count[member] - most)
    table = {member: most - state.count[member] for member, most in enumerate(state.most)}
    return [table] * len(state.group.subscribers)


def fill_up(state: PlanState) -> bool:
    """Lift members below `least` by transfers from those that can spare most; whether all counts are allowed then."""
    assert state.least is not None
    assert state.most is not None
    allowed = state.least
    short = [member for member, least in enumerate(allowed) if state.count[member] < least]
    if short:
        state.index()
    for member in short:
        for giver in sorted(range(len(state.count)), key=lambda one: (allowed[one] - state.count[one], one)):
            for _, partition in list(state.holding[giver]):
                if state.count[member] >= allowed[member] or not state.may_transfer(giver, member):
                    break
                if state.group.may_take(partition, member):
                    state.pass_on([(partition, member)])
    return all(least <= count <= most for count, least, most in zip(state.count, state.least, state.most, strict=True))
