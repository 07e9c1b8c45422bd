"""Nested sets where not all that loads allow can stay: a sweep along the row that drops as few claims as possible.

Within one price, a claim is an interval: from its owner's place to the last place that may have the unit. What is free finds
room exactly if, for every k, the claims kept across the end of the first k places, and the members *short* among these (who take
the price less one), are together no more than the price k times less the units that only these places may take. The number of
shorts is fixed; they stand as late as they can, but only at places that keep less than the price.

So where the first k places hold too much, one claim has to go, and the one that reaches farthest relieves most: either one kept
across the end of them, or one of a later member that keeps the whole price and will be short instead of somebody here. Both
relieve all places up to where the claim reaches, so no choice leaves more for what comes (an exchange argument).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from counterpoise.errors import InvariantError

__all__ = ["Block", "sweep"]


@dataclass(frozen=True, slots=True)
class Block:
    """Members of one price, in a row from place 0 on.

    Attributes
    ----------
    price, shorts : int
        Loads are the price, or one less for so many of them.
    must : list of int
        Units that the first 1, 2, .. places take at least.
    reach, kept : list of list of int
        Of each place: how far its claims reach, rising, and how many of them stay so far; at most the price in all.
    """

    price: int
    shorts: int
    must: list[int]
    reach: list[list[int]]
    kept: list[list[int]]


def sweep(block: Block) -> list[bool]:
    """Drop what has to go from `kept`, in place; who is short. O(claims log claims)."""
    return _Sweep(block).run()


class _Sweep:
    """The sweep at one place.

    Attributes
    ----------
    held, top : list of int
        Of each place: how many claims stay so far, and the last of its cells that has any.
    short : list of bool
        Who is short as things stand.
    here : heap of int
        Those who are short among the first places; -1 for each short that has no place yet.
    active, full : heap of (int, int, int)
        Cells that reach on, farthest first: minus reach, minus place, cell; the farthest of those who keep the whole price. Some
        may have changed.
    later : heap of (int, int)
        Places that keep the whole price: minus their farthest reach, place. Some may have been passed or changed.
    across : int
        Claims kept across the end of the first places; `ending` tells how many of them end where.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        n = len(block.must)
        self.held = [sum(counts) for counts in block.kept]
        self.top = [max((at for at, kept in enumerate(counts) if kept), default=-1) for counts in block.kept]
        modest = [place for place, held in enumerate(self.held) if held < block.price]
        late = modest[-block.shorts :] if block.shorts else []
        self.short = [False] * n
        for place in late:
            self.short[place] = True
        self.here = [-1] * (block.shorts - len(late))
        self.active: list[tuple[int, int, int]] = []
        self.full: list[tuple[int, int, int]] = []
        full = [place for place, held in enumerate(self.held) if held == block.price]
        self.later = sorted((-block.reach[place][self.top[place]], place) for place in full)
        self.across, self.ending = 0, [0] * (n + 1)

    def run(self) -> list[bool]:
        """One place after another."""
        price = self.block.price
        for place, must in enumerate(self.block.must):
            self._enter(place)
            while self.across + len(self.here) > price * (place + 1) - must:
                self._relieve(place)
        full = [place for place, held in enumerate(self.held) if held == price]
        for place in full[len(full) - self.here.count(-1) :]:
            self.short[place] = True
            self._drop(place, self.top[place])
        return self.short

    def _enter(self, place: int) -> None:
        if self.short[place]:
            heappush(self.here, place)
        self.across -= self.ending[place + 1]
        for at, (reach, kept) in enumerate(zip(self.block.reach[place], self.block.kept[place], strict=True)):
            if kept and reach > place + 1:
                heappush(self.active, (-reach, -place, at))
                self.across += kept
                self.ending[reach] += kept
        if self.held[place] == self.block.price and self.block.reach[place][self.top[place]] > place + 1:
            heappush(self.full, (-self.block.reach[place][self.top[place]], -place, self.top[place]))

    def _relieve(self, place: int) -> None:
        """Drop the claim that reaches farthest; of equal ones, that of the latest place so far.

        While somebody who is to be short has no place yet, claims of those who keep the whole price come first: one of theirs
        has to go anyway.
        """
        later, far = self.later, self._farthest(self.active)
        while later and later[0][1] <= place:
            heappop(later)
        if self.here and self.here[0] < 0 and (self._farthest(self.full) or later):
            far = self._farthest(self.full)
        if self.here and later and not (far and far[0] <= later[0][0]):
            who = heappop(later)[1]
            self._move_short(who)
            self._drop(who, self.top[who])
        elif far:
            who, at = -far[1], far[2]
            if self.held[who] == self.block.price and self.here and self.here[0] < who:
                self._move_short(who)
                heappush(self.here, who)
            self._drop(who, at)
            self.across -= 1
            self.ending[-far[0]] -= 1
        else:
            raise InvariantError(f"the first {place + 1} places of nested sets hold too much, and nothing to give up")

    def _farthest(self, cells: list[tuple[int, int, int]]) -> tuple[int, int, int] | None:
        """The cell that reaches farthest and has claims; of `full`, only places that still keep the whole price."""
        while cells:
            _, minus_place, at = cells[0]
            whole = cells is not self.full or self.held[-minus_place] == self.block.price
            if whole and self.block.kept[-minus_place][at]:
                return cells[0]
            heappop(cells)
        return None

    def _move_short(self, who: int) -> None:
        """The first of those who are short is it no more; `who` is."""
        before = heappop(self.here)
        if before >= 0:
            self.short[before] = False
        self.short[who] = True

    def _drop(self, place: int, at: int) -> None:
        self.block.kept[place][at] -= 1
        self.held[place] -= 1
