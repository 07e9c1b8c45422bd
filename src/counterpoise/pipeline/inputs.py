"""What a leader had before it in one generation: the group as a Problem, rebuilt from that generation's record.

Partition counts are the ones of that moment, not today's: every strategy hands out all partitions of a subscribed topic,
so a topic has as many as the highest index that was assigned says. Cooperative rounds withhold some: there the claims count
too, as far as the following generation hands those partitions out. A subscribed topic of which nothing was handed out did
not exist for the leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.pipeline.ownership import Owners, owners_of
from counterpoise.snapshot.group import Group, Member
from counterpoise.wire.consumer_protocol import Subscription
from counterpoise.wire.user_data import claims

__all__ = ["Inputs", "Planned", "inputs_of", "replayable"]

Row = Mapping[str, Any]
Kind = Literal["eager", "cooperative"]
_OPAQUE = ("stream",)


@dataclass(frozen=True)
class Planned:
    """One plan by itself: names in code order, `topic_start` int64[T+1], `owner` int32[P]."""

    members: Sequence[str]
    topics: Sequence[str]
    topic_start: Int64
    owner: Int32


@dataclass(frozen=True)
class Inputs:
    """One generation, ready for any strategy.

    Attributes
    ----------
    group : Group
        Members with the claims they sent; where the protocol sends none (range, roundrobin), what they owned before.
    handed : int32[P]
        Owner by the record, UNOWNED where it hands out nothing.
    observed : int32[P]
        The same, and what the second round of a cooperative pair handed out.
    duplicates : int
        Partitions that the record gives to a second member.
    client_ids : tuple of str
        By member code.
    kind : str
        eager or cooperative.
    lag : int64[P], optional
        Records behind as of the generation, 0 where unknown; None where no sample of the log ends came before it.
    lag_unknown : int, optional
        Partitions whose lag is unknown.
    """

    group: Group
    handed: Int32
    observed: Int32
    duplicates: int
    client_ids: tuple[str | None, ...]
    kind: Kind
    lag: Int64 | None = None
    lag_unknown: int | None = None

    @cached_property
    def problem(self) -> Problem:
        """The group as arrays."""
        return self.group.problem() if self.lag is None else self.group.problem().replace(lag=self.lag)

    def planned(self, owner: Int32) -> Planned:
        """A plan for this generation, free of all else that is known about it."""
        return Planned(self.group.member_ids, self.group.topic_names, self.problem.topic_start, owner)

    def carry(self, before: Planned) -> Int32:
        """The owners of an earlier plan in this generation's codes: int32[P], UNOWNED for what is gone or new."""
        code = {name: at for at, name in enumerate(self.group.member_ids)}
        translate = np.array([code.get(name, UNOWNED) for name in before.members] + [UNOWNED], np.int32)
        result = np.full(self.problem.n_partitions, UNOWNED, np.int32)
        old_topic = {name: at for at, name in enumerate(before.topics)}
        for at, name in enumerate(self.group.topic_names):
            if name in old_topic:
                new = self.problem.topic_start[at : at + 2]
                old = before.topic_start[old_topic[name] : old_topic[name] + 2]
                n = int(min(new[1] - new[0], old[1] - old[0]))
                owners = before.owner[old[0] : old[0] + n]
                result[new[0] : new[0] + n] = translate[np.where(owners < 0, UNOWNED, owners)]
        return result


def replayable(row: Row) -> bool:
    """Whether a generation's members can be read and its strategy is one that deals in partitions."""
    readable = all(member["topics"] is not None and member["assigned"] is not None for member in row["members"])
    return bool(row["members"]) and row["protocol_type"] == "consumer" and row["protocol"] not in _OPAQUE and readable


def inputs_of(row: Row, kind: str, before: Row | None, following: Row | None) -> Inputs:
    """Rebuild what the leader saw.

    Parameters
    ----------
    row : mapping
        A row of `group_generations` for which `replayable` holds; with a `lag` (see `lag.lag_at_generations`) or without.
    kind : str
        eager or cooperative.
    before, following : mapping, optional
        The group's generations around it, for claims nobody sends and for withheld partitions.
    """
    protocol: Kind = "cooperative" if kind == "cooperative" else "eager"
    claimed = _claims(row, protocol, before)
    member_code = {member["member_id"]: at for at, member in enumerate(row["members"])}
    handed = owners_of((member_code[m["member_id"]], m["assigned"]) for m in row["members"])
    sizes = {topic: len(array) for topic, array in handed.items()}
    later: Owners = {}
    if protocol == "cooperative" and following is not None:
        later = owners_of((member_code.get(m["member_id"], UNOWNED), m["assigned"] or ()) for m in following["members"])
        _widen(sizes, claimed, later)
    elif protocol == "cooperative":
        _widen(sizes, claimed, None)
    subscribed = {topic for member in row["members"] for topic in member["topics"]}
    group = Group(
        {topic: size for topic, size in sizes.items() if topic in subscribed},
        [_member(member, *claimed[member["member_id"]]) for member in row["members"]],
        name=row["group_id"],
    )
    by_code = np.full(len(member_code) + 1, UNOWNED, np.int32)
    by_code[[member_code[name] for name in group.member_ids]] = np.arange(len(group.member_ids))
    flat = _flat(group, handed, by_code)
    same_members = following is not None and member_code.keys() == {m["member_id"] for m in following["members"]}
    observed = np.where(flat == UNOWNED, _flat(group, later, by_code), flat) if same_members else flat
    clients = {member["member_id"]: member["client_id"] for member in row["members"]}
    total = sum(len(entry["partitions"]) for m in row["members"] for entry in m["assigned"] if entry["topic"] in group.topics)
    given_twice = total - int(np.count_nonzero(flat != UNOWNED))
    named = tuple(clients[name] for name in group.member_ids)
    lag, unknown = _lag(group, row.get("lag"))
    return Inputs(group, flat, observed.astype(np.int32), given_twice, named, protocol, lag, unknown)


def _lag(group: Group, told: Sequence[Row] | None) -> tuple[Int64 | None, int | None]:
    """(lag per partition, how many are unknown) from what `lag.lag_at_generations` gives; (None, None) without a sample."""
    if told is None:
        return None, None
    start: Int64 = group.problem().topic_start
    result = np.full(int(start[-1]), -1, np.int64)
    code = {name: at for at, name in enumerate(group.topic_names)}
    for entry in told:
        if entry["topic"] in code:
            at = code[entry["topic"]]
            index, lags = np.asarray(entry["partitions"], np.int64), np.asarray(entry["lags"], np.int64)
            there = index < int(start[at + 1] - start[at])
            result[start[at] + index[there]] = lags[there]
    return np.maximum(result, 0), int(np.count_nonzero(result < 0))


def _claims(row: Row, kind: Kind, before: Row | None) -> dict[str, tuple[dict[str, list[int]], int]]:
    """Member id -> (claims, generation)."""
    sent = {}
    for member in row["members"]:
        owned = tuple((entry["topic"], tuple(entry["partitions"])) for entry in member["owned"] or ())
        told = Subscription(
            tuple(member["topics"]), member["user_data"], owned, member["owned_generation"], None, member["subscription_version"]
        )
        found = claims(told, kind)
        sent[member["member_id"]] = (_merged(found.owned), found.generation)
    if before is None or kind == "cooperative" or "sticky" in (row["protocol"] or ""):
        return sent
    past = {m["member_id"]: _merged((e["topic"], e["partitions"]) for e in m["assigned"] or ()) for m in before["members"]}
    return {name: (past.get(name, {}), before["generation"] if name in past else -1) for name in sent}


def _merged(pairs: Any) -> dict[str, list[int]]:
    result: dict[str, list[int]] = {}
    for topic, partitions in pairs:
        result.setdefault(topic, []).extend(partitions)
    return result


def _widen(sizes: dict[str, int], claimed: Mapping[str, tuple[Mapping[str, Sequence[int]], int]], later: Owners | None) -> None:
    for owned, _ in claimed.values():
        for topic, partitions in owned.items():
            top = max(partitions, default=-1) + 1
            if later is not None:
                top = min(top, len(later.get(topic, ())))
            sizes[topic] = max(sizes.get(topic, 0), top)


def _member(member: Row, owned: Mapping[str, Sequence[int]], generation: int) -> Member:
    return Member(
        id=member["member_id"],
        topics=tuple(member["topics"]),
        owned=owned,
        generation=generation,
        instance_id=member["group_instance_id"],
        rack=member["rack_id"],
    )


def _flat(group: Group, owners: Owners, by_code: Int32) -> Int32:
    start: Int64 = group.problem().topic_start
    result = np.full(int(start[-1]), UNOWNED, np.int32)
    for at, topic in enumerate(group.topic_names):
        array = owners.get(topic)
        if array is not None:
            n = min(len(array), int(start[at + 1] - start[at]))
            result[start[at] : start[at] + n] = by_code[array[:n]]
    return result
