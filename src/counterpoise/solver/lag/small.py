"""Small groups that all subscribe alike: the desk of a lag-aware plan in plain Python, quicker than NumPy with so few.

The rules are those of `desk`, `counts`, `place` and `cells` for one topic class at capacity 1, and a test holds them together.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import accumulate, pairwise

from counterpoise.model.problem import UNOWNED

__all__ = ["SmallDesk", "deal_as_before", "deal_waiting", "keep_quotas"]

_BATCH, _HEAP_STEPS = 24, 1024
"""As in `longest_first`: where so many bins or more are lowest one after another, ties go by their order at that time."""
_PARTS = (600, 900, 990, 999)
"""As in `cells`."""


@dataclass(slots=True)
class SmallDesk:
    """As `desk.Desk`, in lists, without a cap on moves; everybody has the same limit.

    Attributes
    ----------
    weight : list of int
        Lag of each partition; in all below 2**52.
    falling : list of int
        All partitions, heaviest first, ties by partition.
    goal, limit : int
        The lag each member would bear if it were divisible, and from which on moves are worth making.
    owner, load, count, least, most : list of int
        As on a `Desk`.
    held : dict of member to (partitions, their weights)
        What `listed` has found so far.
    """

    weight: list[int]
    falling: list[int]
    goal: int
    limit: int
    owner: list[int]
    load: list[int]
    count: list[int]
    least: list[int] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    held: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    n_classes: int = 1
    moves_left: int = 2**62

    def room(self, member: int) -> int:
        """How much lag it can take until it is at its limit."""
        return self.limit - self.load[member]

    def listed(self, member: int) -> tuple[list[int], list[int]]:
        """The member's partitions and their weights, lightest first."""
        known = self.held.get(member)
        if known is None:
            owner, weight = self.owner, self.weight
            items = [at for at in self.falling if owner[at] == member]
            items.reverse()
            known = self.held[member] = items, [weight[at] for at in items]
        return known

    def hold_all(self) -> None:
        """What `listed` would find for every member."""
        held: list[tuple[list[int], list[int]]] = [([], []) for _ in self.load]
        for at in reversed(self.falling):
            items, weights = held[self.owner[at]]
            items.append(at)
            weights.append(self.weight[at])
        self.held = dict(enumerate(held))

    def kinds(self) -> list[int]:
        """Topic class of each partition."""
        return [0] * len(self.weight)

    def kind_of(self, _partition: int) -> int:
        """One of them."""
        return 0

    def takers(self, _kind: int) -> bytes:
        """For each member, whether it may take partitions of a class."""
        return b"\1" * len(self.load)

    def may_trade(self, giver: int, taker: int) -> bool:
        """Whether their counts only change places when the giver hands over one partition."""
        return self.count[giver] == self.count[taker] + 1

    def give(self, partition: int, member: int) -> None:
        """Hand one owned partition to `member`."""
        giver, weight = self.owner[partition], self.weight[partition]
        self.owner[partition] = member
        self.load[giver] -= weight
        self.load[member] += weight
        self.count[giver] -= 1
        self.count[member] += 1
        if giver in self.held:
            items, weights = self.held[giver]
            at = items.index(partition)
            del items[at], weights[at]
        if member in self.held:
            items, weights = self.held[member]
            at = bisect_left(weights, weight)
            items.insert(at, partition)
            weights.insert(at, weight)

    def swap_bounds(self, one: int, other: int) -> None:
        """Their counts change places."""
        for bounds in (self.least, self.most):
            bounds[one], bounds[other] = bounds[other], bounds[one]

    def excess(self) -> int:
        """By how much the worst member is over its limit; 0 where none is."""
        return max(max(self.load) - self.limit, 0)

    def saved(self) -> SmallDesk:
        """A copy to go on from."""
        owner, load, count, least, most = (list(one) for one in (self.owner, self.load, self.count, self.least, self.most))
        return SmallDesk(self.weight, self.falling, self.goal, self.limit, owner, load, count, least, most)

    def release(self, partitions: list[int]) -> None:
        """Take partitions back from their owners; they wait to be placed."""
        self.held.clear()
        for at in partitions:
            member = self.owner[at]
            self.load[member] -= self.weight[at]
            self.count[member] -= 1
            self.owner[at] = UNOWNED

    def place(self, partitions: list[int], members: list[int]) -> None:
        """Hand waiting partitions to members."""
        self.held.clear()
        for at, member in zip(partitions, members, strict=True):
            self.owner[at] = member
            self.load[member] += self.weight[at]
            self.count[member] += 1

    def waiting(self) -> list[int]:
        """Partitions without an owner, heaviest first, ties by partition."""
        owner = self.owner
        return [at for at in self.falling if owner[at] < 0]


def keep_quotas(desk: SmallDesk, quota: list[int]) -> None:
    """Set the counts, and release what they cannot keep: neighbours in weight that weigh as much as is too much."""
    desk.least, desk.most = list(quota), list(quota)
    gone: list[int] = []
    for member, (have, most) in enumerate(zip(desk.count, quota, strict=True)):
        number = have - most
        if number > 0:
            items, weights = desk.listed(member)
            share = desk.load[member] * number // len(items)
            gone += _window(weights, items, number, max(share, -desk.room(member)))
    if gone:
        desk.release(gone)


def _window(weights: list[int], items: list[int], number: int, wanted: int) -> list[int]:
    """`number` neighbours (rising weights) with the smallest sum of at least `wanted`, else the heaviest."""
    weigh = sum(weights[:number])
    at = 0
    while weigh < wanted and at < len(items) - number:
        weigh += weights[at + number] - weights[at]
        at += 1
    return items[at : at + number]


def deal_waiting(desk: SmallDesk) -> None:
    """Give every waiting partition an owner: what lags longest first, what does not in turns, until counts are full."""
    waiting = desk.waiting()
    if not waiting:
        return
    lagging = _lagging(desk, waiting)
    slots = [most - have for most, have in zip(desk.most, desk.count, strict=True)]
    level = [load - desk.goal for load in desk.load]
    takers = _longest_first([desk.weight[at] for at in waiting[:lagging]], level, slots)
    desk.place(waiting, takers + _turns(slots, len(waiting) - lagging))


def deal_as_before(desk: SmallDesk, target: list[int]) -> None:
    """Place what waits so that each member gets as many as `target` gives it of that, the heaviest one by one."""
    waiting = desk.waiting()
    lagging = _lagging(desk, waiting)
    slots, level = [0] * len(desk.load), [load - desk.goal for load in desk.load]
    for at in waiting:
        slots[target[at]] += 1
    weights, takers = [desk.weight[at] for at in waiting[:lagging]], []
    parts = _cut(weights, desk.goal)
    for weight in weights[: parts[0]]:
        one = min((member for member, left in enumerate(slots) if left), key=level.__getitem__)
        takers.append(one)
        slots[one] -= 1
        level[one] += weight
    for begin, end in pairwise(parts):
        some, bins = weights[begin:end], [member for member, left in enumerate(slots) if left]
        if len(some) > len(bins):
            takers += _longest_first(some, level, slots)
            continue
        bins.sort(key=level.__getitem__)
        for weight, one in zip(some, bins, strict=False):
            takers.append(one)
            slots[one] -= 1
            level[one] += weight
    desk.place(waiting, takers + _turns(slots, len(waiting) - lagging))


def _lagging(desk: SmallDesk, waiting: list[int]) -> int:
    """How many of `waiting` lag at all: the first ones."""
    number = len(waiting)
    while number and not desk.weight[waiting[number - 1]]:
        number -= 1
    return number


def _cut(weights: list[int], goal: int) -> list[int]:
    """Where `weights` (falling) are cut: see `parts.cut`."""
    if not weights:
        return [0]
    heavy = sum(weight > goal // 2 for weight in weights)
    total = list(accumulate(weights))
    cuts = [bisect_left(total, total[-1] * share // 1000) + 1 for share in _PARTS]
    return [heavy, *(cut for cut in cuts if heavy < cut < len(weights)), len(weights)]


def _turns(slots: list[int], number: int) -> list[int]:
    """Who takes `number` equal units: everybody with a slot in turns."""
    if not number:
        return []
    return [member for _, member in sorted((turn, member) for member, left in enumerate(slots) for turn in range(left))][:number]


def _longest_first(weights: list[int], level: list[int], slots: list[int]) -> list[int]:
    """Each of `weights` (falling) to the lowest member that has a slot; `level` and `slots` change.

    Ties as in `longest_first.deal_longest_first`: to the first one, but where each gets one only, in the order at the outset.
    """
    takers: list[int] = []
    while len(takers) < len(weights):
        left = weights[len(takers) :]
        bins = sorted((member for member, free in enumerate(slots) if free > 0), key=level.__getitem__)
        size = len(left) if len(bins) == 1 else _batch([level[one] for one in bins], left)
        if len(bins) == 1:
            some = bins * size
        elif size < min(_BATCH, len(left)):
            some = _by_heap(left[:_HEAP_STEPS], bins, level, slots)
        else:
            some = bins[:size]
        for one, weight in zip(some, left, strict=False):
            level[one] += weight
            slots[one] -= 1
        takers += some
    return takers


def _batch(level: list[int], weights: list[int]) -> int:
    """How many items go one each to the lowest before somebody's turn comes again; `level` rises."""
    size = min(len(level), len(weights))
    again = level[0] + weights[0]
    for at in range(1, size):
        if level[at] > again:
            return at
        again = min(again, level[at] + weights[at])
    return size


def _by_heap(weights: list[int], bins: list[int], level: list[int], slots: list[int]) -> list[int]:
    """One item at a time to the lowest, ties to the first."""
    heap = [(level[one], one) for one in bins]
    heapify(heap)
    left, takers = list(slots), []
    for weight in weights:
        low, one = heap[0]
        takers.append(one)
        left[one] -= 1
        heapreplace(heap, (low + weight if left[one] else 1 << 127, one))
    return takers
