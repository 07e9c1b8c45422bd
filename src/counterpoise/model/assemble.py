"""Makes a Problem from subscriptions and claims in flat arrays; snapshots, leaders, audits and simulations all use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from counterpoise.model.arrays import locked
from counterpoise.model.claims import settle
from counterpoise.model.problem import DENSE_CELLS, Int32, Int64, Problem, Racks
from counterpoise.wire.primitives import java_key

__all__ = ["assemble", "lag_array", "rack_codes", "static_rank", "subscriber_csr"]


def assemble(
    n_members: int,  # M; codes follow sorted member ids
    partitions_of_topic: npt.ArrayLike,  # int64[T]: partition count of each topic; codes follow sorted topic names
    # subscription_member, subscription_topic: int[S]: who subscribes to what, any order, repeats allowed
    subscription_member: npt.ArrayLike,
    subscription_topic: npt.ArrayLike,
    # claim_member, claim_partition (int32[K], int64[K]): claims on partitions in 0..P-1, any order
    claim_member: Int32,
    claim_partition: Int64,
    generation: Int64,  # int64[M]: generation of each member's claims, -1 for none
    *,
    # capacity, lag, racks, rank: as `Problem`'s ``capacity, lag, racks, static_rank``
    capacity: Int64 | None = None,
    lag: Int64 | None = None,
    racks: Racks | None = None,
    rank: Int32 | None = None,
) -> Problem:
    """A Problem from flat pairs; claims are settled here."""
    counts = np.asarray(partitions_of_topic, np.int64)
    topic_start = np.concatenate(([0], np.cumsum(counts)))
    return Problem(
        n_members,
        topic_start,
        *subscriber_csr(n_members, len(counts), subscription_member, subscription_topic),
        locked(settle(int(topic_start[-1]), claim_member, claim_partition, generation)),
        capacity=capacity,
        lag=lag,
        racks=racks,
        static_rank=rank,
    )


def subscriber_csr(n_members: int, n_topics: int, member: npt.ArrayLike, topic: npt.ArrayLike) -> tuple[Int64, Int32]:
    """Subscription pairs, any order, repeats allowed -> (subscriber_start int64[T+1], subscriber int32[S]).

    O(S + T M) with a dense table; beyond 50 million cells O(S log S). (`np.unique` takes a second for a million pairs.)
    """
    keys = np.asarray(topic, np.int64) * n_members + np.asarray(member, np.int64)
    if n_topics * n_members <= DENSE_CELLS:
        table = np.zeros(n_topics * n_members, np.bool_)
        table[keys] = True
        keys = np.flatnonzero(table)
    elif len(keys):
        keys = np.sort(keys)
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    start = np.searchsorted(keys, np.arange(n_topics + 1) * n_members).astype(np.int64)
    topic_of_pair = np.repeat(np.arange(n_topics), np.diff(start))
    return start, (keys - topic_of_pair * n_members).astype(np.int32)


def static_rank(ids: Sequence[str], instance_ids: Sequence[str | None]) -> Int32:
    """Position of each member in Kafka's order: static members by instance id, then dynamic ones by id.

    `ids` are in code order; returns int32[M]. Members of one instance id (never two in a healthy group) follow
    their ids. O(M log M).
    """
    if all(instance is None for instance in instance_ids):
        return np.arange(len(ids), dtype=np.int32)
    keys = [
        (instance is None, java_key(member if instance is None else instance), code)
        for code, (member, instance) in enumerate(zip(ids, instance_ids, strict=True))
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), np.int32)
    rank[order] = np.arange(len(keys), dtype=np.int32)
    return rank


def lag_array(names: Sequence[str], counts: Int64, lag: Mapping[str, Sequence[int]] | None) -> Int64 | None:
    """Lag by topic name as int64[P]; what has no entry counts as 0, what lies beyond the topic's partitions is left out.

    `names` and `counts` are the topics and their partition counts in code order; None stays None.
    """
    if lag is None:
        return None
    behind = np.zeros(int(counts.sum()), np.int64)
    for name, count, end in zip(names, counts.tolist(), np.cumsum(counts).tolist(), strict=True):
        known = np.asarray(lag.get(name, ()), np.int64)[:count]
        behind[end - count : end - count + len(known)] = known
    return behind


def rack_codes(
    member_racks: Sequence[str | None], replica_racks: Sequence[Sequence[Sequence[str | None]] | None], counts: Sequence[int]
) -> Racks | None:
    """Rack names to `Racks`; None if no member names a rack or no topic knows its replicas' racks.

    `member_racks` in code order (None or "", as librdkafka sends it, means none); `replica_racks` per topic in code
    order: one list per partition with the rack of each replica, or None for the whole topic.
    """
    if not any(member_racks) or not any(replica_racks):
        return None
    lists: list[Sequence[str | None]] = []
    for known, count in zip(replica_racks, counts, strict=True):
        lists.extend([()] * count if known is None else known)
    names = sorted({rack for rack in member_racks if rack} | {rack for racks in lists for rack in racks if rack}, key=java_key)
    code = {name: at for at, name in enumerate(names)}
    of_partition = [sorted({code[rack] for rack in racks if rack}) for racks in lists]
    return Racks(
        rack_of_member=np.array([code[rack] if rack else -1 for rack in member_racks], np.int32),
        replica_start=np.concatenate(([0], np.cumsum([len(racks) for racks in of_partition]))).astype(np.int64),
        replica_rack=np.array([rack for racks in of_partition for rack in racks], np.int32),
    )
