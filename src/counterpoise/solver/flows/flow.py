"""Max flow on one fixed pattern of arcs, pushed again and again: the exact engine's only use of SciPy, imported when needed.

Where arcs decide a plan, `augment` finds the flow; SciPy is asked for amounts, cuts and distances, which
any release of it must answer alike. Its `maximum_flow` wants int32 capacities in a CSR matrix with sorted rows and without
parallel arcs, and returns the *net* flow on the union of arcs and reverse arcs. Two choices make that cheap here. Nodes are
numbered in layers, so every arc leads from a lower number to a higher one and an entry's side of the diagonal tells arc from
reverse arc. Both directions are stored from the start, so one pattern serves every push.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int64
from counterpoise.solver.flows.augment import Graph, augment

Bools: TypeAlias = npt.NDArray[np.bool_]
Ends: TypeAlias = str | tuple[str, npt.NDArray[np.integer[Any]]]
"""Nodes at one side of some arcs: "source", "sink", or a layer and indices in it."""

__all__ = ["Arcs", "Bools", "Network"]


class Arcs:
    """Collects the arcs of a layered network, part by part.

    Parameters
    ----------
    **layers : int
        Size of each layer between source and sink, in order. Every arc must lead to a later layer, and no two arcs may
        join the same nodes.
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
            column.append(np.broadcast_to(value, len(capacity)))
        self._parts[part] = slice(self._count, self._count + len(capacity))
        self._count += len(capacity)

    def build(self) -> Network:
        """The network of all arcs added so far, without flow."""
        tail, head, capacity, cost = (np.concatenate(column) for column in self._columns)
        return Network(tail, head, capacity, cost, self._parts, self._layers)

    def _nodes(self, ends: Ends) -> Int64:
        if isinstance(ends, str):
            return np.asarray(self._layers[ends].start, np.int64)
        return np.asarray(ends[1] + self._layers[ends[0]].start, np.int64)


class Network:
    """A layered network, with flow kept between pushes.

    Attributes
    ----------
    flow, capacity : int64[A]
        Of each arc, in the order in which arcs were added; callers may preload flow and raise capacities.
    """

    def __init__(
        self,
        tail: Int64,
        head: Int64,
        capacity: Int64,
        cost: Int64,
        parts: dict[str, slice],
        layers: dict[str, slice],
    ) -> None:
        from scipy.sparse import csr_matrix

        self._csr: Any = csr_matrix
        self._parts, self._layers = parts, layers
        self._tail, self._head, self._cost = tail, head, cost
        self.capacity, self.flow = capacity, np.zeros(len(tail), np.int64)
        self._n = layers["sink"].stop
        # Arcs come in sorted parts, so a merge sort of their runs is nearly linear.
        forth = np.argsort(tail * self._n + head, kind="stable")
        back = np.argsort(head * self._n + tail, kind="stable")
        out = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=self._n))])
        into = np.concatenate([[0], np.cumsum(np.bincount(head, minlength=self._n))])
        # A row of the union holds the reverse arcs (to lower nodes), then the arcs (to higher ones), both ascending.
        self._indptr = (out + into).astype(np.int32)
        place = np.arange(len(tail))
        self._spot = np.empty(len(tail), np.int64)
        self._spot_back = np.empty(len(tail), np.int64)
        self._spot[forth] = place + into[tail[forth] + 1]
        self._spot_back[back] = place + out[head[back]]
        self._indices = self._paired(head, tail, np.int32)
        self._mate = self._paired(self._spot_back, self._spot, np.int64)

    def of(self, part: str) -> Int64:
        """Flow on the arcs of one part; a view."""
        return self.flow[self._parts[part]]

    def widen(self, part: str, capacity: Int64) -> None:
        """Raise the capacities of one part."""
        self.capacity[self._parts[part]] = capacity

    def push(self, usable: Bools | None = None) -> int:
        """Push as much as possible from source to sink on top of the present flow, on arcs that the order of nodes settles.

        Parameters
        ----------
        usable : bool[A], optional
            Arcs on which the flow may change; default: all.

        Returns
        -------
        int
            How much more flows now.
        """
        room = self._paired(self.capacity - self.flow, self.flow, np.int64)
        if usable is None:
            after = augment(Graph(self._indptr, self._indices, self._mate), room)[self._spot]
            gained = self.capacity - self.flow - after
            self.flow += gained
        else:
            stays = self._paired(usable, usable, np.bool_)
            place = np.cumsum(stays) - 1
            start = np.append(0, place + 1)[self._indptr]
            arcs = np.flatnonzero(usable)
            after = augment(Graph(start, self._indices[stays], place[self._mate[stays]]), room[stays])[place[self._spot[arcs]]]
            gained = np.zeros(len(self.flow), np.int64)
            gained[arcs] = (self.capacity - self.flow)[arcs] - after
            self.flow += gained
        return int(gained[self._tail == 0].sum())

    def saturate(self) -> int:
        """The same by SciPy: quicker on large graphs, but only the amount, and the cut that `reached` finds, are determined.

        Another release of SciPy may send the flow over other arcs, so no plan may depend on the flow of an arc.
        """
        from scipy.sparse.csgraph import maximum_flow

        data = self._paired(self.capacity - self.flow, self.flow, np.int32)
        graph = self._csr((data, self._indices, self._indptr), shape=(self._n, self._n))
        graph.has_sorted_indices = True
        result = maximum_flow(graph, 0, self._n - 1, method="dinic")
        if len(result.flow.data) != len(data):
            raise InvariantError("the flow came back on another pattern of arcs than it was asked for")
        self.flow += result.flow.data[self._spot].astype(np.int64)
        return int(result.flow_value)

    def reached(self, *layers: str) -> list[Bools]:
        """Which nodes of each layer the source can still reach: the source side of a minimum cut after a full push."""
        from scipy.sparse.csgraph import breadth_first_order

        room = self._paired(self.capacity > self.flow, self.flow > 0, np.bool_)
        graph = self._residual(room, np.ones(int(room.sum()), np.int8))
        side = np.zeros(self._n, np.bool_)
        side[breadth_first_order(graph, 0, return_predecessors=False)] = True
        return [side[self._layers[layer]] for layer in layers]

    def push_cheaply(self, wanted: int) -> None:
        """Push until `wanted` units flow, at the least cost; the present flow must be optimal for what it carries.

        Primal-dual: potentials start at 0, which suits costs that are not negative, and rise to the shortest distances;
        then a maximum flow goes through the arcs whose reduced cost is 0. Reduced costs never turn negative where there is
        room, so the result is a minimum, and the potentials prove it.
        """
        potential = np.zeros(self._n, np.int64)
        left = wanted - int(self.flow[self._tail == 0].sum())
        while left > 0:
            potential += self._distances(self._cost + potential[self._tail] - potential[self._head])
            gained = self.push(self._cost + potential[self._tail] == potential[self._head])
            if not gained:
                raise InvariantError(f"{left} units do not fit a block that was proven feasible")
            left -= gained

    def _distances(self, reduced: Int64) -> Int64:
        """Shortest distances from the source over arcs with room, cut off at the sink's distance, int64[nodes]."""
        from scipy.sparse.csgraph import dijkstra

        shortest: Any = dijkstra  # its stubs know no plain integer index
        room = self._paired(self.capacity > self.flow, self.flow > 0, np.bool_)
        cost = self._paired(reduced, -reduced, np.int64)[room]
        if int(cost.min(initial=0)) < 0:
            raise InvariantError("a reduced cost below zero: the flow is not optimal for what it carries")
        # Stored zeros are arcs of cost 0 to SciPy. Doubles hold these integers exactly, far below 2**53.
        far: npt.NDArray[np.float64] = shortest(self._residual(room, cost.astype(np.float64)), indices=0)
        end = float(far[-1])
        if not end < 2**53:
            raise InvariantError(f"the sink is {end} away: out of reach, or beyond exact arithmetic")
        return np.asarray(np.minimum(far, end), np.int64)

    def _paired(self, forth: npt.NDArray[Any], back: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
        """Values of arcs and of reverse arcs, in the order of the CSR pattern."""
        values: npt.NDArray[Any] = np.empty(2 * len(self._spot), dtype)
        values[self._spot], values[self._spot_back] = forth, back
        return values

    def _residual(self, room: Bools, weight: npt.NDArray[Any]) -> Any:
        starts = np.concatenate([[0], np.cumsum(room)])[self._indptr].astype(np.int32)
        return self._csr((weight, self._indices[room], starts), shape=(self._n, self._n))
