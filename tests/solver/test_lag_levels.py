"""Lag levels and even shares: the densest set of topics by every set there is, shares that no order of summation changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from counterpoise.model.problem import Int64
from counterpoise.solver.lag import arcs as lag_arcs
from counterpoise.solver.lag import blocks as lag_blocks
from counterpoise.solver.lag.share import Bools, even_shares


def table(rng: np.random.Generator, kinds: int, members: int) -> Bools:
    """Who may take what; each topic class somebody."""
    may = rng.random((kinds, members)) < rng.choice([0.3, 0.6, 0.9])
    may[np.arange(kinds), rng.integers(0, members, kinds)] = True
    return may


def densest(lag: Int64, capacity: Int64, may: Bools) -> Fraction:
    """The largest lag over capacity of any set of topics, by trying all."""
    sets = (np.array(one) for one in product((False, True), repeat=len(lag)) if any(one))
    return max(Fraction(int(lag[one].sum()), int(capacity[may[one].any(axis=0)].sum())) for one in sets)


@pytest.mark.parametrize(("small", "tried"), [(0, 0), (4096, 0), (4096, 2**14)])
def test_the_first_level_is_that_of_the_densest_set_of_300_groups(
    monkeypatch: pytest.MonkeyPatch, small: int, tried: int
) -> None:
    """By even shares first (no table counts as small), by flows alone, and by trying every set."""
    monkeypatch.setattr(lag_blocks, "_SMALL", small)
    monkeypatch.setattr(lag_blocks, "_TRIED", tried)
    rng = np.random.default_rng(8)
    for number in range(300):
        kinds, members = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        may = table(rng, kinds, members)
        lag = np.where(rng.random(kinds) < 0.3, 0, rng.integers(0, 10 ** int(rng.integers(1, 7)), kinds))
        capacity = rng.integers(1, 4, members)
        blocks = lag_blocks.lag_blocks(lag, capacity, may)
        assert abs(float(blocks.level[0]) - float(densest(lag, capacity, may))) <= 2e-6 * float(blocks.level[0]), (
            f"group {number}"
        )
        assert list(blocks.level) == sorted(set(blocks.level), reverse=True)
        assert (blocks.block_of_topic_class >= 0).all()


def test_one_topic_far_behind_is_a_block_of_its_own_without_any_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a flow was asked for")

    monkeypatch.setattr(lag_blocks, "overfull", never)
    rng = np.random.default_rng(4)
    may, lag = rng.random((60, 200)) < 0.5, rng.integers(900, 1100, 60)
    even = lag_blocks.lag_blocks(lag, np.ones(200, np.int64), may)
    assert even.level == (Fraction(int(lag.sum()), 200),)
    lag[7] = 10**7
    giant = lag_blocks.lag_blocks(lag, np.ones(200, np.int64), may)
    assert giant.level[0] == Fraction(10**7, int(may[7].sum()))
    assert np.flatnonzero(giant.block_of_topic_class == 0).tolist() == [7]


def test_shares_use_up_the_supply_fill_all_alike_and_do_not_depend_on_any_order() -> None:
    rng = np.random.default_rng(5)
    may = rng.random((40, 300)) < 0.4
    supply, room = rng.integers(0, 10**9, 40), rng.integers(1, 10**8, 300)
    shares = even_shares(supply, room, may, near=1e-3)
    given = may * shares.row[:, None] * shares.column
    assert given.sum(axis=1) == pytest.approx(supply / supply.sum())
    assert (given.sum(axis=0) / room * room.sum()).max() <= 1.0011
    rows, columns = rng.permutation(40), rng.permutation(300)
    other = even_shares(supply[rows], room[columns], may[rows][:, columns], near=1e-3)
    assert other.row.tolist() == shares.row[rows].tolist()
    assert other.column.tolist() == shares.column[columns].tolist()


def test_shares_that_cannot_fit_are_told() -> None:
    """Nine tenths of the supply may only go to a half of the room; and supply that may go nowhere with room."""
    may = np.array([[True, False], [True, True]])
    assert even_shares(np.array([90, 10]), np.array([50, 50]), may, near=1e-6).fullest > 1.7
    assert even_shares(np.array([90, 10]), np.array([0, 50]), may, near=1e-6).fullest == np.inf
    assert even_shares(np.array([0, 0]), np.array([5, 5]), may, near=1e-6).fullest == np.inf


def test_what_no_balanced_plan_uses_is_the_same_by_walks_and_by_strong_components(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    together = 0
    for number in range(200):
        kinds, members = int(rng.integers(2, 5)), int(rng.integers(2, 6))
        may = table(rng, kinds, members)
        kind = rng.integers(0, kinds, 12).astype(np.int32)
        owner = np.array([rng.choice(np.flatnonzero(may[one])) for one in kind], np.int32)
        case = (may, np.arange(members), kind, owner, np.ones(members, np.int64))
        quick = lag_arcs.exchangeable(*case)
        together += quick is may
        with monkeypatch.context() as patch:
            patch.setattr(lag_arcs, "_all_together", lambda *_: False)
            assert np.array_equal(quick, lag_arcs.exchangeable(*case)), f"group {number}"
    assert together > 20


def test_strong_components_are_the_same_by_squaring_a_table_and_by_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    several = 0
    for number in range(200):
        size = int(rng.integers(2, 40))
        tail, head = rng.integers(0, size, (2, int(rng.integers(1, 3 * size))))
        found = []
        for few in (64, 0):
            monkeypatch.setattr(lag_arcs, "_FEW", few)
            component = lag_arcs._strong_components(tail, head, size)
            found.append(component[:, None] == component[None, :])
        assert np.array_equal(*found), f"graph {number}"
        several += size < found[0].sum() < size * size
    assert several > 100


@pytest.mark.parametrize("tried", [0, 2**14])
def test_sets_that_are_equally_dense_are_one_level(monkeypatch: pytest.MonkeyPatch, tried: int) -> None:
    monkeypatch.setattr(lag_blocks, "_SMALL", 0)
    monkeypatch.setattr(lag_blocks, "_TRIED", tried)
    blocks = lag_blocks.lag_blocks(np.array([5, 5, 1]), np.ones(3, np.int64), np.eye(3, dtype=np.bool_))
    assert blocks.level == (Fraction(5), Fraction(1))
    assert blocks.block_of_topic_class.tolist() == [0, 0, 1]
