"""Stickiness as absence of negative cycles: a balanced plan keeps the most if no exchange around a cycle keeps more.

Arcs of the exchange graph: a member passes on a partition of a topic class (0, or +1 if that one stays now), a topic
class serves a subscriber (0, or -1 if that one gets back a partition it claims), and two members whose loads may be
swapped at equal balance (the next partition of one costs what the last of the other costs) are linked at 0. The plan
keeps the most at its balance exactly when this graph has no negative cycle; shortest-path labels prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.laws.balance import MarginalCosts
from counterpoise.laws.exchange_graph import Arcs, ExchangeGraph
from counterpoise.model.problem import Int32, Int64

__all__ = ["Labels", "shortest_labels"]

_FAR = np.int64(2**30)


@dataclass(frozen=True, eq=False)
class Labels:
    """Shortest distances from everywhere at once, or a negative cycle."""

    member: Int32  # int32[M]
    topic_class: Int32  # int32[C]
    # Nodes of a negative cycle in the order of its arcs: class c as c, member m as C + m. Empty: the labels are final.
    cycle: list[int]


def shortest_labels(graph: ExchangeGraph, load: Int64, marginal: MarginalCosts, *, balanced: bool = True) -> Labels:
    """Bellman-Ford over the whole graph, all arcs of a kind in one NumPy step.

    Members are linked only if the plan is known to be `balanced`: in an unbalanced one two links in a row can change
    the balance, so there only exchanges that leave every load as it is are looked for.

    Starts from 0 everywhere. Each sweep relaxes the four kinds of arcs in turn; it ends when nothing changes, or when
    the arcs by which the labels were lowered last close a cycle (looked for after 1, 2, 4, ... sweeps). At most
    M + C sweeps; a few in practice.
    """
    state = _State(graph, load if balanced else np.zeros_like(load), marginal)
    sweep = 0
    while state.sweep():
        sweep += 1
        if sweep & (sweep - 1) == 0:
            cycle = _cycle(state.parent)
            if cycle:
                return Labels(state.member.astype(np.int32), state.of_class.astype(np.int32), cycle)
    return Labels(state.member.astype(np.int32), state.of_class.astype(np.int32), [])


class _State:
    """Labels, and the arc by which each was lowered last (`parent`, -1 for none)."""

    def __init__(self, graph: ExchangeGraph, load: Int64, marginal: MarginalCosts) -> None:
        known = graph.classes
        self.graph = graph
        self.member = np.zeros(len(known.of_member), np.int64)
        self.of_class = np.zeros(known.n, np.int64)
        self.parent = np.full(known.n + len(self.member), -1, np.int64)
        level, self.following = np.unique(marginal.following, return_inverse=True)
        at = np.minimum(np.searchsorted(level, marginal.last), len(level) - 1)
        self.givers = np.flatnonzero((load > 0) & (level[at] == marginal.last)) if len(level) else np.zeros(0, np.int64)
        self.last = at[self.givers]
        self.n_levels = len(level)

    def sweep(self) -> bool:
        """Relax every arc once; did any label fall?"""
        graph, n_classes = self.graph, self.graph.classes.n
        if not len(graph.claim.head):
            return False
        head, label, tail = _relaxed(graph.hold, self.member)
        changed = self._lower(self.of_class, self.parent[:n_classes], head, label, tail + n_classes)
        group, offered, source = _relaxed(graph.classes.offer, self.of_class)
        of_group = np.full(graph.classes.n_member_classes, _FAR)
        source_of_group = np.full(graph.classes.n_member_classes, -1, np.int64)
        of_group[group], source_of_group[group] = offered, source
        mine = graph.classes.of_member
        everyone = np.arange(len(mine))
        of_member = self.parent[n_classes:]
        changed |= self._lower(self.member, of_member, everyone, of_group[mine], source_of_group[mine])
        head, label, tail = _relaxed(graph.claim, self.of_class)
        changed |= self._lower(self.member, of_member, head, label, tail)
        swap = np.full(self.n_levels, _FAR << 32)
        np.minimum.at(swap, self.following, (self.member << 32) | everyone)
        met = swap[self.last]
        return changed | self._lower(self.member, of_member, self.givers, met >> 32, (met & 0xFFFFFFFF) + n_classes)

    @staticmethod
    def _lower(
        labels: Int64, parent: Int64, head: npt.NDArray[np.integer], label: Int64, source: npt.NDArray[np.integer]
    ) -> bool:
        better = label < labels[head]
        where = head[better]
        labels[where] = label[better]
        parent[where] = source[better]
        return len(where) > 0


def _relaxed(arcs: Arcs, labels: Int64) -> tuple[Int32, Int64, Int64]:
    """The best label each head is offered, and by which tail (the lowest code among equals)."""
    if not len(arcs.head):
        return arcs.head, np.zeros(0, np.int64), np.zeros(0, np.int64)
    best = np.minimum.reduceat(((labels[arcs.tail] + arcs.cost) << 32) | arcs.tail, arcs.start)
    return arcs.head, best >> 32, best & 0xFFFFFFFF


def _cycle(parent: Int64) -> list[int]:
    """A cycle of parent arcs in forward order, or []. Pointer doubling, O(n log n)."""
    end = len(parent)
    jump = np.append(np.where(parent < 0, end, parent), end)
    for _ in range(end.bit_length()):
        jump = jump[jump]
    inside = jump[:-1][jump[:-1] != end]
    if not len(inside):
        return []
    first = int(inside.min())
    nodes = [first]
    while (at := int(parent[nodes[-1]])) != first:
        nodes.append(at)
    return nodes[::-1]
