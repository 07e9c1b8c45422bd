"""Laws of an assignor: what must hold between one plan and the next, for any function Problem -> owners int32[P]."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from counterpoise.laws.balance import loads
from counterpoise.laws.cooperative import added_and_revoked, withheld
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.problem import Int32, Problem
from counterpoise.model.withhold import withhold

__all__ = ["after_round", "balance_of", "idempotent", "pure", "two_rounds"]

_Assignor = Callable[[Problem], Int32]


def pure(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``pure``: equal problems, planned again, get the same owners, int32[P]."""
    first = assign(problem)
    if first.dtype != np.int32 or first.shape != (problem.n_partitions,):
        return [Violation("pure", f"owners are {first.dtype} {first.shape}, int32 ({problem.n_partitions},) is promised")]
    again = first.copy()
    for other in (assign(problem), assign(problem.replace())):
        if not np.array_equal(again, other) or not np.array_equal(again, first):
            return [_differ("pure", "the same group planned twice", problem, again, other)]
    return []


def idempotent(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``idempotent``: if all members own what the plan gave them, planning again changes nothing."""
    first = assign(problem)
    again = assign(after_round(problem, first))
    return [] if np.array_equal(first, again) else [_differ("idempotent", "planned again", problem, first, again)]


def two_rounds(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``two-rounds``: a cooperative rebalance ends with its second round.

    The first round assigns what no other member holds. When its holders have revoked the rest, the group plans again. That second
    round must revoke nothing that the first one assigned, and its balance must be that of the first round's target.
    """
    target = assign(problem)
    handed = withhold(problem, target)
    found = [*withheld(problem, target, handed), *added_and_revoked(problem, handed)]
    end = assign(after_round(problem, handed))
    words = Words(problem)
    revoked = np.flatnonzero((handed >= 0) & (end != handed))
    if len(revoked):
        message = f"the second round revokes {len(revoked)} partitions of the first: {words.partitions(revoked, end)}"
        found.append(Violation("two-rounds", message, len(revoked)))
    if balance_of(problem, end) != balance_of(problem, target):
        found.append(Violation("two-rounds", "the second round ends with other loads than the target of the first"))
    return found


def after_round(problem: Problem, handed: Int32) -> Problem:
    """The group after a round: members hold and claim exactly what they were given, int32[P]."""
    return problem.replace(previous_owner=handed, holder=handed)


def balance_of(problem: Problem, owner: Int32) -> object:
    """Equal for plans equally balanced: the loads in order, or with capacities the sum of load²/capacity, exact."""
    load, capacity = loads(problem.n_members, owner).tolist(), problem.capacity.tolist()
    if len(set(capacity)) <= 1:
        return sorted(load)
    return sum(Fraction(n * n, c) for n, c in zip(load, capacity, strict=True))


def _differ(law: str, what: str, problem: Problem, one: Int32, two: Int32) -> Violation:
    at = np.flatnonzero(one != two)
    return Violation(law, f"{what}, {len(at)} partitions change: {Words(problem).partitions(at, two)}", len(at))
