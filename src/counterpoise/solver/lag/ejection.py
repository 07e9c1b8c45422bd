"""Ejection chains and cyclic exchanges (Glover, 1996; Thompson and Psaraftis, 1993) that bring members under their limits.

Along a chain each member takes one partition and gives another. A chain is allowed if each member on it ends within its limit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from counterpoise.solver.lag.state import Holding, PlanState

_WIDTH, _KEPT = 16, 200
"""Beam width: this many chains are kept, fewer the more members are over (their product stays below `_KEPT`)."""
_MOST_OVER_LIMIT = 24
"""At most this many members, those furthest over their limits, may come next."""
_FOLLOWERS = 2
"""Partitions of a member tried as its next link; more than one only if subscriptions differ."""
_DEPTH, _LINKS, _STARTS, _PATHS = 3, 16, 4, 8
"""Ejection chains: members on a chain, members tried as the next one, lightest and heaviest partitions of the start that are
tried first, and chains kept per step."""

__all__ = ["cyclic_exchange", "ejection_chain"]

Chain = list[tuple[int, int]]
"""(partition, its new owner), in order."""

_Path: TypeAlias = "tuple[int, int, int, int, _Path | None]"
"""A cyclic exchange so far: lag given beyond the excess of its members, lag of the last partition, that partition, the members
relieved (a bit each), and the path before."""


class _OverLimit(NamedTuple):
    """A member over its limit. `excess`: what one step takes from it, all of its excess if a single partition can."""

    bit: int
    member: int
    held: Holding
    excess: int
    may_start: bool


def cyclic_exchange(state: PlanState, start: int, over: list[int], *, transfer: bool) -> tuple[Chain, list[int]]:
    """The best chain that ends in the slack of `start`: it passes through members over their limits and relieves each of them.

    `start` gives its lightest partition to the first of them, which gives a heavier one to the second, and so on back to `start`.
    k members are relieved in k + 1 moves. With `transfer` the first takes nothing, which counts must allow: k moves.

    Returns what to pass on, and the members that it relieves; both are empty if there is no such chain.

    Beam search. The lag of the last partition rises from member to member by the member's excess and by waste. The chain that
    relieves most within the slack is the best, then the shortest.
    """
    slack, takes, topic_class = state.slack(start), state.group.takes, state.group.topic_class
    width = max(1, min(_WIDTH, _KEPT // len(over)))
    best: _Path | None = None
    filled = 0
    lag, partition = (0, -1) if transfer else state.holding[start][0]
    relievable = _relievable(state, start, over[:_MOST_OVER_LIMIT], lag, slack, transfer=transfer)
    beam: list[_Path] = [(0, lag, partition, 0, None)] if relievable else []
    while beam and state.budget.left > 0:
        state.budget.left -= len(beam) * len(relievable)
        longer = _extend(state, beam, relievable, lag + slack)
        for path in longer:
            relief = path[1] - lag - path[0]
            if relief > filled and takes[topic_class[path[2]]][start]:
                best, filled = path, relief
        beam = sorted(longer, key=itemgetter(0))[:width]
    return _links(state, best, start) if best else ([], [])


def _relievable(state: PlanState, start: int, over: list[int], base: int, slack: int, *, transfer: bool) -> list[_OverLimit]:
    """Members that a chain whose first partition has lag `base` relieves, whole or by their share if it takes several partitions.

    With `transfer` none are returned if no member may start the chain.
    """
    starts = [transfer and state.may_transfer(member, start) for member in over]
    if transfer and not any(starts):
        return []
    found = []
    for at, (member, may_start) in enumerate(zip(over, starts, strict=True)):
        held, excess = state.holding[member], -state.slack(member)
        top = bisect_right(held, (base + slack, len(state.owner)))
        if not top:
            continue
        if held[top - 1][0] - base < excess:
            pieces, relief = 0, 0
            while pieces < top and relief < excess and held[top - 1 - pieces][0] > base:
                relief += held[top - 1 - pieces][0] - base
                pieces += 1
            if relief < excess:
                continue
            excess = -(-excess // pieces)
        found.append(_OverLimit(1 << at, member, held, excess, may_start))
    return found if not transfer or any(one.may_start for one in found) else []


def _extend(state: PlanState, beam: list[_Path], relievable: list[_OverLimit], most: int) -> list[_Path]:
    """Every path with one more link; of those that relieve the same members and end in one topic class the least wasteful."""
    takes, topic_class = state.group.takes, state.group.topic_class
    classes = len(takes)
    followers = _FOLLOWERS if classes > 1 else 1
    longer: dict[int, _Path] = {}
    for path in beam:
        wasted, last_lag, last, relieved, _ = path
        able = takes[topic_class[last]] if last >= 0 else None
        for bit, member, held, excess, may_start in relievable:
            if relieved & bit or not (may_start if able is None else able[member]):
                continue
            needed = last_lag + excess
            at = bisect_left(held, (needed,))
            for lag, partition in held[at : at + followers]:
                if lag > most:
                    break
                waste, key = wasted + lag - needed, (relieved | bit) * classes + topic_class[partition]
                known = longer.get(key)
                if known is None or waste < known[0]:
                    longer[key] = waste, lag, partition, relieved | bit, path
    return list(longer.values())


def _links(state: PlanState, path: _Path, start: int) -> tuple[Chain, list[int]]:
    """Each partition to the owner of the next one, the last to `start`."""
    partitions = []
    step: _Path | None = path
    while step is not None and step[2] >= 0:
        partitions.append(step[2])
        step = step[4]
    givers = [state.owner[partition] for partition in reversed(partitions)]
    chain = list(zip(reversed(partitions), [*givers[1:], start], strict=True))
    return chain, [giver for giver in givers if giver != start]


def ejection_chain(state: PlanState, start: int) -> Chain:
    """The shortest chain that brings `start` under its limit through members with slack; empty if none is found.

    `start` gives a partition. The member that takes it gives another one, so that it stays within its limit, and so on. The chain
    ends with a partition light enough for `start` to take, or with a member that has enough slack and whose count may rise.
    """
    excess, held = -state.slack(start), state.holding[start]
    enough = held[bisect_left(held, (excess,)) :]
    first = enough if len(enough) <= 2 * _STARTS else enough[:_STARTS] + enough[-_STARTS:]
    # lag of the last partition, the partitions so far, the members that take them
    paths: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(lag, (partition,), ()) for lag, partition in first]
    for _ in range(_DEPTH):
        further: dict[tuple[int, int], tuple[int, tuple[int, ...], tuple[int, ...]]] = {}
        found: list[tuple[int, Chain]] = []
        for lag, links, takers in paths:
            able = state.group.takes[state.group.topic_class[links[-1]]]
            some = (m for excess, m in state.by_slack if able[m] and excess <= 0 and m not in takers)
            for member in islice(some, _LINKS):
                state.budget.left -= 2
                slack, mine = state.slack(member), state.holding[member]
                path = (*takers, member)
                if lag <= slack and state.may_transfer(start, member):
                    found.append((slack - lag, list(zip(links, path, strict=True))))
                at = bisect_left(mine, (lag - slack,))
                for less, partition in mine[at : at + _FOLLOWERS]:
                    step = (less, (*links, partition), path)
                    if less <= state.group.lag[links[0]] - excess and state.group.may_take(partition, start):
                        found.append((less, list(zip(step[1], (*path, start), strict=True))))
                    key = (links[0], state.group.topic_class[partition])
                    if key not in further or step < further[key]:
                        further[key] = step
        if found:
            return min(found)[1]
        if state.budget.left <= 0:
            break
        paths = sorted(further.values())[:_PATHS]
    return []
