"""Law ``renaming``, of assignors that are exact: codes of members and topics decide ties only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from counterpoise.laws.rounds import balance_of
from counterpoise.laws.violation import Violation
from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int32, Problem, Racks

__all__ = ["renamed", "renaming"]

_Assignor = Callable[[Problem], Int32]


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
    if balance_of(problem, here) != balance_of(other, there):
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


def _with_claims(*plans: tuple[Problem, Int32]) -> list[tuple[Int32, Int32]]:
    return [(problem.previous_owner, owner) for problem, owner in plans]
