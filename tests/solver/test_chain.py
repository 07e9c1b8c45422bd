"""Chains: duals, loads and kept claims along a row of members are those of an independent min-cost flow."""

from __future__ import annotations

import os

import numpy as np
import pytest

from counterpoise.laws import certify
from counterpoise.model.problem import Problem
from counterpoise.solver.chains.chain import assign_chain, chain_of
from counterpoise.solver.chains.duals import duals
from counterpoise.solver.classes import classify
from counterpoise.solver.engine import solve
from counterpoise.solver.flows.flow import Network
from counterpoise.solver.history import claims_of
from tests.solver.oracle import optimum, score

CASES = 5_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 300


def chains(rng: np.random.Generator, most: int = 14) -> Problem:
    """Some chains with members in random order, topics of random sizes, some of them side by side, and a random history."""
    n, size, code = int(rng.integers(1, most)), int(rng.integers(1, 12)), rng.permutation(most).tolist()
    subscribers: list[list[int]] = [[]] if rng.random() < 0.1 else []
    for i in range(n):
        if rng.random() < 0.4:
            subscribers += [[i]] * int(rng.integers(1, 3))
        if i + 1 < n and rng.random() < 0.9:
            subscribers += [[i, i + 1]] * (2 if rng.random() < 0.2 else 1)
    subscribers = [sorted(code[i] for i in topic) for topic in subscribers]
    rng.shuffle(subscribers)
    sizes = rng.integers(0, size + 1, len(subscribers))
    start = np.cumsum([0] + [len(topic) for topic in subscribers])
    problem = Problem(most, np.append(0, np.cumsum(sizes)), start, [member for topic in subscribers for member in topic])
    if rng.random() < 0.2:
        return problem
    previous = rng.integers(-1, most + 1, problem.n_partitions)
    if rng.random() < 0.7:  # most claims valid, few lost: a plan gone stale
        lost = rng.random(problem.n_partitions) < rng.choice([0.02, 0.2, 0.6])
        previous = np.where(lost, previous, solve(problem))
    return problem.replace(previous_owner=previous)


def closed_ring(n: int, size: int) -> Problem:
    pairs = [sorted([i, (i + 1) % n]) for i in range(n)]
    return Problem(n, np.arange(n + 1) * size, np.arange(n + 1) * 2, [member for pair in pairs for member in pair])


@pytest.mark.parametrize("batch", range(4))
def test_loads_and_kept_claims_of_chains_equal_the_oracles(batch: int) -> None:
    for seed in range(batch, CASES, 4):
        problem = chains(np.random.default_rng([seed, 21]))
        owner = solve(problem)
        assert score(problem, owner)[:3] == score(problem, optimum(problem, (1, 0)))[:3], f"seed {seed}"
        assert solve(problem.replace(previous_owner=owner)).tolist() == owner.tolist(), f"seed {seed}: again"


def test_every_optimal_load_is_the_price_or_one_less() -> None:
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 22])
        n, size = int(rng.integers(1, 9)), int(rng.integers(1, 12))
        own = rng.integers(0, size + 1, n) * (rng.random(n) < 0.4)
        shared = np.append(rng.integers(0, size + 1, n - 1) * (rng.random(n - 1) < 0.9), 0)
        topics = [(units, [i]) for i, units in enumerate(own.tolist())]
        topics += [(units, [i, i + 1]) for i, units in enumerate(shared.tolist()) if units]
        start = np.cumsum([0] + [len(members) for _, members in topics])
        sizes = np.cumsum([0] + [units for units, _ in topics])
        problem = Problem(n, sizes, start, [member for _, members in topics for member in members])
        load = np.bincount(optimum(problem, (1, 0)), minlength=n).tolist()
        found = duals(own.tolist(), shared.tolist())
        assert all(dual - 1 <= units <= dual for dual, units in zip(found, load, strict=True)), f"seed {seed}"


def test_a_thousand_members_with_large_topics_are_proven_optimal() -> None:
    rng = np.random.default_rng(23)
    code = rng.permutation(1000)
    pairs = np.sort(np.stack([code[:-1], code[1:]], axis=1), axis=1)
    for most in (12, 400):
        sizes = rng.integers(5, most, 999)
        problem = Problem(1000, np.append(0, np.cumsum(sizes)), np.arange(1000) * 2, pairs.ravel())
        fresh = solve(problem)
        lost = rng.random(problem.n_partitions) < 0.3
        problem = problem.replace(previous_owner=np.where(lost, rng.integers(-1, 1000, problem.n_partitions), fresh))
        certificate = certify(problem, solve(problem))
        assert (certificate.balanced, certificate.sticky) == (True, True)


def test_no_flow_settles_anything_in_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing there depends on the paths that another library, or another release of it, happens to find."""
    monkeypatch.setattr(Network, "__init__", None)
    for seed in range(50):
        problem = chains(np.random.default_rng([seed, 24]))
        assert score(problem, solve(problem))[0] == int((np.diff(problem.subscriber_start) == 0) @ np.diff(problem.topic_start))


def test_only_open_chains_are_taken() -> None:
    assert chain_of(classify(closed_ring(5, 3))) is None
    three_at_a_topic = Problem(3, [0, 4, 5], [0, 3, 4], [0, 1, 2, 0])
    assert chain_of(classify(three_at_a_topic)) is None
    three_neighbours = Problem(4, [0, 1, 2, 3], [0, 2, 4, 6], [0, 1, 0, 2, 0, 3])
    assert chain_of(classify(three_neighbours)) is None
    assert certify(closed_ring(5, 3), solve(closed_ring(5, 3))).balanced


def test_a_row_starts_at_the_lower_end_of_the_chain_with_the_lowest_start() -> None:
    problem = Problem(6, [0, 1, 2, 3], [0, 2, 4, 6], [2, 3, 0, 2, 4, 5])  # 3 - 2 - 0, 4 - 5; 1 subscribes to nothing
    chain = chain_of(classify(problem))
    assert chain is not None
    assert (chain.member.tolist(), chain.link.tolist()) == ([0, 2, 3, 4, 5], [1, 0, -1, 2, -1])


def test_of_equal_plans_the_one_whose_larger_loads_come_first_is_taken() -> None:
    problem = Problem(4, [0, 2, 4, 6], [0, 2, 4, 6], [0, 1, 1, 2, 2, 3])
    classes = classify(problem)
    chain = chain_of(classes)
    assert chain is not None
    allocation = assign_chain(classes, claims_of(problem, classes), chain)
    assert allocation.load.tolist() == [2, 2, 1, 1]
