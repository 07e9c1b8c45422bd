"""What chains may begin with: a partition of a member with room, nothing where counts may change places, or two rooms in a row.

Who owns a giant and little else that is heavy can often be relieved by the giant alone, for a partition almost as heavy. Hardly
anybody with room has one that is lighter by so much. But one may pass on what is lighter by its own room, and another one by its
own, so two rooms in a row do what neither does alone.
"""

from __future__ import annotations

import numpy as np

from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index
from counterpoise.solver.lag.moves.chains import Start

_ROOMS = 30
"""So many members, those with most room, are what chains begin with."""
_PAIRS = 24
"""For one who is hard to relieve so many rooms, or two in a row, with least room in all that do."""
_LOOK = 48
"""So many of its partitions are looked at, and so many rooms for each."""

__all__ = ["kinds_of", "long_starts", "picked", "starts_of"]


def starts_of(desk: Desk, most: int) -> list[Start]:
    """Partitions of members with room, `most` in all or about, and nothing for each of them whose count another one may take."""
    order = np.argsort(desk.load - desk.limit, kind="stable")
    rooms = [member for member in order.tolist() if desk.room(member) > 0 and desk.count[member]][:_ROOMS]
    taken = _counts_taken(desk)
    starts = []
    for member in rooms:
        room = desk.room(member)
        for one in picked(desk, member, most // len(rooms)):
            weight = int(desk.weight[one])
            starts.append(Start(weight, desk.kind_of(one), weight + room, (member,), (one,)))
        count = int(desk.count[member])
        if count in taken:
            starts.append(Start(0, len(desk.may) + taken[count], room, (member,), ()))
    return sorted(starts)


def kinds_of(desk: Desk, member: int, *, alone: bool) -> Index:
    """The kinds of start and partition it may take: its topic classes, and nothing (`alone`) where somebody has one fewer."""
    kinds = np.flatnonzero(desk.may[:, member])
    count = int(desk.count[member]) - 1
    taken = _counts_taken(desk)
    return np.append(kinds, len(desk.may) + taken[count]) if alone and count in taken else kinds


def picked(desk: Desk, member: int, most: int) -> list[int]:
    """The member's partitions, lightest first; about so many of them, evenly chosen, where it has more."""
    items = desk.listed(member)[0]
    return items[:: max(1, -(-len(items) // max(most, 1)))]


def long_starts(desk: Desk, member: int) -> list[Start]:
    """Single rooms of anybody and pairs of them by which one partition relieves a member, with least room first."""
    owned = np.flatnonzero((desk.owner >= 0) & (desk.load < desk.limit)[desk.owner])
    room, weight, kind = (desk.limit - desk.load)[desk.owner[owned]], desk.weight[owned], desk.class_of[owned]
    excess = -desk.room(member)
    suits = desk.may[kind, member]
    found: dict[tuple[int, ...], tuple[int, Start]] = {}
    for one in picked(desk, member, _LOOK):
        lag = int(desk.weight[one])
        if lag < excess:
            continue
        takes = (weight + room >= lag) & (weight < lag) & desk.may[desk.kind_of(one), desk.owner[owned]]
        light = suits & (weight <= lag - excess)
        last = np.flatnonzero(takes & light)
        for at in last[np.argsort(room[last], kind="stable")][:_LOOK].tolist():
            _note(desk, found, [int(owned[at])])
        first, second = _in_a_row(desk, owned, np.flatnonzero(takes), np.flatnonzero(light))
        order = np.argsort(room[first] + room[second], kind="stable")[:_LOOK]
        for at, to in zip(owned[first[order]].tolist(), owned[second[order]].tolist(), strict=True):
            _note(desk, found, [at, to])
    return [start for _, start in sorted(found.values())[:_PAIRS]]


def _in_a_row(desk: Desk, owned: Index, takes: Index, light: Index) -> tuple[Index, Index]:
    """Of `owned` those of which the first goes to the owner of the second, who has room for it."""
    one, other = owned[takes][:, None], owned[light]
    weight, giver, taker = desk.weight, desk.owner[one], desk.owner[other]
    fits: Bools = (weight[other] < weight[one]) & (weight[one] - weight[other] <= (desk.limit - desk.load)[taker])
    fits &= (giver != taker) & desk.may[desk.class_of[one], taker]
    first, second = np.nonzero(fits)
    return takes[first], light[second]


def _note(desk: Desk, found: dict[tuple[int, ...], tuple[int, Start]], links: list[int]) -> None:
    """A start, unless the same rooms do with as little; fewer rooms come before more, then less room before more."""
    rooms = tuple(int(desk.owner[one]) for one in links)
    first, last = links[0], links[-1]
    most = int(desk.weight[first]) + desk.room(rooms[0])
    start = Start(int(desk.weight[last]), desk.kind_of(last), most, rooms, tuple(links))
    if rooms not in found:
        found[rooms] = sum(desk.room(room) for room in rooms), start


def _counts_taken(desk: Desk) -> dict[int, int]:
    """Counts that somebody has with another one who has one more, numbered."""
    counts = set(desk.count.tolist())
    return {count: at for at, count in enumerate(sorted(count for count in counts if count + 1 in counts))}
