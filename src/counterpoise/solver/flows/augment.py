"""Augment: a maximum flow of which every arc, not only the amount, is settled by the order of nodes.

A library's maximum flow is one of many, and another release may find another. Where the flow on single arcs decides a plan,
this one is taken. Large graphs are filled in waves first (`waves`); what is left goes along shortest paths
one by one, the lowest node first at every fork (Ahuja & Orlin's shortest augmenting paths): a node's distance to the sink is
raised where no neighbour is one step nearer, and all distances are measured anew after as many looks as that takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64
from counterpoise.solver.flows.waves import depths_by_layer, wave

__all__ = ["Graph", "augment"]

MANY = 20_000
"""With so many entries, whole arrays are quicker than single steps."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A pattern of arcs with both directions stored; the source is the first node, the sink the last.

    Attributes
    ----------
    start : int64[N+1]
        Slice of entries of each node.
    head : int64[A]
        Where an entry leads, ascending within a node.
    mate : int64[A]
        The entry of the other direction.
    """

    start: Int64
    head: npt.NDArray[np.int32]
    mate: Int64


def augment(graph: Graph, room: Int64) -> Int64:
    """Room of every entry after a maximum flow from the first node to the last has taken what it needs of `room`."""
    room = room.copy()
    if len(room) >= MANY:
        _flood(graph, room)
    ready = int(graph.start[1])
    if not room[:ready].any():
        return room
    walk = _Walk(graph, room)
    while walk.go():
        pass
    return np.array(walk.room, np.int64)


def _flood(graph: Graph, room: Int64) -> None:
    """Waves for as long as each takes half of what is left, in place."""
    left = int(room[: graph.start[1]].sum())
    while left:
        depth = depths_by_layer(graph.start, graph.head, room[graph.mate] > 0)
        if depth[0] >= len(depth):
            return
        wave(graph.start, graph.head, graph.mate, room, depth)
        now = int(room[: graph.start[1]].sum())
        if 2 * now > left:
            return
        left = now


class _Walk:
    """Shortest paths one by one, on plain lists."""

    def __init__(self, graph: Graph, room: Int64) -> None:
        self._graph = graph
        self.room: list[int] = room.tolist()
        self._start: list[int] = graph.start.tolist()
        self._head: list[int] = graph.head.tolist()
        self._mate: list[int] = graph.mate.tolist()

    def go(self) -> bool:
        """Augment until distances should be measured anew; False when nothing is left or no path is."""
        start, head, mate, room = self._start, self._head, self._mate, self.room
        depth = self._depths()
        far = len(start) - 1
        if depth[0] >= far:
            return False
        at, looks = start.copy(), len(head)
        at_depth = [0] * (far + 1)
        for steps in depth:
            at_depth[steps] += 1
        path: list[int] = []
        node = 0
        while depth[0] < far and looks > 0:
            entry, end, nearer = at[node], start[node + 1], depth[node] - 1
            while entry < end and not (room[entry] and depth[head[entry]] == nearer):
                entry += 1
            at[node] = entry
            if entry < end:
                path.append(entry)
                node = head[entry]
                if node == far - 1:
                    node = self._push(path)
                continue
            looks -= end - start[node]
            at_depth[depth[node]] -= 1
            if not at_depth[depth[node]]:
                return False  # paths come down step by step, and here nobody is left
            depth[node] = self._raised(node, depth)
            at_depth[depth[node]] += 1
            at[node] = start[node]
            if path:
                node = head[mate[path.pop()]]
        return any(room[: start[1]])

    def _raised(self, node: int, depth: list[int]) -> int:
        """One step more than the nearest neighbour needs."""
        far = len(depth)
        nearest = far - 1
        for entry in range(self._start[node], self._start[node + 1]):
            if self.room[entry] and depth[self._head[entry]] < nearest:
                nearest = depth[self._head[entry]]
        return nearest + 1

    def _push(self, path: list[int]) -> int:
        """As much as the path takes; the path is cut back to where it became full, and the node there returned."""
        room, mate = self.room, self._mate
        much = min([room[entry] for entry in path])
        cut = 0
        for place in range(len(path) - 1, -1, -1):
            entry = path[place]
            room[entry] -= much
            room[mate[entry]] += much
            if not room[entry]:
                cut = place
        node = self._head[mate[path[cut]]]
        del path[cut:]
        return node

    def _depths(self) -> list[int]:
        """Steps from each node to the sink; their number of nodes where there is no way."""
        start, head, mate, room = self._start, self._head, self._mate, self.room
        far = len(start) - 1
        if len(head) >= MANY:
            room_back = np.array(room, np.int64)[self._graph.mate] > 0
            found: list[int] = depths_by_layer(self._graph.start, self._graph.head, room_back).tolist()
            return found
        depth = [far] * far
        depth[-1] = 0
        frontier = [far - 1]
        while frontier:
            further = []
            for node in frontier:
                for entry in range(start[node], start[node + 1]):
                    if room[mate[entry]] and depth[head[entry]] == far:
                        depth[head[entry]] = depth[node] + 1
                        further.append(head[entry])
            frontier = further
        return depth
