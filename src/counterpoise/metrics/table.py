"""Groups, plans and problems of a batch as flat arrays, and every figure of `Metrics` found for all of them at once.

Whether a plan is balanced and sticky has a closed form here for groups of equal members, and `certify` for the rest: its search
takes 0.2 ms per plan of a small group, and an audit of 20 million records measures 350,000 plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from counterpoise.laws.balance import alike
from counterpoise.laws.certificate import certify
from counterpoise.laws.lag_bound import lag_floor
from counterpoise.metrics.figures import Metrics, Query
from counterpoise.metrics.runs import Runs, subscribed, topic_spreads
from counterpoise.model.arrays import ranges, ranks_in_runs, sums_by_code
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem, keepers

__all__ = ["OfPair", "OfPlan", "Table"]

_EXACT = 2.0**62
"""int64 holds the square of a group's summed lag, times its members, below this."""

OfPlan = tuple[int, int, float, int, int, int | None, float | None, float | None]
"""What follows from the owners alone: spread, KIP-54 score, fairness, topics' spread, unassigned; then the three of lag."""
OfPair = tuple[int, int, int, int, bool | None, bool | None]
"""What follows from owners and claims: moved, kept, revoked (cooperative, eager), balanced, sticky."""


class Table:
    """Groups by row, their distinct plans and problems by row, and the pairs of the two that are asked for."""

    def __init__(self, queries: Sequence[Sequence[Query]], floors: Sequence[Fraction | int | None]) -> None:
        self.queries, self.floors = queries, floors
        self.groups = [of[0].problem for of in queries]
        self.plans: list[Int32] = []
        self.problems: list[Problem] = []
        group_of_plan: list[int] = []
        group_of_problem: list[int] = []
        pair_of: dict[tuple[int, int], int] = {}
        self.proved: set[int] = set()
        self.places: list[tuple[int, int, int]] = []
        for group, of in enumerate(queries):
            row_of: dict[int, int] = {}  # of this group alone: groups may share a plan; `queries` keeps all of them alive
            for one in of:
                problem = row_of.setdefault(id(one.problem), len(self.problems))
                if problem == len(self.problems):
                    self.problems.append(one.problem)
                    group_of_problem.append(group)
                pairs = []
                for owner in (one.owner, one.owner if one.optimal is None else one.optimal):
                    plan = row_of.setdefault(id(owner), len(self.plans))
                    if plan == len(self.plans):
                        self.plans.append(owner)
                        group_of_plan.append(group)
                    pairs.append(pair_of.setdefault((problem, plan), len(pair_of)))
                mine, best = pairs
                self.places.append((row_of[id(one.owner)], mine, best))
                if one.prove:
                    self.proved.add(mine)
        starts = ((one.topic_start, one.subscriber_start) for one in self.groups)
        sizes, degrees = zip(*((topics[1:] - topics[:-1], members[1:] - members[:-1]) for topics, members in starts), strict=True)
        self.topic_size, self.degree = np.concatenate(sizes), np.concatenate(degrees)
        self.n = np.array([problem.n_members for problem in self.groups])
        self.size = np.array([problem.n_partitions for problem in self.groups])
        self.group_of_plan, self.group_of_problem = np.array(group_of_plan), np.array(group_of_problem)
        self.problem_of_pair, self.plan_of_pair = np.array(list(pair_of), np.int64).reshape(-1, 2).T
        self.owner = np.concatenate(self.plans).astype(np.int64)
        self.partitions, self.members = Runs(self.size[self.group_of_plan]), Runs(self.n[self.group_of_plan])
        self.group_partition_index = ranges(Runs(self.size).start[self.group_of_plan], self.partitions.length)
        """For each partition of each plan, its index among the partitions of all groups end to end."""

    def rows(self) -> list[list[Metrics]]:
        """The metrics of every query, by group."""
        plans, pairs = self._of_plans(), self._of_pairs()
        made: dict[tuple[int, int, int, bool, bool, bool], Metrics] = {}
        places = iter(self.places)
        result: list[list[Metrics]] = []
        for of in self.queries:
            found = []
            for one, (plan, mine, best) in zip(of, places, strict=False):
                key = (mine, best, one.duplicates, one.cooperative, one.optimal is None, one.prove)
                if key not in made:
                    made[key] = _metrics(one, plans[plan], pairs[mine], pairs[best])
                found.append(made[key])
            result.append(found)
        return result

    def _counted(self, runs: Runs, cells: Runs, code: Int64) -> Int64:
        """How many entries fall to each cell; `code` counts from the start of its own cells, negative ones fall nowhere."""
        cell = np.where(code < 0, cells.total, code + runs.each(cells.start))
        return np.bincount(cell, minlength=cells.total + 1)[:-1]

    def _of_plans(self) -> list[OfPlan]:
        """The figures of each plan; sets `load`, `spread` and `assigned`, which `_of_pairs` reads."""
        members, n = self.members, self.n[self.group_of_plan]
        load = self.load = self._counted(self.partitions, members, self.owner)
        self.spread, self.assigned = members.spread(load), members.sums(load)
        wide = int(load.max(initial=0)) + 1
        ordered = np.sort(members.each(np.arange(len(n))) * wide + load) % wide
        weight = 2 * (np.arange(len(load)) - members.each(members.start)) - members.each(n) + 1
        totals, squares = self.assigned.tolist(), members.sums(load * load).tolist()
        fair = [1.0 if not b else a * a / (m * b) for a, b, m in zip(totals, squares, n.tolist(), strict=True)]
        columns = (
            self.spread.tolist(),
            members.sums(ordered * weight).tolist(),
            fair,
            self._topic_spreads().tolist(),
            self._unassigned().tolist(),
            *self._of_lag(),
        )
        return list(zip(*columns, strict=True))

    def _unassigned(self) -> Int64:
        ownable = np.repeat(self.degree > 0, self.topic_size)[self.group_partition_index]
        return self.partitions.sums((self.owner == UNOWNED) & ownable)

    def _topic_spreads(self) -> Int64:
        """The largest spread of a topic, by plan."""
        topics = Runs(np.array([problem.n_topics for problem in self.groups]))
        number = ranks_in_runs(topics.length)
        of_plan = Runs(topics.length[self.group_of_plan])
        topic = np.repeat(number, self.topic_size)[self.group_partition_index] + self.partitions.each(of_plan.start)
        owner = np.concatenate(
            [keepers(one, self.groups[group]) for one, group in zip(self.plans, self.group_of_plan, strict=True)]
        )
        spreads = topic_spreads(
            topic, owner, self.degree[ranges(topics.start[self.group_of_plan], of_plan.length)], int(self.n.max())
        )
        return of_plan.largest(spreads)

    def _of_lag(self) -> tuple[list[int | None], list[float | None], list[float | None]]:
        """The largest lag of a member, its variation, and the largest lag per capacity divided by its lower bound, by plan."""
        nothing: list[None] = [None] * len(self.plans)
        if all(problem.lag is None for problem in self.groups):
            return [*nothing], [*nothing], [*nothing]
        lag = np.concatenate([np.zeros(one.n_partitions, np.int64) if one.lag is None else one.lag for one in self.groups])
        cell = np.where(self.owner < 0, UNOWNED, self.owner + self.partitions.each(self.members.start))
        of_member = sums_by_code(cell, lag[self.group_partition_index], self.members.total)
        known = [self.groups[group].lag is not None for group in self.group_of_plan]
        worst, variation = self.members.largest(of_member).tolist(), self._variations(of_member)
        ratios = self._ratios(worst, of_member)
        return (
            [one if there else None for one, there in zip(worst, known, strict=True)],
            [one if there else None for one, there in zip(variation, known, strict=True)],
            [one if there else None for one, there in zip(ratios, known, strict=True)],
        )

    def _ratios(self, worst: Sequence[int], of_member: Int64) -> list[float]:
        """The largest lag per capacity divided by its lower bound, by plan; 1 if nothing lags."""
        scales: list[tuple[int, int] | None] = []
        bounds: list[Fraction | None] = []
        for problem, floor in zip(self.groups, self.floors, strict=True):
            least = Fraction(lag_floor(problem) if floor is None else floor)
            even = bool((problem.capacity == problem.capacity[:1]).all())
            scales.append((least.denominator, least.numerator * int(problem.capacity.max(initial=1))) if even else None)
            bounds.append(least or None)
        found = []
        for plan, group in enumerate(self.group_of_plan):
            scale, bound = scales[group], bounds[group]
            if bound is None:
                found.append(1.0)
            elif scale is not None:
                found.append(worst[plan] * scale[0] / scale[1])
            else:
                start, capacity = int(self.members.start[plan]), self.groups[group].capacity.tolist()
                mine = of_member[start : start + len(capacity)].tolist()
                found.append(float(max(map(Fraction, mine, capacity)) / bound))
        return found

    def _variations(self, of_member: Int64) -> list[float]:
        """Standard deviation over mean, sqrt(n Σx² - (Σx)²) / Σx, over the members that could own something, by plan."""
        able = np.concatenate([subscribed(problem) for problem in self.groups])
        able = able[ranges(Runs(self.n).start[self.group_of_plan], self.members.length)]
        n, mine = self.members.sums(able), np.where(able, of_member, 0)
        total = self.members.sums(mine)
        if float(total.max(initial=0)) ** 2 * int(n.max(initial=0)) < _EXACT:
            left = (n * self.members.sums(mine * mine) - total * total).tolist()
        else:
            left = [
                count * sum(x * x for x in mine[start : start + length].tolist()) - whole * whole
                for count, start, length, whole in zip(
                    n.tolist(), self.members.start.tolist(), self.members.length.tolist(), total.tolist(), strict=True
                )
            ]
        return [math.sqrt(a) / b if b else 0.0 for a, b in zip(left, total.tolist(), strict=True)]

    def _of_pairs(self) -> list[OfPair]:
        whole = Runs(self.size[self.group_of_problem])
        claims = np.concatenate([problem.previous_owner for problem in self.problems]).astype(np.int64)
        holder = np.concatenate([problem.holder for problem in self.problems])
        now = holder != UNOWNED
        problem, plan = self.problem_of_pair, self.plan_of_pair
        pairs = Runs(whole.length[problem])
        at, owner = ranges(whole.start[problem], pairs.length), self.owner[ranges(self.partitions.start[plan], pairs.length)]
        mine = claims[at]
        kept = pairs.sums((mine == owner) & (owner >= 0))
        moved = pairs.sums((mine >= 0) & (owner >= 0)) - kept
        cooperative = pairs.sums(now[at] & (holder[at] != owner))
        columns = (moved, kept, cooperative, whole.sums(now)[problem])
        return list(zip(*(one.tolist() for one in columns), *self._verdicts(whole, claims, kept), strict=True))

    def _verdicts(self, whole: Runs, claims: Int64, kept: Int64) -> tuple[list[bool | None], list[bool | None]]:
        """Balanced and sticky by pair, as `certify` proves them; without a search for groups that are `alike`.

        A complete plan of such a group is balanced if loads differ by one at most: f or f + 1 each, f + 1 for e of them. A
        member that claims c keeps at most min(c, f), and one more if c > f and it is among the e; so a plan is sticky exactly
        if it keeps all of that.
        """
        n = self.n[self.group_of_problem]
        cells = Runs(n)
        claimed = self._counted(whole, cells, claims)
        floor, extra = np.divmod(whole.length, np.maximum(n, 1))
        each = cells.each(floor)
        most = cells.sums(np.minimum(claimed, each)) + np.minimum(extra, cells.sums(claimed > each))
        even = ((self.spread <= 1) & (self.assigned == self.partitions.length))[self.plan_of_pair]
        balanced: list[bool | None] = even.tolist()
        sticky: list[bool | None] = (even & (kept == most[self.problem_of_pair])).tolist()
        closed = [alike(problem) for problem in self.groups]
        for pair, (at, plan) in enumerate(zip(self.problem_of_pair.tolist(), self.plan_of_pair.tolist(), strict=True)):
            if pair not in self.proved:
                balanced[pair] = sticky[pair] = None
            elif not closed[self.group_of_plan[plan]]:
                proof = certify(self.problems[at], self.plans[plan])
                balanced[pair], sticky[pair] = proof.balanced, proof.sticky
        return balanced, sticky


def _metrics(one: Query, of_plan: OfPlan, of_pair: OfPair, of_optimal: OfPair) -> Metrics:
    """The metrics of one query from what was found of its plan, of its plan and claims, and of the optimal plan."""
    spread, kip54, fair, topic_spread, unassigned, worst, cv, ratio = of_plan
    moved, kept, cooperative, eager, balanced, sticky = of_pair if one.prove else (*of_pair[:4], None, None)
    least = moved if sticky else None if one.optimal is None else of_optimal[0]
    if one.duplicates and one.prove:  # a plan that gives a partition twice is not complete
        balanced = sticky = False
    revoked = cooperative if one.cooperative else eager
    return Metrics(
        spread, kip54, fair, topic_spread, moved, kept, least, revoked, worst, cv, ratio, one.duplicates,
        unassigned, balanced, sticky,
    )  # fmt: skip
