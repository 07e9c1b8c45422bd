"""measure: all figures of one plan."""

from __future__ import annotations

from fractions import Fraction

from counterpoise.laws.owners import check_owners
from counterpoise.metrics.batch import Batch
from counterpoise.metrics.figures import Metrics, Query
from counterpoise.model.problem import Int32, Problem

__all__ = ["measure"]


def measure(
    problem: Problem,
    owner: Int32,
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
    problem : Problem
    owner : int32[P]
        The target owners (under the cooperative protocol too: what the group ends with); UNOWNED allowed.
    cooperative : bool
        What `revoked` counts.
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
        `owner` or `optimal` is no array of integers, one per partition, or holds a code that is no member.

    Notes
    -----
    O(P log P + S) and the cost of the proof; a batch of one (see `metrics.batch`).
    """
    for given in (owner,) if optimal is None else (owner, optimal):
        check_owners(problem, given)
    return Batch().add([Query(problem, owner, cooperative, optimal, duplicates, prove)], floor).of(0)
