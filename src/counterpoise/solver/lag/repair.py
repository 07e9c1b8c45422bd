"""Local search: members above their limits are relieved by cyclic exchanges, then one by one by the step that fits best."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice, takewhile

from counterpoise.solver.lag.ejection import Chain, cyclic_exchange, ejection_chain
from counterpoise.solver.lag.state import PlanState

_LEAST_GAIN = 1024
"""A move or exchange that leaves the member above its limit must reduce its lag by at least limit / `_LEAST_GAIN`."""

__all__ = ["repair"]


def repair(state: PlanState) -> bool:
    """Local search: bring members under their limits; whether none is above its limit at the end.

    No step brings a member above its limit or changes whether counts are allowed. Cyclic exchanges through many members come
    first, as they relieve each of them with about one move. O(P log P), then at most `state.budget` steps.
    """
    if not state.over():
        return True
    state.index()
    _relieve_heavy(state)
    for transfer, least in ((True, 1), (False, 2)):
        _relieve_several(state, transfer=transfer, least=least)
    _relieve_each(state)
    return not state.over()


def _worst_first(state: PlanState) -> list[int]:
    return [member for _, member in takewhile(lambda entry: entry[0] > 0, reversed(state.by_slack))]


def _relieve_heavy(state: PlanState) -> None:
    """By an ejection chain: members that a transfer of one partition into another's slack cannot relieve."""
    for member in _worst_first(state):
        if state.budget.left <= 0:
            break
        held, excess = state.holding[member], -state.slack(member)
        widest = max(map(state.slack, islice(state.with_slack([member]), 1)), default=0)
        fitting = bisect_right(held, (widest, len(state.owner)))
        if not fitting or held[fitting - 1][0] < excess:
            state.pass_on(ejection_chain(state, member))


def _relieve_several(state: PlanState, *, transfer: bool, least: int) -> None:
    """Cyclic exchanges that each relieve at least `least` members, or all that are left; those into the widest slack come first.

    They take at most half of the steps that are left.
    """
    over, reserved = _worst_first(state), state.budget.left // 2
    for start in list(state.with_slack(over)):
        if not over or state.budget.left <= reserved:
            break
        if not transfer and not state.holding[start]:
            continue
        chain, relieved = cyclic_exchange(state, start, over, transfer=transfer)
        if len(relieved) >= min(least, len(over)) and state.pass_on(chain):
            over = [member for member in over if state.slack(member) < 0]


def _relieve_each(state: PlanState) -> None:
    """The worst member again and again: one transfer, exchange or ejection chain; ends if nothing helps any of them."""
    stuck: set[int] = set()
    chained: set[int] = set()  # a chain was looked for already
    while state.budget.left > 0:
        state.budget.left -= 1
        worst = next((member for excess, member in reversed(state.by_slack) if excess > 0 and member not in stuck), None)
        if worst is None:
            break
        gain, chain = _exchange(state, worst)
        excess = -state.slack(worst)
        if gain < excess:
            found = ejection_chain(state, worst) if worst not in chained else []
            chained.add(worst)
            chain = found or (chain if gain * _LEAST_GAIN >= state.limit[worst] else [])
        if state.pass_on(chain):
            stuck.clear()
        else:
            stuck.add(worst)


def _exchange(state: PlanState, giver: int) -> tuple[int, Chain]:
    """The transfer or exchange of two that takes just the excess off `giver`, else as much of it as possible: (lag, chain)."""
    excess = -state.slack(giver)
    best: tuple[int, Chain] = (0, [])
    for partner in state.with_slack([giver]):
        slack, theirs, transfer = state.slack(partner), state.holding[partner], state.may_transfer(giver, partner)
        if slack <= best[0]:
            break
        if not theirs and not transfer:
            continue
        found = _pair(state, giver, partner, excess, slack) if theirs else (0, [])
        if transfer:
            found = _better(found, _single(state, giver, partner, excess, slack), excess)
        best = _better(best, found, excess)
        if best[0] >= excess:
            break
    return best


def _better(one: tuple[int, Chain], other: tuple[int, Chain], excess: int) -> tuple[int, Chain]:
    """Of two steps the one that suffices; if both do the shorter one, then the smaller one; if none does the larger one."""
    if one[0] >= excess and other[0] >= excess:
        return min(one, other, key=lambda step: (len(step[1]), step[0]))
    return max(one, other, key=lambda step: step[0])


def _single(state: PlanState, giver: int, partner: int, excess: int, slack: int) -> tuple[int, Chain]:
    """One partition that `partner` may take: the lightest that suffices, else the heaviest that fits."""
    fits = [entry for entry in state.holding[giver] if entry[0] <= slack and state.group.may_take(entry[1], partner)]
    if not fits:
        return 0, []
    lag, partition = fits[min(bisect_left(fits, (excess,)), len(fits) - 1)]
    return lag, [(partition, partner)]


def _pair(state: PlanState, giver: int, partner: int, excess: int, slack: int) -> tuple[int, Chain]:
    """A heavier partition for a lighter one."""
    takes, topic_class = state.group.takes, state.group.topic_class
    held, theirs = state.holding[giver], state.holding[partner]
    # The upper bound of what an exchange takes off the giver: its heaviest partition that fits for any of the partner's, less the
    # partner's lightest. If that exchange is possible and no more than the excess, no other one is better.
    fitting = bisect_right(held, (theirs[-1][0] + slack, len(state.owner)))
    (heavy, out), (light, back) = held[fitting - 1], theirs[0]
    if not fitting or heavy <= light:
        return 0, []
    if heavy - light <= excess and takes[topic_class[out]][partner] and takes[topic_class[back]][giver]:
        return heavy - light, [(out, partner), (back, giver)]
    mine = [entry for entry in held if takes[topic_class[entry[1]]][partner]]
    theirs = [entry for entry in theirs if takes[topic_class[entry[1]]][giver]]
    state.budget.left -= len(mine) + len(theirs)
    enough, some = (slack + 1, -1, -1), (0, -1, -1)
    for lag, back in theirs:
        at = bisect_left(mine, (lag + excess,))
        if at < len(mine) and mine[at][0] - lag < enough[0]:
            enough = (mine[at][0] - lag, mine[at][1], back)
        at = bisect_right(mine, (lag + min(slack, excess), len(state.owner))) - 1
        if at >= 0 and mine[at][0] - lag > some[0]:
            some = (mine[at][0] - lag, mine[at][1], back)
    gain, out, back = enough if enough[1] >= 0 else some
    return (gain, [(out, partner), (back, giver)]) if out >= 0 else (0, [])
