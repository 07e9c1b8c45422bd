"""The first laws of a plan: every owner subscribes (valid), every partition that can have an owner has one (complete)."""

from __future__ import annotations

import numpy as np

from counterpoise.errors import ProblemError
from counterpoise.laws.violation import Violation, Words, of_partitions
from counterpoise.model.claims import holders
from counterpoise.model.problem import CONTESTED, UNOWNED, Int32, Problem, check_problem, keepers

__all__ = ["check_codes", "check_shape", "complete", "valid"]


def valid(problem: Problem, owner: Int32, *, words: Words | None = None) -> list[Violation]:
    """Law ``valid``: the owner of a partition is a member and subscribes to its topic. O(P + S).

    Raises `ProblemError` if `owner` is not an integer array of length P.
    """
    check_shape(problem, owner)
    words = Words(problem) if words is None else words
    wrong = (owner != keepers(holders(owner, problem.n_members), problem)) | (owner == CONTESTED)
    return of_partitions("valid", wrong, "given to a member that does not subscribe to the topic", words, owner)


def complete(problem: Problem, owner: Int32, *, words: Words | None = None) -> list[Violation]:
    """Law ``complete``: every partition of a topic with a subscriber has an owner. O(P).

    Raises `ProblemError` if `owner` is not an integer array of length P.
    """
    check_shape(problem, owner)
    ownable = np.repeat(np.diff(problem.subscriber_start) > 0, np.diff(problem.topic_start))
    missing = (owner == UNOWNED) & ownable
    words = Words(problem) if words is None else words
    return of_partitions("complete", missing, "left without an owner though the topic has subscribers", words)


def check_codes(problem: Problem, owner: Int32, name: str = "owner") -> None:
    """Check that each owner is UNOWNED or the code of a member; subscriptions do not matter. O(P).

    Raises `ProblemError` if `owner` is not an integer array of length P, or holds another code; the message starts with `name`.
    """
    check_shape(problem, owner, name)
    if len(owner) and not UNOWNED <= int(owner.min()) <= int(owner.max()) < problem.n_members:
        at = int(np.flatnonzero((owner < UNOWNED) | (owner >= problem.n_members))[0])
        known = f"0 to {problem.n_members - 1}" if problem.n_members else "none"
        raise ProblemError(f"{name}[{at}]: {owner[at]} is no member; codes are {known}, or {UNOWNED} for nobody")


def check_shape(problem: Problem, owner: Int32, name: str = "owner") -> None:
    """Check that `owner` holds a signed integer for each partition.

    Raises `ProblemError` if it holds something else, or another number of them; the message starts with `name`.
    """
    check_problem(problem)
    if not isinstance(owner, np.ndarray):
        raise ProblemError(f"{name}: expected an array of integers, not {type(owner).__name__}{_where(owner)}")
    shape = (problem.n_partitions,)
    if owner.shape != shape or owner.dtype.kind != "i":
        raise ProblemError(f"{name}: expected signed integers of shape {shape}, got {owner.dtype} {owner.shape}")


def _where(owner: object) -> str:
    return "; a Plan has one: plan.target_owner" if hasattr(owner, "target_owner") else ""
