"""Spans of ownership in arrays: which member owned which partition, from when until when.

A member owns a partition until the partition is assigned again or the group takes its next step. What a cooperative round
withholds stays with its owner until the step after it, unless the owner left. Members of KIP-848 groups commit what they give up
after the step that takes it, so there commits are without an owner only after the step that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Columns
from counterpoise.pipeline.scan.aggregation import NEVER

__all__ = ["FOLLOWING", "Names", "NewSteps", "OwnerSpans", "Steps"]

_ENDS = ("emptied", "deleted", "migrated")
_REPLACED = "static_replacement"
FOLLOWING = 3
"""After so many further steps of the group, no later record changes which owners a step assigned, or which of their commits count
for stops."""


@dataclass
class Names:
    """Names of a bucket as codes."""

    groups: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Steps(Columns):
    """The last steps of each group (`FOLLOWING` of them, and new ones), group by group in log order.

    Attributes
    ----------
    group, time, offset : int64
    ends, withheld, cooperative, server : bool
        The group is left without members; the step withholds partitions; by the protocol that it follows.
    left : list of tuple of int
        The members that left with it.
    """

    group: Int64
    time: Int64
    offset: Int64
    ends: Bool
    withheld: Bool
    cooperative: Bool
    server: Bool
    left: list[tuple[int, ...]]

    def following(self, by: int) -> Int64:
        """The time of the step `by` places later in the same group; NEVER: there is none yet."""
        after = np.full(len(self.group), NEVER, np.int64)
        same = self.group[by:] == self.group[:-by]
        after[: max(len(after) - by, 0)][same] = self.time[by:][same]
        return after


@dataclass(frozen=True)
class OwnerSpans(Columns):
    """Spans of ownership: one row per partition and step that assigns it; in the state sorted by key, time and log offset.

    Attributes
    ----------
    key, step : int64
        The partition, and the step's place among `Steps`; -1: `FOLLOWING` steps have followed, so the other columns are final.
    time, offset, owner, generation : int64
        Of the step, and the member; a generation is -1 if there is none.
    eager : bool
        The step is a rebalance that stops everything.
    recreated : bool
        The topic was deleted and created again since the last step that handed out any of it.
    until, nobody_from, closed : int64
        Until when the owner has it; from when a commit is without an owner; from when commits do not count for the owner's stops.
        NEVER: until the partition is assigned again.
    timed : bool
        Its stop is in the group's figures.
    """

    key: Int64
    step: Int64
    time: Int64
    offset: Int64
    owner: Int64
    generation: Int64
    eager: Bool
    recreated: Bool
    until: Int64
    nobody_from: Int64
    closed: Int64
    timed: Bool

    def ended(self, steps: Steps) -> OwnerSpans:
        """The same with `until`, `nobody_from` and `closed` by the steps so far."""
        one, two, three = (steps.following(by) for by in range(1, FOLLOWING + 1))
        there = one != NEVER
        ended, withheld = (np.append(flags[1:], False)[: len(there)] & there for flags in (steps.ends, steps.withheld))
        waits = withheld & steps.cooperative
        lingers = waits | (steps.server & ~ended)
        recent = np.flatnonzero(self.step >= 0)
        step = self.step[recent]
        gone = _departed(steps, step, self.owner[recent]) & there[step]
        columns = {"until": np.where(waits, two, one), "nobody_from": np.where(lingers, two, one), "closed": three}
        changed = {}
        for name, of_step in columns.items():
            values = getattr(self, name).copy()
            values[recent] = of_step[step] if name == "closed" else np.where(gone, one[step], of_step[step])
            changed[name] = values
        return replace(self, **changed)


def _departed(steps: Steps, step: Int64, owner: Int64) -> Bool:
    """Whether each owner left with the step that follows the one that handed out a partition to it."""
    left = np.fromiter(chain.from_iterable(steps.left), np.int64)
    before = np.repeat(np.arange(len(steps.left)), [len(one) for one in steps.left]) - 1
    wide = int(max(left.max(initial=0), owner.max(initial=0))) + 1
    found: Bool = np.isin(step * wide + owner, before[before >= 0] * wide + left[before >= 0])
    return found


class NewSteps:
    """Rows of `rebalances` as they are folded, as arrays."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._steps: list[tuple[int, int, int, bool, bool, bool, bool]] = []
        self._left: list[tuple[int, ...]] = []
        self._of_step: list[tuple[int, bool]] = []
        self._entries: list[tuple[int, int, int, bool]] = []
        self._partitions: list[Sequence[int]] = []
        self._weight = 0

    def __len__(self) -> int:
        """How many partitions are assigned."""
        return self._weight

    def add(self, group: str, row: Mapping[str, Any], time: int) -> None:
        """A step of a group, and its time in microseconds."""
        names, at = self._names, len(self._steps)
        kind, protocol = row["kind"], row.get("protocol_kind")
        flags = (kind in _ENDS, bool(row.get("n_withheld")), protocol == "cooperative", protocol == "server")
        self._steps.append((_code(names.groups, group), time, row["log_offset"], *flags))
        self._left.append(tuple(_code(names.members, member) for member in row.get("left") or ()))
        generation = row.get("generation")
        self._of_step.append((-1 if generation is None else generation, protocol == "eager" and kind != _REPLACED))
        recreated = row.get("recreated") or ()
        for member in row.get("assignment") or ():
            owner = _code(names.members, member["member_id"])
            for entry in member["assigned"]:
                topic = entry["topic"]
                self._entries.append((at, _code(names.topics, topic), owner, topic in recreated))
                self._partitions.append(entry["partitions"])
                self._weight += len(entry["partitions"])

    def steps(self) -> Steps:
        """The steps in the order in which they were added."""
        rows = np.array(self._steps, np.int64).reshape(-1, 7)
        group, time, offset, *flags = rows.T
        ends, withheld, cooperative, server = (one != 0 for one in flags)
        return Steps(group, time, offset, ends, withheld, cooperative, server, list(self._left))

    def held(self, first: int) -> tuple[Int64, Int64, OwnerSpans]:
        """Topic and partition of each row, and the rows, without a key; `first` is the place of the first new step."""
        entries = np.array(self._entries, np.int64).reshape(-1, 4)
        sizes = [len(one) for one in self._partitions]
        at, topic, owner, recreated = np.repeat(entries, sizes, axis=0).T
        partition = np.fromiter(chain.from_iterable(self._partitions), np.int64, self._weight)
        step = np.array(self._steps, np.int64).reshape(-1, 7)
        of_step = np.array(self._of_step, np.int64).reshape(-1, 2)
        never, no = np.full(len(at), NEVER), np.zeros(len(at), np.bool_)
        held = OwnerSpans(
            key=np.zeros(len(at), np.int64),
            step=at + first,
            time=step[at, 1],
            offset=step[at, 2],
            owner=owner,
            generation=of_step[at, 0],
            eager=of_step[at, 1] != 0,
            recreated=recreated != 0,
            until=never,
            nobody_from=never,
            closed=never,
            timed=no,
        )
        return topic, partition, held

    def groups(self) -> Int64:
        """The group of each step."""
        return np.array([one[0] for one in self._steps], np.int64)


def _code(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))
