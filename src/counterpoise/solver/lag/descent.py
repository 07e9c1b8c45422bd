"""Descents: the way down for a heavy partition whose owner has nothing lighter that would do.

The owner gives it to a member with room, who passes a lighter one on to another, until what is passed on is light enough for the
owner to take in return. Breadth first: the fewest hands, and of these the way that takes least of the others' room.
"""

from __future__ import annotations

from bisect import bisect_left

from counterpoise.solver.lag.circle import Holdings

_HEAVIEST = 8
"""So many of the owner's partitions are tried."""
_FOLLOWERS = 2
_WAYS = 16
"""So many ways are followed further, those that end lightest."""

__all__ = ["descend"]

_Way = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Weight of the last partition, the partitions so far, and through whose hands they went."""


def descend(desk: Holdings, owner: int, roomy: list[int], hands: int) -> list[int]:
    """The partitions of a shortest way down over at most so many hands; the last one goes back to `owner`.

    Parameters
    ----------
    roomy : list of int
        Members with room, through whose hands it may go.

    Returns
    -------
    list of int
        Each goes to the owner of the next, the last to `owner`. Empty: there is none.
    """
    excess, kind = -desk.room(owner), desk.kind_of
    room = [(member, desk.room(member)) for member in roomy]
    items, weights = desk.listed(owner)
    tried = [(item, weight) for item, weight in zip(items, weights, strict=True) if weight > excess][-_HEAVIEST:]
    ways: dict[tuple[int, int], _Way] = {(item, kind(item)): (weight, (item,), ()) for item, weight in tried}
    top = dict(tried)
    for _ in range(min(hands, desk.moves_left - 1)):
        further: dict[tuple[int, int], _Way] = {}
        best: tuple[int, _Way] | None = None
        for way in ways.values():
            able = desk.takers(kind(way[1][-1]))
            takers = [one for one in room if able[one[0]]]
            for step in _steps(desk, way, takers):
                level, links, _used = step
                first, last = links[0], links[-1]
                relief = top[first] - level
                if relief >= excess and desk.takers(kind(last))[owner]:
                    best = min(best, (relief, step)) if best else (relief, step)
                key = (first, kind(last) if desk.n_classes > 1 else 0)
                if key not in further or step < further[key]:
                    further[key] = step
        if best:
            return list(best[1][1])
        ways = dict(sorted(further.items(), key=_lightest)[:_WAYS])
    return []


def _steps(desk: Holdings, way: _Way, room: list[tuple[int, int]]) -> list[_Way]:
    """Every way that is one pair of hands longer and ends with something lighter."""
    level, links, used = way
    steps: list[_Way] = []
    for member, spare in room:
        if member in used:
            continue
        items, weights = desk.listed(member)
        first = bisect_left(weights, level - spare)
        near = range(first, min(first + _FOLLOWERS, bisect_left(weights, level)))
        steps += [(weights[place], (*links, items[place]), (*used, member)) for place in near]
    return steps


def _lightest(way: tuple[tuple[int, int], _Way]) -> _Way:
    return way[1]
