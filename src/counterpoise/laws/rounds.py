"""Laws of an assignor: what must hold between one plan and the next, for any function Problem -> owners int32[P]."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from counterpoise.assignors.strategy import Assignor
from counterpoise.laws.balance import loads
from counterpoise.laws.cooperative import added_and_revoked, withheld
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.problem import Int32, Problem
from counterpoise.model.withhold import after_round, withhold

__all__ = ["balance_of", "idempotent", "pure", "same_target", "two_rounds"]


def pure(assign: Assignor, problem: Problem) -> list[Violation]:
    """Law ``pure``: equal problems, planned again, get the same owners, int32[P]."""
    first: object = assign(problem)
    if not isinstance(first, np.ndarray):
        return [Violation("pure", f"owners are a {type(first).__name__}, int32 ({problem.n_partitions},) is promised")]
    if first.dtype != np.int32 or first.shape != (problem.n_partitions,):
        return [Violation("pure", f"owners are {first.dtype} {first.shape}, int32 ({problem.n_partitions},) is promised")]
    again = first.copy()
    for other in (assign(problem), assign(problem.replace())):
        if not np.array_equal(again, other) or not np.array_equal(again, first):
            return [_differ("pure", "the same group planned twice", problem, again, other)]
    if first.flags.writeable and np.shares_memory(first, assign(problem)):
        return [Violation("pure", "two calls return the same writable array, so a later plan overwrites an earlier one")]
    return []


def idempotent(assign: Assignor, problem: Problem) -> list[Violation]:
    """Law ``idempotent``: if all members own what the plan gave them, planning again changes nothing."""
    first = assign(problem)
    again = assign(after_round(problem, first))
    return [] if np.array_equal(first, again) else [_differ("idempotent", "planned again", problem, first, again)]


def two_rounds(assign: Assignor, problem: Problem) -> list[Violation]:
    """Law ``two-rounds``: a cooperative rebalance ends with its second round.

    Round one assigns only partitions that no other member holds. The holders revoke the others, and the group plans again. Round
    two must revoke nothing that round one assigned. It must be as balanced as the plan made in round one.
    """
    target = assign(problem)
    assigned = withhold(problem, target)
    found = [*withheld(problem, target, assigned), *added_and_revoked(problem, assigned)]
    end = assign(after_round(problem, assigned))
    words = Words(problem)
    revoked = np.flatnonzero((assigned >= 0) & (end != assigned))
    if len(revoked):
        message = f"round two revokes {len(revoked)} partitions of round one: {words.partitions(revoked, end)}"
        found.append(Violation("two-rounds", message, len(revoked)))
    if balance_of(problem, end) != balance_of(problem, target):
        found.append(Violation("two-rounds", "round two is balanced differently from the plan of round one"))
    return found


def same_target(assign: Assignor, problem: Problem) -> list[Violation]:
    """Law ``same-target``: the second round of a cooperative rebalance ends with the target of the first one.

    Exact strategies and `lag-sticky` obey it. A strategy of your own need not. If it keeps claims wherever it can,
    `model.withhold.final_owners` makes it obey.
    """
    target = assign(problem)
    first = withhold(problem, target)
    end = target if np.array_equal(first, target) else assign(after_round(problem, first))
    return [] if np.array_equal(target, end) else [_differ("same-target", "in round two", problem, target, end)]


def balance_of(problem: Problem, owner: Int32) -> object:
    """A value that is equal for equally balanced plans: sorted loads; for unequal capacities the exact sum of load²/capacity."""
    load, capacity = loads(problem.n_members, owner).tolist(), problem.capacity.tolist()
    if len(set(capacity)) <= 1:
        return sorted(load)
    return sum(Fraction(n * n, c) for n, c in zip(load, capacity, strict=True))


def _differ(law: str, what: str, problem: Problem, one: Int32, two: Int32) -> Violation:
    at = np.flatnonzero(one != two)
    return Violation(law, f"{what}, {len(at)} partitions change: {Words(problem).partitions(at, two)}", len(at))
