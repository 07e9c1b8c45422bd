"""Circles: the chain of partitions through members over their lag limit that wastes least of one member's room.

A light partition of the member with room goes to the first of them, who passes a heavier one on to the second, and so on; the
last one's goes to the member with room. Each member over its limit so fills a stretch of that room, from the weight it takes
to the weight it gives, as long as its excess; what a partition weighs beyond that is waste. A beam search keeps the
chains with least waste. Lists and bisection: the arrays are of a hundred entries, and a call into NumPy costs more than they.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Protocol

_LIGHTS = 3
"""So many topic classes are tried for the light partition: what others may take of it differs by class."""
_FOLLOWERS = 2
"""So many partitions of a member are tried as the next link where subscriptions differ."""
_EFFORT = 200
"""Chains kept, times members waiting: many of them are easily packed, the last few deserve a thorough search."""
_CHAINS_AT_MOST = 16
_FULL = 20
"""A chain that leaves no more than this part of the room empty is good enough: no other start is tried."""
_NEXT = 24
"""So many of the members most over their limit are tried as the next link."""
_MANY, _NEXT_OF_MANY = 100, 12
"""Where more than so many wait, so many are: what that costs in moves is little, and half of the time."""

__all__ = ["Circles", "Holdings"]


_Chain = tuple[int, int, tuple[int, ...], int, int]
"""What was wasted, the weight of the last partition, the partitions, who is relieved (a bit each), who trades (-1: nobody)."""
_Seeker = tuple[int, list[int], list[int], int, bool]
"""A member to relieve: its number, partitions, their weights, its excess, whether its counts may change places."""


class Holdings(Protocol):
    """What is looked at on a desk, in plain numbers and lists."""

    moves_left: int

    @property
    def n_classes(self) -> int:
        """Topic classes."""

    def kinds(self) -> list[int]:
        """Topic class of each partition."""

    def kind_of(self, partition: int) -> int:
        """One of them."""

    def room(self, member: int) -> int:
        """How much lag it can take until it is at its limit; negative: it is over."""

    def listed(self, member: int) -> tuple[list[int], list[int]]:
        """The member's partitions and their weights, lightest first."""

    def able(self, kind: int, members: list[int]) -> list[bool]:
        """Which of `members` may take partitions of a class."""

    def may_trade(self, giver: int, taker: int) -> bool:
        """Whether their counts only change places when the giver hands over one partition."""


@dataclass(slots=True)
class Circles:
    """Finds circles on a desk; `forget` the members whose partitions have changed."""

    desk: Holdings
    held: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    kind: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.kind = self.desk.kinds()

    def forget(self, members: list[int]) -> None:
        """Their partitions have changed."""
        for member in members:
            self.held.pop(member, None)

    def find(self, roomy: int, waiting: list[int], *, trading: bool) -> tuple[list[int], int]:
        """The best chain into the room of `roomy`; `trading`: one that takes nothing from it.

        Returns
        -------
        links : list of int
            Partitions: the first goes to the owner of the second, and so on, the last to `roomy`. Empty: there is none.
        trades : int
            The first one's owner where it takes nothing: it has a partition more than `roomy`, and their counts change
            places. -1 otherwise.
        """
        desk, best = self.desk, (0, 0)
        room = desk.room(roomy)
        tried = waiting[: _NEXT if len(waiting) <= _MANY else _NEXT_OF_MANY]
        seekers = [self._seeker(member, roomy, trading=trading) for member in tried]
        takes = _Takers(desk, [*tried, roomy])
        width = max(1, min(_CHAINS_AT_MOST, _EFFORT // len(waiting)))
        found: tuple[list[int], int] = ([], -1)
        lights = min(_LIGHTS if width > 1 else 1, desk.n_classes)
        for start in self._starts(roomy, seekers, lights, trading=trading):
            chains, base = [start], start[1]
            hard = self._hard(seekers, base, base + room)
            while chains and len(chains[0][2]) < desk.moves_left:
                longer = self._longer(chains, seekers, hard, base + room, takes)
                chains = sorted(longer, key=_by_waste)[:width]
                for waste, level, links, _relieved, trades in longer:
                    value = (level - base - waste, -len(links))
                    if value > best and takes.back(self.kind[links[-1]]):
                        best, found = value, (list(links), trades)
            if len(found[0]) - (found[1] < 0) == len(waiting) or best[0] * _FULL >= room * (_FULL - 1):
                break
        return found

    def _seeker(self, member: int, roomy: int, *, trading: bool) -> _Seeker:
        desk = self.desk
        return (member, *self.holding(member), -desk.room(member), trading and desk.may_trade(member, roomy))

    def _starts(self, roomy: int, seekers: list[_Seeker], lights: int, *, trading: bool) -> list[_Chain]:
        """Nothing, where counts may change places with a member to relieve; else the lightest of a few topic classes."""
        if trading:
            return [(0, 0, (), 0, -1)] if any(seeker[4] for seeker in seekers) else []
        starts: list[_Chain] = []
        classes = set()
        for partition, weight in zip(*self.holding(roomy), strict=True):
            kind = self.kind[partition]
            if kind not in classes:
                classes.add(kind)
                starts.append((0, weight, (partition,), 0, -1))
            if len(classes) == lights:
                break
        return starts

    def pieces(self, member: int, needed: int, base: int, most: int) -> int:
        """How many partitions up to `most` it takes to relieve a member that is given as many of weight `base`; 0: all do not."""
        weights = self.holding(member)[1]
        number = bisect_right(weights, most)
        relief, top = 0, number
        while relief < needed and number:
            number -= 1
            relief += max(weights[number] - base, 0)
        return top - number if relief >= needed else 0

    def _hard(self, seekers: list[_Seeker], base: int, most: int) -> list[tuple[int, int] | None]:
        """Members that no single partition within the room can relieve: (position of the heaviest in it, least relief).

        They give as many of these as it takes, one per circle; each must bring its share of the relief.
        """
        result: list[tuple[int, int] | None] = []
        for member, _items, weights, needed, _trades in seekers:
            top = bisect_right(weights, most)
            easy = top and weights[top - 1] >= base + needed
            pieces = 0 if easy else self.pieces(member, needed, base, most)
            result.append((top - 1, -(-needed // pieces)) if pieces else None)
        return result

    def _longer(
        self,
        chains: list[_Chain],
        seekers: list[_Seeker],
        hard: list[tuple[int, int] | None],
        most: int,
        takes: _Takers,
    ) -> list[_Chain]:
        """Every chain with one more link; of those that relieve the same members and end in the same class the lightest."""
        class_of = self.kind
        one_class = self.desk.n_classes == 1
        followers = 1 if one_class else _FOLLOWERS
        longer: dict[tuple[int, int], _Chain] = {}
        for wasted, level, links, done, trading in chains:
            takers = takes.of(class_of[links[-1]]) if links else None
            for at, (member, items, weights, excess, may_trade) in enumerate(seekers):
                if done >> at & 1 or not (may_trade if takers is None else takers[at]):
                    continue
                steep = hard[at]
                if steep is None:
                    needed = level + excess
                    if needed > most:
                        continue
                    first = bisect_left(weights, needed)
                else:
                    first, needed = steep[0], weights[steep[0]]
                    if needed - level < steep[1]:
                        continue
                relieved = done | 1 << at
                for place in range(first, min(first + followers, len(weights))):
                    weight = weights[place]
                    if weight > most:
                        break
                    key = (relieved, 0 if one_class else class_of[items[place]])
                    waste = wasted + weight - needed
                    if key not in longer or longer[key][0] > waste:
                        longer[key] = (waste, weight, (*links, items[place]), relieved, member if takers is None else trading)
        return list(longer.values())

    def holding(self, member: int) -> tuple[list[int], list[int]]:
        """The member's partitions and their weights, lightest first; kept until forgotten."""
        if member not in self.held:
            self.held[member] = self.desk.listed(member)
        return self.held[member]


class _Takers:
    """Who of the members tried may take a topic class, and whether the member with room may; asked once for each class."""

    def __init__(self, desk: Holdings, members: list[int]) -> None:
        self._desk, self._members = desk, members
        self._known: dict[int, list[bool]] = {}

    def of(self, kind: int) -> list[bool]:
        """One for each member tried, and the last for the member with room."""
        if kind not in self._known:
            self._known[kind] = self._desk.able(kind, self._members)
        return self._known[kind]

    def back(self, kind: int) -> bool:
        """Whether the member with room may take it."""
        return self.of(kind)[-1]


def _by_waste(chain: _Chain) -> int:
    return chain[0]
