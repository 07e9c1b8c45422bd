"""Ties never depend on a library: SciPy is made to find other maximum flows, and every plan stays the same, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse.csgraph as csgraph
from scipy.sparse import csr_matrix

from counterpoise.assignors.registry import assignor
from counterpoise.model.problem import Problem
from counterpoise.solver import engine
from counterpoise.solver.engine import solve
from counterpoise.solver.flows import augment as augment_module
from counterpoise.solver.flows.flow import Arcs, Network
from counterpoise.solver.flows.waves import depths_by_layer, wave
from counterpoise.solver.nested_sets import nested
from tests.solver.oracle import optimum, random_problem, score

CASES = 20_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 480
BATCHES = 4
SHUFFLES = (1, 2, 3)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"racks": "before"},
    {"history": "pin"},
    {"history": "ignore"},
    {"evenness": "exact"},
    {"evenness": "exact", "racks": "before"},
    {"evenness": "exact", "history": "pin"},
    {"racks": "ignore"},
)

real_flow: Any = csgraph.maximum_flow
real_dijkstra: Any = csgraph.dijkstra
real_search: Any = csgraph.breadth_first_order


class Shuffled:
    """SciPy's functions on a graph whose nodes have been renumbered: other paths, equally good results."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.others = 0

    def flow(self, graph: Any, source: int, sink: int, method: str) -> SimpleNamespace:
        number, place, other = self._renumbered(graph)
        result = real_flow(other, int(number[source]), int(number[sink]), method=method)
        data = np.empty(len(graph.data), np.int32)
        data[place] = result.flow.data
        self.others += not np.array_equal(data, real_flow(graph, source, sink, method=method).flow.data)
        flow = csr_matrix((data, graph.indices, graph.indptr), shape=graph.shape)
        return SimpleNamespace(flow=flow, flow_value=result.flow_value)

    def dijkstra(self, graph: Any, indices: int) -> Any:
        number, _, other = self._renumbered(graph)
        return real_dijkstra(other, indices=int(number[indices]))[number]

    def search(self, graph: Any, start: int, return_predecessors: bool) -> Any:
        number, _, other = self._renumbered(graph)
        found = real_search(other, int(number[start]), return_predecessors=return_predecessors)
        return np.argsort(number)[found]

    def _renumbered(self, graph: Any) -> tuple[Any, Any, Any]:
        """The new number of each node, where each entry of the new graph was, and the new graph with sorted rows."""
        n = graph.shape[0]
        number = self._rng.permutation(n)
        row = number[np.repeat(np.arange(n), np.diff(graph.indptr))]
        column = number[graph.indices]
        place = np.lexsort((column, row))
        start = np.append(0, np.cumsum(np.bincount(row, minlength=n))).astype(np.int32)
        other = csr_matrix((graph.data[place], column[place].astype(np.int32), start), shape=graph.shape)
        other.has_sorted_indices = True
        return number, place, other

    def install(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(csgraph, "maximum_flow", self.flow)
        patch.setattr(csgraph, "dijkstra", self.dijkstra)
        patch.setattr(csgraph, "breadth_first_order", self.search)


def deal_by(name: str, _: int, problem: Problem) -> Any:
    return assignor(name)(problem)


def agree(problems: list[Problem], plan: Callable[[int, Problem], Any], patch: pytest.MonkeyPatch) -> int:
    """Hold the plans with each shuffle against those without; how many flows were really other ones."""
    plans = [plan(seed, problem).tobytes() for seed, problem in enumerate(problems)]
    others = 0
    for shuffle in SHUFFLES:
        shuffled = Shuffled(shuffle)
        with patch.context() as patched:
            shuffled.install(patched)
            for seed, problem in enumerate(problems):
                assert plan(seed, problem).tobytes() == plans[seed], f"case {seed}, shuffle {shuffle}"
        others += shuffled.others
    return others


@pytest.mark.parametrize("batch", range(BATCHES))
def test_other_flows_change_no_plan_of_any_shape(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Racks before and after, capacities, pinned and forgotten claims, exact evenness, and no way around the flows."""
    monkeypatch.setattr(engine, "deal_nested", lambda *_, **__: None)
    monkeypatch.setattr(engine, "deal_directly", lambda *_, **__: None)
    monkeypatch.setattr(engine, "chain_of", lambda *_: None)
    cases = range(batch, CASES, BATCHES)
    problems = [
        random_problem(np.random.default_rng([seed, 41]), 12, racks=seed % 3 == 0, capacities=seed % 5 == 0) for seed in cases
    ]
    others = agree(problems, lambda seed, problem: solve(problem, **OPTIONS[cases[seed] % len(OPTIONS)]), monkeypatch)
    assert others > len(problems) // 4


def test_other_flows_change_no_plan_of_the_assignors(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [random_problem(np.random.default_rng([seed, 42]), 12, capacities=seed % 4 == 0) for seed in range(CASES // 2)]
    for name in ("sticky", "constrained-cooperative-sticky", "sticky-first", "fair"):
        agree(problems, partial(deal_by, name), monkeypatch)


def test_other_flows_change_no_plan_of_a_sparse_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of members on a few topics each, of many sizes: many blocks, long paths."""
    problems = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 43])
        may = rng.random((200, 150)) < 2.5 / 150
        sizes = np.minimum(rng.pareto(1.0, 200) * 5 + 1, 200).astype(np.int64)
        start = np.append(0, np.cumsum(may.sum(axis=1)))
        problem = Problem(150, np.append(0, np.cumsum(sizes)), start, np.nonzero(may)[1])
        lost = rng.random(problem.n_partitions) < 0.4
        problems.append(
            problem.replace(previous_owner=np.where(lost, rng.integers(-1, 150, problem.n_partitions), solve(problem)))
        )
    assert agree(problems, lambda _, problem: solve(problem), monkeypatch) > 6


def random_network(rng: np.random.Generator) -> Network:
    """Three layers, arcs within the first two as well, from dense to sparse."""
    n, share = int(rng.integers(1, 25)), rng.random()
    arcs = Arcs(first=n, second=n)
    every = np.arange(n)
    arcs.add("in", "source", ("first", every), rng.integers(0, 30, n))
    tail, head = np.nonzero(np.triu(rng.random((2 * n, 2 * n)) < share, 1))
    arcs.add("between", ("first", tail), ("first", head), rng.integers(0, 20, len(tail)))
    arcs.add("out", ("second", every), "sink", rng.integers(0, 30, n))
    return arcs.build()


@pytest.mark.parametrize("many", [1, 10**9])
def test_our_flow_is_as_large_as_scipys(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In waves and step by step, from nothing and on top of a flow, on all arcs and on some."""
    monkeypatch.setattr(augment_module, "MANY", many)
    for seed in range(CASES):
        network = random_network(np.random.default_rng([seed, 44]))
        other = random_network(np.random.default_rng([seed, 44]))
        amount = other.saturate()
        half = network.push(np.random.default_rng(seed).random(len(network.flow)) < 0.8)
        assert half + network.push() == amount, f"seed {seed}"
        assert bool(((network.flow >= 0) & (network.flow <= network.capacity)).all())
        comes, goes = np.bincount(network._head, network.flow), np.bincount(network._tail, network.flow)
        assert comes[1:-1].tolist() == goes[1 : len(comes) - 1].tolist(), f"seed {seed}: kept on the way"
        assert [side.tolist() for side in network.reached("first", "second")] == [
            side.tolist() for side in other.reached("first", "second")
        ]


def test_in_a_wave_an_overrated_node_hands_back_what_came_last() -> None:
    """Nodes 1 and 2 both count on all four units that node 3 can pass on; both send them, and those of node 2 go back."""
    start = np.array([0, 2, 4, 6, 9, 10])
    head = np.array([1, 2, 0, 3, 0, 3, 1, 2, 4, 3], np.int32)
    mate = np.array([2, 4, 0, 6, 1, 7, 3, 5, 9, 8])
    room = np.array([5, 5, 0, 5, 0, 5, 0, 0, 4, 0])
    depth = depths_by_layer(start, head, room[mate] > 0)
    assert depth.tolist() == [3, 2, 2, 1, 0]
    before = room.copy()
    wave(start, head, mate, room, depth)
    assert (before - room)[[0, 1, 3, 5, 8]].tolist() == [4, 0, 4, 0, 4]
    assert (room - before)[mate].tolist() == (before - room).tolist()


def test_plans_by_waves_are_optimal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augment_module, "MANY", 1)
    monkeypatch.setattr(engine, "deal_directly", lambda *_, **__: None)
    monkeypatch.setattr(nested, "FEW_KINDS", 10**6)
    for seed in range(CASES):
        problem = random_problem(np.random.default_rng([seed, 45]), 9, capacities=seed % 4 == 0)
        assert score(problem, solve(problem))[:3] == score(problem, optimum(problem, (1, 0)))[:3], f"seed {seed}"
