"""Chains by price: who is best relieved along the way through the room of a member, from every start at once.

A chain begins with a light partition of a member with room, or with nothing where counts may change places. Each member to
relieve takes what comes and passes on what is heavier by its excess at least; the last one goes to the member with room. So
weights rise along it, and one sweep in their order finds the chains of highest price from every start to every partition: all
that is to be known at a weight is the best chain so far for each start and topic class. (A chain that would relieve a member
twice ends there, though another one might go on: the best one is found mostly, not always.)
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.solver.lag.blocks import Bools
from counterpoise.solver.lag.desk import Desk, Index

_NEVER = -(2**60)
_LEAVES, _ENTERS = 0, 1

__all__ = ["Chain", "Start", "Sweep", "Task"]


@dataclass(frozen=True, slots=True)
class Chain:
    """Partitions, each of which goes to the owner of the next one, the last to the first of `rooms`.

    `relieved` are members (a bit each) that give one of them; `cost` are those that others give.
    """

    relieved: int
    rooms: tuple[int, ...]
    cost: int
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """What a chain may begin with: its weight and topic class, the most that may come back to the first of `rooms`, links so far.

    Without links the first member takes nothing; then `kind` says which count it must have: the number of topic classes, or more.
    """

    weight: int
    kind: int
    most: int
    rooms: tuple[int, ...]
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A member and by how much it is to be relieved, by one of some partitions; `kinds` is what it may take, as in `Start`."""

    member: int
    excess: int
    partitions: list[int]
    kinds: Index


@dataclass(frozen=True, slots=True, order=True)
class _Node:
    """A partition that a member to relieve may pass on, and the most that it then may take."""

    weight: int
    takes: int
    bit: int
    partition: int


@dataclass(slots=True)
class Sweep:
    """The chains of a desk for what is to be done (a bit each), from any of the starts, which are in order.

    `value[node, start]` is the price of the best chain that ends there, `mask` what it does, `before` the node before (-1: none).
    """

    desk: Desk
    tasks: dict[int, Task]
    starts: list[Start]
    nodes: list[_Node] = field(init=False)
    events: list[tuple[int, int, int]] = field(init=False)
    weights: list[int] = field(init=False)
    most: Int64 = field(init=False)
    span: int = field(init=False)
    rows: int = field(init=False)
    closes: Bools = field(init=False)
    value: Int64 = field(init=False)
    mask: Int64 = field(init=False)
    before: Int64 = field(init=False)
    best: Int64 = field(init=False)
    best_mask: Int64 = field(init=False)
    best_node: Int64 = field(init=False)

    def __post_init__(self) -> None:
        desk, starts = self.desk, self.starts
        self.weights = [start.weight for start in starts]
        self.most = np.array([start.most for start in starts], np.int64)
        self.span = max((start.most - start.weight for start in starts), default=0)
        self.rows = 1 + max([len(desk.may) - 1, *(start.kind for start in starts)])
        self.rows = max([self.rows, *(1 + int(task.kinds.max(initial=0)) for task in self.tasks.values())])
        highest, weight = int(self.most.max(initial=0)), desk.weight
        self.nodes = []
        for bit, task in self.tasks.items():
            heavy = ((int(weight[one]), one) for one in task.partitions)
            self.nodes += [_Node(lag, lag - task.excess, bit, one) for lag, one in heavy if task.excess <= lag <= highest]
        events = [(node.takes, _ENTERS, at) for at, node in enumerate(self.nodes)]
        events += [(node.weight, _LEAVES, at) for at, node in enumerate(self.nodes)]
        self.events = sorted(events + [(lag, _LEAVES, -1 - at) for at, lag in enumerate(self.weights)])
        ends = np.array([node.partition for node in self.nodes], np.intp)
        closer = np.array([start.rooms[0] for start in starts], np.intp)
        self.closes = desk.may[desk.class_of[ends]][:, closer] & (weight[ends][:, None] <= self.most)

    def run(self, price: dict[int, int]) -> None:
        """Find the best chains at a price for each member to relieve."""
        size, begun = (len(self.nodes), len(self.starts)), 0
        self.value, self.mask, self.before = np.full(size, _NEVER), np.zeros(size, np.int64), np.full(size, -1)
        size = (self.rows, len(self.starts))
        self.best, self.best_mask, self.best_node = np.full(size, _NEVER), np.zeros(size, np.int64), np.full(size, -1)
        entered: dict[int, tuple[int, int]] = {}
        for _, kind, at in self.events:
            if at < 0:
                begun = max(begun, -at)
                self.best[self.starts[-1 - at].kind, -1 - at] = 0
            elif kind == _ENTERS:
                low = bisect_left(self.weights, self.nodes[at].weight - self.span, 0, begun)
                if low < begun:
                    entered[at] = low, begun
                    self._enter(at, low, begun, price[self.nodes[at].bit])
            elif at in entered:
                self._leave(at, *entered[at])

    def _enter(self, at: int, low: int, high: int, price: int) -> None:
        """Its member takes what the best chain so far passes on, for each start between two."""
        node = self.nodes[at]
        kinds = self.tasks[node.bit].kinds
        masks = self.best_mask[kinds, low:high]
        values = np.where(masks >> node.bit & 1, _NEVER, self.best[kinds, low:high])
        which, some = values.argmax(axis=0), np.arange(high - low)
        found = values[which, some]
        able = (found > _NEVER // 2) & (self.most[low:high] >= node.weight)
        self.value[at, low:high] = np.where(able, found + price, _NEVER)
        self.mask[at, low:high] = masks[which, some] | 1 << node.bit
        self.before[at, low:high] = self.best_node[kinds[which], some + low]

    def _leave(self, at: int, low: int, high: int) -> None:
        """From this weight on others may take it, where no better chain is known."""
        kind = self.desk.kind_of(self.nodes[at].partition)
        better = low + np.flatnonzero(self.value[at, low:high] > self.best[kind, low:high])
        self.best[kind, better], self.best_mask[kind, better] = self.value[at, better], self.mask[at, better]
        self.best_node[kind, better] = at

    def chains(self, unit: int, rooms: dict[int, int], each: int, by_start: int) -> list[Chain]:
        """Those worth more than they cost at `unit` for each partition and a price for rooms: so many for each room and start."""
        if not self.nodes:
            return []
        value, every = np.where(self.closes, self.value, _NEVER), np.arange(len(self.starts))
        cost = np.array([unit * len(start.links) - sum(rooms.get(room, 0) for room in start.rooms) for start in self.starts])
        found: dict[tuple[int, tuple[int, ...]], tuple[int, int, int]] = {}
        for _ in range(by_start):
            node = value.argmax(axis=0)
            gain = value[node, every] - cost
            for at in np.flatnonzero((gain > 0) & (value[node, every] > _NEVER // 2)).tolist():
                key = int(self.mask[node[at], at]), self.starts[at].rooms
                if key not in found or -found[key][0] < gain[at]:
                    found[key] = -int(gain[at]), at, int(node[at])
            value[node, every] = _NEVER
        by_room: dict[int, list[tuple[int, int, int]]] = {}
        for one in found.values():
            by_room.setdefault(self.starts[one[1]].rooms[0], []).append(one)
        return [self._chain(at, node) for room in sorted(by_room) for _, at, node in sorted(by_room[room])[:each]]

    def _chain(self, at: int, node: int) -> Chain:
        start, mask, links = self.starts[at], int(self.mask[node, at]), []
        while node >= 0:
            links.append(self.nodes[node].partition)
            node = int(self.before[node, at])
        return Chain(mask, start.rooms, len(start.links), (*start.links, *reversed(links)))
