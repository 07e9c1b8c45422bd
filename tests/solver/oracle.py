"""An independent oracle: min-cost flow over single partitions and members (OR-tools), and brute force for tiny problems."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from ortools.graph.python import min_cost_flow

from counterpoise.model.problem import Problem


def options_of(problem):
    """Members that may own each partition, a list of lists."""
    lists = []
    for topic in range(problem.n_topics):
        members = problem.subscriber[problem.subscriber_start[topic] : problem.subscriber_start[topic + 1]].tolist()
        lists += [members] * int(problem.topic_start[topic + 1] - problem.topic_start[topic])
    return lists


def rack_match(problem, partition, member):
    if problem.racks is None:
        return 0
    home = int(problem.racks.rack_of_member[member])
    start, end = problem.racks.replica_start[partition : partition + 2]
    return int(home >= 0 and home in problem.racks.replica_rack[start:end].tolist())


def score(problem, owner):
    """(unowned, sum of load**2 / capacity, kept, rack matches) of a plan; raises where a plan is invalid."""
    loads = np.zeros(problem.n_members, int)
    kept = matched = unowned = 0
    for partition, members in enumerate(options_of(problem)):
        member = int(owner[partition])
        if member < 0:
            assert not members, f"partition {partition} has subscribers and no owner"
            unowned += 1
            continue
        assert member in members, f"partition {partition} is owned by {member}, which does not subscribe"
        loads[member] += 1
        kept += member == int(problem.previous_owner[partition])
        matched += rack_match(problem, partition, member)
    cost = sum((Fraction(int(load) ** 2, int(c)) for load, c in zip(loads, problem.capacity, strict=True)), Fraction(0))
    return unowned, cost, kept, matched


def spread(problem, owner):
    """Sum over topics and members of (partitions of the topic on the member) squared."""
    counts = np.zeros((problem.n_topics, problem.n_members + 1), int)
    np.add.at(counts, (problem.topic_of_partition(), owner), 1)
    return int((counts[:, : problem.n_members] ** 2).sum())


def doors(problem, flow, first_node):
    """Where a partition enters a member: through a node per topic and member whose exits cost 1, 3, 5, .."""
    topic_of, n = problem.topic_of_partition().tolist(), problem.n_partitions
    nodes: dict[tuple[int, int], int] = {}

    def door(partition, member):
        pair = (topic_of[partition], member)
        if pair not in nodes:
            nodes[pair] = first_node + len(nodes)
            for j in range(topic_of.count(pair[0])):
                flow.add_arc_with_capacity_and_unit_cost(nodes[pair], n + member, 1, 2 * j + 1)
        return nodes[pair]

    return door


def optimum(problem, weights, fixed=False, even=False):
    """Least cost plan by min-cost flow; `weights` = (stay, match): what keeping and a rack match are worth;
    `fixed` pins valid claims, `even` spreads topics with what freedom is left.

    Balance always comes first: its unit is larger than everything the others can add up to. Returns an owner per partition.
    """
    lists = options_of(problem)
    stay, match = weights
    scale = 1
    for c in set(problem.capacity.tolist()):
        scale = np.lcm(scale, c)
    rung = 2 * (len(lists) + 1) ** 2 if even else 1
    stay, match = stay * rung, match * rung
    step = 2 * (stay + match + rung) * (len(lists) + 1) + 1
    flow = min_cost_flow.SimpleMinCostFlow()
    n, m = len(lists), problem.n_members
    sink = n + m
    door = doors(problem, flow, sink + 1) if even else lambda _, member: n + member
    arcs = []
    for partition, members in enumerate(lists):
        previous = int(problem.previous_owner[partition])
        if fixed and previous in members:
            members = [previous]
        for member in members:
            worth = stay * (member == previous) + match * rack_match(problem, partition, member)
            arcs.append(
                (
                    flow.add_arc_with_capacity_and_unit_cost(partition, door(partition, member), 1, stay + match - worth),
                    partition,
                    member,
                )
            )
        if members:
            flow.set_node_supply(partition, 1)
    live = sum(1 for members in lists if members)
    flow.set_node_supply(sink, -live)
    for member in range(m):
        for j in range(1, live + 1):
            flow.add_arc_with_capacity_and_unit_cost(
                n + member, sink, 1, int((2 * j - 1) * (scale // int(problem.capacity[member])) * step)
            )
    assert flow.solve() == flow.OPTIMAL
    owner = np.full(n, -1, np.int32)
    for arc, partition, member in arcs:
        if flow.flow(arc):
            owner[partition] = member
    return owner


def brute_force(problem):
    """The best (cost, -kept) over every valid plan; only for tiny problems."""
    lists = [members or [-1] for members in options_of(problem)]
    best = None
    for owner in itertools.product(*lists):
        _, cost, kept, _ = score(problem, owner)
        if best is None or (cost, -kept) < best:
            best = (cost, -kept)
    return best


def random_problem(rng, size=6, *, racks=False, capacities=False):
    """A small problem of a random shape: a few subscription patterns, stale, invalid and departed owners, empty corners."""
    n_members, n_topics = int(rng.integers(0, size + 1)), int(rng.integers(0, size + 1))
    sizes = rng.integers(0, rng.integers(1, 8) + 1, n_topics)
    style = rng.integers(4)
    if style == 0:
        may = rng.random((n_topics, n_members)) < rng.random()
    elif style == 1:
        patterns = rng.random((3, n_topics)) < 0.6
        may = patterns[rng.integers(0, 3, n_members)].T if n_members else np.zeros((n_topics, 0), bool)
    elif style == 2:
        may = np.arange(n_topics)[:, None] <= np.arange(n_members)[None, :]
    else:
        gap = np.arange(n_topics)[:, None] - np.arange(n_members)[None, :]
        may = (gap == 0) | (gap == 1)
    if rng.random() < 0.1:
        may[:] = True
    start = np.concatenate([[0], np.cumsum(may.sum(1))])
    n = int(sizes.sum())
    previous = rng.integers(-2, n_members + 2, n)
    if rng.random() < 0.3 and n_members:
        previous = np.full(n, rng.integers(0, n_members))
    if rng.random() < 0.2:
        previous[:] = -1
    extra = {}
    if capacities:
        extra["capacity"] = rng.integers(1, 5, n_members)
    if racks:
        from counterpoise.model.problem import Racks

        sets = [np.flatnonzero(rng.random(3) < 0.6) for _ in range(n)]
        rack_of_member = rng.integers(-1, 3, n_members).astype(np.int32)
        replica_start = np.concatenate([[0], np.cumsum([len(s) for s in sets])]).astype(np.int64)
        extra["racks"] = Racks(rack_of_member, replica_start, np.concatenate([*sets, []]).astype(np.int32))
    return Problem(n_members, np.concatenate([[0], np.cumsum(sizes)]), start, np.nonzero(may)[1], previous, **extra)
