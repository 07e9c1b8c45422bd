"""Circles: the chain of partitions through members over their lag limit that wastes least of one member's room.

A light partition of the member with room goes to the first of them, who passes a heavier one on to the second, and so on; the
last one's goes to the member with room. Each member over its limit so fills a stretch of that room, from the weight it takes
to the weight it gives, as long as its excess; what a partition weighs beyond that is waste. A beam search keeps the
chains with least waste. Lists and bisection: the arrays are of a hundred entries, and a call into NumPy costs more than they.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from counterpoise.solver.lag_desk import Desk

_LIGHTS = 3
"""So many topic classes are tried for the light partition: what others may take of it differs by class."""
_FOLLOWERS = 2
"""So many partitions of a member are tried as the next link where subscriptions differ."""
_EFFORT = 200
"""Chains kept, times members waiting: many of them are easily packed, the last few deserve a thorough search."""
_CHAINS_AT_MOST = 16
_NEXT = 24
"""So many of the members most over their limit are tried as the next link."""

__all__ = ["Circles"]


@dataclass(slots=True)
class _Chain:
    """Partitions that move so far, the weight of the last one, what was wasted, who is relieved (a bit each), who trades."""

    waste: int
    level: int
    links: tuple[int, ...]
    relieved: int
    trades: int


@dataclass(slots=True)
class Circles:
    """Finds circles on a desk; `forget` the members whose partitions have changed."""

    desk: Desk
    held: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

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
        room = int(desk.limit[roomy] - desk.load[roomy])
        tried = waiting[:_NEXT]
        excess = [int(desk.load[member] - desk.limit[member]) for member in tried]
        width = max(1, min(_CHAINS_AT_MOST, _EFFORT // len(waiting)))
        found: tuple[list[int], int] = ([], -1)
        for start in self._starts(roomy, tried, trading=trading):
            chains, base = [start], start.level
            hard = self._hard(tried, excess, base, base + room)
            while chains:
                longer = self._longer(chains, tried, excess, hard, base + room, roomy)
                chains = sorted(longer.values(), key=_by_waste)[:width]
                for chain in longer.values():
                    last = chain.links[-1]
                    value = (chain.level - base - chain.waste, -len(chain.links))
                    if value > best and desk.may[desk.class_of[last], roomy]:
                        best, found = value, (list(chain.links), chain.trades)
            if len(found[0]) - (found[1] < 0) == len(waiting):
                break
        return found

    def _starts(self, roomy: int, tried: list[int], *, trading: bool) -> list[_Chain]:
        """Nothing, where counts may change places with a member to relieve; else the lightest of a few topic classes."""
        desk = self.desk
        if trading:
            return [_Chain(0, 0, (), 0, -1)] if any(_may_trade(desk, member, roomy) for member in tried) else []
        starts, classes = [], set()
        for partition, weight in zip(*self.holding(roomy), strict=True):
            kind = int(desk.class_of[partition])
            if kind not in classes:
                classes.add(kind)
                starts.append(_Chain(0, weight, (partition,), 0, -1))
            if len(classes) == min(_LIGHTS, len(desk.may)):
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

    def _hard(self, tried: list[int], excess: list[int], base: int, most: int) -> list[tuple[int, int] | None]:
        """Members that no single partition within the room can relieve: (position of the heaviest in it, least relief).

        They give as many of these as it takes, one per circle; each must bring its share of the relief.
        """
        result: list[tuple[int, int] | None] = []
        for member, needed in zip(tried, excess, strict=True):
            weights = self.holding(member)[1]
            top = bisect_right(weights, most)
            easy = top and weights[top - 1] >= base + needed
            pieces = 0 if easy else self.pieces(member, needed, base, most)
            result.append((top - 1, -(-needed // pieces)) if pieces else None)
        return result

    def _longer(
        self,
        chains: list[_Chain],
        tried: list[int],
        excess: list[int],
        hard: list[tuple[int, int] | None],
        most: int,
        roomy: int,
    ) -> dict[tuple[int, int], _Chain]:
        """Every chain with one more link; of those that relieve the same members and end in the same class the lightest."""
        desk, class_of = self.desk, self.desk.class_of
        one_class = len(desk.may) == 1
        followers = 1 if one_class else _FOLLOWERS
        longer: dict[tuple[int, int], _Chain] = {}
        for chain in chains:
            if len(chain.links) >= desk.moves_left:
                continue
            takers = desk.may[class_of[chain.links[-1]]] if chain.links else None
            for at, member in enumerate(tried):
                if chain.relieved >> at & 1:
                    continue
                if not (_may_trade(desk, member, roomy) if takers is None else takers[member]):
                    continue
                items, weights = self.holding(member)
                steep = hard[at]
                if steep is None:
                    needed = chain.level + excess[at]
                    if needed > most:
                        continue
                    first = bisect_left(weights, needed)
                else:
                    first, needed = steep[0], weights[steep[0]]
                    if needed - chain.level < steep[1]:
                        continue
                relieved = chain.relieved | 1 << at
                for place in range(first, min(first + followers, len(weights))):
                    weight = weights[place]
                    if weight > most:
                        break
                    key = (relieved, 0 if one_class else int(class_of[items[place]]))
                    waste = chain.waste + weight - needed
                    if key not in longer or longer[key].waste > waste:
                        trades = member if takers is None else chain.trades
                        longer[key] = _Chain(waste, weight, (*chain.links, items[place]), relieved, trades)
        return longer

    def holding(self, member: int) -> tuple[list[int], list[int]]:
        """The member's partitions and their weights, lightest first; kept until forgotten."""
        if member not in self.held:
            mine = self.desk.items_of(member)
            self.held[member] = (mine.tolist(), self.desk.weight[mine].tolist())
        return self.held[member]


def _by_waste(chain: _Chain) -> int:
    return chain.waste


def _may_trade(desk: Desk, giver: int, taker: int) -> bool:
    """The giver has one partition more, at the same capacity: with one moved, their counts have changed places."""
    return bool(desk.count[giver] == desk.count[taker] + 1 and desk.capacity[giver] == desk.capacity[taker])
