"""Spans of ownership in arrays: the owner of a partition, from one time until another.

A member owns a partition until the partition is assigned again or the group takes its next step. A partition that a cooperative
round withholds stays with its owner until the step after it, unless the owner left. Members of KIP-848 groups commit after the
step that takes a partition from them, so there commits are without an owner only after the following step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns

__all__ = ["FOLLOWING", "Names", "NewSteps", "OwnerSpans", "Steps"]

_ENDS = ("emptied", "deleted", "migrated", "created")
FOLLOWING = 3
"""After this number of further steps of the group, no later record changes the owners of a step, or which of their commits count
for stops."""


@dataclass
class Names:
    """Names of a bucket as codes."""

    groups: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)
    """Member -> its client id, if it is known."""


@dataclass(frozen=True)
class Steps(Columns):
    """The last steps of each group (`FOLLOWING` of them, and new ones), group by group in log order."""

    group: Int64
    time: Int64
    offset: Int64
    # The step leaves the group without members; it withholds partitions
    ends: Bool
    withheld: Bool
    # The protocol kind of the step
    cooperative: Bool
    server: Bool
    # The latest time without members before the step; NEVER, 0: there is none. `empty_until` is 0 while the group is empty
    empty_since: Int64
    empty_until: Int64
    left: list[Sequence[int]]  # The members that left with it

    def following(self, by: int) -> Int64:
        """The time of the step `by` places later in the same group; NEVER: there is none."""
        after = np.full(len(self.group), NEVER, np.int64)
        same = self.group[by:] == self.group[:-by]
        after[: max(len(after) - by, 0)][same] = self.time[by:][same]
        return after

    def with_empty(self) -> Steps:
        """The steps with `empty_since` and `empty_until` of each; earlier steps may have been dropped since.

        A time without members lasts from the first of consecutive steps without members to the next step with members. Later
        steps keep it until another such time ends.
        """
        at, first = np.arange(len(self.group)), np.searchsorted(self.group, self.group)
        with_members = np.append(-1, np.maximum.accumulate(np.where(self.ends, -1, at)))[:-1]
        run = np.maximum(with_members + 1, first)  # the first step of a run that ends just before, or at, each step
        run_since = np.where(self.ends, np.minimum(self.time, self.empty_since), self.time)[run]
        is_after = (run < at) & ~self.ends
        since = np.where(is_after | self.ends, run_since, self.empty_since)
        until = np.where(is_after, self.time, self.empty_until)
        kept = np.maximum.accumulate(np.where((until > 0) | self.ends | (first == at), at, 0))
        return replace(self, empty_since=since[kept], empty_until=until[kept])


@dataclass(frozen=True)
class OwnerSpans(Columns):
    """Spans of ownership: one row per partition and step that assigns it; in the state sorted by key, time and log offset."""

    # The partition, and the row of the step in `Steps`; -1: `FOLLOWING` steps have followed, so the other columns are final
    key: Int64
    step: Int64
    # Time and offset of the step, code of the member, generation of the step (-1: none)
    time: Int64
    offset: Int64
    owner: Int64
    generation: Int64
    eager: Bool  # The step is a rebalance that stops all members
    recreated: Bool  # The topic was recreated since the last step that assigned any of its partitions
    # The time when ownership ends; from which a commit is without an owner; from which commits do not count for the owner's
    # stops. NEVER: when the partition is assigned again.
    until: Int64
    nobody_from: Int64
    closed: Int64
    # As in `Steps`, of the step
    empty_since: Int64
    empty_until: Int64
    timed: Bool  # Its stop is in the group's figures

    def ended(self, steps: Steps) -> OwnerSpans:
        """The spans with `until`, `nobody_from` and `closed` by the known steps."""
        one, two, three = (steps.following(by) for by in range(1, FOLLOWING + 1))
        followed = one != NEVER
        ended, withheld = (np.append(flags[1:], False)[: len(followed)] & followed for flags in (steps.ends, steps.withheld))
        keeps = withheld & steps.cooperative
        commits_later = keeps | (steps.server & ~ended)
        recent = np.flatnonzero(self.step >= 0)
        step = self.step[recent]
        left = _left(steps, step, self.owner[recent]) & followed[step]
        until, nobody_from = (np.where(later[step] & ~left, two[step], one[step]) for later in (keeps, commits_later))
        empty = {name: getattr(steps, name)[step] for name in ("empty_since", "empty_until")}
        return self.put(recent, until=until, nobody_from=nobody_from, closed=three[step], **empty)


def _left(steps: Steps, step: Int64, owner: Int64) -> Bool:
    """Whether each owner left with the step that follows the one that assigned the partition to it."""
    left = np.fromiter(chain.from_iterable(steps.left), np.int64)
    before = np.repeat(np.arange(len(steps.left)), [len(one) for one in steps.left]) - 1
    wide = int(max(left.max(initial=0), owner.max(initial=0))) + 1
    return np.isin(step * wide + owner, before[before >= 0] * wide + left[before >= 0])


class NewSteps:
    """The new steps of a chunk: rows of `rebalances`, converted to arrays."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._steps: list[tuple[int, ...]] = []
        self._left: list[Sequence[int]] = []
        self._entries: list[tuple[int, int, int, bool]] = []
        self._partitions: list[Sequence[int]] = []
        self.unowned: list[tuple[int, int]] = []
        """Group and time of steps after which nobody owns a partition; without those of Streams groups (owners are never known)
        and deletions (the group may never have had members)."""

    def add(self, group: str, row: Mapping[str, Any], time: int) -> None:
        """Add a step of a group; `time` is in microseconds."""
        names, at = self._names, len(self._steps)
        kind, protocol = row["kind"], row.get("protocol_kind")
        generation = -1 if row.get("generation") is None else row["generation"]
        flags = (kind in _ENDS, bool(row.get("n_withheld")), protocol == "cooperative", protocol == "server")
        eager = protocol == "eager" and kind != "static_replacement"
        self._steps.append((_code(names.groups, group), time, row["log_offset"], generation, eager, *flags))
        self._left.append([_code(names.members, member) for member in row.get("left") or ()])
        recreated = row.get("recreated") or ()
        if row.get("group_type") == "streams":  # its members are assigned tasks of subtopologies, not partitions of topics
            return
        if kind in _ENDS and kind != "deleted":
            self.unowned.append((names.groups[group], time))
        for member in row.get("assignment") or ():
            owner = _code(names.members, member["member_id"])
            if member.get("client_id"):
                names.clients[member["member_id"]] = member["client_id"]
            for entry in member["assigned"]:
                topic = entry["topic"]
                self._entries.append((at, _code(names.topics, topic), owner, topic in recreated))
                self._partitions.append(entry["partitions"])

    def arrays(self, first: int) -> tuple[Steps, Int64, Int64, OwnerSpans]:
        """The steps in the order in which they were added; topics and partitions of the new spans, and the spans without keys.

        `first` is the row of the first new step.
        """
        group, time, offset, generation, eager, *flags = np.array(self._steps, np.int64).reshape(-1, 9).T
        ends, withheld, cooperative, server = (one != 0 for one in flags)
        none = np.zeros(len(group), np.int64)
        steps = Steps(group, time, offset, ends, withheld, cooperative, server, none + NEVER, none, self._left)
        entries, sizes = np.array(self._entries, np.int64).reshape(-1, 4), [len(one) for one in self._partitions]
        at, topic, owner, recreated = np.repeat(entries, sizes, axis=0).T
        partition = np.fromiter(chain.from_iterable(self._partitions), np.int64, len(at))
        never, no = np.full(len(at), NEVER), np.zeros(len(at), np.bool_)
        spans = OwnerSpans(
            key=np.zeros(len(at), np.int64),
            step=at + first,
            time=time[at],
            offset=offset[at],
            owner=owner,
            generation=generation[at],
            eager=eager[at] != 0,
            recreated=recreated != 0,
            until=never,
            nobody_from=never,
            closed=never,
            empty_since=never,
            empty_until=np.zeros(len(at), np.int64),
            timed=no,
        )
        return steps, topic, partition, spans


def _code(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))
