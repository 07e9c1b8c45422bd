"""The steps of a synthetic group: members that join and leave, and owners after each rebalance, by our own assignors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from counterpoise.assignors.registry import assignor
from counterpoise.model.assemble import static_rank
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import withhold
from counterpoise.pipeline.synthetic.fleet import Fleet, GroupPlan, TopicPlan

__all__ = ["Person", "Step", "life"]

_AFTER_STORM_S = 75.0


@dataclass(frozen=True, order=True)
class Person:
    """A member, ordered by its id; `instance` is its instance id, None: it is not static."""

    member: str
    client: str
    instance: str | None
    number: int


@dataclass(frozen=True)
class Step:
    """One generation or, in a KIP-848 group, one epoch."""

    # The time when consumption stops, and that of the record
    begin_ms: int
    at_ms: int
    kind: str  # rebalance, followup, replaced (a static member rejoined) or emptied
    generation: int
    people: tuple[Person, ...]  # Sorted by member id
    claimed: Int32  # int32[P]: The owner of each partition when members join, by index into `people`
    owner: Int32  # int32[P]: The new owner of each partition


def life(fleet: Fleet, plan: GroupPlan, topics: list[TopicPlan]) -> Iterator[Step]:
    """The steps of a group in order; exactly ``plan.rebalances`` of them are rebalances."""
    return _Life(fleet, plan, topics).steps() if plan.rebalances else iter(())


class _Life:
    def __init__(self, fleet: Fleet, plan: GroupPlan, topics: list[TopicPlan]) -> None:
        self._plan, self._fleet = plan, fleet
        self._chance = fleet.chance(2, plan.number)
        sizes = [topics[at].partitions for at in plan.topics]
        self._start: Int64 = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self._people: tuple[Person, ...] = ()
        self._owner: Int32 = np.full(int(self._start[-1]), UNOWNED, np.int32)
        self._generation = int(self._chance.integers(1, 60)) if self._chance.random() < 0.8 else 0

    def steps(self) -> Iterator[Step]:
        for at, seconds in enumerate(self._times()):
            begin = self._fleet.start_ms + round(seconds * 1000)
            end = begin + int(self._chance.integers(50, 900))
            if at and self._chance.random() < 0.02:
                self._generation += 1  # a round that failed
            yield from self._rebalance(begin, end, self._next_people(at))
            if self._plan.static and self._chance.random() < 0.3:
                yield self._replaced(end + 1500)
        if self._plan.deleted:
            over, nobody = self._fleet.end_ms, np.full_like(self._owner, UNOWNED)
            yield Step(over - 60_000, over - 59_000, "emptied", self._generation + 1, (), nobody, nobody)

    def _times(self) -> list[float]:
        """Begins of rebalances in seconds: a storm, if the plan has one, then the others, never five within a minute."""
        n, storm = self._plan.rebalances, self._plan.storm
        first = [float(self._chance.uniform(0.0, 5.0))]
        ordinary = n - 1 - storm
        room = self._fleet.seconds - 90.0 - (_AFTER_STORM_S + 75.0 if storm else 0.0)
        pace = min(float(self._chance.uniform(18.0, 60.0)), (room - 10.0) / max(ordinary, 1))
        begin = 30.0 + float(self._chance.uniform(0.0, 1.0)) * max(0.0, room - 10.0 - ordinary * pace)
        if storm:
            spacing = min(float(self._chance.uniform(2.0, 4.0)), 55.0 / storm)
            first += [begin + 30.0 + spacing * at for at in range(storm)]
            begin = first[-1] + _AFTER_STORM_S
        return first + [begin + pace * at for at in range(ordinary)]

    def _next_people(self, at: int) -> tuple[Person, ...]:
        """Members of the next generation: first all; then, in turn, one leaves and one (sometimes two) joins."""
        if not at:
            return tuple(sorted(self._new(number) for number in range(self._plan.members)))
        here = {one.number for one in self._people}
        if len(here) > 1 and at % 2:
            leaver = int(self._chance.choice(sorted(here)))
            return tuple(one for one in self._people if one.number != leaver)
        away = [number for number in range(max(here) + 2) if number not in here]
        few = away if len(away) <= 2 and self._chance.random() < 0.8 else away[:1]
        return tuple(sorted([*self._people, *(self._new(number) for number in few)]))

    def _new(self, number: int) -> Person:
        client = f"{self._plan.name}-{number}"
        tail = self._chance.bytes(16).hex()
        member = f"{client}-{tail[:8]}-{tail[8:12]}-{tail[12:16]}-{tail[16:20]}-{tail[20:]}"
        return Person(member, client, f"static-{number}" if self._plan.static else None, number)

    def _rebalance(self, begin: int, end: int, people: tuple[Person, ...]) -> Iterator[Step]:
        claimed, self._people = _translated(self._owner, self._people, people), people
        problem = self._problem(claimed)
        target = assignor("sticky" if self._plan.protocol == "server" else self._plan.protocol)(problem)
        first = withhold(problem, target) if self._plan.protocol == "cooperative-sticky" else target
        self._generation += 1
        yield Step(begin, end, "rebalance", self._generation, people, claimed, first)
        self._owner = first
        if bool(np.any(first != target)):
            self._generation += 1
            self._owner = target
            yield Step(end, end + 250, "followup", self._generation, people, first, target)

    def _replaced(self, at: int) -> Step:
        """A static member rejoins under a new id: the same generation is written again, and no member stops."""
        index = int(self._chance.integers(len(self._people)))
        old = self._people
        people = tuple(sorted([*old[:index], self._new(old[index].number), *old[index + 1 :]]))
        self._owner, self._people = _translated(self._owner, old, people), people
        return Step(at, at, "replaced", self._generation, people, self._owner, self._owner)

    def _problem(self, claimed: Int32) -> Problem:
        n, t = len(self._people), len(self._start) - 1
        return Problem(
            n,
            self._start,
            np.arange(t + 1, dtype=np.int64) * n,
            np.tile(np.arange(n, dtype=np.int32), t),
            previous_owner=claimed,
            static_rank=static_rank([one.member for one in self._people], [one.instance for one in self._people]),
        )


def _translated(owner: Int32, before: tuple[Person, ...], now: tuple[Person, ...]) -> Int32:
    """The owners by index into `now`; a static member that has rejoined under a new id is the same one."""
    code = {one.client: at for at, one in enumerate(now)}
    table = [code.get(one.client, UNOWNED) for one in before]
    return np.array([*table, UNOWNED], np.int32)[owner]
