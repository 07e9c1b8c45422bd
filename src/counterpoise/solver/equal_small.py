"""Equal subscriptions in small groups: when `lag` and `lag-sticky` deal them in plain Python, and the quotas then."""

from __future__ import annotations

from counterpoise.model.problem import Problem

__all__ = ["SMALL", "is_small", "small_quotas"]

SMALL = 100
"""Partitions and members."""


def is_small(problem: Problem) -> bool:
    """Whether a group is small, and everybody subscribes to everything at capacity 1."""
    n, partitions = problem.n_members, problem.n_partitions
    if not 0 < n <= SMALL or not 0 < partitions <= SMALL or len(problem.subscriber) != n * problem.n_topics:
        return False
    return bool(problem.capacity.tolist() == [1] * n)


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
