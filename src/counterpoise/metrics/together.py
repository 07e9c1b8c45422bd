"""Plans of many groups measured at once: small groups are all overhead, so a few hundred plans share each array step.

For groups in which everybody subscribes alike; the others are measured by `measure_all`, group by group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from counterpoise.laws.verdict import alike
from counterpoise.metrics.figures import lag_floor
from counterpoise.metrics.many import Asked, OfPair, OfPlan, measure_all, told
from counterpoise.metrics.measure import Metrics
from counterpoise.model.problem import UNOWNED, Int32, Problem

__all__ = ["Figures", "Together"]

_CELLS = 1_000_000
"""Plans x (partitions + topics x members) that wait at most, and that one group may have to be measured with others."""
_LARGEST = 10_000
"""Members or partitions of a group whose sums and squares are surely exact."""
_EXACT = 2.0**62
"""The same for lag: the square of a group's sum, times its members."""

_Numbers = npt.NDArray[np.int64]


class Figures:
    """The metrics of one group's plans, measured when the first of them is asked for."""

    __slots__ = ("_among", "_found")

    def __init__(self, among: Together) -> None:
        self._among = among
        self._found: Sequence[Metrics] | None = None

    def of(self, number: int) -> Metrics:
        """Of the plan with this number, in the order asked."""
        if self._found is None:
            self._among.measure()
        assert self._found is not None
        return self._found[number]

    def tell(self, found: Sequence[Metrics]) -> None:
        """They are measured."""
        self._found = found


class Together:
    """Plans that wait to be measured; what waits is bounded, and every figure is the one that `measure` gives."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Asked], int | None, Figures]] = []
        self._cells = 0

    def ask(self, asked: Sequence[Asked], floor: int | None = None) -> Figures:
        """As `measure_all`, later."""
        figures = Figures(self)
        problem = asked[0].problem if asked else None
        cells = 0 if problem is None else len(asked) * (problem.n_partitions + problem.n_topics * problem.n_members)
        if problem is None or cells > _CELLS or not _fits(problem):
            figures.tell(measure_all(asked, floor=floor))
            return figures
        self._waiting.append((asked, floor, figures))
        self._cells += cells
        if self._cells > _CELLS:
            self.measure()
        return figures

    def measure(self) -> None:
        """Measure all that waits."""
        waiting, self._waiting, self._cells = self._waiting, [], 0
        while waiting:
            table = _Table([asked for asked, _, _ in waiting], [floor for _, floor, _ in waiting])
            if not table.odd:
                for (_, _, figures), found in zip(waiting, table.rows(), strict=True):
                    figures.tell(found)
                return
            for at in table.odd:
                asked, floor, figures = waiting[at]
                figures.tell(measure_all(asked, floor=floor))
            waiting = [one for at, one in enumerate(waiting) if at not in table.odd]


def _fits(problem: Problem) -> bool:
    return 0 < problem.n_partitions <= _LARGEST and problem.n_members <= _LARGEST and alike(problem)


class _Runs:
    """Stretches of equal or different length end to end."""

    def __init__(self, length: _Numbers) -> None:
        self.length = length
        self.start = np.cumsum(length) - length
        self.total = int(length.sum())

    def each(self, values: _Numbers) -> _Numbers:
        """One value per stretch, for all of it."""
        return np.repeat(values, self.length)

    def places(self, other: _Numbers) -> _Numbers:
        """For stretches that are copies of others, which start at `other`: where each entry comes from."""
        return np.arange(self.total) + self.each(other - self.start)

    def sums(self, values: npt.NDArray[np.generic]) -> _Numbers:
        """The sum over each."""
        found: _Numbers = np.add.reduceat(values, self.start, dtype=np.int64)
        return found

    def spread(self, values: _Numbers) -> _Numbers:
        """Largest minus smallest of each."""
        found: _Numbers = np.maximum.reduceat(values, self.start) - np.minimum.reduceat(values, self.start)
        return found


class _Table:
    """Groups by row, their distinct plans and problems by row, and the pairs of the two that are asked for."""

    def __init__(self, asked: Sequence[Sequence[Asked]], floors: Sequence[int | None]) -> None:
        self.asked, self.floors = asked, floors
        self.groups = [of[0].problem for of in asked]
        pair_of: dict[int, int] = {}
        owners: list[Int32] = []
        problems: list[Problem] = []
        group_of_plan: list[int] = []
        group_of_problem: list[int] = []
        self.places: list[tuple[int, int, int]] = []
        for group, of in enumerate(asked):
            row_of: dict[int, int] = {}  # of this group alone: groups may share a plan, and `asked` keeps all of them alive
            for one in of:
                problem = row_of.setdefault(id(one.problem), len(problems))
                if problem == len(problems):
                    problems.append(one.problem)
                    group_of_problem.append(group)
                plan = row_of.setdefault(id(one.owner), len(owners))
                if plan == len(owners):
                    owners.append(one.owner)
                    group_of_plan.append(group)
                mine = best = pair_of.setdefault(problem << 32 | plan, len(pair_of))
                if one.optimal is not None and one.optimal is not one.owner:
                    optimal = row_of.setdefault(id(one.optimal), len(owners))
                    if optimal == len(owners):
                        owners.append(one.optimal)
                        group_of_plan.append(group)
                    best = pair_of.setdefault(problem << 32 | optimal, len(pair_of))
                self.places.append((plan, mine, best))
        self.n = np.array([problem.n_members for problem in self.groups])
        self.size = np.array([problem.n_partitions for problem in self.groups])
        self.of_plan, self.of_problem = np.array(group_of_plan), np.array(group_of_problem)
        pairs = np.array(list(pair_of), np.int64)
        self.pair_problem, self.pair_plan = pairs >> 32, pairs & 0xFFFFFFFF
        self.problems = problems
        self.owner = np.concatenate(owners).astype(np.int64)
        self.partitions = _Runs(self.size[self.of_plan])
        self.members = _Runs(self.n[self.of_plan])
        self.lag = self._lags()
        self.odd = self._odd()

    def _lags(self) -> _Numbers:
        """Lag of all groups' partitions, end to end, and their sums; 0 where nothing is known."""
        return np.concatenate([np.zeros(one.n_partitions, np.int64) if one.lag is None else one.lag for one in self.groups])

    def _odd(self) -> set[int]:
        """Groups with codes that are no members, or with lags whose squares would be too large: one by one."""
        wrong = (self.owner < UNOWNED) | (self.owner >= self.partitions.each(self.n[self.of_plan]))
        lags = np.add.reduceat(self.lag.astype(np.float64), _Runs(self.size).start)
        odd = set(np.flatnonzero(lags * lags * self.n >= _EXACT).tolist())
        if wrong.any():
            odd.update(self.of_plan[np.flatnonzero(self.partitions.sums(wrong))].tolist())
        return odd

    def rows(self) -> list[list[Metrics]]:
        """The figures of every plan that was asked for, by group."""
        plans, pairs = self._of_plans(), self._of_pairs()
        made: dict[tuple[int, int, int, bool], Metrics] = {}
        result: list[list[Metrics]] = []
        places = iter(self.places)
        for of in self.asked:
            found = []
            for one, (plan, mine, best) in zip(of, places, strict=False):
                key = (mine, best, one.duplicates, one.cooperative)
                if key not in made:
                    made[key] = told(one, plans[plan], pairs[mine], pairs[best])
                found.append(made[key])
            result.append(found)
        return result

    def _counted(self, runs: _Runs, cells: _Runs, code: _Numbers, weights: npt.NDArray[np.float64] | None = None) -> _Numbers:
        """What falls to each cell: `code` counts from the start of its own cells; negative ones fall nowhere."""
        cell = np.where(code < 0, cells.total, code + runs.each(cells.start))
        return np.bincount(cell, weights, cells.total + 1)[:-1].astype(np.int64)

    def _of_plans(self) -> list[OfPlan]:
        """By plan: spread, KIP-54's score, Jain's index, largest spread of a topic, unassigned, and the three of lag."""
        members, n = self.members, self.n[self.of_plan]
        load = self.load = self._counted(self.partitions, members, self.owner)
        self.spread, self.dealt = members.spread(load), members.sums(load)
        key = np.sort(members.each(np.arange(len(n))) * (_LARGEST + 1) + load)
        weight = 2 * (np.arange(len(load)) - members.each(members.start)) - members.each(n) + 1
        squares = members.sums(load * load)
        fair = np.where(squares == 0, 1.0, self.dealt**2 / np.maximum(n * squares, 1))
        columns = (
            self.spread.tolist(),
            members.sums(key % (_LARGEST + 1) * weight).tolist(),
            fair.tolist(),
            self._topic_spreads().tolist(),
            (self.partitions.length - self.dealt).tolist(),
            *self._of_lag(),
        )
        return list(zip(*columns, strict=True))

    def _topic_spreads(self) -> _Numbers:
        """The largest spread of a topic, by plan."""
        topics = np.array([problem.n_topics for problem in self.groups])
        sizes = np.concatenate([problem.topic_start[1:] - problem.topic_start[:-1] for problem in self.groups])
        number = np.arange(len(sizes)) - _Runs(topics).each(_Runs(topics).start)
        topic = np.repeat(number, sizes)[self.partitions.places(_Runs(self.size).start[self.of_plan])]
        n, topics = self.n[self.of_plan], topics[self.of_plan]
        code = np.where(self.owner < 0, UNOWNED, topic * self.partitions.each(n) + self.owner)
        counts = self._counted(self.partitions, _Runs(n * topics), code)
        each = _Runs(np.repeat(n, topics)).spread(counts)
        found: _Numbers = np.maximum.reduceat(each, _Runs(topics).start)
        return found

    def _of_lag(self) -> tuple[list[int | None], list[float | None], list[float | None]]:
        """The largest lag of a member, its variation and its share of the floor, by plan."""
        known = [problem.lag is not None for problem in self.groups]
        lag = self.lag[self.partitions.places(_Runs(self.size).start[self.of_plan])].astype(np.float64)
        of_member = self._counted(self.partitions, self.members, self.owner, lag)
        worst = np.maximum.reduceat(of_member, self.members.start).tolist()
        total, squares = self.members.sums(of_member), self.members.sums(of_member * of_member)
        spread = np.sqrt((self.n[self.of_plan] * squares - total * total).astype(np.float64))
        variation = np.where(total > 0, spread / np.maximum(total, 1), 0.0).tolist()
        floors = [
            0 if problem.lag is None else lag_floor(problem, problem.lag) if floor is None else floor
            for problem, floor in zip(self.groups, self.floors, strict=True)
        ]
        of_plan = self.of_plan.tolist()
        return (
            [one if known[of] else None for one, of in zip(worst, of_plan, strict=True)],
            [one if known[of] else None for one, of in zip(variation, of_plan, strict=True)],
            [(one / floors[of] if floors[of] else 1.0) if known[of] else None for one, of in zip(worst, of_plan, strict=True)],
        )

    def _of_pairs(self) -> list[OfPair]:
        """By pair: moved, kept, revoked under the cooperative and the eager protocol, balanced, sticky."""
        whole = _Runs(self.size[self.of_problem])
        n = self.n[self.of_problem]
        limit = whole.each(n)
        previous = np.concatenate([problem.previous_owner for problem in self.problems])
        claims = np.where((previous >= 0) & (previous < limit), previous, UNOWNED)
        holder = np.concatenate([problem.holder for problem in self.problems])
        now = (holder != UNOWNED) & (holder < limit)
        cells = _Runs(n)
        claimed = self._counted(whole, cells, claims)
        floor, extra = np.divmod(whole.length, n)
        each = cells.each(floor)
        most = cells.sums(np.minimum(claimed, each)) + np.minimum(extra, cells.sums(claimed > each))
        problem, plan = self.pair_problem, self.pair_plan
        pairs = _Runs(whole.length[problem])
        at, owner = pairs.places(whole.start[problem]), self.owner[pairs.places(self.partitions.start[plan])]
        mine = claims[at]
        kept = pairs.sums((mine == owner) & (owner >= 0))
        moved = pairs.sums((mine >= 0) & (owner >= 0)) - kept
        cooperative = pairs.sums(now[at] & (holder[at] != owner))
        balanced = ((self.spread <= 1) & (self.dealt == self.partitions.length))[plan]
        columns = (moved, kept, cooperative, whole.sums(now)[problem], balanced, balanced & (kept == most[problem]))
        return list(zip(*(column.tolist() for column in columns), strict=True))
