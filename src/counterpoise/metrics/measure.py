"""measure: all figures of one plan, the columns of the table `metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from counterpoise.laws.balance import loads
from counterpoise.laws.certificate import Certificate
from counterpoise.laws.exchange_graph import claimant
from counterpoise.laws.owners import check_shape
from counterpoise.laws.verdict import verdict
from counterpoise.metrics.figures import held, jain, kip54_score, lag_floor, max_topic_spread, member_lag, subscribed, variation
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = ["Metrics", "measure", "metrics_of"]


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one plan; counts are exact. Unit: partitions, unless stated. None: unknown.

    Attributes
    ----------
    spread : int
        Largest minus smallest load, over all members of the group.
    kip54_score : int
        Sum of |load difference| over all pairs of members; 0 is perfect (KIP-54's balance score).
    jain : float
        (Σload)² / (M Σload²): 1 is even (Jain, Chiu and Hawe, 1984).
    max_topic_spread : int
        The largest difference between what two subscribers of one topic own of it.
    moved : int
        Partitions whose owner could have kept them and that go to another; new ones do not count.
    kept : int
        Partitions that stay with the member that may keep them.
    min_moves : int or None
        The fewest moves any plan of the best balance needs; known where this plan is proven, or an optimal one is given.
    revoked : int
        Partitions a member has to stop for this plan. Eager: all that are held. Cooperative: those that change hands.
    max_member_lag : int or None
        Records behind, summed over what one member owns, of the worst member.
    lag_cv : float or None
        Standard deviation over mean of the members' summed lag, over members that could own something; 0 without lag.
    makespan_ratio : float or None
        `max_member_lag` over a proven lower bound of it (`figures.lag_floor`); 1 is the best there can be.
    duplicates : int
        Partitions given to a second member, counted by the caller from names: arrays cannot hold one.
    unassigned : int
        Partitions without an owner though somebody subscribes.
    balanced : bool or None
        Proven: no plan has better balanced loads. None where no proof was asked for.
    sticky : bool or None
        Proven: balanced, and no plan so balanced keeps more.
    """

    spread: int
    kip54_score: int
    jain: float
    max_topic_spread: int
    moved: int
    kept: int
    min_moves: int | None
    revoked: int
    max_member_lag: int | None
    lag_cv: float | None
    makespan_ratio: float | None
    duplicates: int
    unassigned: int
    balanced: bool | None
    sticky: bool | None


_PUT = tuple(getattr(Metrics, field.name).__set__ for field in fields(Metrics))


def metrics_of(figures: Iterable[object]) -> Metrics:
    """Metrics from their figures in order, in a third of the time that a frozen class takes to set them itself."""
    made = object.__new__(Metrics)
    for put, figure in zip(_PUT, figures, strict=True):
        put(made, figure)
    return made


def measure(
    problem: Problem,
    owner: Int32,
    *,
    cooperative: bool = False,
    optimal: Int32 | None = None,
    certificate: Certificate | None = None,
    prove: bool = True,
    duplicates: int = 0,
    floor: int | None = None,
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
    certificate : Certificate, optional
        Of this plan, if the caller has it; else the verdict is found here when `prove` is set.
    prove : bool
        False leaves `balanced` and `sticky` (and `min_moves` without `optimal`) None.
    duplicates : int
        As counted by the caller.
    floor : int, optional
        A proven lower bound of the largest member lag, if the caller has a better one than `figures.lag_floor`.

    Raises
    ------
    ProblemError
        `owner` is no array of integers, one per partition.

    Notes
    -----
    O(P + S + T*M) and the cost of the verdict; vectorised.
    """
    check_shape(problem, owner)
    balanced, sticky = (None, None) if certificate is None else (certificate.balanced, certificate.sticky)
    if certificate is None and prove:
        balanced, sticky = verdict(problem, owner)
    load = loads(problem.n_members, owner)
    claims = claimant(problem)
    moved = _moved(claims, owner)
    min_moves = moved if sticky else None if optimal is None else _moved(claims, optimal)
    now = held(problem)
    ownable = np.repeat(np.diff(problem.subscriber_start) > 0, np.diff(problem.topic_start))
    lags = (None, None, None) if problem.lag is None else _lag_figures(problem, owner, problem.lag, floor)
    return Metrics(
        spread=int(load.max() - load.min()) if len(load) else 0,
        kip54_score=kip54_score(load),
        jain=jain(load),
        max_topic_spread=max_topic_spread(problem, owner),
        moved=moved,
        kept=int(np.count_nonzero((claims >= 0) & (claims == owner))),
        min_moves=min_moves,
        revoked=int(np.count_nonzero(now & (problem.holder != owner) if cooperative else now)),
        max_member_lag=lags[0],
        lag_cv=lags[1],
        makespan_ratio=lags[2],
        duplicates=duplicates,
        unassigned=int(np.count_nonzero((owner == UNOWNED) & ownable)),
        balanced=balanced,
        sticky=sticky,
    )


def _moved(claims: Int32, owner: Int32) -> int:
    return int(np.count_nonzero((claims >= 0) & (owner >= 0) & (claims != owner)))


def _lag_figures(problem: Problem, owner: Int32, lag: Int64, floor: int | None) -> tuple[int, float, float]:
    """(max_member_lag, lag_cv, makespan_ratio)."""
    of_member = member_lag(problem, owner, lag)
    worst = int(of_member.max(initial=0))
    floor = lag_floor(problem, lag) if floor is None else floor
    return worst, variation(of_member[subscribed(problem)].tolist()), worst / floor if floor else 1.0
