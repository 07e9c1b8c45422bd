"""The search for a plan with balanced lag: keep claims, place the rest, repair; and what makes two rounds enough.

The leader of a cooperative group plans twice. In the second round those partitions are free that change hands. A leader that
planned them by other steps than in the first round could revoke others, round after round. So the second round is planned here
as well, and a plan is returned only if that round moves no claim. The plan from scratch always passes: it depends on no claim,
and it is returned whenever it keeps all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import withhold
from counterpoise.solver.engine import solve
from counterpoise.solver.lag.bound import lower_bound
from counterpoise.solver.lag.counts import balanced_slots, band_slots, fill_up
from counterpoise.solver.lag.placement import Slots, place_longest_first
from counterpoise.solver.lag.repair import repair
from counterpoise.solver.lag.state import Effort, LagGroup, PlanState, lag_group

_EFFORT, _EFFORT_PER_PARTITION = 20_000, 4
"""Candidates that each repair may look at."""
_HALVINGS = 5
"""If the plan from scratch misses its limit, so many limits between it and the largest lag are tried."""
_PARTNERS = (0, 0, 0, 0, 0, 0, 1, 3, 7, 15)
"""The attempts at a plan: how many members with slack are dealt their partitions anew with each member above its limit."""

__all__ = ["LagSearch"]


@dataclass
class LagSearch:
    """One group, its lag, and what the plan must meet.

    Attributes
    ----------
    problem : Problem
        With at least one member.
    lag : int64[P]
    tolerance, gain : Fraction, int
        A member's lag per capacity may exceed the bound by this share of it, or its lag by so many records.
    band : int
        How far counts may lie from balanced ones; 0: they are balanced.
    max_moves : int, optional
        How many claims may leave their owners for the sake of lag; None: any number.
    """

    problem: Problem
    lag: Int64
    tolerance: Fraction
    gain: int
    band: int
    max_moves: int | None

    def plan(self) -> Int32:
        """The owners, int32[P]."""
        claims = self.group.claim
        return np.array(self.scratch.owner if self._keeps(claims) else self._from(claims), np.int32)

    def _from(self, claims: list[int]) -> list[int]:
        filled = self._filled(claims)
        if self.max_moves is not None:
            return self._capped(filled, self.max_moves)
        return self._settled(filled) or self.scratch.owner

    @cached_property
    def group(self) -> LagGroup:
        """The problem in lists."""
        return lag_group(self.problem, self.lag)

    @cached_property
    def _counts(self) -> Int64:
        """Counts of a balanced plan."""
        return np.bincount(self._balanced + 1, minlength=self.problem.n_members + 1)[1:].astype(np.int64)

    @cached_property
    def _balanced(self) -> Int32:
        """A balanced plan that depends on no claim."""
        return solve(self.problem, history="ignore", racks="ignore")

    @cached_property
    def _effort(self) -> int:
        return _EFFORT + _EFFORT_PER_PARTITION * self.problem.n_partitions

    @cached_property
    def bound(self) -> Fraction:
        """No plan with such counts has a smaller largest lag per capacity."""
        return lower_bound(self.group, None if self.band else self._counts)

    @cached_property
    def limit(self) -> list[int]:
        """The largest lag each member should have: that of the bound, or, where the plan from scratch misses it, of that plan."""
        over = self.scratch.over()
        return self._limits(_largest(self.scratch)) if over else self._limits(self.bound)

    def _limits(self, level: Fraction) -> list[int]:
        """Per member: the level and what is tolerated above it, rounded up to whole records."""
        top, bottom = (level + self.bound * self.tolerance).as_integer_ratio()
        low, high = level.as_integer_ratio()
        return [max(-(-top * c // bottom), -(-low * c // high) + self.gain) for c in self.group.capacity]

    @cached_property
    def scratch(self) -> PlanState:
        """The best plan found without a look at claims."""
        limit, order, subscribers = self._limits(self.bound), self.group.heaviest_first, self.group.subscribers
        nobody, found = [UNOWNED] * len(self.group.lag), list[PlanState]()
        for start in ("heaviest first", "fewest subscribers first", "as balanced"):
            if start == "fewest subscribers first":
                order = sorted(order, key=lambda partition: len(subscribers[self.group.topic_class[partition]]))
            found.append(
                self._state(self._target(nobody), limit) if start == "as balanced" else self._placed(nobody, order, limit)
            )
            if repair(found[-1]):
                return found[-1]
        return self._lowered(min(found, key=_largest))

    def _lowered(self, state: PlanState) -> PlanState:
        """Binary search for the smallest limit that the repair meets, between the one that it missed and the largest lag."""
        low, best = self.bound * (1 + self.tolerance), state
        for _ in range(_HALVINGS):
            middle = (low + _largest(best)) / 2
            trial = best.copy()
            trial.limit = [int(middle * c) for c in self.group.capacity]
            low, best = (low, trial) if repair(trial) else (middle, best)
        best.limit = state.limit
        return best

    def _keeps(self, claims: list[int]) -> bool:
        """Whether the plan from scratch moves none of these claims."""
        return all(claim in (UNOWNED, owner) for claim, owner in zip(claims, self.scratch.owner, strict=True))

    def _placed(self, claims: list[int], order: list[int], limit: list[int]) -> PlanState:
        """Claims that counts let stay, and the rest placed in this order."""
        state = self._state(claims, limit)
        slots = band_slots(state) if self.band else balanced_slots(state, self._target(claims))
        waiting = [partition for partition in order if state.owner[partition] == UNOWNED]
        place_longest_first(state, waiting, slots, idle_by_count=self.band > 0)
        return state if not self.band or fill_up(state) else self._state(self._target(claims), limit)

    def _state(self, owner: list[int], limit: list[int]) -> PlanState:
        n = self.problem.n_members
        state = PlanState(self.group, [UNOWNED] * len(owner), [0] * n, [0] * n, limit, Effort(self._effort))
        if self.band:
            state.least, state.most = self._allowed
        for partition, member in enumerate(owner):
            if member != UNOWNED:
                state.place(partition, member)
        return state

    @cached_property
    def _allowed(self) -> tuple[list[int], list[int]]:
        """The least and the most partitions of each member, if counts need not be balanced."""
        if self.band >= self.problem.n_partitions:
            return [0] * self.problem.n_members, [self.band] * self.problem.n_members
        counts = self._counts.tolist()
        return [max(count - self.band, 0) for count in counts], [count + self.band for count in counts]

    def _target(self, claims: list[int]) -> list[int]:
        """Owners in a balanced plan that keeps as many of the claims as any."""
        target = self._balanced
        if max(claims, default=UNOWNED) != UNOWNED:
            target = solve(self.problem.replace(previous_owner=np.array(claims, np.int32)), racks="ignore")
        owners: list[int] = target.tolist()
        return owners

    def _filled(self, claims: list[int]) -> PlanState:
        """The plan that moves claims only for counts; what is not claimed is placed and repaired around them."""
        state = self._placed(claims, self.group.heaviest_first, self.limit)
        if state.over():
            state.fixed = {p for p, (claim, owner) in enumerate(zip(claims, state.owner, strict=True)) if claim == owner}
            repair(state)
            state.fixed = set()
        return state

    def _dealt_anew(self, state: PlanState, partners: int) -> PlanState:
        """All partitions of members above their limits, and of so many members with slack for each of them, placed again."""
        members = _neighbourhood(state, partners)
        if 2 * len(members) > len(state.load):
            return state
        near = state.copy()
        near.effort = Effort(self._effort)
        slots: list[Slots] = [{} for _ in self.group.subscribers]
        waiting = [partition for partition in self.group.heaviest_first if state.owner[partition] in members]
        for partition in waiting:
            table, member = slots[self.group.topic_class[partition]], state.owner[partition]
            table[member] = table.get(member, 0) + 1
            near.release(partition)
        place_longest_first(near, waiting, slots)
        return near

    def _settled(self, state: PlanState) -> list[int] | None:
        """Owners within the limit from which the second round ends within it and revokes nothing that the first one gave.

        Mostly they are what that round ends with. Claims that it would move are moved at once, as if round followed round. Where
        single moves do not do, members above their limits and more and more others are dealt their partitions anew.
        """
        settled: list[int] | None = None
        for partners in _PARTNERS:
            state.effort = Effort(self._effort)
            if not repair(state):
                state = self._dealt_anew(state, partners) if partners else state
                if not partners or not repair(state):
                    continue
            handed = withhold(self.problem, np.array(state.owner, np.int32)).tolist()
            if handed == state.owner:
                return state.owner
            if self._keeps(handed):
                return self.scratch.owner
            second = self._filled(handed)
            if not second.over():
                if withhold(self.problem, np.array(second.owner, np.int32)).tolist() == handed:
                    return second.owner
                settled = settled or state.owner
            state = self._dealt_anew(second, partners) if partners and second.over() else second
        return settled

    def _capped(self, state: PlanState, most: int) -> list[int]:
        """At most so many moves, or as many as counts demand; while partitions wait for an owner none for lag."""
        claim = self.group.claim
        if all(claim[partition] != UNOWNED for partition in self.group.heaviest_first):
            moved = sum(before not in (UNOWNED, after) for before, after in zip(claim, state.owner, strict=True))
            state.moves_left = max(0, most - moved)
            repair(state)
        return state.owner


def _neighbourhood(state: PlanState, partners: int) -> set[int]:
    """Members above their limits, and for each so many of those with most slack that may take some of what it holds."""
    members = set(state.over())
    by_slack = sorted((m for m in range(len(state.load)) if state.slack(m) > 0), key=lambda m: -state.slack(m))
    for member in sorted(members, key=state.slack):
        classes = {state.group.topic_class[partition] for partition, owner in enumerate(state.owner) if owner == member}
        able = (m for m in by_slack if m not in members and any(state.group.takes[one][m] for one in classes))
        members.update(list(islice(able, partners)))
    return members


def _largest(state: PlanState) -> Fraction:
    """The largest lag per capacity."""
    return max(Fraction(lag, capacity) for lag, capacity in zip(state.load, state.group.capacity, strict=True))
