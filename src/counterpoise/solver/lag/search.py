"""The search for a plan with balanced lag: keep claims, place the rest, repair; and what makes two rounds enough.

The leader of a cooperative group plans twice. In the second round those partitions are free that change hands. A leader that
planned them by other steps than in the first round could revoke others, round after round. So the second round is planned here
as well, and a plan is returned only if that round moves no claim. The plan from scratch always passes: it depends on no claim,
and it is returned whenever it keeps all of them. A plan that moves no claim passes, too: it has no second round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import withhold
from counterpoise.solver.engine import solve
from counterpoise.solver.lag.bound import lower_bound
from counterpoise.solver.lag.counts import balanced_slack, balanced_slots, band_slack, counts_allowed, fill_up
from counterpoise.solver.lag.placement import place_by_class, place_by_count
from counterpoise.solver.lag.repair import repair
from counterpoise.solver.lag.state import Effort, LagGroup, PlanState, lag_group

_STEPS, _FIXED, _MORE, _LARGE = 80_000, 5, 20, 6_000
"""The steps of a plan: so many in all, of which the passes over each partition and member take some; beyond a size more for each.

A step is what the search takes to look at one candidate, rather less than a microsecond.
"""
_HALVINGS = 5
"""If the plan from scratch misses its limit, so many limits between it and the largest lag are tried."""
_ATTEMPTS = 10
"""Attempts at a plan that its second round leaves as it is."""

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
        return np.array(self._from(self.group.claim), np.int32)

    def _from(self, claims: list[int]) -> list[int]:
        if self._is_steady(claims):
            return claims
        if _stays(claims, self.scratch.owner):
            return self.scratch.owner
        filled = self._filled(claims)
        if self.max_moves is not None:
            return self._capped(filled, self.max_moves)
        effort = Effort(4 * self._share)
        settled = self._settled(filled.copy(), effort)
        if settled is not None:
            return settled
        stays = effort.left <= 0 and _stays(claims, filled.owner)
        return filled.owner if stays else self.scratch.owner

    def _is_steady(self, claims: list[int]) -> bool:
        """Whether nothing waits, counts are allowed, and nobody is above the limit of the bound: then nothing moves."""
        state = self._state(claims, self._limits(self.bound))
        return not state.waiting(self.group.heaviest_first) and self._has_counts(state) and not state.over()

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
    def _share(self) -> int:
        """An eighth of the steps: one for each placement and second round, four for the plan from the claims."""
        size = self.problem.n_partitions + self.problem.n_members
        return (_STEPS - _FIXED * min(size, _LARGE) + _MORE * max(size - _LARGE, 0)) // 8

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
        found = []
        for state in self._starts():
            if repair(state):
                return state
            found.append(state)
        return self._lowered(min(found, key=_largest))

    def _starts(self) -> Iterator[PlanState]:
        """Plans to repair: heaviest partitions first, those with the fewest subscribers first, and one by counts only."""
        nobody, limit = [UNOWNED] * len(self.group.lag), self._limits(self.bound)
        yield self._placed(nobody, self.group.heaviest_first, limit)
        degree = [row.count(1) for row in self.group.takes]
        if len(set(degree)) > 1:
            order = sorted(self.group.heaviest_first, key=lambda partition: degree[self.group.topic_class[partition]])
            yield self._placed(nobody, order, limit)
        yield self._state(self._target(nobody), limit)

    def _lowered(self, state: PlanState) -> PlanState:
        """Binary search for the smallest limit that the repair meets, between the one that it missed and the largest lag."""
        low, best = self.bound * (1 + self.tolerance), state
        for _ in range(_HALVINGS):
            if state.effort.left <= 0:
                break
            middle = (low + _largest(best)) / 2
            trial = best.copy()
            trial.limit = [int(middle * c) for c in self.group.capacity]
            low, best = (low, trial) if repair(trial) else (middle, best)
        best.limit = state.limit
        return best

    def _placed(self, claims: list[int], order: list[int], limit: list[int]) -> PlanState:
        """Claims that counts let stay, and the rest placed in this order."""
        state = self._state(claims, limit)
        if self.band:
            counts, waiting, trial = band_slack(state), state.waiting(order), state.copy()
            if not place_by_count(trial, waiting, counts.copy(0)):
                trial = state
            shared = [dict(enumerate(counts.least))] * len(self.group.takes)
            placed = trial is not state or place_by_class(state, waiting, shared)
            return trial if placed and fill_up(trial) else self._state(self._target(claims), limit)
        target = self._target(claims)
        slots, waiting, found = balanced_slots(state, target), state.waiting(order), list[PlanState]()
        counts, rising = balanced_slack(state, target), sorted(self.group.lag[partition] for partition in waiting)
        reserves = [rising[0], 0, rising[len(rising) // 4], rising[len(rising) // 2]] if rising else [0]
        for reserve in dict.fromkeys(reserves if 4 * len(waiting) < len(order) else reserves[:1]):
            trial = state.copy()
            if not place_by_count(trial, waiting, counts.copy(reserve)):
                place_by_class(state, waiting, slots)
                return state
            found.append(trial)
            if not trial.over():
                break
        return min(found, key=lambda one: len(one.over()))

    def _state(self, owner: list[int], limit: list[int]) -> PlanState:
        n, code = self.problem.n_members, np.array(owner, np.int64) + 1
        load = np.zeros(n + 1, np.int64)
        np.add.at(load, code, self.lag)
        count = np.bincount(code, minlength=n + 1)
        state = PlanState(self.group, owner[:], load[1:].tolist(), count[1:].tolist(), limit, Effort(self._share))
        if self.band:
            state.least, state.most = self._allowed
        return state

    @cached_property
    def _allowed(self) -> tuple[list[int], list[int]]:
        """The least and the most partitions of each member, if counts need not be balanced."""
        if self.band >= self.problem.n_partitions:
            return [0] * self.problem.n_members, [self.band] * self.problem.n_members
        counts = self._counts.tolist()
        return [max(count - self.band, 0) for count in counts], [count + self.band for count in counts]

    def _has_counts(self, state: PlanState) -> bool:
        """Whether counts are balanced or within the band."""
        if self.band:
            return counts_allowed(state)
        weight = np.array(self.group.weight, object)
        return bool((weight * (np.array(state.count, object) ** 2 - self._counts**2)).sum() == 0)

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
        waited = any(owner != claim for claim, owner in zip(claims, state.owner, strict=True))
        if waited and state.over():
            state.fixed = {p for p, (claim, owner) in enumerate(zip(claims, state.owner, strict=True)) if claim == owner}
            repair(state)
            state.fixed = set()
        return state

    def _settled(self, state: PlanState, effort: Effort) -> list[int] | None:
        """Owners within the limit from which the second round ends within it and revokes nothing that the first one gave.

        Mostly they are what that round ends with. Claims that it would move are moved at once, as if round followed round.
        """
        settled: list[int] | None = None
        for _ in range(_ATTEMPTS):
            state.effort = effort
            if effort.left <= 0 or not repair(state):
                break
            handed = withhold(self.problem, np.array(state.owner, np.int32)).tolist()
            if handed == state.owner:
                return state.owner
            if _stays(handed, self.scratch.owner):
                return self.scratch.owner
            second = self._filled(handed)
            effort.left -= self._share - second.effort.left + self.problem.n_partitions
            if not second.over() and _stays(handed, second.owner):
                if withhold(self.problem, np.array(second.owner, np.int32)).tolist() == handed:
                    return second.owner
                settled = settled or state.owner
            state = second
        return settled

    def _capped(self, state: PlanState, most: int) -> list[int]:
        """At most so many moves, or as many as counts demand; while partitions wait for an owner none for lag."""
        claim = self.group.claim
        if all(claim[partition] != UNOWNED for partition in self.group.heaviest_first):
            moved = sum(before not in (UNOWNED, after) for before, after in zip(claim, state.owner, strict=True))
            state.moves_left = max(0, most - moved)
            repair(state)
        return state.owner


def _stays(claims: list[int], owner: list[int]) -> bool:
    """Whether every claimed partition is with its claimant."""
    return all(claim in (UNOWNED, now) for claim, now in zip(claims, owner, strict=True))


def _largest(state: PlanState) -> Fraction:
    """The largest lag per capacity."""
    largest = dict(sorted(zip(state.group.capacity, state.load, strict=True)))  # for each capacity
    return max(Fraction(lag, capacity) for capacity, lag in largest.items())
