"""Counts: how many partitions each member takes, and which claims are released so that counts can be reached."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import accumulate, chain

from counterpoise.model.problem import UNOWNED
from counterpoise.solver.lag.placement import CountSlack
from counterpoise.solver.lag.state import LagGroup, PlanState, Ratio, ratio

__all__ = ["balanced_quotas", "band_slack", "raise_to_least", "release_excess", "remaining_slack"]


def balanced_quotas(group: LagGroup, counts: list[int]) -> CountSlack:
    """What members that own nothing take so that counts end as balanced as these.

    A member has a ceiling slot if the next partition of another costs as much as its last one; any such member may get the slot.
    """
    floor, ceilings = counts[:], dict[Ratio, int]()
    pairs = list(zip(counts, group.capacity, strict=True))
    last_of = {(count, capacity): ratio(2 * count - 1, capacity) for count, capacity in set(pairs)}
    following = {ratio(2 * count + 1, capacity) for count, capacity in last_of}
    for member, pair in enumerate(pairs):
        if (last := last_of[pair]) in following:
            ceilings[last] = ceilings.get(last, 0) + 1
            floor[member] -= 1
    return CountSlack(floor, [count + 1 for count in floor], ceilings, group.subscribers)


def remaining_slack(state: PlanState, quotas: CountSlack) -> CountSlack | None:
    """What the quotas leave to members that own partitions already; None if a member owns more than its quota."""
    least, ceilings = [quota - count for quota, count in zip(quotas.least, state.count, strict=True)], dict(quotas.ceilings)
    for member, more in enumerate(least):
        if more < 0:
            cost = ratio(2 * state.count[member] - 1, state.group.capacity[member])
            if more < -1 or not ceilings.get(cost):
                return None
            ceilings[cost] -= 1
            least[member] = 0
    return CountSlack(least, quotas.most, ceilings, quotas.takers)


def release_excess(
    state: PlanState,  # All claims are with their owners
    # Owners in a balanced plan that keeps as many claims as any. Only its number of partitions per topic class and member counts,
    # as partitions of one class are interchangeable: which of its own a member releases depends on its excess.
    target: list[int],
) -> None:
    """Release the claims that a balanced plan gives up."""
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
    """Release `number` consecutive ones of `mine` (by rising lag): the lightest that cover the excess, else the heaviest."""
    lag = state.group.lag
    share = max(-state.slack(member), state.load[member] * number // state.count[member])
    total = [0, *accumulate(lag[partition] for partition in mine)]
    last = len(mine) - number
    at = next((at for at in range(last) if total[at + number] - total[at] >= share), last)
    for partition in mine[at : at + number]:
        state.release(partition)


def band_slack(state: PlanState) -> CountSlack:
    """Release what members hold above `most`, and return how many partitions each member may then take."""
    assert state.most is not None
    held: dict[int, list[int]] = {one: [] for one, most in enumerate(state.most) if state.count[one] > most}
    for _, partition in state.group.lightest_first if held else ():
        if state.owner[partition] in held:
            held[state.owner[partition]].append(partition)
    for member, mine in held.items():
        _release(state, member, mine, state.count[member] - state.most[member])
    least = [most - count for count, most in zip(state.count, state.most, strict=True)]
    return CountSlack(least, state.most, {}, state.group.subscribers)


def raise_to_least(state: PlanState, claims: list[int] | None = None) -> bool:
    """Transfer partitions to members below `least`, along shortest augmenting paths; returns whether none is below then.

    With `claims` only partitions that are not with their claimants are transferred. Amortized O(1) per path if all
    subscribe alike, else O(C (M + P)) for C topic classes.
    """
    least, count = state.least, state.count
    assert least is not None
    short = [member for member, few in enumerate(least) if count[member] < few]
    if short:
        state.fixed = set() if claims is None else {p for p, one in enumerate(state.owner) if claims[p] == one}
        state.index()
        state.fixed = set()
    donors = deque(sorted((one for one, few in enumerate(least) if count[one] > few), key=lambda one: least[one] - count[one]))
    for member in short:
        while count[member] < least[member]:
            while donors and (count[donors[0]] == least[donors[0]] or not state.holding[donors[0]]):
                donors.popleft()
            if not state.pass_on(_augmenting_path(state, least, donors, member)):
                return False
    return True


def _augmenting_path(state: PlanState, least: list[int], donors: Iterable[int], short: int) -> list[tuple[int, int]]:
    """Transfers (partition, taker) that lower the count of a member above `least` and raise that of `short`; empty: no path.

    Nodes are members; each one that the path passes through gives a partition, its lightest one, and takes one. Breadth first,
    `donors` before others. The first taker that subscribes to a topic class adds every member with a partition of it, so later
    takers skip that class.
    """
    group, left = state.group, set(range(len(state.group.takes)))
    given: dict[int, tuple[int, int]] = {short: (-1, short)}
    takers = [short]
    for taker in takers:
        able = {number for number in left if group.takes[number][taker]}
        left -= able
        for giver in chain(donors, range(len(least))) if able else ():
            if giver in given:
                continue
            partition = next((one for _, one in state.holding[giver] if group.topic_class[one] in able), None)
            if partition is None:
                continue
            given[giver] = partition, taker
            takers.append(giver)
            if state.count[giver] > least[giver]:
                path = []
                while giver != short:
                    path.append(given[giver])
                    giver = given[giver][1]
                return path
    return []
