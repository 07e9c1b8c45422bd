"""The search for a plan with balanced lag: construction around claims, local search, and a test of the second round.

The leader of a cooperative group plans twice. In the second round the partitions that change hands are free, and all others are
claimed. If that round took other steps than the first one, it could revoke other partitions, round after round. So the search
plans the second round as well, and returns a plan only if that round returns it again. A plan that withholds no partition passes,
as it has no second round. If all attempts fail, the plan from scratch is taken, which depends on no claim. It passes too: claims
that are all kept by the plan from scratch, as after its first round, are answered with that plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.model.withhold import final_owners, withhold
from counterpoise.solver.claims import valid_claims
from counterpoise.solver.engine import prepare
from counterpoise.solver.lag.bound import lower_bound
from counterpoise.solver.lag.counts import balanced_quotas, band_slack, raise_to_least, release_excess, remaining_slack
from counterpoise.solver.lag.placement import CountSlack, place
from counterpoise.solver.lag.repair import repair
from counterpoise.solver.lag.state import LagGroup, PlanState, StepBudget, lag_group

_STEPS, _LARGE, _MORE = 11_000, 6_000, 3
"""The steps of a local search in a group of n partitions and members: `_STEPS` - n up to n = `_LARGE` (passes over all of them
take time too), and `_MORE` for each further one. A step looks at one partition or member, in less than a microsecond.
"""
_FROM_CLAIMS = 4
"""The plan from the claims and its tests by second rounds share the steps of this many local searches."""

__all__ = ["LagSearch"]


@dataclass
class LagSearch:
    """One group, its lag, and what its plans must meet. What does not depend on claims is computed once."""

    problem: Problem  # With at least one member; its claims do not matter
    lag: Int64  # int64[P]
    # tolerance, gain: a member's lag per capacity may exceed the bound by this share of the bound, or its lag by
    # this number of records
    tolerance: Fraction
    gain: int
    band: int  # How far counts may lie from balanced ones; 0: they are balanced
    max_moves: int | None  # How many claims may leave their owners for the sake of lag; None: any number

    def plan(self, problem: Problem) -> Int32:
        """The owners, int32[P], of the group with the claims of `problem`."""
        return self._plan(problem) if self.max_moves is None else final_owners(problem, self._plan)

    def _plan(self, problem: Problem) -> Int32:
        return np.array(self._owners(problem, valid_claims(problem).tolist()), np.int32)

    def _owners(self, problem: Problem, claims: list[int]) -> list[int]:
        # It may be the second round of the plan from scratch, and must end with it. If nothing is unowned, it is no second round.
        if UNOWNED in claims and _stays(claims, self.scratch.owner):
            return self.scratch.owner
        completed = self._completed(claims, self._bound_limit)
        if not completed.over() and _ends_in_one_round(problem, completed.owner):
            return completed.owner
        budget = StepBudget(_FROM_CLAIMS * self._share)
        # If balanced counts demand moves, claims are not those of a second round, and no balanced plan keeps them all.
        if self.band == 0 and not _stays(claims, completed.owner) and self.max_moves is None:
            stable = self._stable(problem, completed, budget, final=False)
            if stable is not None or not self.scratch.over():
                return stable or self.scratch.owner
        if self.scratch.over():
            completed = self._completed(claims, self.limit)
        if self.max_moves is not None:
            return self._capped(completed, claims, self.max_moves)
        stable = self._stable(problem, completed.copy(), budget, final=True)
        if stable is None and budget.left <= 0 and _ends_in_one_round(problem, completed.owner):
            return completed.owner
        return stable or self.scratch.owner

    @cached_property
    def group(self) -> LagGroup:
        """The problem in lists."""
        return lag_group(self.problem, self.lag)

    @cached_property
    def _counts(self) -> list[int]:
        """Counts of the balanced plan."""
        return self._counted(self._balanced)

    @cached_property
    def _quotas(self) -> CountSlack:
        return balanced_quotas(self.group, self._counts)

    @cached_property
    def _balanced(self) -> list[int]:
        """A balanced plan that depends on no claim."""
        return list(self._sticky(self.problem, history="ignore").tolist())

    @cached_property
    def _sticky(self) -> Callable[..., Int32]:
        """A function that plans this group for given claims: balanced, keeping as many claims as possible."""
        return prepare(self.problem, racks="ignore").plan

    def _counted(self, owner: list[int]) -> list[int]:
        return list(np.bincount(np.array(owner) + 1, minlength=self.problem.n_members + 1)[1:].tolist())

    @cached_property
    def _share(self) -> int:
        """The steps of one local search."""
        size = self.problem.n_partitions + self.problem.n_members
        return _STEPS - min(size, _LARGE) + _MORE * max(size - _LARGE, 0)

    @cached_property
    def bound(self) -> Fraction:
        """No plan with such counts has a smaller largest lag per capacity."""
        return lower_bound(self.group, None if self.band else self._counts)

    @cached_property
    def _bound_limit(self) -> list[int]:
        """The largest lag allowed per member: the bound and what is tolerated above it."""
        return self._limits(self.bound)

    @cached_property
    def limit(self) -> list[int]:
        """`_bound_limit`; if the plan from scratch misses it, the largest lag of that plan takes the place of the bound."""
        return self._limits(_largest(self.scratch)) if self.scratch.over() else self._bound_limit

    def _limits(self, largest: Fraction) -> list[int]:
        """Per member: (`largest` + tolerance * bound) * capacity, at least `largest` * capacity + `gain`; both rounded up."""
        low, high = largest.as_integer_ratio()
        top, bottom = (self.bound.numerator * self.tolerance.numerator, self.bound.denominator * self.tolerance.denominator)
        top, bottom = low * bottom + top * high, bottom * high
        of = {one: max(-(-top * one // bottom), -(-low * one // high) + self.gain) for one in set(self.group.capacity)}
        return [of[one] for one in self.group.capacity]

    @cached_property
    def _lpt(self) -> PlanState:
        """The plan by LPT, which depends on no claim."""
        return self._completed([UNOWNED] * len(self.group.lag), self._bound_limit)

    @cached_property
    def scratch(self) -> PlanState:
        """The plan from scratch: the best one found that depends on no claim."""
        found = [self._lpt]
        if not self._lpt.over():
            return self._lpt
        for state in self._alternatives():
            if repair(state):
                return state
            found.append(state)
        return min(found, key=_largest)

    def _alternatives(self) -> Iterator[PlanState]:
        """LPT within the member classes that own some of the topic class in the balanced plan; then the balanced plan itself."""
        group = self.group
        cells = {(number, group.member_class[owner]) for number, owner in zip(group.topic_class, self._balanced, strict=True)}
        takers = [[one for one in some if (number, one) in cells] for number, some in enumerate(group.subscribers)]
        if takers != group.subscribers:
            yield self._constructed([UNOWNED] * len(group.lag), self._bound_limit, takers)
        if self._lpt.budget.left > 0:
            state = self._state(self._balanced, self._bound_limit)
            state.budget = self._lpt.budget
            yield state

    def _constructed(self, claims: list[int], limit: list[int], takers: list[list[int]]) -> PlanState:
        """Construction: claims stay if counts allow it, and the rest is placed by LPT."""
        state = self._state(claims, limit)
        if self.band:
            placed = self._fill(state, band_slack(state), takers)
            if placed is None or not (raise_to_least(placed, claims) or raise_to_least(placed)):
                return self._state(self._target(claims), limit)
            if self.max_moves is None or _moved(claims, placed.owner) <= self.max_moves:
                return placed
            return min(placed, self._state(self._target(claims), limit), key=lambda one: _moved(claims, one.owner))
        placed = self._fill_quotas(state, self._quotas, takers)
        if placed is None and max(claims, default=UNOWNED) == UNOWNED:
            return self._state(self._balanced, limit)  # the quotas are already its counts
        if placed is None:
            target = self._target(claims)
            release_excess(state, target)
            quotas = balanced_quotas(self.group, self._counted(target))
            placed = self._fill_quotas(state, quotas, takers) or self._state(target, limit)
        return placed

    def _fill_quotas(self, state: PlanState, quotas: CountSlack, takers: list[list[int]]) -> PlanState | None:
        """Place unassigned partitions so that counts end balanced; None if claims or subscriptions prevent it."""
        slack = remaining_slack(state, quotas)
        return None if slack is None else self._fill(state, slack, takers)

    def _fill(self, state: PlanState, slack: CountSlack, takers: list[list[int]]) -> PlanState | None:
        """Place unassigned partitions by LPT; None if counts or subscriptions prevent it.

        If they are few, members have little slack. While steps are left, several reserves are tried if counts are balanced, and
        best fit if they are not. The plan with the fewest members above their limits is returned.
        """
        unassigned = [partition for partition in self.group.heaviest_first if state.owner[partition] == UNOWNED]
        if not unassigned:
            return state
        slack.takers, rising = takers, sorted(self.group.lag[partition] for partition in unassigned)
        trials = [(0 if self.band else rising[0], False)]
        if 4 * len(unassigned) < len(self.group.heaviest_first):
            reserves = 0, rising[len(rising) // 4], rising[len(rising) // 2]
            trials += [(0, True)] if self.band else [(reserve, False) for reserve in reserves]
        best, fewest = None, len(state.load) + 1
        for reserve, best_fit in dict.fromkeys(trials):
            trial = state.copy()
            if not place(trial, unassigned, slack.copy(reserve, best_fit=best_fit)):
                if best is None:
                    return None
                continue
            over = len(trial.over())
            if over < fewest:
                best, fewest = trial, over
            if not over or state.budget.left <= 0:
                break
            state.budget.left -= len(unassigned)
        return best

    def _state(self, owner: list[int], limit: list[int]) -> PlanState:
        n = self.problem.n_members
        load, count = [0] * (n + 1), [0] * (n + 1)  # the last entry is that of UNOWNED
        for lag, member in zip(self.group.lag, owner, strict=True):
            load[member] += lag
            count[member] += 1
        state = PlanState(self.group, owner[:], load[:n], count[:n], limit, StepBudget(self._share))
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
        return list(self._sticky(self.problem.replace(previous_owner=np.array(claims, np.int32))).tolist())

    def _completed(self, claims: list[int], limit: list[int]) -> PlanState:
        """A plan that moves claims only for counts: construction, then local search with all claims that stayed fixed."""
        state = self._constructed(claims, limit, self.group.subscribers)
        if state.over() and claims != state.owner:
            state.fixed = {p for p, (claim, owner) in enumerate(zip(claims, state.owner, strict=True)) if claim == owner}
            repair(state)
            state.fixed = set()
        return state

    def _stable(self, problem: Problem, state: PlanState, budget: StepBudget, *, final: bool) -> list[int] | None:
        """A plan that its second round returns again: within its limit of lag, or the plan from scratch; None if none is found.

        If that round moves a claim, or gives one back, the next attempt begins with its plan, until `budget` is used up. `final`:
        the limit is final, that is, the plan from scratch is known.
        """
        limit = state.limit
        while budget.left > 0:
            state.budget, state.limit = budget, limit
            if not repair(state):
                break
            first_round = _first_round(problem, state.owner)
            if first_round == state.owner:
                return state.owner
            if _stays(first_round, self.scratch.owner):
                return self.scratch.owner
            second = self._second_round(first_round, self._bound_limit, budget)
            if final and second.over() and limit != self._bound_limit and (self.band or _stays(first_round, second.owner)):
                second = self._second_round(first_round, limit, budget)
            if not second.over() and _stays(first_round, second.owner) and _first_round(problem, second.owner) == first_round:
                return second.owner
            state = second
        return None

    def _second_round(self, claims: list[int], limit: list[int], budget: StepBudget) -> PlanState:
        """`_completed` for the claims of a second round; its steps, and those of `PlanState.index`, come off `budget`."""
        state = self._completed(claims, limit)
        budget.left -= self._share - state.budget.left + self.problem.n_partitions // 2 + 1
        return state

    def _capped(self, state: PlanState, claims: list[int], most: int) -> list[int]:
        """The owners after a local search with at most `most` moves; moves that counts demanded are part of these.

        If a partition is unclaimed, there is no search.
        """
        if all(claims[partition] != UNOWNED for partition in self.group.heaviest_first):
            state.claims, state.moves_left = claims, max(0, most - _moved(claims, state.owner))
            repair(state)
        return state.owner


def _first_round(problem: Problem, owner: list[int]) -> list[int]:
    """The owner of each partition after the first round of a cooperative rebalance; UNOWNED: withheld until it is revoked."""
    return list(withhold(problem, np.array(owner, np.int32)).tolist())


def _ends_in_one_round(problem: Problem, owner: list[int]) -> bool:
    """Whether the first round of a cooperative rebalance assigns the whole plan.

    A plan that moves no claim may need a second round: a partition is withheld from its owner while another member holds it
    without a valid claim.
    """
    return _first_round(problem, owner) == owner


def _stays(claims: list[int], owner: list[int]) -> bool:
    """Whether every claimed partition is with its claimant."""
    return claims == owner or all(claim in (UNOWNED, now) for claim, now in zip(claims, owner, strict=True))


def _moved(claims: list[int], owner: list[int]) -> int:
    """How many claimed partitions are not with their claimant."""
    return sum(claim not in (UNOWNED, now) for claim, now in zip(claims, owner, strict=True))


def _largest(state: PlanState) -> Fraction:
    """The largest lag per capacity."""
    return max(map(Fraction, state.load, state.group.capacity))
