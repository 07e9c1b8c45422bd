"""Annealing in batches: within all limits and counts, for fewer moves than what it begins with; the same each time."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from benchmarks.lag import group

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.lag import anneal, fewer, noise
from counterpoise.solver.lag.desk import Desk, Index
from tests.solver.test_lag_fewer import loads, moves, no_worse, planned
from tests.strategies import random_problem, subscribers_of


@cache
def drifted() -> Problem:
    """A hundred members of which each reads half of ten topics at random; lags have changed by a fifth, eight times."""
    rng = np.random.default_rng(3)
    problem = group("random", 10, 200, 100, rng.lognormal(10, 1, 2000).astype(np.int64), rng)
    for _ in range(8):
        lag = (np.asarray(problem.lag) * rng.uniform(0.8, 1.2, 2000)).astype(np.int64)
        problem = problem.replace(previous_owner=planned(problem, Fraction(1, 50)).owner, lag=lag)
    return problem


def count_of(owner: Int32, n: int) -> Int64:
    return np.bincount(owner[owner != UNOWNED], minlength=n)


def test_where_much_must_move_fewer_partitions_do_than_the_repair_or_the_walk_moves() -> None:
    """Within the limit, with the same counts, to subscribers only; the desk it begins with stays as it is."""
    problem = drifted()
    desk = planned(problem, Fraction(1, 50))
    before, walk = desk.owner.copy(), fewer._Walk(desk, 0)
    walk.go(15_000)
    found = anneal.annealed(desk, 0, 300)
    assert desk.owner.tolist() == before.tolist()
    assert moves(problem, found.owner) < 0.9 * moves(problem, before)
    assert moves(problem, found.owner) < moves(problem, np.array(walk.best, np.int32))
    assert found.load.tolist() == loads(found.owner, np.asarray(problem.lag), 100).tolist()
    assert (found.load <= desk.limit).all()
    assert np.sort(count_of(found.owner, 100)).tolist() == np.sort(count_of(before, 100)).tolist()
    assert all(o in subscribers_of(problem, p) for p, o in enumerate(found.owner.tolist()))
    assert anneal.annealed(desk, 0, 300).owner.tolist() == found.owner.tolist()


@pytest.mark.parametrize("counts", ["balanced", 2, 10**6])
def test_limits_counts_and_claims_hold_for_any_group(counts: str | int) -> None:
    """Unequal subscriptions and capacities, partitions that nobody owned, owns or may own."""
    rng, better = np.random.default_rng(1), 0
    for number in range(60):
        problem = random_problem(rng, capacities=number % 2 == 0)
        problem = problem.replace(lag=rng.lognormal(5, 1, problem.n_partitions).astype(np.int64))
        desk, n = planned(problem, Fraction(1, 5), counts), problem.n_members
        if desk.excess() or not fewer.moves_of(desk):
            continue
        found = anneal.annealed(desk, 0, 60)
        better += moves(problem, found.owner) < moves(problem, desk.owner)
        assert (loads(found.owner, np.asarray(problem.lag), n) <= desk.limit).all()
        no_worse(problem, desk, found.owner, counts)
    assert better > 0


def test_the_books_agree_with_the_plan_after_any_batch() -> None:
    """Slots, lags, classes, rooms and counts are what the owners say; nobody's count leaves the balance."""
    problem = drifted()
    desk = planned(problem, Fraction(1, 50))
    crowd = anneal._Crowd(desk)
    for batch in range(40):
        crowd.step(anneal._KINDS[batch % 5], crowd.moved(), batch / 40)
    owner = crowd.owner
    assert (owner != desk.owner).any()
    assert crowd.hold[owner, crowd.slot].tolist() == list(range(2000))
    assert crowd.lag[owner, crowd.slot].tolist() == desk.weight.tolist()
    assert crowd.kind[owner, crowd.slot].tolist() == desk.class_of.tolist()
    assert crowd.leaves[owner, crowd.slot].tolist() == (owner == desk.previous).astype(float).tolist()
    assert (crowd.leaves == anneal._NEVER).sum(axis=1).tolist() == (crowd.hold.shape[1] - crowd.count).tolist()
    assert crowd.room.tolist() == (desk.limit - np.bincount(owner, desk.weight, 100).astype(np.int64)).tolist()
    assert crowd.count.tolist() == np.bincount(owner, minlength=100).tolist()
    assert np.sort(crowd.count).tolist() == np.sort(desk.count).tolist()


def test_only_groups_of_some_size_are_annealed_and_it_ends_when_moves_are_few_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan with so few moves is the outcome; smaller groups are left to the walk."""
    desk = planned(drifted(), Fraction(1, 50))
    enough = fewer.moves_of(desk) - 1
    step = anneal._Crowd.step
    called: list[int] = []

    def counted(crowd: anneal._Crowd, what: str, moved: Index, part: float) -> None:
        called.append(1)
        step(crowd, what, moved, part)

    monkeypatch.setattr(anneal._Crowd, "step", counted)
    assert fewer.moves_of(anneal.annealed(desk, enough, 300)) <= enough
    assert len(called) < 300
    called.clear()

    def annealed(desk: Desk, least: int, batches: int) -> Desk:
        called.append(batches if least < 10**6 else 0)
        return desk

    monkeypatch.setattr(fewer, "annealed", annealed)
    fewer.fewer_moves(desk)
    monkeypatch.setattr(fewer, "ANNEALED", 2001)
    fewer.fewer_moves(desk)
    monkeypatch.setattr(fewer, "ANNEALED", 2000)
    monkeypatch.setattr(fewer, "_EVEN", 1)  # counts are 20 and 21, and one member reads nothing
    fewer.fewer_moves(desk)
    assert len(called) == 1
    assert 0 < called[0] <= fewer.BATCHES_AT_MOST


def test_what_the_repair_does_not_mend_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the way members are over their limits, for fewer moves than any plan within."""
    desk = planned(drifted(), Fraction(1, 50))
    met: list[bool] = []
    monkeypatch.setattr(anneal, "repair", lambda found, relays: met.append(bool(found.excess() and not relays)))
    found = anneal.annealed(desk, 0, 100)
    assert met.count(True) == len(met) > 0
    assert not found.excess()


def test_noise_is_the_same_on_every_machine_and_spread_as_it_should_be() -> None:
    """Gumbel noise has mean 0.577 and variance 1.645, a little less by straight logarithms; a reader begins anew each time."""
    assert noise.splitmix(0, 1).tolist() == [[0xE220A839], [0x7B1DCDAF]]
    one, other = noise.Noise(), noise.Noise()
    assert one.below(1000, 50).tolist() == other.below(1000, 50).tolist()
    assert one.below(7, 4000).tolist() != one.below(7, 4000).tolist()
    assert np.unique(other.below(7, 4000)).tolist() == list(range(7))
    drawn = other.gumbel(200, 200)
    assert abs(float(drawn.mean()) - 0.577) < 0.1
    assert abs(float(drawn.var()) - 1.645) < 0.3
