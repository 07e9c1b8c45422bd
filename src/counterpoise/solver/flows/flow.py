"""Layered networks with flow: pushed as far as it goes, at the least cost, or up to a minimum cut.

Nodes are numbered layer by layer and every arc leads to a later layer. Both directions of every arc are stored once, sorted by
tail and head, so one pattern serves every push, and the order of nodes settles the flow on every arc (`augment`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int64
from counterpoise.solver.classes import sum_by
from counterpoise.solver.flows.augment import UNREACHED, Residual

Bools: TypeAlias = npt.NDArray[np.bool_]
Ends: TypeAlias = str | tuple[str, npt.NDArray[np.integer[Any]]]
"""Nodes at one side of some arcs: "source", "sink", or a layer and indices in it."""

__all__ = ["Arcs", "Bools", "Network", "first_units"]


class Arcs:
    """Collects the arcs of a layered network, part by part.

    `layers` are the sizes of the layers between source and sink, in order. Every arc must lead to a later layer, and no two arcs
    may join the same nodes.
    """

    def __init__(self, **layers: int) -> None:
        self._layers: dict[str, slice] = {"source": slice(0, 1)}
        at = 1
        for name, size in layers.items():
            self._layers[name] = slice(at, at + size)
            at += size
        self._layers["sink"] = slice(at, at + 1)
        self._parts: dict[str, slice] = {}
        self._columns: tuple[list[Int64], ...] = ([], [], [], [])
        self._count = 0

    def add(self, part: str, tail: Ends, head: Ends, capacity: Int64, cost: Int64 | int = 0) -> None:
        """Add len(capacity) arcs under a name by which their flow is read."""
        values = (self._nodes(tail), self._nodes(head), capacity, np.asarray(cost, np.int64))
        for column, value in zip(self._columns, values, strict=True):
            column.append(value if value.ndim else np.full(len(capacity), value))
        self._parts[part] = slice(self._count, self._count + len(capacity))
        self._count += len(capacity)

    def build(self) -> Network:
        """The network of all arcs added so far, without flow."""
        return Network(self._parts, self._layers, [np.concatenate(column) for column in self._columns])

    def _nodes(self, ends: Ends) -> Int64:
        if isinstance(ends, str):
            return np.asarray(self._layers[ends].start, np.int64)
        return np.asarray(ends[1] + self._layers[ends[0]].start, np.int64)


class Network:
    """A layered network, with flow kept between pushes.

    `flow` and `capacity` (int64[A]) are in the order in which arcs were added.
    """

    def __init__(self, parts: dict[str, slice], layers: dict[str, slice], columns: list[Int64]) -> None:
        tail, head, capacity, cost = columns
        self._parts, self._layers = parts, layers
        self._tail, self._head, self._cost = tail, head, cost
        self.capacity, self.flow = capacity, np.zeros(len(tail), np.int64)
        self._n, n_arcs = layers["sink"].stop, len(tail)
        tails, heads = np.concatenate([tail, head]), np.concatenate([head, tail])
        order = np.argsort(tails * self._n + heads, kind="stable")  # sorted runs, which a merge sort takes in nearly linear time
        entry = np.empty(2 * n_arcs, np.int64)
        entry[order] = np.arange(2 * n_arcs)
        self._forth, self._back = entry[:n_arcs], entry[n_arcs:]
        self._start = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=self._n))])
        self._heads, self._mate = heads[order], self._paired(self._back, self._forth)
        self._pattern = self._start.tolist(), self._heads.tolist(), self._mate.tolist()

    def of(self, part: str) -> Int64:
        """Flow on the arcs of one part; a view."""
        return self.flow[self._parts[part]]

    def widen(self, part: str, capacity: Int64) -> None:
        """Raise the capacities of one part."""
        self.capacity[self._parts[part]] = capacity

    def start_with(self, part: str, flow: Int64) -> None:
        """Put a flow on one part; its tails are fed by the source, its heads must have one arc in each later part.

        Each later part, in the order in which they were added, carries what has arrived, up to its capacity.
        """
        arcs, first = self._parts[part], self._tail == 0
        self.flow[arcs] = flow
        self.flow[first] = sum_by(self._tail[arcs], flow, self._n)[self._head[first]]
        arrived = sum_by(self._head[arcs], flow, self._n)
        for later in self._parts.values():
            if later.start >= arcs.stop:
                tail = self._tail[later]
                self.flow[later] = carried = np.minimum(arrived[tail], self.capacity[later])
                arrived += sum_by(self._head[later], carried, self._n) - sum_by(tail, carried, self._n)

    def push(
        self,
        usable: Bools | None = None,  # bool[A]: arcs on which the flow may change; default: all
    ) -> int:
        """Push as much as possible from source to sink on top of the present flow.

        Returns how much more flows now.
        """
        stays = ... if usable is None else self._paired(usable, usable) > 0
        residual = self._residual(stays)
        residual.augment()
        capacity = self._residual_capacity()
        capacity[stays] = residual.capacity
        before = self.flow[self._tail == 0].sum()
        self.flow[:] = capacity[self._back]
        return int(self.flow[self._tail == 0].sum() - before)

    def reached(self, *layers: str) -> list[Bools]:
        """Which nodes of each layer the source can still reach: the source side of a minimum cut after a full push."""
        side = np.array(self._residual().reached())
        return [side[self._layers[layer]] for layer in layers]

    def push_cheaply(self, wanted: int) -> None:
        """Push until `wanted` units flow, at the least cost; the present flow must be optimal for what it carries.

        Primal-dual (Ford & Fulkerson): potentials start at 0, which suits costs that are not negative, and rise to the shortest
        distances; then a maximum flow goes through the arcs whose reduced cost is 0. Reduced costs never turn negative where
        capacity is left, so the result is a minimum, and the potentials prove it.
        """
        potential = np.zeros(self._n, np.int64)
        cost = self._paired(self._cost, -self._cost).tolist()
        left = wanted - int(self.flow[self._tail == 0].sum())
        while left > 0:
            distance = np.array(self._residual().distances(cost, potential.tolist()), np.int64)
            end = int(distance[-1])
            if end == UNREACHED:
                raise InvariantError(f"{left} units do not fit a block that was proven feasible")
            potential += np.where(distance == UNREACHED, end, np.minimum(distance, end))
            left -= self.push(self._cost + potential[self._tail] == potential[self._head])

    def _residual(self, stays: Any = ...) -> Residual:
        """The residual network of all entries, or of those that stay."""
        capacity = self._residual_capacity()[stays].tolist()
        if stays is ...:
            return Residual(*self._pattern, capacity)
        place = np.cumsum(stays) - 1
        start, mate = np.append(0, place + 1)[self._start], place[self._mate[stays]]
        return Residual(start.tolist(), self._heads[stays].tolist(), mate.tolist(), capacity)

    def _residual_capacity(self) -> Int64:
        return self._paired(self.capacity - self.flow, self.flow)

    def _paired(self, forth: Int64 | Bools, back: Int64 | Bools) -> Int64:
        """Values of arcs and of opposite arcs, in the order of the entries."""
        values = np.empty(2 * len(forth), np.int64)
        values[self._forth], values[self._back] = forth, back
        return values


def first_units(taker: Int64, count: Int64, quota: Int64) -> Int64:
    """How many of count[i] units each taker[i] takes if it takes its first ones, up to its quota."""
    taken, order = np.zeros(len(count), np.int64), np.flatnonzero(count)
    order = order[np.argsort(taker[order], kind="stable")]
    count, taker = count[order], taker[order]
    before = np.cumsum(count) - count
    if len(before):
        before -= before[np.searchsorted(taker, taker)]
    taken[order] = np.clip(quota[taker] - before, 0, count)
    return taken
