"""Two independent judges of plans: exhaustion for tiny groups, OR-tools' min-cost flow for larger ones."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import lcm

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from counterpoise.model.problem import UNOWNED, Int32, Problem
from tests.strategies import subscribers_of

__all__ = ["all_plans", "flow_optimum", "score", "valid_claims"]


def valid_claims(problem: Problem) -> list[int]:
    """Who may keep each partition, by looking at one partition after the other."""
    previous = problem.previous_owner.tolist()
    return [previous[at] if previous[at] in subscribers_of(problem, at) else UNOWNED for at in range(problem.n_partitions)]


def score(problem: Problem, owner: Int32) -> tuple[Fraction, int]:
    """(sum of load²/capacity, minus the number of kept partitions): smaller is better, in this order."""
    load = [0] * problem.n_members
    for member in owner.tolist():
        if member >= 0:
            load[member] += 1
    cost = sum((Fraction(n * n, c) for n, c in zip(load, problem.capacity.tolist(), strict=True)), Fraction(0))
    return cost, -sum(claim == own >= 0 for claim, own in zip(valid_claims(problem), owner.tolist(), strict=True))


def all_plans(problem: Problem) -> list[Int32]:
    """Every valid, complete plan."""
    allowed = [subscribers_of(problem, at) or [UNOWNED] for at in range(problem.n_partitions)]
    return [np.array(plan, np.int32) for plan in itertools.product(*allowed)]


def flow_optimum(problem: Problem) -> Int32:
    """An optimal plan by one min-cost flow: balance as convex arcs to the sink, one unit of cost per lost claim.

    Source -> (topic, claimant) -> claimant, or -> topic -> subscriber; every member -> sink, one arc per unit of load.
    """
    n_members, n_partitions = problem.n_members, problem.n_partitions
    claims = valid_claims(problem)
    topic = problem.topic_of_partition().tolist()
    flow = SimpleMinCostFlow()
    topic_node = [n_members + t for t in range(problem.n_topics)]
    sink = n_members + problem.n_topics
    bundles: dict[tuple[int, int], list[int]] = {}
    for at in range(n_partitions):
        if subscribers_of(problem, at):
            bundles.setdefault((topic[at], claims[at]), []).append(at)
    kept_arcs, dealt_arcs = [], []
    for number, ((t, claimant), members) in enumerate(bundles.items()):
        node = sink + 1 + number
        flow.set_node_supply(node, len(members))
        if claimant >= 0:
            arc = flow.add_arc_with_capacity_and_unit_cost(node, claimant, len(members), 0)
            kept_arcs.append((arc, claimant, members))
        flow.add_arc_with_capacity_and_unit_cost(node, topic_node[t], len(members), int(claimant >= 0))
    for t in range(problem.n_topics):
        for member in problem.subscriber[problem.subscriber_start[t] : problem.subscriber_start[t + 1]].tolist():
            arc = flow.add_arc_with_capacity_and_unit_cost(topic_node[t], member, n_partitions, 0)
            dealt_arcs.append((arc, t, member))
    scale = lcm(*problem.capacity.tolist()) * (n_partitions + 1) if n_members else 1
    for member, capacity in enumerate(problem.capacity.tolist()):
        for unit in range(1, n_partitions + 1):
            flow.add_arc_with_capacity_and_unit_cost(member, sink, 1, (2 * unit - 1) * scale // capacity)
    flow.set_node_supply(sink, -sum(map(len, bundles.values())))
    assert flow.solve() == flow.OPTIMAL
    return _plan(problem, flow, bundles, kept_arcs, dealt_arcs)


def _plan(
    problem: Problem,
    flow: SimpleMinCostFlow,
    bundles: dict[tuple[int, int], list[int]],
    kept_arcs: list[tuple[int, int, list[int]]],
    dealt_arcs: list[tuple[int, int, int]],
) -> Int32:
    owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    for arc, claimant, members in kept_arcs:
        owner[members[: flow.flow(arc)]] = claimant
    free: dict[int, list[int]] = {}
    for (t, _), members in bundles.items():
        free.setdefault(t, []).extend(at for at in members if owner[at] == UNOWNED)
    for arc, t, member in dealt_arcs:
        for _ in range(flow.flow(arc)):
            owner[free[t].pop()] = member
    return owner
