"""Where groups stand now, by the steps and commits that went by: plain numbers, no server and no files."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from counterpoise.model.lag import partition_lag

__all__ = ["End", "GroupNow", "MemberLag", "Now", "Standing"]

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""
End: TypeAlias = tuple[str, int, int, int]
"""Topic, partition, first offset, end of the log."""


@dataclass(frozen=True)
class MemberLag:
    """One member's share of a group's lag: records behind on its partitions whose lag is known."""

    member_id: str
    client_id: str
    lag: int


@dataclass
class _Step:
    """What figures need of a row of `rebalances`."""

    left: frozenset[str]
    waits: bool
    owners: dict[Place, tuple[str, str]]


@dataclass
class GroupNow:
    """One group.

    Attributes
    ----------
    rebalances, moves, failed : int
        Counted over all that was recorded, as `group_report` counts them.
    members, idle, spread : int
        As of the last step.
    alive : bool
        It has steps, and the last one is no deletion.
    committed : dict
        Partition -> last committed offset and the topic's id then.
    """

    rebalances: int = 0
    moves: int = 0
    failed: int = 0
    members: int = 0
    idle: int = 0
    spread: int = 0
    alive: bool = False
    committed: dict[Place, tuple[int, str | None]] = field(default_factory=dict)
    last: tuple[int, int] = (-1, -1)
    steps: tuple[_Step, ...] = ()

    def count(self, row: Mapping[str, Any]) -> None:
        """Add a step to the counts."""
        self.rebalances += row["kind"] == "rebalance"
        self.moves += row.get("n_moved") or 0
        self.failed += row.get("missed_generations") or 0

    def stand(self, row: Mapping[str, Any]) -> None:
        """A step has come: who has what from now on."""
        self.last = (row["log_partition"], row["log_offset"])
        assignment = row.get("assignment") or ()
        sizes = [sum(len(entry["partitions"]) for entry in member["assigned"]) for member in assignment]
        self.members, self.idle = row.get("n_members") or 0, row.get("n_idle") or 0
        self.spread = max(sizes, default=0) - min(sizes, default=0)
        self.alive = row["kind"] != "deleted"
        owners = {
            (entry["topic"], index): (str(member["member_id"]), str(member["client_id"]))
            for member in assignment
            for entry in member["assigned"]
            for index in entry["partitions"]
        }
        waits = row["protocol_kind"] == "cooperative" and bool(row.get("n_withheld"))
        self.steps = (*self.steps[-1:], _Step(frozenset(row.get("left") or ()), waits, owners))

    @property
    def owners(self) -> dict[Place, tuple[str, str]]:
        """Who owns what, as `timeline.ownership` has it: a member that stays holds what a cooperative round withholds."""
        if not self.steps:
            return {}
        last, before = self.steps[-1], self.steps[:-1]
        held = before[0].owners if before and last.waits else {}
        return {place: owner for place, owner in held.items() if owner[0] not in last.left} | last.owners


@dataclass(frozen=True)
class Standing:
    """One group at one moment: its figures, the lag of every partition that is known, and lag per member."""

    cluster: str
    group: str
    figures: GroupNow
    lags: list[int]
    members: list[MemberLag]


class Now:
    """All groups; written by the stream, read by whoever asks, each under one lock.

    Notes
    -----
    Of a group that is deleted its counts stay, for it may come back; they take some hundred bytes. `group`, and what it gives,
    are for whoever holds `lock`.
    """

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], GroupNow] = {}
        self.last_record: datetime | None = None
        self._ends: dict[tuple[str, Place], tuple[int, int]] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self.lock = threading.Lock()

    def group(self, cluster: str, name: str) -> GroupNow:
        """The figures of a group, made where there are none yet."""
        return self.groups.setdefault((cluster, name), GroupNow())

    def step(self, row: Mapping[str, Any]) -> None:
        """A row of `rebalances`; the same step again, settled meanwhile, changes nothing."""
        with self.lock:
            group = self.group(row["cluster"], row["group_id"])
            if (row["log_partition"], row["log_offset"]) > group.last:
                group.count(row)
                self.stand(row)

    def stand(self, row: Mapping[str, Any]) -> None:
        """A step that is counted already; for whoever holds `lock`."""
        self.group(row["cluster"], row["group_id"]).stand(row)
        self.last_record = max(filter(None, (self.last_record, row["log_ts"])))

    def commit(self, cluster: str, row: Mapping[str, Any]) -> None:
        """The last commit of a partition, or that it is gone."""
        with self.lock:
            place = (row["topic"], row["partition"])
            if not row["deleted"]:
                self.group(cluster, row["group_id"]).committed[place] = row["committed_offset"], row["topic_id"]
            elif (cluster, row["group_id"]) in self.groups:
                self.groups[cluster, row["group_id"]].committed.pop(place, None)

    def sampled(self, cluster: str, ends: Iterable[End], ids: Mapping[str, str]) -> None:
        """The newest sample of log ends, and the topics' ids; it replaces the one before."""
        with self.lock:
            self._ends = {key: end for key, end in self._ends.items() if key[0] != cluster}
            self._ends |= {(cluster, (topic, index)): (first, end) for topic, index, first, end in ends}
            self._ids = {key: one for key, one in self._ids.items() if key[0] != cluster}
            self._ids |= {(cluster, topic): one for topic, one in ids.items()}

    def standing(self) -> Iterator[Standing]:
        """The groups that are there, in order of names."""
        with self.lock:
            living = [(key, group) for key, group in sorted(self.groups.items()) if group.alive or group.committed]
            found = [Standing(*key, group, *self._lags(key[0], group)) for key, group in living]
        yield from found

    def _lags(self, cluster: str, group: GroupNow) -> tuple[list[int], list[MemberLag]]:
        known = {
            place: offset
            for place, (offset, topic_id) in group.committed.items()
            if (cluster, place) in self._ends and self._counts(cluster, place[0], topic_id)
        }
        firsts, lasts = ([self._ends[cluster, place][at] for place in known] for at in (0, 1))
        lags: list[int] = partition_lag(list(known.values()), firsts, lasts).lag.tolist() if known else []
        owners = group.owners
        of_member: dict[tuple[str, str], int] = {}  # Of whose partitions nothing is known there is no lag, not one of 0.
        for place, lag in zip(known, lags, strict=True):
            if place in owners:
                of_member[owners[place]] = of_member.get(owners[place], 0) + lag
        return lags, [MemberLag(*owner, lag) for owner, lag in sorted(of_member.items())]

    def _counts(self, cluster: str, topic: str, topic_id: str | None) -> bool:
        """Whether a commit is of the topic as it is now, and not of one of that name that was deleted."""
        return topic_id is None or self._ids.get((cluster, topic), topic_id) == topic_id
