"""Fewer moves within the same limits and counts: a walk on plans, held against every plan of small groups."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from counterpoise.assignors import assignor, lag_sticky
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.moves import fewer
from tests.strategies import problem_of, random_problem, subscribers_of


def planned(problem: Problem, share: Fraction, counts: str | int = "balanced", budget: int = 2**62) -> Desk:
    """What the steps before the walk give."""
    assert problem.lag is not None
    return lag_sticky._Planner(problem, problem.lag, share, 0, budget, counts).plan()


def moves(problem: Problem, owner: Int32) -> int:
    kept = [p for p, o in enumerate(problem.previous_owner.tolist()) if o in subscribers_of(problem, p)]
    return int(np.count_nonzero(owner[kept] != problem.previous_owner[kept]))


def loads(owner: Int32, lag: Int64, n: int) -> Int64:
    return np.bincount(owner + 1, lag, n + 1)[1:].astype(np.int64)


def drifted(seed: int) -> Problem:
    """Thirty members with twenty partitions each, whose lags have changed by up to 60 % since they were dealt."""
    rng = np.random.default_rng(seed)
    lag = rng.lognormal(10, 1, 600).astype(np.int64)
    problem = problem_of([600], [list(range(30))], 30, lag=lag)
    owner = assignor("lag-sticky", tolerance=0.02)(problem)
    return problem.replace(previous_owner=owner, lag=(lag * rng.uniform(0.4, 1.6, 600)).astype(np.int64))


def test_drifted_groups_take_fewer_moves_than_the_repair_makes() -> None:
    """Six groups, within the same limit and with the same counts."""
    before = after = 0
    for seed in range(6):
        problem = drifted(seed)
        desk = planned(problem, Fraction(1, 50))
        repaired, owner = desk.owner.copy(), fewer.fewer_moves(desk)
        assert (loads(owner, np.asarray(problem.lag), 30) <= desk.limit).all()
        assert np.bincount(owner).tolist() == [20] * 30
        assert moves(problem, owner) <= moves(problem, repaired)
        before, after = before + moves(problem, repaired), after + moves(problem, owner)
        assert owner.tolist() == assignor("lag-sticky", tolerance=0.02)(problem).tolist()
    assert after < 0.95 * before


@pytest.mark.parametrize("counts", ["balanced", 2, 10**6])
@pytest.mark.parametrize("seed", range(4))
def test_limits_counts_and_subscriptions_hold_for_any_group(
    seed: int, counts: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unequal subscriptions and capacities, claims of any kind; nothing gets worse, and sums stay what they say."""
    monkeypatch.setattr(fewer, "SMALL", 0)
    monkeypatch.setattr(fewer, "RELIEVED", 0)
    monkeypatch.setattr(fewer, "STEPS_AT_MOST", 2000)
    rng, better = np.random.default_rng(seed), 0
    for number in range(40):
        problem = random_problem(rng, capacities=number % 2 == 0)
        problem = problem.replace(lag=rng.lognormal(5, 1, problem.n_partitions).astype(np.int64))
        desk = planned(problem, Fraction(1, 5), counts)
        owner, n = fewer.fewer_moves(desk), problem.n_members
        better += moves(problem, owner) < moves(problem, desk.owner)
        if desk.excess():
            assert owner.tolist() == desk.owner.tolist()
        else:
            assert (loads(owner, np.asarray(problem.lag), n) <= desk.limit).all()
        no_worse(problem, desk, owner, counts)
    assert better > 0


def no_worse(problem: Problem, desk: Desk, owner: Int32, counts: str | int) -> None:
    """No more moves, subscribers only, counts as balanced or within the band."""
    assert moves(problem, owner) <= moves(problem, desk.owner)
    assert all(o in (subscribers_of(problem, p) or [UNOWNED]) for p, o in enumerate(owner.tolist()))
    count = np.bincount(owner + 1, minlength=problem.n_members + 1)[1:]
    if counts == "balanced":
        assert _cost(count, problem) == _cost(desk.count, problem)
    else:
        assert ((count >= desk.least) & (count <= desk.most)).all()


def _cost(count: Int64, problem: Problem) -> Fraction:
    return sum((Fraction(n * n, c) for n, c in zip(count.tolist(), problem.capacity.tolist(), strict=True)), Fraction(0))


@pytest.mark.parametrize("counts", ["balanced", 1, 6])
def test_no_plan_as_good_moves_less_than_is_sure(counts: str | int) -> None:
    """Every plan of 200 small groups, tried."""
    rng, tight = np.random.default_rng(3), 0
    for number in range(200):
        n = int(rng.integers(2, 4))
        claims = rng.integers(-1, n, 6)
        problem = problem_of([6], [list(range(n))], n, claims, lag=rng.integers(0, 30, 6))
        if not np.asarray(problem.lag).any():
            continue
        desk = planned(problem, Fraction(1, 10), counts)
        everything = np.array(list(product(range(n), repeat=6)), np.int32)
        count = (everything[:, :, None] == np.arange(n)).sum(axis=1)
        load = ((everything[:, :, None] == np.arange(n)) * np.asarray(problem.lag)[:, None]).sum(axis=1)
        allowed = ((count >= desk.least) & (count <= desk.most)).all(axis=1)
        if counts == "balanced":
            allowed = (np.sort(count, axis=1) == np.sort(desk.count)).all(axis=1)
        allowed &= (load <= desk.limit).all(axis=1)
        if allowed.any():
            fewest = int(((everything[allowed] != claims) & (claims >= 0)).sum(axis=1).min())
            sure = fewer.surely_moved(desk)
            assert sure <= fewest, f"group {number}"
            tight += sure == fewest > 0
    assert tight > 20


def test_small_and_large_groups_and_what_moves_no_more_than_is_sure_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk is not even begun."""
    desk = planned(drifted(0), Fraction(1, 50))
    monkeypatch.setattr(fewer, "_Walk", None)
    with pytest.raises(TypeError):
        fewer.fewer_moves(desk)
    for name, value in (("SMALL", 600), ("LARGE", 599), ("surely_moved", lambda _: 600)):
        with monkeypatch.context() as patched:
            patched.setattr(fewer, name, value)
            assert fewer.fewer_moves(desk) is desk.owner


def test_the_walk_is_the_same_on_every_machine() -> None:
    """The numbers are those of splitmix64 from 0 on; the first of them is published with it: e220a8397b1dcdaf."""
    steps = list(fewer._draw(0, 4))
    assert (steps[0][0], steps[0][3]) == (0xE220A839, 0x7B1DCDAF)
    assert steps != list(fewer._draw(1, 4))
