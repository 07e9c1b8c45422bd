"""Circles: the chain of partitions through members over their lag limit that wastes least of one member's room.

A light partition of the member with room goes to the first of them, who passes a heavier one on to the second, and so on; the
last one's goes to the member with room. Each member over its limit so fills a stretch of that room, from the weight it takes
to the weight it gives, as long as its excess; what a partition weighs beyond that is waste. A beam search keeps the
chains with least waste. Lists and bisection: the arrays are of a hundred entries, and a call into NumPy costs more than they.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

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
MANY, _NEXT_OF_MANY = 100, 12
"""Where more than so many wait, so many are: what that costs in moves is little, and half of the time."""

_WASTE = itemgetter(0)

__all__ = ["MANY", "Circles", "Holdings"]

_NEVER = 2**62

_Chain = tuple[int, int, int, int, int, Any]
"""What was wasted, the weight of the last partition, this partition (-1: none yet), who is relieved (a bit each), who trades (-1:
nobody), and the chain before it."""
_Seeker = tuple[int, int, list[int], list[int], int, bool, int, int]
"""A member to relieve: its bit, its number, partitions, their weights, its excess, whether its counts may change places; and for
one that no single partition within the room can relieve the position of the heaviest in it, and the least relief (else -1, 0).

Such a member gives as many of these as it takes, one per circle; each must bring its share of the relief.
"""

_Found = tuple[int, int, _Chain]
"""How much of the room is filled, by how many partitions, and the chain."""
_NO_CHAIN: _Chain = (0, 0, -1, 0, -1, None)


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

    def takers(self, kind: int) -> bytes:
        """For each member, whether it may take partitions of a class."""

    def may_trade(self, giver: int, taker: int) -> bool:
        """Whether their counts only change places when the giver hands over one partition."""


@dataclass(slots=True)
class Circles:
    """Finds circles on a desk; among a `crowd`, more than `MANY`, in haste as long as more wait than are tried at once."""

    desk: Holdings
    crowd: bool
    kind: list[int] = field(init=False)
    rows: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = self.desk.kinds()

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
        desk, room = self.desk, self.desk.room(roomy)
        tried = waiting[: _NEXT if len(waiting) <= MANY else _NEXT_OF_MANY]
        trades = [trading and desk.may_trade(member, roomy) for member in tried]
        best: _Found = (0, 0, _NO_CHAIN)
        width = max(1, min(_CHAINS_AT_MOST, _EFFORT // len(waiting)))
        haste = self.crowd and len(tried) < len(waiting)
        lights = min(_LIGHTS if width > 1 and not haste else 1, desk.n_classes)
        for start in self._starts(roomy, lights, any(trades), trading=trading):
            base = start[1]
            seekers = [self._seeker(at, member, trades[at], base, base + room) for at, member in enumerate(tried)]
            if width > 1 and haste and sum(seeker[4] for seeker in seekers) <= room:  # all of them may fit: then any chain does
                best = self._greedy(start, seekers, roomy, best)
            if not _complete(best, tried):
                best = self._longest(start, seekers, roomy, width, best)
            if _complete(best, tried) or best[0] * _FULL >= room * (_FULL - 1):
                break
        return _partitions(best[2]), best[2][4]

    def _longest(self, start: _Chain, seekers: list[_Seeker], roomy: int, width: int, best: _Found) -> _Found:
        """What fills most of the room, of `best` and all that grows from one start with so many chains kept."""
        if width == 1:
            return self._greedy(start, seekers, roomy, best)
        base, most, steps = start[1], start[1] + self.desk.room(roomy), int(start[2] >= 0)
        chains, moves_left = [start], self.desk.moves_left
        while chains and steps < moves_left:
            longer, steps = self._longer(chains, seekers, most), steps + 1
            filled = base + best[0]
            for chain in longer:
                if chain[1] - chain[0] >= filled:
                    relief = chain[1] - base - chain[0]
                    if (relief > best[0] or steps < best[1]) and self._may(roomy, chain[2]):
                        best = (relief, steps, chain)
                        filled = base + relief
            chains = sorted(longer, key=_WASTE)[:width]
        return best

    def _greedy(self, start: _Chain, seekers: list[_Seeker], roomy: int, best: _Found) -> _Found:
        """As `_longest` with one chain kept, the one with least waste: no other is built."""
        base, most, steps = start[1], start[1] + self.desk.room(roomy), int(start[2] >= 0)
        followers = 1 if self.desk.n_classes == 1 else _FOLLOWERS
        chain: _Chain | None = start
        while chain is not None and steps < self.desk.moves_left:
            (wasted, level, last, done, trading, _), before = chain, chain
            takers = self._takers(self.kind[last]) if last >= 0 else None
            chain, least, steps = None, _NEVER, steps + 1
            for bit, member, items, weights, excess, may_trade, steep, relief in seekers:
                if done & bit or not (may_trade if takers is None else takers[member]):
                    continue
                needed = level + excess if steep < 0 else weights[steep]
                if needed > most or (steep >= 0 and needed - level < relief):
                    continue
                first = bisect_left(weights, needed) if steep < 0 else steep
                for item, weight in zip(items[first : first + followers], weights[first : first + followers], strict=True):
                    waste, filled = wasted + weight - needed, needed - wasted - base
                    if weight > most or (waste >= least and filled < best[0]):
                        continue
                    longer = (waste, weight, item, done | bit, member if takers is None else trading, before)
                    if waste < least:
                        chain, least = longer, waste
                    if (filled > best[0] or (filled == best[0] and steps < best[1])) and self._may(roomy, item):
                        best = (filled, steps, longer)
        return best

    def _may(self, member: int, partition: int) -> bool:
        """Whether a member may take a partition."""
        return bool(self._takers(self.kind[partition])[member])

    def _takers(self, kind: int) -> bytes:
        row = self.rows.get(kind)
        if row is None:
            row = self.rows[kind] = self.desk.takers(kind)
        return row

    def _seeker(self, at: int, member: int, trades: bool, base: int, most: int) -> _Seeker:
        items, weights = self.desk.listed(member)
        needed = -self.desk.room(member)
        top = bisect_right(weights, most)
        easy = top and weights[top - 1] >= base + needed
        pieces = 0 if easy else _pieces(weights, top, needed, base)
        steep = (top - 1, -(-needed // pieces)) if pieces else (-1, 0)
        return (1 << at, member, items, weights, needed, trades, *steep)

    def _starts(self, roomy: int, lights: int, may_trade: bool, *, trading: bool) -> list[_Chain]:
        """Nothing, where counts may change places with a member to relieve; else the lightest of a few topic classes."""
        if trading:
            return [_NO_CHAIN] if may_trade else []
        starts: list[_Chain] = []
        classes = set()
        for partition, weight in zip(*self.desk.listed(roomy), strict=True):
            kind = self.kind[partition]
            if kind not in classes:
                classes.add(kind)
                starts.append((0, weight, partition, 0, -1, _NO_CHAIN))
            if len(classes) == lights:
                break
        return starts

    def pieces(self, member: int, needed: int, most: int) -> int:
        """How many partitions up to `most` it takes to relieve a member; 0: all do not."""
        weights = self.desk.listed(member)[1]
        return _pieces(weights, bisect_right(weights, most), needed, 0)

    def _longer(self, chains: list[_Chain], seekers: list[_Seeker], most: int) -> list[_Chain]:
        """Every chain with one more link; of those that relieve the same members and end in the same class the lightest."""
        class_of, classes = self.kind, self.desk.n_classes
        followers = 1 if classes == 1 else _FOLLOWERS
        longer: dict[int, _Chain] = {}
        for chain in chains:
            wasted, level, last, done, trading, _ = chain
            takers = self._takers(class_of[last]) if last >= 0 else None
            for bit, member, items, weights, excess, may_trade, steep, least in seekers:
                if done & bit or not (may_trade if takers is None else takers[member]):
                    continue
                if steep < 0:
                    needed = level + excess
                    if needed > most:
                        continue
                    first = bisect_left(weights, needed)
                else:
                    first, needed = steep, weights[steep]
                    if needed - level < least:
                        continue
                relieved = done | bit
                trades = member if takers is None else trading
                for place in range(first, min(first + followers, len(weights))):
                    weight = weights[place]
                    if weight > most:
                        break
                    item = items[place]
                    key = relieved * classes + class_of[item]
                    waste = wasted + weight - needed
                    known = longer.get(key)
                    if known is None or known[0] > waste:
                        longer[key] = (waste, weight, item, relieved, trades, chain)
        return list(longer.values())


def _pieces(weights: list[int], top: int, needed: int, base: int) -> int:
    """How many of the first `top` it takes for a relief, the heaviest first, each for one of weight `base`; 0: all do not."""
    at, relief = top, 0
    while at and relief < needed:
        at -= 1
        if weights[at] <= base:
            return 0
        relief += weights[at] - base
    return top - at if relief >= needed else 0


def _complete(best: _Found, tried: list[int]) -> bool:
    """Whether everybody tried is relieved."""
    return best[1] - (best[2][4] < 0) == len(tried)


def _partitions(chain: _Chain) -> list[int]:
    """All of a chain, the first one first."""
    links: list[int] = []
    while chain[2] >= 0:
        links.append(chain[2])
        chain = chain[5]
    return links[::-1]
