"""Balance as reachability: a plan is optimal when no heavy member can pass a partition on to a light one.

The marginal cost of a member's j-th partition is (2j-1)/capacity, the amount by which it raises the sum of load²/capacity.
A plan is lexicographically balanced exactly when no walk member -> topic it holds -> subscriber -> ... leads from a
member to one whose *next* partition would be cheaper than the *last* one of the first (Harvey, Ladner, Lovász and
Tamir, "Semi-matchings for bipartite graphs and load balancing", 2006; Frank and Murota, "Decreasing minimization on
M-convex sets", 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.laws.exchange_graph import ExchangeGraph
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["MarginalCosts", "alike", "heaviest", "loads", "marginal_costs", "walk"]

_EXACT_BITS = 128
"""Fractions with denominators below 2**63 that differ do so by more than 2**-126."""


@dataclass(frozen=True, eq=False)
class MarginalCosts:
    """Ranks of marginal costs, exact: equal costs have equal ranks, higher costs higher ones."""

    last: Int64  # int64[M]: of each member's last partition (0 if it has none)
    following: Int64  # int64[M]: of the next partition it would get


def alike(problem: Problem) -> bool:
    """Whether every member subscribes to every topic and all capacities are equal: any partition may go to any member."""
    members = problem.n_members
    if not members or len(problem.subscriber) != members * problem.n_topics:
        return False
    return bool((problem.capacity == problem.capacity[0]).all())


def loads(n_members: int, owner: Int32) -> Int64:
    """Partitions per member, int64[M]."""
    return np.bincount(owner[owner >= 0], minlength=n_members).astype(np.int64)


def marginal_costs(load: Int64, capacity: Int64) -> MarginalCosts:
    """Marginal costs of the last and the next partition of each member, as ranks.

    Equal capacities: the loads themselves. Otherwise the fractions are compared as integers scaled by 2**128, which
    distinguishes any two of them; O(M log M).
    """
    if not len(capacity) or int(capacity.min()) == int(capacity.max()):
        return MarginalCosts(load, load + 1)
    twice, scale = 2 * load.astype(object), capacity.astype(object)
    keys = np.concatenate([((twice - 1) << _EXACT_BITS) // scale, ((twice + 1) << _EXACT_BITS) // scale])
    ranks = np.unique(keys, return_inverse=True)[1].reshape(2, -1).astype(np.int64)
    return MarginalCosts(ranks[0], ranks[1])


def heaviest(graph: ExchangeGraph, marginal: MarginalCosts) -> Int32:
    """For each member: of the members from which it is reachable, itself included, the one whose last partition costs most.

    int32[M]; ties go to the lower code. Sweeps until nothing changes; each sweep touches every arc once.
    """
    known = graph.classes
    n_members = len(marginal.last)
    code = np.arange(n_members, dtype=np.int64)
    top = (marginal.last << 32) | (n_members - 1 - code)
    at_class = np.full(known.n, -1, np.int64)
    at_group = np.full(known.n_member_classes, -1, np.int64)
    while len(graph.hold.head) and len(known.offer.head):
        at_class[graph.hold.head] = np.maximum.reduceat(top[graph.hold.tail], graph.hold.start)
        at_group[known.offer.head] = np.maximum.reduceat(at_class[known.offer.tail], known.offer.start)
        raised = np.maximum(top, at_group[known.of_member])
        if np.array_equal(raised, top):
            break
        top = raised
    return (n_members - 1 - (top & 0xFFFFFFFF)).astype(np.int32)


def walk(graph: ExchangeGraph, giver: int, taker: int) -> list[int]:
    """A shortest walk giver, class, member, class, ..., taker; there is one. Breadth first, each step over all arcs."""
    known = graph.classes
    n_members = len(known.of_member)
    from_member = np.full(known.n, -1, np.int64)
    from_class = np.full(n_members, -1, np.int64)
    frontier = np.zeros(n_members, np.bool_)
    frontier[giver] = True
    seen = frontier.copy()
    while not seen[taker]:
        new = _first(graph.hold.head, graph.hold.start, graph.hold.tail, frontier, from_member < 0)
        from_member[new[0]] = new[1]
        fresh = np.zeros(known.n, np.bool_)
        fresh[new[0]] = True
        group, source = _first(known.offer.head, known.offer.start, known.offer.tail, fresh, None)
        of_group = np.full(known.n_member_classes, -1, np.int64)
        of_group[group] = source
        reached = of_group[known.of_member]
        frontier = (reached >= 0) & ~seen
        from_class[frontier] = reached[frontier]
        seen |= frontier
    nodes = [taker]
    while nodes[0] != giver:
        through = int(from_class[nodes[0]])
        nodes[:0] = [int(from_member[through]), through]
    return nodes


def _first(
    head: Int32, start: Int64, tail: Int32, active: npt.NDArray[np.bool_], wanted: npt.NDArray[np.bool_] | None
) -> tuple[Int32, Int32]:
    """Heads with an arc from an active tail (and wanted), and the lowest such tail of each."""
    far = np.int32(2**31 - 1)
    best = np.minimum.reduceat(np.where(active[tail], tail, far), start)
    found = best != far if wanted is None else (best != far) & wanted[head]
    return head[found], best[found]
