"""Quotas are Webster's: the cheapest units are taken, ties at the dual are ceiling slots."""

from __future__ import annotations

import heapq
from fractions import Fraction

import numpy as np
import pytest

from counterpoise.solver.flows.quotas import Capacities, quotas_of


def cheapest(units, capacity, pinned):
    """Loads by taking the cheapest unit, one at a time."""
    heap = [(Fraction(2 * o + 1, c), i) for i, (c, o) in enumerate(zip(capacity, pinned, strict=True))]
    heapq.heapify(heap)
    taken = [0] * len(capacity)
    for _ in range(units):
        _, i = heapq.heappop(heap)
        taken[i] += 1
        heapq.heappush(heap, (Fraction(2 * (pinned[i] + taken[i]) + 1, capacity[i]), i))
    return taken


def cost(loads, capacity, pinned):
    return sum(Fraction((o + x) ** 2, c) for x, c, o in zip(loads, capacity, pinned, strict=True))


@pytest.mark.parametrize("top", [1, 3, 50, 10**9])
def test_quotas_are_as_cheap_as_one_unit_at_a_time(top):
    """Also for capacities whose products leave 64 bits."""
    for seed in range(120):
        rng = np.random.default_rng([seed, top])
        n, units = int(rng.integers(1, 7)), int(rng.integers(0, 40))
        capacity, pinned = rng.integers(1, top + 1, n), rng.integers(0, 9, n)
        quotas = quotas_of(np.array([units]), np.zeros(n, np.int64), Capacities(capacity, pinned))
        assert int(quotas.floor.sum() + quotas.ceiling_slots[0]) == units, f"seed {seed}"
        assert 0 <= int(quotas.ceiling_slots[0]) <= int(quotas.candidate.sum())
        lucky = np.flatnonzero(quotas.candidate)[: int(quotas.ceiling_slots[0])]
        loads = quotas.floor.copy()
        loads[lucky] += 1
        listed = (capacity.tolist(), pinned.tolist())
        assert cost(loads.tolist(), *listed) == cost(cheapest(units, *listed), *listed), f"seed {seed}"


def test_blocks_are_shared_out_one_by_one():
    """Members outside every block take nothing, with and without weights."""
    block = np.array([1, -1, 0, 1])
    for capacities in (Capacities(), Capacities(np.array([2, 2, 2, 2]))):
        quotas = quotas_of(np.array([3, 5]), block, capacities)
        assert quotas.floor.tolist() == [2, 0, 3, 2]
        assert quotas.candidate.tolist() == [True, False, False, True]
        assert quotas.ceiling_slots.tolist() == [0, 1]
