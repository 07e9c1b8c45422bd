"""Settles claims: finds, for each partition that members say they own, the member that may keep it and the one that holds it.

Rules (KIP-341, KIP-429, refined as Kafka clients since 3.5 do):

1. The claim of the highest generation wins; an older claim without a rival counts too.
2. Two members claiming in the same, highest generation: neither owns the partition (CONTESTED).
3. No generation (-1) is the lowest generation, not an error.
4. The winner holds the partition now. It may keep it only if it still subscribes to the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import CONTESTED, UNOWNED, Int32, Int64, locked

if TYPE_CHECKING:
    from counterpoise.model.problem import Problem

__all__ = ["DENSE_CELLS", "holders", "keepers", "settle"]

DENSE_CELLS = 50_000_000
"""Largest members x topics table of booleans that is worth its memory (50 MB)."""


def settle(
    n_partitions: int,  # P
    claim_member: Int32,  # int32[K]: the member that claims, any order; a claim may be repeated
    claim_partition: Int64,  # int64[K]: the partition it claims, in 0..P-1 (claims on what does not exist are dropped before)
    generation: Int64,  # int64[M]: generation of each member's claims, -1 for none
) -> Int32:
    """Who holds each partition, by the claims that count.

    Returns `holder` int32[P]: a member code, UNOWNED or CONTESTED.

    O(K + P) if all claims have one generation, else O(K log K + P): claims are sorted by generation and written in rising order,
    so the newest claim stands; a claim that does not stand after its own generation was written has a rival of that generation.
    The order of the claims does not matter.
    """
    holder = np.full(n_partitions, UNOWNED, np.int32)
    for members, partitions in _by_rising_generation(claim_member, claim_partition, generation):
        holder[partitions] = members
        holder[partitions[holder[partitions] != members]] = CONTESTED
    return holder


def keepers(held: Int32, problem: Problem) -> Int32:
    """Who may keep each partition, int32[P], read-only: its holder, or UNOWNED if that no longer subscribes to the topic.

    `held` is what `holders` returns, and is returned itself if nothing changes. CONTESTED stays. Of the problem only its
    subscriptions count. O(P), with different subscriptions O(P + S).
    """
    if len(problem.subscriber) == problem.n_topics * problem.n_members or int(held.max(initial=UNOWNED)) < 0:
        return held
    at = np.flatnonzero(held >= 0)
    lost = at[~_subscribes(problem.topic_of_partition()[at], held[at], problem)]
    if not len(lost):
        return held
    kept = held.copy()
    kept[lost] = UNOWNED
    return locked(kept)


def holders(claims: Int32, n_members: int) -> Int32:
    """Who holds each partition, int32[P], read-only: a member, CONTESTED or UNOWNED (also for one that has left). O(P)."""
    least, most = int(claims.min(initial=UNOWNED)), int(claims.max(initial=UNOWNED))
    if least >= CONTESTED and most < n_members:
        return claims
    return locked(np.where((claims >= CONTESTED) & (claims < n_members), claims, np.int32(UNOWNED)))


def _subscribes(topic: Int32, member: Int32, problem: Problem) -> npt.NDArray[np.bool_]:
    """For pairs of topic and member codes: does the member subscribe to the topic?

    Returns bool of the pairs' length. O(pairs + S) with a dense table; beyond 50 million cells O(pairs log S).
    """
    n_topics, n_members = problem.n_topics, problem.n_members
    starts = problem.subscriber_start
    keys = np.repeat(np.arange(n_topics), starts[1:] - starts[:-1]) * n_members + problem.subscriber
    wanted = np.asarray(topic, np.int64) * n_members + member
    if n_topics * n_members <= DENSE_CELLS:
        table = np.zeros(n_topics * n_members, np.bool_)
        table[keys] = True
        found: npt.NDArray[np.bool_] = table[wanted]
        return found
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[at] == wanted)


def _by_rising_generation(member: Int32, partition: Int64, generation: Int64) -> list[tuple[Int32, Int64]]:
    if not len(member):
        return []
    claimed = generation[member]
    if bool((claimed == claimed[0]).all()):
        return [(member, partition)]
    order = np.argsort(claimed, kind="stable")
    bounds = np.flatnonzero(np.diff(claimed[order])) + 1
    return list(zip(np.split(member[order], bounds), np.split(partition[order], bounds), strict=True))
