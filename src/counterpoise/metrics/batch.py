"""Many plans measured at once: small groups are all overhead, so a few hundred plans share each array operation.

This is the only implementation of the figures: `measure` is a batch of one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from counterpoise.assignors.strategy import COOPERATIVE
from counterpoise.errors import ProblemError
from counterpoise.laws.owners import check_codes
from counterpoise.laws.verify import same_codes
from counterpoise.metrics.figures import Metrics, Query
from counterpoise.metrics.table import Table
from counterpoise.model.problem import Int32, Problem
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.plan import Plan

__all__ = ["Batch", "Figures", "measure"]

_CELLS = 1_000_000
"""Plans x (partitions + members) that wait at most; larger groups do not wait."""


class Figures:
    """The metrics of one group's plans; measured when the first of them is read."""

    __slots__ = ("_batch", "found")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.found: Sequence[Metrics] | None = None

    def of(self, number: int) -> Metrics:
        """The metrics of the query with this number."""
        if self.found is None:
            self._batch.measure()
        assert self.found is not None
        return self.found[number]


class Batch:
    """Queries that wait to be measured together. Their number is bounded, and no figure depends on the other queries."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Query], Fraction | int | None, Figures]] = []
        self._cells = 0

    def add(
        self,
        queries: Sequence[Query],  # Plans of one group
        floor: Fraction | int | None = None,  # As for `measure`
    ) -> Figures:
        """Measure the plans of one group, at the latest when the first figure is read.

        Owners are not checked (`measure` does): each is a member or UNOWNED.
        """
        figures = Figures(self)
        if not queries:
            figures.found = ()
            return figures
        problem = queries[0].problem
        self._waiting.append((queries, floor, figures))
        self._cells += len(queries) * (problem.n_partitions + problem.n_members)
        if self._cells > _CELLS:
            self.measure()
        return figures

    def measure(self) -> None:
        """Measure all that waits."""
        waiting, self._waiting, self._cells = self._waiting, [], 0
        if waiting:
            table = Table([queries for queries, _, _ in waiting], [floor for _, floor, _ in waiting])
            for (_, _, figures), found in zip(waiting, table.rows(), strict=True):
                figures.found = found


def measure(
    problem: Problem | Group,
    owner: Int32 | Plan,
    *,
    cooperative: bool = False,
    optimal: Int32 | None = None,
    prove: bool = True,
    duplicates: int = 0,
    floor: Fraction | int | None = None,
) -> Metrics:
    """Measure a plan.

    Parameters
    ----------
    problem : Problem or Group
    owner : int32[P] or Plan
        The target owners (under the cooperative protocol too: what the group ends with); UNOWNED allowed.
    cooperative : bool
        If true, `revoked` is counted under the rules of the cooperative protocol. Ignored for a Plan, which has its own.
    optimal : int32[P], optional
        Owners known to be balanced and sticky, for `min_moves`.
    prove : bool
        False leaves `balanced` and `sticky` (and `min_moves` without `optimal`) None.
    duplicates : int
        As counted by the caller.
    floor : Fraction or int, optional
        A proven lower bound of the largest lag per capacity, if the caller has a better one than `laws.lag_bound.lag_floor`.

    Raises
    ------
    ProblemError
        `owner` or `optimal` is no array of integers, one per partition, or holds a code that is no member; or the plan is of
        another group.

    Notes
    -----
    O(P log P + S) and the cost of the proof; a batch of one.
    """
    if isinstance(problem, Group):
        if isinstance(owner, Plan) and not same_codes(problem, owner):
            raise ProblemError("owner: the plan is of another group; its members, topics or partitions differ")
        problem = problem.problem()
    if isinstance(owner, Plan):
        cooperative, owner = owner.protocol == COOPERATIVE, owner.target_owner
    for given in (owner,) if optimal is None else (owner, optimal):
        check_codes(problem, given)
    return Batch().add([Query(problem, owner, cooperative, optimal, duplicates, prove)], floor).of(0)
