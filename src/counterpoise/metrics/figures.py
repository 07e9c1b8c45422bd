"""Query and Metrics: a plan to measure, and its figures, the columns of the table `metrics`."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.model.problem import Int32, Problem

__all__ = ["Metrics", "Query"]


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
        The fewest moves any plan of the best balance needs; known if this plan is proven, or an optimal one is given.
    revoked : int
        Partitions a member has to stop for this plan. Eager: all that are held. Cooperative: those that change hands.
    max_member_lag : int or None
        Records behind, summed over what one member owns, of the worst member.
    lag_cv : float or None
        Standard deviation over mean of the members' summed lag, over members that could own something; 0 without lag.
    makespan_ratio : float or None
        The largest lag of a member per capacity over a proven lower bound of it (`laws.lag_bound.lag_floor`); 1 is the
        best there can be.
    duplicates : int
        Partitions given to a second member, counted by the caller from names: arrays cannot hold one.
    unassigned : int
        Partitions without an owner though a member subscribes.
    balanced : bool or None
        Proven: complete, and no plan has better balanced loads. None if no proof was asked for.
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


@dataclass(slots=True, eq=False)
class Query:
    """One plan to measure; the fields are the arguments of `measure`."""

    problem: Problem  # Equal to those of the other queries of the group, but for `previous_owner` and `holder`
    owner: Int32  # int32[P]
    cooperative: bool = False
    optimal: Int32 | None = None  # int32[P]
    duplicates: int = 0
    prove: bool = True
