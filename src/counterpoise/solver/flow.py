"""Max flow on one fixed pattern of arcs, pushed again and again: the only module that imports SciPy, and only when it is used.

SciPy's `maximum_flow` wants int32 capacities in a CSR matrix with sorted rows and without parallel arcs, and returns the
*net* flow on the union of arcs and reverse arcs. Two choices make that cheap here. Nodes are numbered in layers, so every
arc leads from a lower number to a higher one and an entry's side of the diagonal tells arc from reverse arc. Both
directions are stored from the start, so one pattern serves every phase.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int64

Bools = npt.NDArray[np.bool_]

__all__ = ["Arcs", "Bools", "Network"]


class Arcs:
    """Collects arcs in layers; `build` sorts them and remembers who added which.

    Every part is added once under a name; the arcs of a part are read back with ``network.of(name)``.
    """

    def __init__(self) -> None:
        self._tails: list[Int64] = []
        self._heads: list[Int64] = []
        self._parts: dict[str, slice] = {}
        self._count = 0

    def add(self, name: str, tail: npt.ArrayLike, head: npt.ArrayLike) -> None:
        """Add arcs tail[i] -> head[i]; one side may be a single node."""
        tails, heads = np.broadcast_arrays(np.asarray(tail, np.int64), np.asarray(head, np.int64))
        self._tails.append(tails.ravel())
        self._heads.append(heads.ravel())
        self._parts[name] = slice(self._count, self._count + tails.size)
        self._count += tails.size

    def build(self, n_nodes: int) -> Network:
        """The network over nodes 0 (source) .. n_nodes - 1 (sink)."""
        return Network(n_nodes, np.concatenate(self._tails), np.concatenate(self._heads), self._parts)


class Network:
    """Arcs from lower to higher node numbers, with flow kept between pushes.

    Attributes
    ----------
    tail, head : int64[A]
        Ends of each arc, in the order in which they were added.
    flow : int64[A]
        Flow on each arc so far.
    """

    def __init__(self, n_nodes: int, tail: Int64, head: Int64, parts: dict[str, slice]) -> None:
        from scipy.sparse import coo_matrix, csr_matrix

        self._csr: Any = csr_matrix
        self._parts = parts
        self.n_nodes = n_nodes
        self.tail, self.head = tail, head
        self.flow = np.zeros(len(tail), np.int64)
        listed: Any = coo_matrix((np.arange(len(tail)), (tail, head)), shape=(n_nodes, n_nodes))
        listed.has_canonical_format = True  # there are no parallel arcs: nothing to add up
        back = listed.tocsr().tocsc()  # converting to and fro is a linear sort
        forth = back.tocsr()
        back = forth.tocsc()
        # A row of the union holds the reverse arcs (to lower nodes), then the arcs (to higher ones), both ascending.
        self._indptr = (forth.indptr + back.indptr).astype(np.int32)
        spot_of_arc = np.arange(len(tail)) + np.repeat(back.indptr[1:], np.diff(forth.indptr))
        spot_of_reverse = np.arange(len(tail)) + np.repeat(forth.indptr[:-1], np.diff(back.indptr))
        self._indices = np.empty(2 * len(tail), np.int32)
        self._indices[spot_of_arc], self._indices[spot_of_reverse] = forth.indices, back.indices
        self._spot = np.empty(len(tail), np.int64)
        self._spot_back = np.empty(len(tail), np.int64)
        self._spot[forth.data], self._spot_back[back.data] = spot_of_arc, spot_of_reverse

    def of(self, name: str) -> slice:
        """Where the arcs of one part lie in `tail`, `head` and `flow`."""
        return self._parts[name]

    def push(self, capacity: Int64, usable: tuple[Bools, Bools] | None = None) -> int:
        """Push as much as possible from node 0 to the last node on top of the present flow.

        Parameters
        ----------
        capacity : int64[A]
            Capacity of each arc; not below the present flow.
        usable : (bool[A], bool[A]), optional
            Arcs that may carry more, and arcs that may give flow back; default: all.

        Returns
        -------
        int
            How much more flows now.
        """
        from scipy.sparse.csgraph import maximum_flow

        forth, back = capacity - self.flow, self.flow
        if usable is not None:
            forth, back = np.where(usable[0], forth, 0), np.where(usable[1], back, 0)
        data = np.empty(len(self._indices), np.int32)
        data[self._spot], data[self._spot_back] = forth, back
        shape = (self.n_nodes, self.n_nodes)
        graph = self._csr((data, self._indices, self._indptr), shape=shape)
        graph.has_sorted_indices = True
        result = maximum_flow(graph, 0, self.n_nodes - 1, method="dinic")
        if len(result.flow.data) != len(self._indices):
            raise InvariantError("the flow came back on another pattern of arcs than it was asked for")
        self.flow += result.flow.data[self._spot].astype(np.int64)
        return int(result.flow_value)

    def reached(self, capacity: Int64) -> Bools:
        """Nodes the source can still reach, bool[n_nodes]: the source side of a minimum cut after a full push."""
        from scipy.sparse.csgraph import breadth_first_order

        room = np.empty(len(self._indices), np.bool_)
        room[self._spot], room[self._spot_back] = capacity > self.flow, self.flow > 0
        starts = np.concatenate([[0], np.cumsum(room)])[self._indptr].astype(np.int32)
        columns = self._indices[room]
        graph = self._csr((np.ones(len(columns), np.int8), columns, starts), shape=(self.n_nodes, self.n_nodes))
        side = np.zeros(self.n_nodes, np.bool_)
        side[breadth_first_order(graph, 0, return_predecessors=False)] = True
        return side

    def distances(self, capacity: Int64, reduced: Int64) -> Int64:
        """Shortest distances from node 0 over arcs with room, cut off at the last node's distance, int64[n_nodes].

        Parameters
        ----------
        capacity : int64[A]
        reduced : int64[A]
            Reduced cost of each arc; its reverse costs the opposite. Not negative where there is room to move.
        """
        from scipy.sparse.csgraph import dijkstra

        shortest: Any = dijkstra  # its stubs know no plain integer index
        forth, back = capacity > self.flow, self.flow > 0
        room, cost = np.empty(len(self._indices), np.bool_), np.empty(len(self._indices), np.int64)
        room[self._spot], room[self._spot_back] = forth, back
        cost[self._spot], cost[self._spot_back] = reduced, -reduced
        cost = cost[room]
        if int(cost.min(initial=0)) < 0:
            raise InvariantError("a reduced cost below zero: the flow is not optimal for what it carries")
        starts = np.concatenate([[0], np.cumsum(room)])[self._indptr].astype(np.int32)
        # Arcs of cost 0 get a weight too: (n + 1) * cost + 1 orders paths by cost first, by hops second. Doubles hold these
        # integers exactly, far below 2**53.
        weight = (cost * (self.n_nodes + 1) + 1).astype(np.float64)
        graph = self._csr((weight, self._indices[room], starts), shape=(self.n_nodes, self.n_nodes))
        far: npt.NDArray[np.float64] = shortest(graph, indices=0)
        end = float(far[-1])
        if not np.isfinite(end):
            raise InvariantError("the sink cannot be reached although units are left")
        return np.asarray(np.minimum(far, end) // (self.n_nodes + 1), np.int64)
