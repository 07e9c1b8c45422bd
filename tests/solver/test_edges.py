"""The corners that broke drafts, and what a plan may not depend on."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from counterpoise.assignors.registry import assignor
from counterpoise.errors import OptionError
from counterpoise.model.problem import UNOWNED, Problem, Racks
from counterpoise.solver import engine
from counterpoise.solver.classes import classify
from counterpoise.solver.decode import fill
from counterpoise.solver.engine import prepare, solve
from counterpoise.solver.flows.balance import decompose
from tests.solver.build import group, loads, random_problem
from tests.solver.oracle import options_of

STRATEGIES = ["sticky", "cooperative-sticky", "constrained-cooperative-sticky", "fair", "sticky-first"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(Problem(0, [0], [0], []), id="no members, no topics"),
        pytest.param(Problem(0, [0, 3], [0, 0], [], [5, -1, -2]), id="no members, claims of departed ones"),
        pytest.param(Problem(3, [0], [0], []), id="members, no topics"),
        pytest.param(Problem(3, [0, 0, 0], [0, 3, 3], [0, 1, 2]), id="topics without partitions"),
        pytest.param(Problem(2, [0, 2, 4], [0, 0, 1], [1], [0, 0, 0, 9]), id="a topic nobody subscribes to, stale claims"),
        pytest.param(Problem(2, [0, 2, 4], [0, 1, 1], [1], [2**31 - 1, -(2**31), 1, 1]), id="owners far out of range"),
        pytest.param(Problem(4, [0, 1, 1, 3], [0, 2, 3, 4], [0, 1, 2, 3], [1, 3, 3]), id="separate groups in one"),
    ],
)
def test_corners_are_planned(strategy, problem):
    """Owned exactly where somebody subscribes, and only by subscribers."""
    owner = assignor(strategy)(problem)
    assert owner.dtype == np.int32
    for member, members in zip(owner.tolist(), options_of(problem), strict=True):
        assert member in (members or [-1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_problem_is_not_changed(strategy):
    for seed in range(60):
        problem = random_problem(np.random.default_rng([seed, 31]), 6)
        before = problem.previous_owner.copy()
        owner = assignor(strategy)(problem)
        assert problem.previous_owner.tolist() == before.tolist()
        assert not np.shares_memory(owner, problem.previous_owner)


def test_a_prepared_group_is_planned_as_a_new_one_whatever_was_planned_before(monkeypatch):
    """Blocks are found once, as they do not depend on claims; with pinned claims they do, and are found for each plan."""
    found: list[int] = []

    def counted(classes, *given):
        found.append(classes.n_topic_classes)
        return decompose(classes, *given)

    monkeypatch.setattr(engine, "decompose", counted)
    several = again = 0
    for seed in range(400):
        rng = np.random.default_rng([seed, 37])
        problem = random_problem(rng, 9, racks=seed % 2 == 0, capacities=seed % 3 == 0)
        history, evenness = ("prefer", "pin")[seed % 4 == 3], ("near", "exact")[seed % 5 == 4]
        options: dict[str, Any] = {"history": history, "racks": ("after", "before", "ignore")[seed % 3], "evenness": evenness}
        prepared, used = prepare(problem, **options), 0
        for _ in range(4):
            claims = rng.integers(-1, max(problem.n_members, 1), problem.n_partitions)
            other = problem.replace(previous_owner=claims)
            before = len(found)
            owner = prepared.plan(other).tolist()
            used += len(found) - before
            assert owner == solve(other, **options).tolist(), f"seed {seed}"
        several, again = several + (used > 0), again + (used > 1 and history != "pin")
    assert (several > 100, again) == (True, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bystanders_change_nothing(strategy):
    """A member without topics and a topic without partitions shift the codes and nothing else."""
    for seed in range(150):
        rng = np.random.default_rng([seed, 32])
        problem = random_problem(rng, 7, capacities=seed % 4 == 0)
        at, where = int(rng.integers(0, problem.n_members + 1)), int(rng.integers(0, problem.n_topics + 1))

        def shifted(codes, at=at):
            return np.where(codes >= at, codes + 1, codes)

        bigger = Problem(
            problem.n_members + 1,
            np.insert(problem.topic_start, where, problem.topic_start[where]),
            np.insert(problem.subscriber_start, where, problem.subscriber_start[where]),
            shifted(problem.subscriber),
            np.where(problem.previous_owner >= problem.n_members, -1, shifted(problem.previous_owner)),
            holder=shifted(problem.holder),
            capacity=np.insert(problem.capacity, at, 3 if seed % 4 == 0 else 1),
        )
        assert assignor(strategy)(bigger).tolist() == shifted(assignor(strategy)(problem)).tolist(), f"seed {seed}"


@pytest.mark.parametrize("racks", ["after", "before"])
def test_planning_again_changes_nothing_with_racks(racks):
    for seed in range(200):
        problem = random_problem(np.random.default_rng([seed, 33]), 7, racks=True)
        owner = solve(problem, racks=racks)
        assert solve(problem.replace(previous_owner=owner), racks=racks).tolist() == owner.tolist(), f"seed {seed}"


def test_a_fresh_group_with_equal_subscriptions_spreads_every_topic():
    """No member gets two partitions more of a topic than another."""
    sizes = [3, 7, 1, 12, 5]
    topics = {f"t{i}": n for i, n in enumerate(sizes)}
    owner = solve(group(topics, {member: list(topics) for member in "abcd"}))
    for part in np.split(owner, np.cumsum(sizes)[:-1]):
        counts = np.bincount(part, minlength=4)
        assert counts.max() - counts.min() <= 1


def test_a_newcomer_takes_from_many_topics():
    """What is given up is spread over topics, not cut from the last one."""
    topics = {f"t{i:02}": 20 for i in range(20)}
    members = {f"m{i:02}": list(topics) for i in range(19)}
    owner = solve(group(topics, members))
    members["m99"] = list(topics)
    joined = solve(group(topics, members).replace(previous_owner=owner))
    assert loads(group(topics, members), joined) == [20] * 20
    taken = np.flatnonzero(joined == 19) // 20
    assert len(set(taken.tolist())) >= 15


def test_shares_of_mixed_groups_stay_near_proportion():
    """In a dense random group hardly any member has two partitions more of a topic than its even share."""
    rng = np.random.default_rng(34)
    may = rng.random((40, 60)) < 0.5
    problem = Problem(60, np.arange(41) * 25, np.concatenate([[0], np.cumsum(may.sum(1))]), np.nonzero(may)[1])
    owner = solve(problem)
    counts = np.bincount(np.repeat(np.arange(40), 25) * 60 + owner, minlength=2400).reshape(40, 60)
    even_share = -(-25 // may.sum(1))
    assert int((counts > even_share[:, None] + 1).sum()) <= 4


def test_exact_evenness_says_when_a_group_is_too_large_for_it():
    """Rather than rounding: with racks the weights of 200,000 partitions of one topic leave exact arithmetic."""
    racks = Racks(np.array([0, 1], np.int32), np.arange(200_001), np.arange(200_000, dtype=np.int32) % 2)
    problem = Problem(2, [0, 200_000], [0, 2], [0, 1], racks=racks)
    with pytest.raises(OptionError, match="too large for 'exact'"):
        assignor("sticky", evenness="exact")(problem)


SCRIPT = """
    import hashlib, sys
    import numpy as np
    from counterpoise.solver.engine import solve
    from tests.solver.build import random_problem
    digest = hashlib.sha256()
    for seed in range(60):
        problem = random_problem(np.random.default_rng([seed, 35]), 10, racks=seed % 3 == 0, capacities=seed % 2 == 0)
        digest.update(solve(problem).tobytes())
    print(digest.hexdigest())
"""


def test_hash_seeds_change_nothing():
    """Separate processes with different hash seeds plan alike."""
    results = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=environment, capture_output=True, text=True, check=True
        )
        results.add(run.stdout)
    digest = hashlib.sha256()
    for seed in range(60):
        problem = random_problem(np.random.default_rng([seed, 35]), 10, racks=seed % 3 == 0, capacities=seed % 2 == 0)
        digest.update(solve(problem).tobytes())
    assert results == {digest.hexdigest() + "\n"}


def test_no_plan_imports_scipy():
    """Equal subscriptions, one block, flows, racks, capacities, exact evenness, lag."""
    code = """
        import sys
        import numpy as np
        from counterpoise.assignors.registry import assignor
        from tests.solver.build import random_problem
        before = {name.split(".")[0] for name in sys.modules}
        for seed in range(60):
            problem = random_problem(np.random.default_rng([seed, 36]), 8, racks=seed % 3 == 0, capacities=seed % 2 == 0)
            for name in ("sticky", "cooperative-sticky", "constrained-cooperative-sticky", "fair", "sticky-first"):
                assignor(name)(problem)
            assignor("sticky", evenness="exact")(problem)
            lag = np.random.default_rng(seed).integers(0, 99, problem.n_partitions)
            assignor("lag")(problem.replace(lag=lag))
            assignor("lag-sticky")(problem.replace(lag=lag))
        assert "scipy" not in before | {name.split(".")[0] for name in sys.modules}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_the_least_loaded_member_of_a_class_takes_the_next_free_partition() -> None:
    problem = Problem(2, [0, 6], [0, 2], [0, 1])
    owner, one = np.array([0, 0, *[UNOWNED] * 4], np.int32), np.zeros(1, np.int64)
    fill(owner, classify(problem), np.array([2, 0]), np.array([3, 3]), (one, one, one + 4))
    assert owner.tolist() == [0, 0, 1, 1, 0, 1]
