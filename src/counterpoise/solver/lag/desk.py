"""The working state of one lag-aware plan: who owns what, loads, counts, and what is still allowed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64
from counterpoise.solver.decode import ascending
from counterpoise.solver.lag.blocks import Bools

Index = npt.NDArray[np.intp]
_CHANGING = ("owner", "load", "count", "least", "most")

_EXACT = 2**53
"""Below it sums of integers are exact in doubles, in which `bincount` adds up: twice as fast as `np.add.at`."""

__all__ = ["Desk", "Index", "exact_sums"]


@dataclass(slots=True)
class Desk:
    """Mutable; lives only inside one call of the kernel.

    Attributes
    ----------
    weight : int64[P]
        Lag.
    by_weight : intp[P]
        All partitions, heaviest first, ties by partition: sorted once, for everybody who needs them in order.
    falling : int64[P]
        Their lag in this order.
    class_of : int32[P]
        Topic class of each partition, -1 where nobody subscribes.
    camp : int64[M]
        Member class of each member; the last one holds those that may take nothing.
    may_camp : bool[topic classes, member classes]
        Who may take what.
    may : bool[topic classes, M]
        The same per member.
    capacity : int64[M]
    previous : int32[P]
        Who may keep it: UNOWNED unless it still subscribes.
    owner : int32[P]
        UNOWNED while a partition waits to be placed.
    load, count : int64[M]
        Summed lag and number of partitions of each member, by `owner`.
    least, most : int64[M]
        How many partitions each may end up with.
    limit : int64[M]
        Lag from which on moves are worth making.
    trade_counts : bool
        A member may give a partition to another where that leaves counts as balanced as they are: see `may_trade`.
    moves_left : int
        Moves that may still be made for the sake of lag.
    held : dict of member to intp[..]
        What `items_of` has found so far.
    lists : dict of member to (partitions, their weights)
        What `listed` has found so far; kept up to date step by step, where `held` is made anew.
    """

    weight: Int64
    by_weight: Index
    falling: Int64
    class_of: Int32
    camp: Int64
    may_camp: Bools
    may: Bools
    capacity: Int64
    previous: Int32
    owner: Int32
    load: Int64
    count: Int64
    least: Int64
    most: Int64
    limit: Int64
    trade_counts: bool
    moves_left: int
    held: dict[int, Index] = field(default_factory=dict)
    lists: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def items_of(self, member: int) -> Index:
        """The member's partitions, lightest first; O(P) the first time, then kept up to date."""
        known = self.held.get(member)
        if known is None:
            if member in self.lists:
                known = np.array(self.lists[member][0], np.intp)
            else:
                mine = np.flatnonzero(self.owner == member)
                known = mine[np.argsort(-self.weight[mine], kind="stable")][::-1]
            self.held[member] = known
        return known

    @property
    def n_classes(self) -> int:
        """Topic classes."""
        return len(self.may)

    def kinds(self) -> list[int]:
        """Topic class of each partition."""
        found: list[int] = self.class_of.tolist()
        return found

    def kind_of(self, partition: int) -> int:
        """One of them."""
        return int(self.class_of[partition])

    def room(self, member: int) -> int:
        """How much lag a member can take until it is at its limit; negative: it is over."""
        return int(self.limit[member] - self.load[member])

    def listed(self, member: int) -> tuple[list[int], list[int]]:
        """`items_of` and their weights, in lists."""
        known = self.lists.get(member)
        if known is None:
            mine = self.items_of(member)
            known = self.lists[member] = mine.tolist(), self.weight[mine].tolist()
        return known

    def takers(self, kind: int) -> bytes:
        """For each member, whether it may take partitions of a class."""
        row: bytes = self.may[kind].tobytes()
        return row

    def may_trade(self, giver: int, taker: int) -> bool:
        """With one partition moved counts are as balanced as before: at equal capacities the giver has one more than the taker.

        The sum of count**2 / capacity stays: what the giver's last partition cost, the taker's next one costs.
        """
        last, following = 2 * int(self.count[giver]) - 1, 2 * int(self.count[taker]) + 1
        return last * int(self.capacity[taker]) == following * int(self.capacity[giver])

    def trade_bounds(self, giver: int, taker: int) -> None:
        """One partition fewer for one and one more for the other from now on."""
        for bounds in (self.least, self.most):
            bounds[giver] -= 1
            bounds[taker] += 1

    def hold_all(self) -> None:
        """What `items_of` would find for every member, by one sort; for when many will be asked."""
        self.held = dict(self.holdings(np.arange(len(self.load))))
        self.lists.clear()

    def holdings(self, members: Index) -> list[tuple[int, Index]]:
        """Each of `members` with its partitions, lightest first."""
        asked = np.zeros(len(self.load) + 1, np.bool_)
        asked[members] = True
        asked[UNOWNED] = False
        held = self.by_weight[::-1]
        owner = self.owner[held]
        some = asked[owner]
        if not some.all():
            held, owner = held[some], owner[some]
        order = held[ascending(owner.astype(np.int64))]
        start = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(self.load))))).tolist()
        return [(member, order[start[member] : start[member + 1]]) for member in members.tolist()]

    def price(self, partitions: Index, member: int) -> Int64:
        """What giving each partition to `member` adds to the moves: -1 (back home), 0, or 1 (leaves home)."""
        home, now = self.previous[partitions], self.owner[partitions]
        owned = home != UNOWNED
        price: Int64 = (owned & (member != home)).astype(np.int64) - (owned & (now != home))
        return price

    def give(self, partition: int, member: int) -> None:
        """Hand one owned partition to `member`; keeps load, count and moves."""
        home, giver, weight = int(self.previous[partition]), int(self.owner[partition]), int(self.weight[partition])
        if home != UNOWNED:
            self.moves_left -= (member != home) - (giver != home)
        self.owner[partition] = member
        self.load[giver] -= weight
        self.load[member] += weight
        self.count[giver] -= 1
        self.count[member] += 1
        if giver in self.lists or giver in self.held:
            items, weights = self.listed(giver)
            at = items.index(partition)
            del items[at], weights[at]
            self.held.pop(giver, None)
        if member in self.lists or member in self.held:
            items, weights = self.listed(member)
            at = bisect_left(weights, weight)
            items.insert(at, partition)
            weights.insert(at, weight)
            self.held.pop(member, None)

    def place(self, partitions: Index, members: npt.NDArray[np.integer]) -> None:
        """Hand waiting partitions to members, all at once; those that come home are no moves after all."""
        self.moves_left += int(np.count_nonzero(self.previous[partitions] == members))
        self._forget()
        self.owner[partitions] = members
        self.load += exact_sums(members, self.weights_of(partitions), len(self.load))
        self.count += np.bincount(members, minlength=len(self.count))

    def release(self, partitions: Index) -> None:
        """Take partitions back from their owners; they wait to be placed. Those at home count as moves."""
        members = self.owner[partitions]
        self._forget()
        self.moves_left -= int(np.count_nonzero(self.previous[partitions] == members))
        np.subtract.at(self.load, members, self.weight[partitions])
        np.subtract.at(self.count, members, 1)
        self.owner[partitions] = UNOWNED

    def excess(self) -> float:
        """By how much the worst member is over its limit, per capacity; 0 where none is."""
        return float((np.maximum(self.load - self.limit, 0) / self.capacity).max(initial=0))

    def saved(self) -> Desk:
        """A copy to come back to."""
        arrays = {name: getattr(self, name).copy() for name in _CHANGING}
        return replace(self, held={}, lists={}, **arrays)

    def _forget(self) -> None:
        self.held.clear()
        self.lists.clear()

    def restore(self, saved: Desk) -> None:
        """Back to what `saved` was made of."""
        for name in (*_CHANGING, "moves_left"):
            setattr(self, name, getattr(saved, name))
        self._forget()

    def waiting(self) -> Index:
        """Partitions without an owner that somebody may have, heaviest first, ties by partition."""
        free = (self.owner == UNOWNED) & (self.class_of >= 0)
        waiting: Index = self.by_weight if free.all() else self.by_weight[free[self.by_weight]]
        return waiting

    def moved(self) -> Index:
        """The partitions that change hands though they could stay, in order."""
        return np.flatnonzero((self.previous != UNOWNED) & (self.owner != self.previous))

    def weights_of(self, partitions: Index) -> Int64:
        """Their lag; of all partitions, heaviest first, it is known already."""
        return self.falling if partitions is self.by_weight else self.weight[partitions]


def exact_sums(index: npt.NDArray[np.integer], weight: Int64, n: int) -> Int64:
    """Sum of the weights (0 or more) at each index, int64[n], whatever they are."""
    if int(weight.max(initial=0)) * len(weight) < _EXACT:
        return np.bincount(index, weight, n).astype(np.int64)
    total = np.zeros(n, np.int64)
    np.add.at(total, index, weight)
    return total
