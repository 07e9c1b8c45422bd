"""measure_all: the figures of several plans of one group at once. Small groups are all overhead, so plans share array steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from counterpoise.laws.exchange_graph import claimant
from counterpoise.laws.verdict import alike, alike_verdicts, verdict
from counterpoise.metrics.figures import jains, kip54_scores, lag_floor, member_lags, subscribed, topic_spreads, variation
from counterpoise.metrics.measure import Metrics, measure, metrics_of
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["Asked", "OfPair", "OfPlan", "measure_all", "told"]

_CELLS = 4_000_000
"""Plans x (partitions + topics x members) that are looked at together (some 100 MB); larger groups go plan by plan."""

Pairs = npt.NDArray[np.intp]


OfPlan = tuple[int, int, float, int, int, int | None, float | None, float | None]
"""What follows from the owners alone: spread, KIP-54 score, fairness, topics' spread, unassigned; then the three of lag."""
OfPair = tuple[int, int, int, int, bool, bool]
"""What follows from owners and claims: moved, kept, revoked (cooperative, eager), balanced, sticky."""


@dataclass(slots=True, eq=False)
class Asked:
    """One plan to be measured: as for `measure`.

    Attributes
    ----------
    problem : Problem
        Equal to those of the other plans of one call but for `previous_owner` and `holder`.
    owner : int32[P]
    cooperative : bool
    optimal : int32[P], optional
    duplicates : int
    """

    problem: Problem
    owner: Int32
    cooperative: bool = False
    optimal: Int32 | None = None
    duplicates: int = 0


def told(one: Asked, of_plan: OfPlan, of_pair: OfPair, of_optimal: OfPair) -> Metrics:
    """The metrics of one plan from what was found of it, and of the optimal plan for the same claims."""
    spread, kip54, fair, topic_spread, unassigned, worst, cv, ratio = of_plan
    moved, kept, cooperative, eager, balanced, sticky = of_pair
    least = moved if sticky else None if one.optimal is None else of_optimal[0]
    revoked = cooperative if one.cooperative else eager
    return metrics_of((
        spread, kip54, fair, topic_spread, moved, kept, least, revoked, worst, cv, ratio, one.duplicates,
        unassigned, balanced, sticky,
    ))  # fmt: skip


def measure_all(asked: Sequence[Asked], *, floor: int | None = None) -> list[Metrics]:
    """What `measure` gives for each plan, in the order asked for.

    Parameters
    ----------
    asked : sequence of Asked
        Plans of one group.
    floor : int, optional
        As for `measure`.

    Notes
    -----
    What plans or problems have in common is computed once: equal plans are told by their bytes, problems by identity.
    """
    if not asked:
        return []
    problem = asked[0].problem
    cells = len(asked) * (problem.n_partitions + problem.n_topics * problem.n_members)
    if problem.n_members and problem.n_partitions and cells <= _CELLS:
        table = _Table(asked, floor)
        if table.sound:
            return table.rows()
    return [
        measure(one.problem, one.owner, cooperative=one.cooperative, optimal=one.optimal, duplicates=one.duplicates, floor=floor)
        for one in asked
    ]


class _Table:
    """Distinct plans by row, distinct problems by row, and the pairs of the two that are asked for."""

    def __init__(self, asked: Sequence[Asked], floor: int | None) -> None:
        self.asked, self.floor, self.problem = asked, floor, asked[0].problem
        problem_at: dict[int, int] = {}
        plan_at: dict[bytes, int] = {}
        pair_at: dict[tuple[int, int], int] = {}
        self.problems: list[Problem] = []
        owners: list[Int32] = []
        known: dict[int, int] = {}

        def place(owner: Int32) -> int:
            if id(owner) not in known:  # `asked` keeps all of them alive
                row = known[id(owner)] = plan_at.setdefault(owner.tobytes(), len(owners))
                if row == len(owners):
                    owners.append(owner)
            return known[id(owner)]

        self.places: list[tuple[int, int, int]] = []
        for one in asked:
            row = problem_at.setdefault(id(one.problem), len(self.problems))
            if row == len(self.problems):
                self.problems.append(one.problem)
            plan = place(one.owner)
            best = plan if one.optimal is None else place(one.optimal)
            mine, optimal = (pair_at.setdefault((row, at), len(pair_at)) for at in (plan, best))
            self.places.append((plan, mine, optimal))
        self.owners = np.stack(owners)
        flat = np.fromiter(chain.from_iterable(pair_at), np.intp, 2 * len(pair_at))
        self.of_problem, self.of_plan = flat[::2], flat[1::2]
        self.least = int(self.owners.min())
        # Codes that are no member of the group: only the careful way can count them.
        self.sound = self.least >= UNOWNED and int(self.owners.max()) < self.problem.n_members
        if self.sound:
            self.load = _loads(self.owners, self.problem.n_members)

    def rows(self) -> list[Metrics]:
        """The figures of every plan that was asked for."""
        plans, pairs = self._of_plans(), self._of_pairs()
        result: list[Metrics] = []
        made: dict[tuple[int, int, int, bool], Metrics] = {}
        for one, (plan, mine, best) in zip(self.asked, self.places, strict=True):
            key = (mine, best, one.duplicates, one.cooperative)
            if key not in made:
                made[key] = told(one, plans[plan], pairs[mine], pairs[best])
            result.append(made[key])
        return result

    def _of_plans(self) -> list[OfPlan]:
        """By plan: spread, KIP-54's score, Jain's index, largest spread of a topic, unassigned, and the three of lag."""
        problem, owners = self.problem, self.owners
        unassigned = [0] * len(owners)
        if self.least < 0:
            ownable = np.repeat(np.diff(problem.subscriber_start) > 0, np.diff(problem.topic_start))
            unassigned = np.count_nonzero((owners == UNOWNED) & ownable, axis=1).tolist()
        one_topic = problem.n_topics == 1 and len(problem.subscriber) == problem.n_members
        spreads = (self.load.max(axis=1) - self.load.min(axis=1)).tolist()
        columns = (
            spreads,
            kip54_scores(self.load),
            jains(self.load),
            spreads if one_topic else topic_spreads(problem, owners).tolist(),
            unassigned,
            *self._of_lag(),
        )
        return list(zip(*columns, strict=True))

    def _of_lag(self) -> tuple[list[int | None], list[float | None], list[float | None]]:
        problem, lag = self.problem, self.problem.lag
        if lag is None:
            nothing: list[None] = [None] * len(self.owners)
            return [*nothing], [*nothing], [*nothing]
        of_member = member_lags(problem, self.owners, lag)
        worst = of_member.max(axis=1).tolist()
        floor = lag_floor(problem, lag) if self.floor is None else self.floor
        if len(problem.subscriber) != problem.n_members * problem.n_topics:
            of_member = of_member[:, subscribed(problem)]
        return worst, [variation(row) for row in of_member.tolist()], [one / floor if floor else 1.0 for one in worst]

    def _of_pairs(self) -> list[OfPair]:
        """By pair: moved, kept, revoked under the cooperative and the eager protocol, balanced, sticky."""
        owner = self.owners[self.of_plan]
        claimed, now, holder = self._claims()
        claims = claimed[self.of_problem]
        kept = np.count_nonzero((claims == owner) & (owner >= 0), axis=1)
        moved = np.count_nonzero((claims >= 0) & (owner >= 0), axis=1) - kept
        eager = np.count_nonzero(now, axis=1)[self.of_problem]
        cooperative = np.count_nonzero(now[self.of_problem] & (holder[self.of_problem] != owner), axis=1)
        if alike(self.problem):
            of_claims = _loads(claimed, self.problem.n_members)[self.of_problem]
            balanced, sticky = (
                one.tolist() for one in alike_verdicts(self.problem.n_partitions, self.load[self.of_plan], of_claims, kept)
            )
        else:
            found = [
                verdict(self.problems[a], self.owners[b])
                for a, b in zip(self.of_problem.tolist(), self.of_plan.tolist(), strict=True)
            ]
            balanced, sticky = ([one[at] for one in found] for at in (0, 1))
        columns = (one.tolist() for one in (moved, kept, cooperative, eager))
        return list(zip(*columns, balanced, sticky, strict=True))

    def _claims(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
        """By problem: who may keep each partition, whether somebody holds it, and the holder."""
        n = self.problem.n_members
        holder = np.array([problem.holder for problem in self.problems])
        now = (holder != UNOWNED) & (holder < n)
        if len(self.problem.subscriber) != n * self.problem.n_topics:
            return np.array([claimant(problem) for problem in self.problems]), now, holder
        previous = np.array([problem.previous_owner for problem in self.problems])
        previous[(previous < 0) | (previous >= n)] = UNOWNED
        return previous, now, holder


def _loads(owners: npt.NDArray[np.int32], n_members: int) -> Int64:
    """Partitions per member of each row; rows hold members and -1."""
    wide = n_members + 1
    cell = owners + np.arange(1, len(owners) * wide, wide)[:, None]
    return np.bincount(cell.ravel(), minlength=len(owners) * wide).reshape(-1, wide)[:, 1:].astype(np.int64)
