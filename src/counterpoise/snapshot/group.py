"""Group: one consumer group as people and JSON see it, and its conversion to a Problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from counterpoise.errors import SnapshotError
from counterpoise.model.arrays import LockedArrays, locked
from counterpoise.model.assemble import assemble, lag_array, rack_codes, static_rank
from counterpoise.model.problem import Int32, Int64, Problem
from counterpoise.snapshot.checks import FORM, check_claims, check_ids, check_lag, checked, known_topics, refuse_sets
from counterpoise.snapshot.frozen import frozen, refuse
from counterpoise.snapshot.html import html_table
from counterpoise.snapshot.json_text import UNREADABLE, decoded, fitted
from counterpoise.snapshot.names import partition_list
from counterpoise.snapshot.parts import Member, Parts, Topic
from counterpoise.wire.primitives import java_order

__all__ = ["Group", "Member", "Settlement", "Topic", "check_group"]


@dataclass(frozen=True, eq=False)
class Settlement(LockedArrays):
    """A group after its claims are settled: the Problem, and what was dropped."""

    problem: Problem
    # claim_member, claim_partition (int32[K], int64[K]): the claims that exist, in member code order
    claim_member: Int32
    claim_partition: Int64
    # unknown_topic, vanished_partition: Claims dropped because the topic, or the partition index, does not exist
    unknown_topic: int
    vanished_partition: int


class Group:
    """One consumer group: topics, members, claims and, if known, lag.

    Parameters
    ----------
    topics : mapping of name to partition count, Topic, or {"partitions": n, "racks": [...]}
    members : iterable of Member
        Any order: codes follow sorted ids.
    lag : mapping of topic name to records behind per partition, optional
        Topics without an entry count as zero lag.
    name : str, optional
        The group id, for people.

    Raises
    ------
    SnapshotError
        A repeated member id, a negative count, a lag or rack list of the wrong length; the message names the path.

    Notes
    -----
    Read-only, with all that is inside: a change raises TypeError (AttributeError for attributes of a Member or Topic). The order
    of members and topics does not count: groups that differ only in it are equal and give equal problems.
    """

    topics: Mapping[str, Topic]
    members: tuple[Member, ...]
    lag: Mapping[str, Sequence[int]] | None
    name: str | None

    def __init__(
        self,
        topics: Mapping[str, int | Topic | Mapping[str, Any]],
        members: Iterable[Member] = (),
        lag: Mapping[str, Sequence[int]] | None = None,
        name: str | None = None,
    ) -> None:
        refuse_sets(lag)
        self._take(checked({"topics": topics, "members": members, "lag": lag, "group": name}, Parts))

    def _take(self, parts: Parts) -> None:
        """Set the attributes from parts whose types are checked."""
        topics = known_topics(parts.topics).items()
        vars(self).update(
            topics=frozen({name: replace(one, racks=frozen(one.racks)) for name, one in topics}),
            members=tuple(replace(one, topics=frozen(one.topics), owned=frozen(one.owned)) for one in parts.members),
            lag=frozen(parts.lag),
            name=parts.group,
        )
        check_ids(member.id for member in self.members)
        check_lag(self.lag or {}, self.topics)

    __setattr__ = __delattr__ = refuse

    @classmethod
    def from_json(cls, text: str | bytes, *, strict: bool = True) -> Group:
        """Read one snapshot (docs/snapshot.md describes the JSON).

        Parameters
        ----------
        text : str or bytes
            One JSON object.
        strict : bool
            A claim on a partition index its topic does not have is an error (default), or dropped and counted as
            when a live group is read. Claims on unknown topics are always dropped and counted.

        Raises
        ------
        SnapshotError
            The message starts with the path, such as ``members[3].owned.t1[0]``.
        """
        group = cls.__new__(cls)
        try:
            parts = msgspec.json.decode(text, type=Parts)
        except UNREADABLE:  # a second pass finds the path
            parts = fitted(decoded(text, _advice(text)), Parts, "", FORM)
        cls._take(group, parts)
        if strict:
            check_claims(group.members, group.topics)
        return group

    @classmethod
    def from_describe(cls, text: str, name: str | None = None) -> Group:
        """Read what `kafka-consumer-groups --describe` prints: its offsets, or ``--members --verbose`` (docs/snapshot.md).

        A lag that the text does not show counts as 0.

        Parameters
        ----------
        text : str
        name : str, optional
            The group. Default: the only one of the text.

        Raises
        ------
        SnapshotError
            A line does not fit its header; a partition has two owners; or `name` is not given and the text has several groups,
            or it is not among them.
        """
        from counterpoise.snapshot.describe import looks_like_describe, parts_and_unknown_lags

        if not isinstance(text, str):
            raise SnapshotError(f"text: expected a str with what the tool printed, not {type(text).__name__}")
        if not looks_like_describe(text):
            raise SnapshotError("text: no table of `kafka-consumer-groups --describe`; give what the tool printed")
        groups = {parts["name"]: parts for parts, _ in parts_and_unknown_lags(text)}
        wanted = next(iter(groups)) if name is None and len(groups) == 1 else name
        if wanted not in groups:
            listed = ", ".join(str(one) for one in groups)
            raise SnapshotError(f"name: expected one of the groups of the text ({listed}), got {name!r}")
        return cls(**groups[wanted])

    def to_json(self) -> str:
        """The snapshot as one line of JSON; `from_json` reads it back (not strict: with claims on partitions that are gone)."""
        topics: dict[str, int | Topic] = {}
        for name in self.topic_names:
            count, racks = self.topics[name].partitions, self.topics[name].racks
            topics[name] = count if racks is None else Topic(count, [[rack for rack in each if rack] for each in racks])
        members = []
        for one in self.members_by_code:
            owned = {topic: sorted(one.owned[topic]) for topic in java_order(one.owned)}
            members.append(replace(one, topics=java_order(set(one.topics)), owned=owned))
        lag = None if self.lag is None else {topic: list(self.lag[topic]) for topic in java_order(self.lag)}
        return msgspec.json.encode(Parts(topics, members, lag, self.name)).decode()

    def problem(self) -> Problem:
        """The group as arrays, claims settled; computed once."""
        return self.settled.problem

    @cached_property
    def member_ids(self) -> tuple[str, ...]:
        """Member ids in code order."""
        return tuple(java_order(member.id for member in self.members))

    @cached_property
    def topic_names(self) -> tuple[str, ...]:
        """Topic names in code order."""
        return tuple(java_order(self.topics))

    @cached_property
    def missing_topics(self) -> Mapping[str, int]:
        """Topics that members subscribe to and the group does not have, by name: how many members ask for each."""
        asked = Counter(topic for member in self.members for topic in set(member.topics) if topic not in self.topics)
        return frozen({topic: asked[topic] for topic in java_order(asked)})

    @cached_property
    def members_by_code(self) -> tuple[Member, ...]:
        """Members in code order."""
        by_id = {member.id: member for member in self.members}
        return tuple(by_id[member_id] for member_id in self.member_ids)

    @cached_property
    def settled(self) -> Settlement:
        """The claims settled and counted."""
        code = {topic: at for at, topic in enumerate(self.topic_names)}
        counts = np.array([self.topics[topic].partitions for topic in self.topic_names], np.int64)
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        claim_member, claim_partition, unknown, vanished = _claims(self.members_by_code, code, start, counts)
        pairs = [(at, code[t]) for at, member in enumerate(self.members_by_code) for t in member.topics if t in code]
        pair_array = np.array(pairs, np.int64).reshape(-1, 2)
        generation = np.array([member.generation for member in self.members_by_code], np.int64)
        problem = assemble(
            len(self.members),
            counts,
            pair_array[:, 0],
            pair_array[:, 1],
            claim_member,
            claim_partition,
            generation,
            capacity=np.array([member.capacity for member in self.members_by_code], np.int64),
            lag=lag_array(self.topic_names, counts, self.lag),
            racks=rack_codes(
                [member.rack for member in self.members_by_code],
                [self.topics[topic].racks for topic in self.topic_names],
                counts.tolist(),
            ),
            rank=static_rank(self.member_ids, [member.instance_id for member in self.members_by_code]),
        )
        return Settlement(problem, locked(claim_member), locked(claim_partition), unknown, vanished)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.topic_names, self.member_ids))

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Group, (self.topics, self.members, self.lag, self.name)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r}, "
        return f"Group({name}{len(self.members)} members, {len(self.topics)} topics)"

    def _repr_html_(self) -> str:
        rows = [(one.id, ", ".join(one.topics), partition_list(one.owned), one.generation) for one in self.members_by_code]
        return html_table(repr(self), ["member", "topics", "owned", "generation"], rows)


def check_group(given: object) -> Group:
    """`given`, if it is a Group.

    Raises `SnapshotError` if it is something else, for example the text of a snapshot.
    """
    if isinstance(given, Group):
        return given
    raise SnapshotError(f"group: expected a Group, not {type(given).__name__}; Group.from_json reads the text of a snapshot")


def _advice(text: object) -> str:
    path = str(text) if isinstance(text, PathLike) else text.decode(errors="replace") if isinstance(text, bytes) else text
    if isinstance(path, str) and 0 < len(path := path.strip()) < 4096 and not set(path) & set("{\n") and path[0] != "[":
        return f"to read the file {path!r} pass its text: Group.from_json(Path({path!r}).read_text())"
    if isinstance(text, Mapping):
        return "give JSON text: Group.from_json(json.dumps(...))"
    return "a snapshot is one JSON object with topics and members"


def _claims(members: Sequence[Member], code: Mapping[str, int], start: Int64, counts: Int64) -> tuple[Int32, Int64, int, int]:
    """Member and partition of each claim that exists, and how many are on unknown topics, and on partitions that are gone."""
    lists: list[Int64] = [np.zeros(0, np.int64)]
    heads: list[tuple[int, int, int]] = []
    unknown = 0
    for at, member in enumerate(members):
        for topic, indices in member.owned.items():
            if topic not in code:
                unknown += len(indices)
                continue
            lists.append(np.array(indices, np.int64))
            heads.append((at, code[topic], len(lists[-1])))
    who, topics, lengths = np.array(heads, np.int64).reshape(-1, 3).T
    index, topic_of_claim = np.concatenate(lists), np.repeat(topics, lengths)
    exists = index < counts[topic_of_claim]
    partition = (start[topic_of_claim] + index)[exists]
    return np.repeat(who.astype(np.int32), lengths)[exists], partition, unknown, int(len(index) - np.count_nonzero(exists))
