"""Nested sets: loads and kept claims along the row of members are those of an independent min-cost flow."""

from __future__ import annotations

import os

import numpy as np
import pytest

from counterpoise.laws import certify
from counterpoise.model.problem import Problem
from counterpoise.solver.engine import solve
from counterpoise.solver.flows.flow import Network
from counterpoise.solver.nested_sets import claims as nested_claims
from counterpoise.solver.nested_sets import nested
from counterpoise.solver.nested_sets.nested import deal_nested
from counterpoise.solver.nested_sets.sweep import Block, sweep
from tests.solver.oracle import optimum, score

CASES = 5_000 if os.environ.get("COUNTERPOISE_PROFILE") == "long" else 400


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few different sets go this way, too."""
    monkeypatch.setattr(nested, "FEW_KINDS", 0)


def nest(rng: np.random.Generator, most: int = 12) -> Problem:
    """Topics whose subscribers are the first so many of a shuffled row, with sizes and a history of many kinds."""
    n, topics = int(rng.integers(1, most)), int(rng.integers(1, most))
    row, reach = rng.permutation(n).tolist(), rng.integers(0, n + 1, topics).tolist()
    sizes = rng.integers(0, int(rng.choice([1, 2, 5, 15])) + 1, topics)
    subscribers = [sorted(row[:upto]) for upto in reach]
    start = np.cumsum([0, *reach])
    problem = Problem(n, np.append(0, np.cumsum(sizes)), start, [member for topic in subscribers for member in topic])
    style = int(rng.integers(4))
    if style == 0:
        return problem
    previous = rng.integers(-1, n + 1, problem.n_partitions)
    if style == 1:  # any subscriber, so that claims are many and mostly in the way
        of_topic = [topic or [-1] for topic in subscribers]
        chosen = [of_topic[t][int(rng.integers(len(of_topic[t])))] for t in problem.topic_of_partition().tolist()]
        previous = np.where(rng.random(problem.n_partitions) < 0.15, previous, np.array(chosen, np.int64))
    if style == 2:  # a plan gone stale
        previous = np.where(rng.random(problem.n_partitions) < 0.2, previous, solve(problem))
    return problem.replace(previous_owner=previous)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("batch", range(4))
def test_loads_and_kept_claims_of_nested_sets_equal_the_oracles(batch: int) -> None:
    for seed in range(batch, CASES, 4):
        problem = nest(np.random.default_rng([seed, 31]))
        owner = solve(problem)
        assert score(problem, owner)[:3] == score(problem, optimum(problem, (1, 0)))[:3], f"seed {seed}"
        assert solve(problem.replace(previous_owner=owner)).tolist() == owner.tolist(), f"seed {seed}: again"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("sizes", "reach", "previous", "most"),
    [
        ([2, 2, 2], [5, 4, 4], [0, 1, 3, 3, 2, 1], 5),
        ([2, 3, 2], [4, 6, 3], [3, 3, 0, 0, 1, 1, 3], 4),
    ],
)
def test_who_must_give_up_a_claim_anyway_gives_the_one_that_is_in_the_way(
    sizes: list[int], reach: list[int], previous: list[int], most: int
) -> None:
    """More members claim the larger load than there are larger loads: dropping another's farther claim would cost one more."""
    subscribers = [member for upto in reach for member in range(upto)]
    problem = Problem(max(reach), np.append(0, np.cumsum(sizes)), np.append(0, np.cumsum(reach)), subscribers, previous)
    owner = deal_nested(problem, with_history=True)
    assert owner is not None
    assert int((owner == problem.previous_owner).sum()) == most


@pytest.mark.usefixtures("small")
def test_no_flow_settles_anything_in_nested_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where not all that loads allow can stay, which a sweep decides."""
    monkeypatch.setattr(Network, "__init__", None)
    swept: list[Block] = []

    def counted(block: Block) -> list[bool]:
        swept.append(block)
        return sweep(block)

    monkeypatch.setattr(nested_claims, "sweep", counted)
    for seed in range(CASES):
        problem = nest(np.random.default_rng([seed, 34]))
        if deal_nested(problem, with_history=True) is not None:
            solve(problem)
    assert len(swept) > CASES // 10


@pytest.mark.usefixtures("small")
def test_nested_sets_and_no_others_are_taken() -> None:
    for seed in range(CASES):
        rng = np.random.default_rng([seed, 32])
        problem = nest(rng, 6)
        live = (np.diff(problem.topic_start) * np.diff(problem.subscriber_start)).any()
        assert (deal_nested(problem, with_history=True) is not None) == live, f"seed {seed}"
        may = rng.random((4, 4)) < 0.6
        sets = [set(np.flatnonzero(topic).tolist()) for topic in may]
        in_line = all(one <= other or other <= one for one in sets for other in sets)
        start = np.append(0, np.cumsum(may.sum(axis=1)))
        other = Problem(4, np.arange(5), start, np.nonzero(may)[1])
        taken = deal_nested(other, with_history=False) is not None
        assert taken == (in_line and bool(may.any())), f"seed {seed}"


def test_four_hundred_nested_sets_are_proven_optimal() -> None:
    rng = np.random.default_rng(33)
    row = rng.permutation(400)
    may = np.zeros((400, 400), np.bool_)
    for topic, upto in enumerate(rng.permutation(400).tolist()):
        may[topic, row[: upto + 1]] = True
    start = np.append(0, np.cumsum(may.sum(axis=1)))
    sizes = rng.integers(1, 40, 400)
    problem = Problem(400, np.append(0, np.cumsum(sizes)), start, np.nonzero(may)[1])
    fresh = deal_nested(problem, with_history=False)
    assert fresh is not None
    assert certify(problem, fresh).balanced
    lost = rng.random(problem.n_partitions) < 0.3
    stale = problem.replace(previous_owner=np.where(lost, rng.integers(-1, 400, problem.n_partitions), fresh))
    certificate = certify(stale, solve(stale))
    assert (certificate.balanced, certificate.sticky) == (True, True)


@pytest.mark.usefixtures("small")
def test_of_equal_plans_those_who_subscribe_to_least_take_the_larger_loads_so_that_a_newcomer_moves_little() -> None:
    problem = Problem(4, [0, 1, 6], [0, 2, 6], [2, 3, 0, 1, 2, 3])
    owner = deal_nested(problem, with_history=False)
    assert owner is not None
    assert np.bincount(owner, minlength=4).tolist() == [2, 2, 1, 1]
    may = np.tri(40, dtype=np.bool_)  # one partition a topic; member 20 comes last
    before, after = np.delete(may, 20, axis=0), may
    old = solve(Problem(39, np.arange(41), np.append(0, np.cumsum(before.sum(axis=0))), np.nonzero(before.T)[1]))
    claims = np.where(old >= 20, old + 1, old)
    new = solve(Problem(40, np.arange(41), np.append(0, np.cumsum(after.sum(axis=0))), np.nonzero(after.T)[1], claims))
    assert int((new != claims).sum()) == 1
