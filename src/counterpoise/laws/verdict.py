"""Only the verdict of a certificate, without its numbers: in closed form where all members subscribe alike, else by `certify`."""

from __future__ import annotations

import numpy as np

from counterpoise.laws.balance import loads
from counterpoise.laws.certificate import certify
from counterpoise.laws.exchange_graph import claimant
from counterpoise.model.problem import Int32, Problem

__all__ = ["verdict"]


def verdict(problem: Problem, owner: Int32) -> tuple[bool, bool]:
    """(balanced, sticky) as `certify` proves them.

    Parameters
    ----------
    problem : Problem
    owner : int32[P]

    Notes
    -----
    Where every member subscribes to every topic and counts alike, any partition may go to anybody. A plan is then balanced
    if loads differ by one at most: f or f + 1 each, f + 1 for e of them. A member that claims c keeps at most min(c, f), and
    one more if c > f and it is among the e; so a plan is sticky exactly if it keeps all of that. O(P), and no search.
    """
    members, partitions = problem.n_members, problem.n_partitions
    alike = members and len(problem.subscriber) == members * problem.n_topics and owner.shape == (partitions,)
    if not alike or int(problem.capacity.min()) != int(problem.capacity.max()):
        found = certify(problem, owner)
        return found.balanced, found.sticky
    if not partitions:
        return True, True
    if int(owner.min()) < 0 or int(owner.max()) >= members:
        return False, False
    load = loads(members, owner)
    if int(load.max()) - int(load.min()) > 1:
        return False, False
    claims = claimant(problem)
    claimed = loads(members, claims)
    floor, extra = divmod(partitions, members)
    most = int(np.minimum(claimed, floor).sum()) + min(extra, int(np.count_nonzero(claimed > floor)))
    return True, int(np.count_nonzero(owner == claims)) == most
