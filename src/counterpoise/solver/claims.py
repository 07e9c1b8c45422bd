"""Claims that may be kept, counted per topic class and member."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.classes import Classes, sum_by

TABLE_CELLS = 4_000_000
"""Claims are counted in a table of up to this many cells (topic classes x members); above it they are sorted, to save memory."""

__all__ = ["TABLE_CELLS", "Claims", "claims_of", "no_claims", "valid_claims"]


@dataclass(frozen=True, slots=True)
class Claims:
    """Valid claims, counted."""

    # int32[P]: who may keep each partition, UNOWNED for nobody: departed owners, members that no longer subscribe, contested
    # claims
    owner: Int32
    # topic_class, member, count (int64[K]): cells with at least one claim, sorted by topic class, then member
    topic_class: Int64
    member: Int64
    count: Int64

    def per_member(self, n_members: int) -> Int64:
        """Claims of each member, int64[M]."""
        return sum_by(self.member, self.count, n_members)

    def per_topic_class(self, n_topic_classes: int) -> Int64:
        """Claimed partitions of each topic class, int64[C]."""
        return sum_by(self.topic_class, self.count, n_topic_classes)


def valid_claims(problem: Problem) -> Int32:
    """Who may keep each partition, int32[P], a new array: a member or UNOWNED, also where two claim it."""
    return np.maximum(problem.previous_owner, np.int32(UNOWNED))


def no_claims(n_partitions: int) -> Claims:
    """The counts of a problem without claims."""
    nothing = np.empty(0, np.int64)
    return Claims(np.full(n_partitions, UNOWNED, np.int32), nothing, nothing, nothing)


def claims_of(problem: Problem, classes: Classes) -> Claims:
    """The claims of a problem, counted; O(P), or one sort of P keys when topic classes x members is very large."""
    owner, n_members = valid_claims(problem), problem.n_members
    where = np.flatnonzero(owner >= 0)
    key = classes.topic_class[where].astype(np.int64) * n_members + owner[where]
    cells = classes.n_topic_classes * n_members
    if cells <= max(min(TABLE_CELLS, 20 * len(key)), len(key)) or not len(key):
        table = np.bincount(key, minlength=1)
        cell = np.flatnonzero(table)
        count = table[cell]
    else:
        cell, count = np.unique(key, return_counts=True)
    return Claims(owner, cell // n_members, cell % n_members, count)
