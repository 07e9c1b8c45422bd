"""The plan state of the lag search: who owns what, loads and counts, and the one way in which partitions change hands."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import numpy as np

from counterpoise.model.problem import UNOWNED, Int64, Problem
from counterpoise.solver.classes import subscriber_table, topic_classes

Holding: TypeAlias = list[tuple[int, int]]
"""A member's partitions as (lag, partition), lightest first."""
Ratio: TypeAlias = tuple[int, int]
"""Numerator and denominator in lowest terms, so that equal ones are equal keys."""

_MOST_CLASSES, _MOST_COLUMNS = 16, 64
"""With more member classes, or more topic classes, than this all members count as one class: small classes do not help."""

__all__ = ["Holding", "LagGroup", "PlanState", "Ratio", "StepBudget", "lag_group", "ratio"]


def ratio(numerator: int, denominator: int) -> Ratio:
    """The fraction in lowest terms."""
    common = 1 if denominator == 1 else gcd(numerator, denominator)
    return numerator // common, denominator // common


@dataclass(frozen=True, slots=True)
class LagGroup:
    """One group in plain lists, as the search reads it; nothing in it changes."""

    lag: list[int]  # Records behind, per partition
    heaviest_first: list[int]  # The partitions that have a subscriber, by falling lag, ties by partition
    lightest_first: Holding  # The same by rising lag, ties by partition, each with its lag
    topic_class: list[int]  # Per partition; topics with equal subscribers form a class. -1: nobody subscribes.
    takes: list[bytes]  # Per topic class: a byte per member, 1 if it subscribes
    # Per member; those that subscribe to the same topic classes form a class. With more than `_MOST_CLASSES` all are in one.
    member_class: list[int]
    subscribers: list[list[int]]  # Per topic class: the member classes that subscribe
    capacity: list[int]  # Per member

    def may_take(self, partition: int, member: int) -> int:
        """Whether the member subscribes to the partition's topic."""
        return self.takes[self.topic_class[partition]][member]


def lag_group(problem: Problem, lag: Int64) -> LagGroup:
    """Read a problem; O(P log P + S)."""
    class_of_topic, first = topic_classes(problem)
    takes = [row.tobytes() for row in subscriber_table(problem, first, problem.n_members)]
    member_class, subscribers = _member_classes(takes, problem.n_members)
    topic_class = np.repeat(class_of_topic, problem.topic_start[1:] - problem.topic_start[:-1]).tolist()
    lags = lag.tolist()
    return LagGroup(
        lag=lags,
        heaviest_first=[p for p in (-lag).argsort(kind="stable").tolist() if topic_class[p] >= 0],
        lightest_first=[(lags[p], p) for p in lag.argsort(kind="stable").tolist() if topic_class[p] >= 0],
        topic_class=topic_class,
        takes=takes,
        member_class=member_class,
        subscribers=subscribers,
        capacity=problem.capacity.tolist(),
    )


def _member_classes(takes: list[bytes], n_members: int) -> tuple[list[int], list[list[int]]]:
    """Class of each member, and the classes that take a topic class."""
    if 1 < len(takes) <= _MOST_COLUMNS:
        seen: dict[tuple[int, ...], int] = {}
        member_class = [seen.setdefault(column, len(seen)) for column in zip(*takes, strict=True)]
        if len(seen) <= _MOST_CLASSES:
            return member_class, [[number for column, number in seen.items() if column[one]] for one in range(len(takes))]
    return [0] * n_members, [[0]] * len(takes)


@dataclass(slots=True)
class StepBudget:
    """The steps left for the search of one plan. Counting steps instead of time keeps plans deterministic."""

    left: int


@dataclass(slots=True)
class PlanState:
    """A plan while it is searched for; lives inside one call of the strategy."""

    group: LagGroup
    owner: list[int]  # Per partition; UNOWNED: unassigned
    # load, count: summed lag and number of partitions, per member
    load: list[int]
    count: list[int]
    limit: list[int]  # The largest lag that each member should have
    budget: StepBudget  # The steps left
    # least, most: the counts allowed per member. None: counts are balanced and must stay as balanced as
    # they are.
    least: list[int] | None = None
    most: list[int] | None = None
    # The owners from which moves are counted, UNOWNED for none; None: moves are not counted
    claims: list[int] | None = None
    moves_left: int = 0  # How many more claimed partitions may leave these owners
    fixed: set[int] = field(default_factory=set)  # Partitions that must stay with their owners
    # Per member, without fixed partitions; made by `index`, then kept up to date
    holding: list[Holding] = field(default_factory=list)
    # Excess (negative: slack) and member, those with most slack first; likewise
    by_slack: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> PlanState:
        """An independent state; limits and counts allowed are shared."""
        lists = (self.owner[:], self.load[:], self.count[:])
        return PlanState(self.group, *lists, self.limit, self.budget, self.least, self.most)

    def slack(self, member: int) -> int:
        """How much lag the member can take until it is at its limit; negative: its excess."""
        return self.limit[member] - self.load[member]

    def over(self) -> list[int]:
        """Members above their limits, ascending."""
        return [member for member, load in enumerate(self.load) if load > self.limit[member]]

    def with_slack(self, givers: list[int]) -> Iterator[int]:
        """Members with slack that may take something of what these hold, those with most slack first, ties by member."""
        held = {self.group.topic_class[partition] for giver in givers for _, partition in self.holding[giver]}
        rows = [self.group.takes[number] for number in held]
        for excess, member in self.by_slack:
            if excess >= 0 or self.budget.left <= 0:
                break
            self.budget.left -= 1
            for row in rows:
                if row[member]:
                    yield member
                    break

    def index(self) -> None:
        """List what each member holds; O(P + M log M)."""
        holding: list[Holding] = [[] for _ in range(len(self.load) + 1)]  # the last entry is that of UNOWNED
        owner, fixed = self.owner, self.fixed
        for entry in self.group.lightest_first:
            if entry[1] not in fixed:
                holding[owner[entry[1]]].append(entry)
        self.holding = holding[:-1]
        self.by_slack = sorted(
            (load - most, member) for member, (load, most) in enumerate(zip(self.load, self.limit, strict=True))
        )
        self.budget.left -= len(owner) // 2

    def may_transfer(self, giver: int, taker: int) -> bool:
        """Whether counts allow one partition to pass without another in return.

        Balanced counts minimise the sum of count**2 / capacity. It stays the same if the giver's last partition costs as much
        as the taker's next one: at equal capacities, if the giver has one partition more.
        """
        count = self.count
        if self.least is None or self.most is None:
            capacity = self.group.capacity
            return (2 * count[giver] - 1) * capacity[taker] == (2 * count[taker] + 1) * capacity[giver]
        return count[giver] > self.least[giver] and count[taker] < self.most[taker]

    def next_cost(self, member: int) -> Ratio:
        """What another partition of the member would add to the sum of count**2 / capacity."""
        return ratio(2 * self.count[member] + 1, self.group.capacity[member])

    def place(self, partition: int, member: int) -> None:
        """Assign an unassigned partition to a member."""
        self.owner[partition] = member
        self.load[member] += self.group.lag[partition]
        self.count[member] += 1

    def release(self, partition: int) -> None:
        """Take a partition from its owner; it is unassigned then."""
        member = self.owner[partition]
        self.owner[partition] = UNOWNED
        self.load[member] -= self.group.lag[partition]
        self.count[member] -= 1

    def pass_on(self, chain: Sequence[tuple[int, int]]) -> bool:
        """Give each (partition, member) of a chain to its member: all of them, or none beyond `moves_left`; whether any was."""
        if not chain:
            return False
        claim = self.claims
        if claim is not None:
            moves = sum((claim[p] != taker) - (claim[p] != self.owner[p]) for p, taker in chain if claim[p] != UNOWNED)
            if moves > self.moves_left:
                return False
            self.moves_left -= moves
        touched = {taker for _, taker in chain} | {self.owner[partition] for partition, _ in chain}
        for member in touched:
            del self.by_slack[bisect_left(self.by_slack, (-self.slack(member), member))]
        for partition, taker in chain:
            entry, giver = (self.group.lag[partition], partition), self.owner[partition]
            held = self.holding[giver]
            del held[bisect_left(held, entry)]
            self.release(partition)
            self.place(partition, taker)
            insort(self.holding[taker], entry)
        for member in touched:
            insort(self.by_slack, (-self.slack(member), member))
        return True
