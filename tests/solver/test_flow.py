"""Flows are as large and as cheap as those of independent solvers, and cuts are minimal."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from counterpoise.errors import InvariantError
from counterpoise.solver.classes import classify
from counterpoise.solver.flows.balance import decompose
from counterpoise.solver.flows.flow import Arcs, Network
from counterpoise.solver.flows.quotas import Capacities
from tests.solver.build import random_problem

CASES = 5_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 300


def random_network(rng: np.random.Generator, most: int = 25) -> Network:
    """Two layers, arcs inside the first one as well, from dense to sparse, with costs."""
    n, share = int(rng.integers(1, most)), rng.random()
    arcs = Arcs(first=n, second=n)
    every = np.arange(n)
    arcs.add("in", "source", ("first", every), rng.integers(0, 30, n))
    tail, head = np.nonzero(np.triu(rng.random((2 * n, 2 * n)) < share, 1))
    arcs.add("between", ("first", tail), ("first", head), rng.integers(0, 20, len(tail)), rng.integers(0, 4, len(tail)))
    arcs.add("out", ("second", every), "sink", rng.integers(0, 30, n))
    return arcs.build()


def largest(network: Network) -> int:
    """The maximum flow by SciPy."""
    n = network._n
    graph: Any = csr_array(coo_array((network.capacity.astype(np.int32), (network._tail, network._head)), shape=(n, n)))
    return int(maximum_flow(graph, 0, n - 1).flow_value)


def cheapest(network: Network, wanted: int) -> int:
    """The least cost of a flow of this size, by linear programming."""
    balance = np.zeros((network._n, len(network.flow)))
    balance[network._tail, np.arange(len(network.flow))] = 1
    balance[network._head, np.arange(len(network.flow))] -= 1
    goal = np.zeros(network._n)
    goal[0], goal[-1] = wanted, -wanted
    bounds: Any = np.column_stack([np.zeros(len(network.flow)), network.capacity])
    return round(float(linprog(network._cost, A_eq=balance, b_eq=goal, bounds=bounds).fun or 0))


def assert_is_a_flow(network: Network, seed: int) -> None:
    assert bool(((network.flow >= 0) & (network.flow <= network.capacity)).all()), f"seed {seed}"
    comes, goes = np.bincount(network._head, network.flow), np.bincount(network._tail, network.flow)
    assert comes[1:-1].tolist() == goes[1 : len(comes) - 1].tolist(), f"seed {seed}: what comes in goes out"


def test_a_flow_is_as_large_as_an_independent_one_and_its_cut_is_minimal() -> None:
    """From nothing and on top of a flow, on all arcs and on some."""
    for seed in range(CASES):
        network = random_network(np.random.default_rng([seed, 44]))
        amount = largest(network)
        part = network.push(np.random.default_rng(seed).random(len(network.flow)) < 0.8)
        assert part + network.push() == amount, f"seed {seed}"
        assert_is_a_flow(network, seed)
        first, second = network.reached("first", "second")
        side = np.concatenate([[True], first, second, [False]])
        across = side[network._tail] & ~side[network._head]
        assert int(network.capacity[across].sum()) == amount, f"seed {seed}: a cut as small as the flow"


def test_a_cheap_flow_costs_as_little_as_a_linear_program_finds() -> None:
    for seed in range(CASES // 3):
        network = random_network(np.random.default_rng([seed, 45]), 9)
        wanted = int(np.random.default_rng(seed).integers(0, largest(network) + 1))
        network.capacity[network._parts["in"]] = np.minimum(network.capacity[network._parts["in"]], wanted)
        wanted = min(wanted, largest(network))
        network.push_cheaply(wanted)
        assert int(network.flow[network._parts["in"]].sum()) >= wanted, f"seed {seed}"
        assert_is_a_flow(network, seed)
        flowing = int(network.flow[network._parts["in"]].sum())
        assert int((network.flow * network._cost).sum()) == cheapest(network, flowing), f"seed {seed}"


def test_blocks_do_not_depend_on_where_flows_start() -> None:
    """From nothing, or from any units per link that are there; members may start with more than they end with."""
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 46])
        problem = random_problem(rng, 9, capacities=seed % 3 == 0)
        classes = classify(problem)
        capacities = Capacities(problem.capacity if seed % 3 == 0 and problem.n_members else None)
        blocks, quotas = decompose(classes, classes.size, capacities, np.zeros(len(classes.link_topic_class), np.int64))
        flow, left = np.zeros(len(classes.link_topic_class), np.int64), classes.size.copy()
        for link in rng.permutation(len(flow)).tolist():
            flow[link] = rng.integers(0, left[classes.link_topic_class[link]] + 1)
            left[classes.link_topic_class[link]] -= flow[link]
        other, others = decompose(classes, classes.size, capacities, flow)
        for name in ("of_topic_class", "of_member_class", "of_member", "units"):
            assert getattr(blocks, name).tolist() == getattr(other, name).tolist(), f"seed {seed}: {name}"
        assert quotas.floor.tolist() == others.floor.tolist(), f"seed {seed}"


def test_a_network_starts_with_a_flow_that_arrives_at_the_sink() -> None:
    """Units of one part: from the source, on to the floor of their node, and through the hub."""
    arcs, two, one = Arcs(first=2, second=2, hub=1), np.arange(2), np.zeros(1, np.int64)
    arcs.add("in", "source", ("first", two), np.array([5, 5]))
    arcs.add("between", ("first", np.array([0, 0, 1])), ("second", np.array([0, 1, 1])), np.array([5, 5, 5]))
    arcs.add("floor", ("second", two), "sink", np.array([2, 2]))
    arcs.add("candidates", ("second", two), ("hub", 0 * two), np.array([1, 1]))
    arcs.add("ceiling_slots", ("hub", one), "sink", np.array([1]))
    network = arcs.build()
    network.start_with("between", np.array([1, 2, 1]))
    assert_is_a_flow(network, 0)
    assert [network.of(part).tolist() for part in ("in", "floor", "candidates", "ceiling_slots")] == [[3, 1], [1, 2], [0, 1], [1]]
    assert network.push() == 1


def test_a_flow_that_does_not_fit_raises() -> None:
    arcs = Arcs(middle=1)
    arcs.add("in", "source", ("middle", np.zeros(1, np.int64)), np.array([3]))
    arcs.add("out", ("middle", np.zeros(1, np.int64)), "sink", np.array([2]))
    with pytest.raises(InvariantError, match="do not fit"):
        arcs.build().push_cheaply(3)


def test_the_flow_on_every_arc_is_the_one_along_the_lowest_nodes() -> None:
    """Two units, three equally short ways: the first two are taken, whatever the order in which arcs were added."""
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        arcs, ways, one = Arcs(way=3, hub=1), np.array(order), np.zeros(1, np.int64)
        arcs.add("in", "source", ("way", ways), np.ones(3, np.int64))
        arcs.add("out", ("way", ways), ("hub", 0 * ways), np.ones(3, np.int64))
        arcs.add("end", ("hub", one), "sink", np.array([2]))
        network = arcs.build()
        assert network.push() == 2
        assert network.of("in")[np.argsort(order)].tolist() == [1, 1, 0]
