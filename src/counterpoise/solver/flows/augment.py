"""Augmenting paths: maximum flow (Dinic) and shortest distances (Dijkstra) on a residual network in plain lists.

The flow on every arc is a function of the input alone: among shortest augmenting paths the one with the lowest nodes comes
first. A library's maximum flow is one of many, and another release may return another one. Class networks are small, so plain
lists are quick enough, and they need no package.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

__all__ = ["UNREACHED", "Residual"]

UNREACHED = -1
_SOURCE, _SINK = 0, 1
"""The two ends from which nodes are searched."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual network of N nodes and A entries; node 0 is the source, the last node the sink."""

    start: list[int]  # N + 1: slice of entries of each node
    head: list[int]  # A: node at which an entry ends, ascending within a node
    mate: list[int]  # A: the entry of the opposite direction
    capacity: list[int]  # A: residual capacity of each entry; `augment` changes it

    def augment(self) -> None:
        """Push a maximum flow from source to sink: one blocking flow per shortest path length (Dinic, 1970)."""
        level = self._levels()
        while level[0] != UNREACHED:
            self._blocking_flow(level)
            level = self._levels()

    def reached(self) -> list[bool]:
        """Whether there is a path from the source to each node: after `augment`, the source side of a minimum cut."""
        end_of = [UNREACHED] * (len(self.start) - 1)
        end_of[0] = _SOURCE
        frontier: list[int] | None = [0]
        while frontier:
            frontier = self._next_layer(frontier, end_of, _SOURCE)
        return [end == _SOURCE for end in end_of]

    def distances(
        self,
        cost: list[int],  # Cost of each entry; an opposite entry has the negative cost
        potential: list[int],  # ``cost + potential[tail] - potential[head]`` must not be negative on an entry with capacity
    ) -> list[int]:
        """Shortest distances from the source by reduced cost (Dijkstra, a list of nodes per distance), int[N].

        Exact for the sink and for nodes nearer than it. The search ends there: another node is UNREACHED, or has a distance that
        is not smaller.
        """
        start, head, capacity = self.start, self.head, self.capacity
        distance = [UNREACHED] * (len(start) - 1)
        distance[0] = 0
        nodes_at = defaultdict(list, {0: [0]})
        nearest = [0]
        while nearest and not 0 <= distance[-1] <= nearest[0]:
            here = heapq.heappop(nearest)
            for node in nodes_at[here]:  # grows while entries cost nothing
                if distance[node] != here:
                    continue
                base = here + potential[node]
                for entry in range(start[node], start[node + 1]):
                    if capacity[entry]:
                        to = head[entry]
                        there = base + cost[entry] - potential[to]
                        if distance[to] == UNREACHED or there < distance[to]:
                            distance[to] = there
                            if there not in nodes_at:
                                heapq.heappush(nearest, there)
                            nodes_at[there].append(to)
        return distance

    def _levels(self) -> list[int]:
        """Per node of a shortest source-sink path, the entries left to the sink; level[0] is UNREACHED if there is no path.

        Breadth first from both ends until the searches meet. The source side goes next only if its frontier is at most a quarter
        of the sink's, because some of the nodes that it reaches are dead ends of the blocking flow.
        """
        level, end_of = [UNREACHED] * (len(self.start) - 1), [UNREACHED] * (len(self.start) - 1)
        end_of[0], end_of[-1] = _SOURCE, _SINK
        layers = [[0]], [[len(level) - 1]]
        while layers[_SOURCE][-1] and layers[_SINK][-1]:
            end = _SINK if 4 * len(layers[_SOURCE][-1]) > len(layers[_SINK][-1]) else _SOURCE
            further = self._next_layer(layers[end][-1], end_of, end)
            if further is None:
                for above, layer in enumerate([*layers[_SINK], *reversed(layers[_SOURCE])]):
                    for node in layer:
                        level[node] = above
                break
            layers[end].append(further)
        return level

    def _next_layer(self, frontier: list[int], end_of: list[int], end: int) -> list[int] | None:
        """New nodes one entry from the frontier of the search from this end; None if it meets the other search."""
        start, head, capacity = self.start, self.head, self.capacity
        along, further = self.mate if end == _SINK else range(len(head)), []
        for node in frontier:
            for entry in range(start[node], start[node + 1]):
                to = head[entry]
                if end_of[to] != end and capacity[along[entry]]:
                    if end_of[to] != UNREACHED:
                        return None
                    end_of[to] = end
                    further.append(to)
        return further

    def _blocking_flow(self, level: list[int]) -> None:
        """Augment along shortest paths, depth first, until each of them has a saturated entry."""
        start, head, mate, capacity = self.start, self.head, self.mate, self.capacity
        current, sink = start.copy(), len(level) - 1
        path: list[int] = []
        node = 0
        while True:
            entry, end, below = current[node], start[node + 1], level[node] - 1
            while entry < end and not (level[head[entry]] == below and capacity[entry]):
                entry += 1
            current[node] = entry
            if entry < end:
                path.append(entry)
                node = head[entry]
                if node == sink:
                    node = self._augment_along(path)
            elif path:
                node = head[mate[path.pop()]]
                current[node] += 1
            else:
                return

    def _augment_along(self, path: list[int]) -> int:
        """Push what the path takes; cut it back to its first saturated entry and return the node there."""
        capacity, mate = self.capacity, self.mate
        residual = [capacity[entry] for entry in path]
        amount = min(residual)
        first_full = residual.index(amount)
        for entry in path:
            capacity[entry] -= amount
            capacity[mate[entry]] += amount
        node = self.head[mate[path[first_full]]]
        del path[first_full:]
        return node
