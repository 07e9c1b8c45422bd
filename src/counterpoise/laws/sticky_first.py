"""The law of `sticky-first` (KIP-54's "sticky yet fair"): no valid claim moves, the rest is as balanced as that allows."""

from __future__ import annotations

from counterpoise.laws.certificate import balance_violation
from counterpoise.laws.owners import complete, valid
from counterpoise.laws.violation import Violation, Words, of_partitions
from counterpoise.model.problem import Int32, Problem

__all__ = ["sticky_first"]


def sticky_first(problem: Problem, owner: Int32, *, words: Words | None = None) -> list[Violation]:
    """Law ``sticky-first``: every partition whose claimant still subscribes stays with it, and the loads are
    lexicographically smallest among all plans that do so (with capacities: the sum of load²/capacity is smallest).

    Needs a valid, complete plan and says so otherwise. O(P + S) and a few sweeps over the exchange graph.
    """
    words = Words(problem) if words is None else words
    broken = [*valid(problem, owner, words=words), *complete(problem, owner, words=words)]
    if broken:
        return broken
    claims = problem.previous_owner
    moved = (claims >= 0) & (claims != owner)
    if moved.any():
        return of_partitions("sticky-first", moved, "taken from the member that claims it", words, owner)
    found = balance_violation(problem, owner, claims < 0, words)
    return [Violation("sticky-first", fault.message, fault.count, fault.moves, fault.gain) for fault in found]
