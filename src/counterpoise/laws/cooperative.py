"""Laws of a cooperative round: what is handed out now, and what waits (KIP-429)."""

from __future__ import annotations

import numpy as np

from counterpoise.laws.violation import Violation, Words, of_partitions
from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["added_and_revoked", "withheld"]


def withheld(
    problem: Problem,
    target: Int32 | None,  # int32[P]: the target owners; None: unknown, as of a first round that another client handed out
    handed: Int32,  # int32[P]: what this round hands out, UNOWNED if a partition waits
    *,
    words: Words | None = None,
) -> list[Violation]:
    """Law ``withheld``: exactly what another member holds waits, everything else goes to its target owner now.

    A partition waits when a member other than its target owner holds it, or when two claim it (CONTESTED). O(P).
    """
    words = Words(problem) if words is None else words
    if target is None:  # what nobody holds has some target; the rest may have stayed, or wait
        ownable = np.repeat(np.diff(problem.subscriber_start) > 0, np.diff(problem.topic_start))
        expected, target = (problem.holder == UNOWNED) & ownable, handed
    else:
        expected = target != UNOWNED
    waits = (problem.holder != UNOWNED) & (problem.holder != target)
    early, late = waits & (handed != UNOWNED), ~waits & (handed == UNOWNED) & expected
    other = ~waits & (handed != UNOWNED) & (handed != target)
    return [
        *of_partitions("withheld", early, "handed out while held by another member", words, handed),
        *of_partitions("withheld", late, "withheld though no other member holds it", words),
        *of_partitions("withheld", other, "handed to another member than the target says", words, handed),
    ]


def added_and_revoked(problem: Problem, handed: Int32, *, words: Words | None = None) -> list[Violation]:
    """Law ``added-and-revoked``: no partition is given to one member in the round in which another loses it.

    The check Kafka's Java consumer runs when it leads a group with a cooperative assignor that is not its own
    (`validateCooperativeAssignment`). O(P).
    """
    words = Words(problem) if words is None else words
    both = (problem.holder != UNOWNED) & (handed != UNOWNED) & (problem.holder != handed)
    return of_partitions("added-and-revoked", both, "added to one member and revoked from another in one round", words, handed)
