"""Equal subscriptions in small groups: what `equal` deals, in plain Python, quicker than a call into NumPy for each step.

The rules are those of `counterpoise.solver.equal`, and a test holds the two together; above `SMALL` partitions arrays win.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["SMALL", "deal_small", "is_small", "small_quotas"]

SMALL = 100
"""Partitions and members."""


def is_small(problem: Problem) -> bool:
    """Whether a group is small, and everybody subscribes to everything at capacity 1."""
    n, partitions = problem.n_members, problem.n_partitions
    if not 0 < n <= SMALL or not 0 < partitions <= SMALL or len(problem.subscriber) != n * problem.n_topics:
        return False
    return bool(problem.capacity.tolist() == [1] * n)


def deal_small(problem: Problem, history: Literal["prefer", "ignore", "pin"], *, by_index: bool) -> Int32:
    """Owners for a group for which `is_small` holds: as `deal_equal` gives them."""
    n, partitions = problem.n_members, problem.n_partitions
    owner = [UNOWNED] * partitions if history == "ignore" else problem.previous_owner.tolist()
    claims = [0] * n
    for at, member in enumerate(owner):
        if 0 <= member < n:
            claims[member] += 1
        else:
            owner[at] = UNOWNED
    quota = _raised(claims, partitions) if history == "pin" else small_quotas(claims, partitions)
    excess = [have - most if have > most else 0 for have, most in zip(claims, quota, strict=True)]
    if any(excess):
        _give_up(owner, claims, excess, spread=not by_index)
    free = [at for at, member in enumerate(owner) if member < 0]
    if free:
        if by_index and problem.n_topics > 1:
            free = _by_index(problem, free)
        turns = [
            (level - have if by_index else level, member)
            for member, (have, most) in enumerate(zip(claims, quota, strict=True))
            if have < most
            for level in range(have, most)
        ]
        turns.sort()
        for at, (_, member) in zip(free, turns, strict=True):
            owner[at] = member
    return np.array(owner, np.int32)


def small_quotas(claims: list[int], partitions: int) -> list[int]:
    """The even share each, and one more for those with the most claims above it, then by member."""
    n = len(claims)
    base, extras = divmod(partitions, n)
    quota = [base] * n
    chosen = [member for member, have in enumerate(claims) if have > base]
    if len(chosen) > extras:
        chosen = sorted(chosen, key=lambda member: -claims[member])[:extras]
    elif len(chosen) < extras:
        chosen += [member for member, have in enumerate(claims) if have <= base][: extras - len(chosen)]
    for member in chosen:
        quota[member] += 1
    return quota


def _raised(claims: list[int], partitions: int) -> list[int]:
    """Claims, and what is left given to the lowest, so that they rise together; the last ones by member."""
    quota, rest = list(claims), partitions - sum(claims)
    while rest:
        low = min(quota)
        lowest = [member for member, have in enumerate(quota) if have == low]
        above = [have for have in quota if have > low]
        step = rest // len(lowest) if not above else min(rest // len(lowest), min(above) - low)
        if not step:
            lowest, step = lowest[:rest], 1
        for member in lowest:
            quota[member] += step
        rest -= step * len(lowest)
    return quota


def _give_up(owner: list[int], claims: list[int], excess: list[int], *, spread: bool) -> None:
    """Set what members hold beyond their quota to UNOWNED: spaced evenly over their claims, or the last ones."""
    seen, phase, given = [0] * len(claims), [0] * len(claims), 0
    for member, (have, gone) in enumerate(zip(claims, excess, strict=True)):
        if gone:
            phase[member] = given % have
            given += gone
    for at, member in enumerate(owner):
        if member < 0 or not excess[member]:
            continue
        rank, gone, have = seen[member], excess[member], claims[member]
        seen[member] += 1
        if spread:
            upto = rank * gone + phase[member]
            if (upto + gone) // have > upto // have:
                owner[at] = UNOWNED
        elif rank >= have - gone:
            owner[at] = UNOWNED


def _by_index(problem: Problem, free: list[int]) -> list[int]:
    """`free` in the order partition index first, topic second."""
    start = problem.topic_start.tolist()
    index = [at for a, b in pairwise(start) for at in range(b - a)]
    return sorted(free, key=lambda at: (index[at], at))
