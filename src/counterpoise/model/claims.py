"""Settles claims: finds, for each partition that members say they own, the member that may keep it and the one that holds it.

Rules (KIP-341, KIP-429, refined as Kafka clients since 3.5 do):

1. The claim of the highest generation wins; an older claim without a rival counts too.
2. Two members claiming in the same, highest generation: neither owns the partition (CONTESTED).
3. No generation (-1) is the lowest generation, not an error.
4. The winner holds the partition now. It may keep it only if it still subscribes to the topic (`problem.keepers`).
"""

from __future__ import annotations

import numpy as np

from counterpoise.model.arrays import CONTESTED, UNOWNED, Int32, Int64, locked

__all__ = ["holders", "settle"]


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


def holders(claims: Int32, n_members: int) -> Int32:
    """Who holds each partition, int32[P], read-only: a member, CONTESTED or UNOWNED (also for one that has left). O(P)."""
    least, most = int(claims.min(initial=UNOWNED)), int(claims.max(initial=UNOWNED))
    if least >= CONTESTED and most < n_members:
        return claims
    return locked(np.where((claims >= CONTESTED) & (claims < n_members), claims, np.int32(UNOWNED)))


def _by_rising_generation(member: Int32, partition: Int64, generation: Int64) -> list[tuple[Int32, Int64]]:
    if not len(member):
        return []
    claimed = generation[member]
    if bool((claimed == claimed[0]).all()):
        return [(member, partition)]
    order = np.argsort(claimed, kind="stable")
    bounds = np.flatnonzero(np.diff(claimed[order])) + 1
    return list(zip(np.split(member[order], bounds), np.split(partition[order], bounds), strict=True))
