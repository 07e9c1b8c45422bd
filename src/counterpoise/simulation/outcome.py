"""Outcome: what a scenario cost under one strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from counterpoise.simulation.coordinator import Round
from counterpoise.simulation.ledger import Intervals

__all__ = ["Outcome", "Ownership"]


@dataclass(frozen=True)
class Ownership:
    """One interval of ownership, for pictures: seconds, half-open."""

    topic: str
    partition: int
    member: str
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a scenario cost under one strategy.

    Attributes
    ----------
    strategy, protocol : str
    duration : float
        Simulated seconds.
    rounds : int
        Completed generations with members.
    rebalances : int
        Rounds without the ones that only finish a cooperative hand-over.
    failed : int
        Generations whose leader never sent a plan.
    refused : int
        Joins refused because the group has no strategy in common with the member.
    moved : int
        Partitions planned away from an owner that was still a member, over all rounds.
    revoked : int
        Partitions that members gave up in rebalances (eager: all they own, each time).
    stopped_partition_seconds : float
        Time partitions spent without an owner after their first one, or with one that does not read while it joins, while they
        existed.
    double_owned_seconds : float
        Partition-seconds with two owners; 0, or the protocol is not safe.
    spread : int
        Largest minus smallest load at the end.
    settled : bool
        The group is stable (or empty) at the end, and every partition with a subscriber has an owner.
    """

    strategy: str
    protocol: str
    duration: float
    rounds: int
    rebalances: int
    failed: int
    refused: int
    moved: int
    revoked: int
    stopped_partition_seconds: float
    double_owned_seconds: float
    spread: int
    settled: bool
    history: Sequence[Round] = field(repr=False)
    intervals: Intervals = field(repr=False)
    member_names: Sequence[str] = field(repr=False)
    describe: Callable[[int], tuple[str, int]] = field(repr=False)

    @cached_property
    def ownership(self) -> tuple[Ownership, ...]:
        """Every interval of ownership by names, by partition and time; made on first use."""
        known = self.intervals
        columns = (known.partition, known.member, known.start, known.end)
        return tuple(
            Ownership(*self.describe(key), self.member_names[member], start / 1000, end / 1000)
            for key, member, start, end in zip(*(column.tolist() for column in columns), strict=True)
        )

    def figures(self) -> dict[str, Any]:
        """The figures as plain values, without the history."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.repr}
