"""Many plans measured at once: small groups are all overhead, so a few hundred plans share each array operation.

This is the only implementation of the figures: `measure` is a batch of one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from counterpoise.metrics.figures import Metrics, Query
from counterpoise.metrics.table import Table

__all__ = ["Batch", "Figures"]

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
    """Queries that wait to be measured together. What waits is bounded; a figure does not depend on what else waits."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Sequence[Query], Fraction | int | None, Figures]] = []
        self._cells = 0

    def add(self, queries: Sequence[Query], floor: Fraction | int | None = None) -> Figures:
        """Measure the plans of one group, at the latest when the first figure is read.

        Parameters
        ----------
        queries : sequence of Query
            Plans of one group.
        floor : Fraction or int, optional
            As for `measure`.

        Notes
        -----
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
