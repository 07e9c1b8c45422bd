"""Laws of an assignor: what must hold between one plan and the next, for any pure function Problem -> owners."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from counterpoise.laws.balance import loads
from counterpoise.laws.cooperative import added_and_revoked, withheld
from counterpoise.laws.violation import Violation, Words
from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int32, Problem, Racks
from counterpoise.model.withhold import withhold

__all__ = ["after_round", "idempotent", "pure", "renamed", "renaming", "two_rounds"]

_Assignor = Callable[[Problem], Int32]


def pure(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``pure``: asked twice, or about an equal copy, an assignor gives the same owners, int32[P]."""
    first = assign(problem)
    if first.dtype != np.int32 or first.shape != (problem.n_partitions,):
        return [Violation("pure", f"owners are {first.dtype} {first.shape}, int32 ({problem.n_partitions},) is promised")]
    again = first.copy()
    for other in (assign(problem), assign(problem.replace())):
        if not np.array_equal(again, other) or not np.array_equal(again, first):
            return [_differ("pure", "the same group planned twice", problem, again, other)]
    return []


def idempotent(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``idempotent``: once everybody has what the plan gave, planning again changes nothing."""
    first = assign(problem)
    again = assign(after_round(problem, first))
    return [] if np.array_equal(first, again) else [_differ("idempotent", "planned again", problem, first, again)]


def two_rounds(assign: _Assignor, problem: Problem) -> list[Violation]:
    """Law ``two-rounds``: a cooperative rebalance ends with its second round.

    Round one hands out what nobody else holds; then everybody has revoked the rest and the group plans again. Nothing
    handed out in round one is revoked (so nothing waits any more), and the balance is that of the target of round one.
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
    if _balance(problem, end) != _balance(problem, target):
        found.append(Violation("two-rounds", "the second round ends with other loads than the target of the first"))
    return found


def after_round(problem: Problem, handed: Int32) -> Problem:
    """The group once every member has revoked what it was not given: everybody holds and claims what was handed out."""
    return problem.replace(previous_owner=handed, holder=handed)


def renaming(
    assign: _Assignor, problem: Problem, member_order: npt.NDArray[np.int64], topic_order: npt.NDArray[np.int64]
) -> list[Violation]:
    """Law ``renaming``: other names for members and topics change neither balance nor the number of partitions kept.

    Holds of assignors that promise the best balance and the most kept at it; who exactly owns what may change,
    because ties are settled by id.

    Parameters
    ----------
    member_order : int64[M]
        The member that gets code 0, 1, ...
    topic_order : int64[T]
        The topic that gets code 0, 1, ...
    """
    other = renamed(problem, member_order, topic_order)
    here, there = assign(problem), assign(other)
    found = []
    if _balance(problem, here) != _balance(other, there):
        found.append(Violation("renaming", "under other names the plan has another balance"))
    kept, kept_there = (int(np.count_nonzero((c >= 0) & (c == o))) for c, o in _with_claims((problem, here), (other, there)))
    if kept != kept_there:
        found.append(Violation("renaming", f"under other names {kept_there} partitions stay, not {kept}"))
    return found


def renamed(problem: Problem, member_order: npt.NDArray[np.int64], topic_order: npt.NDArray[np.int64]) -> Problem:
    """The same group with other codes: new member i is old member ``member_order[i]``, topics likewise. O(P + S log S)."""
    counts, degree = np.diff(problem.topic_start)[topic_order], np.diff(problem.subscriber_start)[topic_order]
    partition = ranges(problem.topic_start[topic_order], counts)
    old = problem.subscriber[ranges(problem.subscriber_start[topic_order], degree)]
    code = np.empty(problem.n_members, np.int32)
    code[member_order] = np.arange(problem.n_members, dtype=np.int32)
    row = np.repeat(np.arange(problem.n_topics), degree)
    subscriber = code[old][np.lexsort((code[old], row))]

    def recoded(owner: Int32) -> Int32:
        moved = owner[partition]
        known = (moved >= 0) & (moved < problem.n_members)
        return np.where(known, np.append(code, np.int32(0))[np.where(known, moved, -1)], moved).astype(np.int32)

    return Problem(
        problem.n_members,
        np.concatenate(([0], np.cumsum(counts))),
        np.concatenate(([0], np.cumsum(degree))),
        subscriber,
        recoded(problem.previous_owner),
        holder=recoded(problem.holder),
        capacity=problem.capacity[member_order],
        lag=None if problem.lag is None else problem.lag[partition],
        racks=None if problem.racks is None else _racks(problem.racks, member_order, partition),
        static_rank=problem.static_rank[member_order],
    )


def _racks(racks: Racks, member_order: npt.NDArray[np.int64], partition: npt.NDArray[np.int64]) -> Racks:
    count = np.diff(racks.replica_start)[partition]
    at = ranges(racks.replica_start[partition], count)
    start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
    return Racks(racks.rack_of_member[member_order], start, racks.replica_rack[at])


def _balance(problem: Problem, owner: Int32) -> object:
    """Equal for plans equally balanced: the loads in order, or with capacities the sum of load²/capacity, exact."""
    load, capacity = loads(problem.n_members, owner).tolist(), problem.capacity.tolist()
    if len(set(capacity)) <= 1:
        return sorted(load)
    return sum(Fraction(n * n, c) for n, c in zip(load, capacity, strict=True))


def _with_claims(*plans: tuple[Problem, Int32]) -> list[tuple[Int32, Int32]]:
    return [(problem.previous_owner, owner) for problem, owner in plans]


def _differ(law: str, what: str, problem: Problem, one: Int32, two: Int32) -> Violation:
    at = np.flatnonzero(one != two)
    return Violation(law, f"{what}, {len(at)} partitions change: {Words(problem).partitions(at, two)}", len(at))
