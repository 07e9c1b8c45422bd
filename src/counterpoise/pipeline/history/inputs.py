"""The input of a leader (or the broker) at one generation, rebuilt from the record as a Problem.

Partition counts are those of that time. Every strategy assigns all partitions of a subscribed topic, so the highest assigned
index gives the count. A cooperative round withholds partitions: then claims count too, if the following generation assigns
these partitions. A subscribed topic without assigned partitions did not exist for the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from counterpoise.errors import SnapshotError
from counterpoise.model.arrays import locked
from counterpoise.model.assemble import static_rank, subscriber_csr
from counterpoise.model.claims import settle
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.pipeline.history.causes import identity
from counterpoise.pipeline.history.protocol_fold import Owners, owners_of
from counterpoise.pipeline.records.group_records import topic_partitions
from counterpoise.snapshot.checks import MOST_PARTITIONS
from counterpoise.wire.consumer_protocol import Subscription, grouped
from counterpoise.wire.primitives import java_order
from counterpoise.wire.user_data import claims

__all__ = ["Inputs", "Planned", "inputs_of", "replayable"]

Row = Mapping[str, Any]
Kind = Literal["eager", "cooperative", "server"]
Claimed = tuple[dict[str, tuple[int, ...]], int]
"""The claims of a member by topic, and their generation, -1: none."""
_Carried = tuple[Sequence[str], Sequence[str], Int64, Int64, Int64, Int32]
_OPAQUE = ("stream",)


@dataclass(eq=False)
class Planned:
    """One plan: names of members and topics in code order, `topic_start` int64[T+1], `owner` int32[P]."""

    members: Sequence[str]
    topics: Sequence[str]
    topic_start: Int64
    owner: Int32

    def without(self, topics: Collection[str]) -> Planned:
        """The plan with UNOWNED for partitions of these topics."""
        owner = self.owner.copy()
        for at, name in enumerate(self.topics):
            if name in topics:
                owner[self.topic_start[at] : self.topic_start[at + 1]] = UNOWNED
        return Planned(self.members, self.topics, self.topic_start, owner)


@dataclass(slots=True, eq=False)
class Inputs:
    """The input of one generation for any strategy."""

    # Ids of members and names of topics, in code order
    member_ids: Sequence[str]
    topic_names: Sequence[str]
    # The group as arrays, with the claims that members sent; if the protocol sends none (range, roundrobin, KIP-848), with
    # the partitions that they owned before. Unknown lag is 0; lag is None if there is no sample before the generation.
    problem: Problem
    recorded: Int32  # int32[P]: Owner by the record, UNOWNED for partitions that it does not assign
    observed: Int32  # int32[P]: The same, with the owners that the second round of a cooperative pair assigned
    duplicates: int  # Number of partitions that the record assigns to a second member
    client_ids: tuple[str | None, ...]  # By member code
    identities: Sequence[str]  # By member code: the identity of a member, which a static one keeps when its id changes
    kind: Kind  # eager, cooperative or server
    lag_unknown: int | None = None  # Partitions whose lag is unknown
    _carried: _Carried | None = field(default=None, init=False, repr=False)

    def planned(self, owner: Int32) -> Planned:
        """A plan for this generation, with names instead of this input."""
        return Planned(self.identities, self.topic_names, self.problem.topic_start, owner)

    def translated(self, before: Planned | None) -> Int32:
        """The owners of an earlier plan in this generation's codes: int32[P], UNOWNED for new partitions and former members."""
        if before is None:
            return np.full(self.problem.n_partitions, UNOWNED, np.int32)
        place, new, translate = self._places(before)
        if not len(before.owner):
            return np.full(len(place), UNOWNED, np.int32)
        result = translate[before.owner[place]]
        result[new] = UNOWNED
        return result

    def _places(self, before: Planned) -> tuple[Int64, Int64, Int32]:
        """(the place of each partition in the earlier plan, the new partitions, the code of each earlier member now, -1: none).

        Plans of one generation share their names, so the result is computed once for all of them.
        """
        known = self._carried
        if known is not None and known[0] is before.members and known[1] is before.topics and known[2] is before.topic_start:
            return known[3:]
        code = {name: at for at, name in enumerate(self.identities)}
        translate = np.array([code.get(name, UNOWNED) for name in before.members] + [UNOWNED], np.int32)
        place = np.full(self.problem.n_partitions, -1, np.int64)  # the last one, if there is none
        old_topic = {name: at for at, name in enumerate(before.topics)}
        new_start, old_start = self.problem.topic_start.tolist(), before.topic_start.tolist()
        for at, name in enumerate(self.topic_names):
            if name in old_topic:
                new, old = new_start[at], old_start[old_topic[name]]
                n = min(new_start[at + 1] - new, old_start[old_topic[name] + 1] - old)
                place[new : new + n] = np.arange(old, old + n)
        new = np.flatnonzero(place < 0)
        self._carried = (before.members, before.topics, before.topic_start, place, new, translate)
        return place, new, translate


def replayable(row: Row) -> bool:
    """Whether the members of a generation are decoded and its strategy assigns partitions."""
    readable = all(member["topics"] is not None and member["assigned"] is not None for member in row["members"])
    return bool(row["members"]) and row["protocol_type"] == "consumer" and row["protocol"] not in _OPAQUE and readable


def inputs_of(row: Row, kind: Kind, before: Row | None, following: Row | None) -> Inputs:
    """Rebuild the input of the leader: members, topics, claims and lag as arrays. O(members and partitions).

    `row` must be `replayable`. Its optional `lag` is a result of `LagLookup.at`. `kind` is eager, cooperative or server.
    `before`: the previous generation; its owners are the claims if the protocol sends none. `following`: the next generation; it
    has the owners of partitions that were withheld in this one.

    Raises `SnapshotError` if there are too many partitions: the record is damaged.
    """
    members, claimed = row["members"], _claims(row, kind, before)
    by_id = {member["member_id"]: member for member in members}
    ids = java_order(by_id)
    code = {name: at for at, name in enumerate(ids)}
    recorded = owners_of((code[m["member_id"]], m["assigned"]) for m in members)
    sizes = {topic: len(array) for topic, array in recorded.items()}
    later: Owners = {}
    if kind == "cooperative":
        if following is not None:
            later = owners_of((code.get(m["member_id"], UNOWNED), m["assigned"] or ()) for m in following["members"])
        for topic, array in owners_of((0, topic_partitions(owned.items())) for owned, _ in claimed.values()).items():
            top = len(array) if following is None else min(len(array), len(later.get(topic, ())))
            sizes[topic] = max(sizes.get(topic, 0), top)
    subscribed = {topic for member in members for topic in member["topics"]}
    topics = java_order(topic for topic in sizes if topic in subscribed)
    if sum(sizes[topic] for topic in topics) > MOST_PARTITIONS:
        where = f"group {row['group_id']!r}, generation {row['generation']}"
        raise SnapshotError(f"{where}: more than {MOST_PARTITIONS} partitions; the record is damaged")
    ordered = [by_id[name] for name in ids]
    start: Int64 = np.array([0, *accumulate(sizes[topic] for topic in topics)], np.int64)
    flat = _flat(topics, start, recorded)
    same_members = following is not None and code.keys() == {m["member_id"] for m in following["members"]}
    observed = np.where(flat == UNOWNED, _flat(topics, start, later), flat) if same_members else flat
    total = sum(len(e["partitions"]) for m in members for e in m["assigned"] if e["topic"] in subscribed and e["topic"] in sizes)
    duplicates = total - int(np.count_nonzero(flat != UNOWNED))
    lag, unknown = _lag(topics, start, row.get("lag"))
    problem = _problem(topics, ordered, start, [claimed[name] for name in ids], lag)
    clients = tuple(member["client_id"] for member in ordered)
    return Inputs(ids, topics, problem, flat, observed, duplicates, clients, list(map(identity, ordered)), kind, unknown)


def _problem(
    topics: Sequence[str], members: Sequence[Row], start: Int64, claimed: Sequence[Claimed], lag: Int64 | None
) -> Problem:
    """The group as arrays; claims on partitions that do not exist are dropped."""
    at_topic = {name: at for at, name in enumerate(topics)}
    first = start.tolist()
    claim_member: list[int] = []
    claim_partition: list[int] = []
    for at, (owned, _) in enumerate(claimed):
        for topic, partitions in owned.items():
            code = at_topic.get(topic)
            if code is not None:
                begin, number = first[code], first[code + 1] - first[code]
                valid = [begin + index for index in partitions if 0 <= index < number]
                claim_partition += valid
                claim_member += [at] * len(valid)
    ids, instances = ([one[name] for one in members] for name in ("member_id", "group_instance_id"))
    generation = np.array([generation for _, generation in claimed], np.int64)
    holder = settle(first[-1], np.array(claim_member, np.int32), np.array(claim_partition, np.int64), generation)
    rank = static_rank(ids, instances) if any(one is not None for one in instances) else None
    return Problem(len(members), start, *_subscriptions(members, at_topic), locked(holder), lag=lag, static_rank=rank)


def _subscriptions(members: Sequence[Row], at_topic: Mapping[str, int]) -> tuple[Int64, Int32]:
    """``subscriber_start, subscriber``; nearly always all members subscribe to the same topics."""
    n, topics = len(members), len(at_topic)
    first = members[0]["topics"]
    if all(one["topics"] == first for one in members) and at_topic.keys() <= set(first):
        return np.arange(topics + 1, dtype=np.int64) * n, np.arange(n * topics, dtype=np.int32) % n
    pairs = [(at, at_topic[topic]) for at, member in enumerate(members) for topic in member["topics"] if topic in at_topic]
    member, topic = np.array(pairs, np.int64).reshape(-1, 2).T
    return subscriber_csr(n, topics, member, topic)


def _lag(topics: Sequence[str], start: Int64, entries: Sequence[Row] | None) -> tuple[Int64 | None, int | None]:
    """(lag per partition, number of unknown ones) from entries of `LagLookup.at`; (None, None) without a sample."""
    if entries is None:
        return None, None
    first = start.tolist()
    result = [-1] * first[-1]
    code = {name: at for at, name in enumerate(topics)}
    for entry in entries:
        if entry["topic"] in code:
            at = code[entry["topic"]]
            begin, number = first[at], first[at + 1] - first[at]
            for index, lag in zip(*(np.asarray(entry[name]).tolist() for name in ("partitions", "lags")), strict=True):
                if 0 <= index < number:
                    result[begin + index] = lag
    known = np.array(result, np.int64)
    return np.maximum(known, 0), sum(lag < 0 for lag in result)


def _claims(row: Row, kind: Kind, before: Row | None) -> dict[str, Claimed]:
    """Member id -> (claims, generation): as sent, or the partitions that it owned before if the protocol sends none."""
    members = row["members"]
    if kind == "server":
        # The broker assigns a static member that rejoins under another id the partitions that it had; recreated topics have none.
        return _owned_before(members, before, identity, row.get("recreated") or ())
    if before is not None and kind == "eager" and "sticky" not in (row["protocol"] or ""):
        return _owned_before(members, before, itemgetter("member_id"), ())
    sent = {}
    for member in members:
        owned = tuple((entry["topic"], tuple(entry["partitions"])) for entry in member["owned"] or ())
        subscription = Subscription(
            tuple(member["topics"]), member["user_data"], owned, member["owned_generation"], None, member["subscription_version"]
        )
        claimed = claims(subscription, kind)
        sent[member["member_id"]] = (dict(grouped(claimed.owned)), claimed.generation)
    return sent


def _owned_before(
    members: Sequence[Row], before: Row | None, name_of: Callable[[Row], str], without: Collection[str]
) -> dict[str, Claimed]:
    """What members owned in the previous generation, but for some topics; `name_of` tells that a member is the same."""
    past: dict[str, Claimed] = {}
    if before is not None:
        for member in before["members"]:
            held = ((one["topic"], one["partitions"]) for one in member["assigned"] or () if one["topic"] not in without)
            past[name_of(member)] = dict(grouped(held)), before["generation"]
    return {member["member_id"]: past.get(name_of(member), ({}, -1)) for member in members}


def _flat(topics: Sequence[str], start: Int64, owners: Owners) -> Int32:
    """Owners by topic as one array, topics end to end."""
    result = np.full(int(start[-1]), UNOWNED, np.int32)
    for at, topic in enumerate(topics):
        array = owners.get(topic)
        if array is not None:
            n = min(len(array), int(start[at + 1] - start[at]))
            result[start[at] : start[at] + n] = array[:n]
    return result
