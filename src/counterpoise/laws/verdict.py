"""Only the verdict of a certificate, without its numbers: in closed form where all members subscribe alike, else by `certify`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.laws.balance import loads
from counterpoise.laws.certificate import certify
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["alike", "alike_verdicts", "verdict"]

Bools = npt.NDArray[np.bool_]


def verdict(problem: Problem, owner: Int32) -> tuple[bool, bool]:
    """(balanced, sticky) as `certify` proves them.

    Parameters
    ----------
    problem : Problem
    owner : int32[P]

    Notes
    -----
    In closed form where `alike` holds (see `alike_verdicts`): O(P), and no search.
    """
    members, partitions = problem.n_members, problem.n_partitions
    if not alike(problem) or owner.shape != (partitions,):
        found = certify(problem, owner)
        return found.balanced, found.sticky
    if not partitions:
        return True, True
    if int(owner.min()) < 0 or int(owner.max()) >= members:
        return False, False
    claims = problem.previous_owner
    kept = np.count_nonzero(owner == claims, keepdims=True)
    balanced, sticky = alike_verdicts(partitions, loads(members, owner)[None], loads(members, claims)[None], kept)
    return bool(balanced[0]), bool(sticky[0])


def alike(problem: Problem) -> bool:
    """Whether every member subscribes to every topic and counts alike: any partition may go to anybody."""
    members = problem.n_members
    if not members or len(problem.subscriber) != members * problem.n_topics:
        return False
    return bool((problem.capacity == problem.capacity[0]).all())


def alike_verdicts(partitions: int, load: Int64, claimed: Int64, kept: npt.NDArray[np.integer]) -> tuple[Bools, Bools]:
    """(balanced, sticky) of N plans of groups that are `alike`, bool[N] each.

    Parameters
    ----------
    partitions : int
    load, claimed : int64[N, M]
        Partitions of each member: owned by the plan, and claimed.
    kept : int64[N]
        Partitions whose owner claims them.

    Notes
    -----
    A complete plan is balanced if loads differ by one at most: f or f + 1 each, f + 1 for e of them. A member that claims c
    keeps at most min(c, f), and one more if c > f and it is among the e; so a plan is sticky exactly if it keeps all of that.
    """
    floor, extra = divmod(partitions, load.shape[1])
    balanced = (np.ptp(load, axis=1) <= 1) & (load.sum(axis=1) == partitions)
    most = np.minimum(claimed, floor).sum(axis=1) + np.minimum(extra, np.count_nonzero(claimed > floor, axis=1))
    return balanced, balanced & (kept == most)
