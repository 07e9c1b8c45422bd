"""The search for a plan with balanced lag: keep claims, place the rest, repair; and what makes two rounds enough.

The leader of a cooperative group plans twice. In the second round those partitions are free that change hands. A leader that
planned them by other steps than in the first round could revoke others, round after round. So the second round is planned here
as well, and a plan is returned only if that round moves no claim. The plan from scratch always passes, because it depends on no
claim: a second round that can keep all claims finds a plan within the limit of the bound that keeps them, or returns it. A plan
that moves no claim passes, too: it has no second round.
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
from counterpoise.solver.lag.counts import Quotas, balanced_slack, band_slack, fill_up, quotas, release_excess
from counterpoise.solver.lag.placement import place
from counterpoise.solver.lag.repair import repair
from counterpoise.solver.lag.state import Effort, LagGroup, PlanState, lag_group

_STEPS, _FIXED, _MORE, _LARGE = 80_000, 5, 20, 6_000
"""The steps of a plan: so many in all, of which the passes over each partition and member take some; beyond a size more for each.

A step is what the search takes to look at one candidate, rather less than a microsecond.
"""
_HALVINGS = 3
"""If the plan from scratch misses its limit, so many limits between it and the largest lag are tried."""
_ATTEMPTS = 5
"""Attempts at a plan that its second round leaves as it is."""

__all__ = ["LagSearch"]


@dataclass
class LagSearch:
    """One group, its lag, and what its plans must meet. What does not depend on claims is computed once.

    Attributes
    ----------
    problem : Problem
        With at least one member; its claims do not matter.
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

    def plan(self, problem: Problem) -> Int32:
        """The owners, int32[P], of the group with the claims of `problem`."""
        return np.array(self._from(problem, problem.previous_owner.tolist()), np.int32)

    def _from(self, problem: Problem, claims: list[int]) -> list[int]:
        filled = self._start if max(claims, default=UNOWNED) == UNOWNED else self._filled(claims, self._strict)
        kept = _stays(claims, filled.owner)
        if kept and not filled.over():
            return filled.owner
        # Claims that counts demand to move are not those of a second round, nor are they in any plan with such counts.
        first = kept or self.band > 0
        if first and _stays(claims, self.scratch.owner):
            return self.scratch.owner
        effort = Effort(4 * self._share)
        if not first and self.max_moves is None:
            settled = self._settled(problem, filled, effort, final=False)
            if settled is not None or self.limit is self._strict:
                return settled or self.scratch.owner
        if self.limit is not self._strict:
            filled = self._filled(claims, self.limit)
        if self.max_moves is not None:
            return self._capped(filled, claims, self.max_moves)
        settled = self._settled(problem, filled.copy(), effort, final=True)
        if settled is None:
            settled = filled.owner if kept and effort.left <= 0 else self.scratch.owner
        return settled

    @cached_property
    def group(self) -> LagGroup:
        """The problem in lists."""
        return lag_group(self.problem, self.lag)

    @cached_property
    def _counts(self) -> list[int]:
        """Counts of the balanced plan."""
        return self._counted(self._balanced)

    @cached_property
    def _quotas(self) -> Quotas:
        return quotas(self._counts, self.group.weight)

    @cached_property
    def _balanced(self) -> list[int]:
        """A balanced plan that depends on no claim."""
        owners: list[int] = solve(self.problem, history="ignore", racks="ignore").tolist()
        return owners

    def _counted(self, owner: list[int]) -> list[int]:
        count = [0] * (self.problem.n_members + 1)  # the last entry is that of UNOWNED
        for member in owner:
            count[member] += 1
        return count[:-1]

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
    def _strict(self) -> list[int]:
        """The largest lag each member should have: that of the bound."""
        return self._limits(self.bound)

    @cached_property
    def limit(self) -> list[int]:
        """The same, or, if the plan from scratch misses it, that of this plan."""
        return self._limits(_largest(self.scratch)) if self.scratch.over() else self._strict

    def _limits(self, level: Fraction) -> list[int]:
        """Per member: the level and what is tolerated above it, rounded up to whole records."""
        low, high = level.as_integer_ratio()
        top, bottom = (self.bound.numerator * self.tolerance.numerator, self.bound.denominator * self.tolerance.denominator)
        top, bottom = low * bottom + top * high, bottom * high
        of = {one: max(-(-top * one // bottom), -(-low * one // high) + self.gain) for one in set(self.group.capacity)}
        return [of[one] for one in self.group.capacity]

    @cached_property
    def _start(self) -> PlanState:
        """Heaviest partitions first, without a look at claims."""
        return self._filled([UNOWNED] * len(self.group.lag), self._strict)

    @cached_property
    def scratch(self) -> PlanState:
        """The best plan found without a look at claims."""
        found = [self._start]
        if not self._start.over():
            return self._start
        for state in self._others():
            if repair(state):
                return state
            found.append(state)
        return self._lowered(min(found, key=_largest))

    def _others(self) -> Iterator[PlanState]:
        """Each topic class only to member classes that have some of it in the balanced plan; and by counts only."""
        group = self.group
        cells = {(number, group.member_class[owner]) for number, owner in zip(group.topic_class, self._balanced, strict=True)}
        takers = [[one for one in some if (number, one) in cells] for number, some in enumerate(group.subscribers)]
        if takers != group.subscribers:
            yield self._placed([UNOWNED] * len(group.lag), self._strict, takers)
        yield self._state(self._balanced, self._strict)

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

    def _placed(self, claims: list[int], limit: list[int], takers: list[list[int]]) -> PlanState:
        """Claims that counts let stay, and the rest placed, heaviest first."""
        state = self._state(claims, limit)
        if self.band:
            counts = band_slack(state)
            counts.takers = takers
            allowed = place(state, state.waiting(self.group.heaviest_first), counts) and fill_up(state)
            return state if allowed else self._state(self._target(claims), limit)
        placed = self._place(state, self._quotas, takers)
        if placed is None:
            target = self._target(claims)
            release_excess(state, target)
            placed = self._place(state, quotas(self._counted(target), self.group.weight), takers) or self._state(target, limit)
        return placed

    def _place(self, state: PlanState, balanced: Quotas, takers: list[list[int]]) -> PlanState | None:
        """Place what waits so that counts end balanced, if claims and subscriptions allow that.

        If few wait, members have little slack, and how much they keep for the next ones matters: several reserves are tried.
        """
        free, waiting = balanced_slack(state, balanced), state.waiting(self.group.heaviest_first)
        if free is None or not waiting:
            return state if free else None
        free.takers, rising = takers, sorted(self.group.lag[partition] for partition in waiting)
        few = 4 * len(waiting) < len(self.group.heaviest_first)
        reserves = [rising[0], 0, rising[len(rising) // 4], rising[len(rising) // 2]] if few else rising[:1]
        best, fewest = state, len(state.load) + 1
        for reserve in dict.fromkeys(reserves):
            trial = state.copy()
            if not place(trial, waiting, free.copy(reserve)):
                return None
            over = len(trial.over())
            if over < fewest:
                best, fewest = trial, over
            if not over:
                break
        return best

    def _state(self, owner: list[int], limit: list[int]) -> PlanState:
        n = self.problem.n_members
        load, count = [0] * (n + 1), [0] * (n + 1)  # the last entry is that of UNOWNED
        for lag, member in zip(self.group.lag, owner, strict=True):
            load[member] += lag
            count[member] += 1
        state = PlanState(self.group, owner[:], load[:n], count[:n], limit, Effort(self._share))
        if self.band:
            state.least, state.most = self._allowed
        return state

    @cached_property
    def _allowed(self) -> tuple[list[int], list[int]]:
        """The least and the most partitions of each member, if counts need not be balanced."""
        if self.band >= self.problem.n_partitions:
            return [0] * self.problem.n_members, [self.band] * self.problem.n_members
        return [max(count - self.band, 0) for count in self._counts], [count + self.band for count in self._counts]

    def _target(self, claims: list[int]) -> list[int]:
        """Owners in a balanced plan that keeps as many of the claims as any."""
        problem = self.problem.replace(previous_owner=np.array(claims, np.int32))
        target: list[int] = solve(problem, racks="ignore").tolist()
        return target

    def _filled(self, claims: list[int], limit: list[int]) -> PlanState:
        """The plan that moves claims only for counts; what is not claimed is placed and repaired around them."""
        state = self._placed(claims, limit, self.group.subscribers)
        if state.over() and claims != state.owner:
            state.fixed = {p for p, (claim, owner) in enumerate(zip(claims, state.owner, strict=True)) if claim == owner}
            repair(state)
            state.fixed = set()
        return state

    def _settled(self, problem: Problem, state: PlanState, effort: Effort, *, final: bool) -> list[int] | None:
        """Owners within the limit from which the second round ends within it and revokes nothing that the first one gave.

        Mostly they are what that round ends with. Claims that it would move are moved at once, as if round followed round.
        `final`: the plan from scratch is known, and with it the limit.
        """
        settled, limit = None, state.limit
        for _ in range(_ATTEMPTS):
            state.effort, state.limit = effort, limit
            if effort.left <= 0 or not repair(state):
                break
            handed = withhold(problem, np.array(state.owner, np.int32)).tolist()
            if handed == state.owner:
                return state.owner
            second = self._filled(handed, self._strict)
            effort.left -= self._share - second.effort.left + self.problem.n_partitions
            if final and second.over():
                if _stays(handed, self.scratch.owner):
                    return self.scratch.owner
                if limit != self._strict:
                    second = self._filled(handed, limit)
                    effort.left -= self._share - second.effort.left + self.problem.n_partitions
            if not second.over() and _stays(handed, second.owner):
                if withhold(problem, np.array(second.owner, np.int32)).tolist() == handed:
                    return second.owner
                settled = settled or state.owner
            state = second
        return settled

    def _capped(self, state: PlanState, claims: list[int], most: int) -> list[int]:
        """At most so many moves, or as many as counts demand; while partitions wait for an owner none for lag."""
        if all(claims[partition] != UNOWNED for partition in self.group.heaviest_first):
            moved = sum(before not in (UNOWNED, after) for before, after in zip(claims, state.owner, strict=True))
            state.claims, state.moves_left = claims, max(0, most - moved)
            repair(state)
        return state.owner


def _stays(claims: list[int], owner: list[int]) -> bool:
    """Whether every claimed partition is with its claimant."""
    return claims == owner or all(claim in (UNOWNED, now) for claim, now in zip(claims, owner, strict=True))


def _largest(state: PlanState) -> Fraction:
    """The largest lag per capacity."""
    largest: dict[int, int] = {}
    for capacity, lag in zip(state.group.capacity, state.load, strict=True):
        if lag >= largest.get(capacity, 0):
            largest[capacity] = lag
    return max(Fraction(lag, capacity) for capacity, lag in largest.items())
