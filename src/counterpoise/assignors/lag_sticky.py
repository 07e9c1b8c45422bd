"""The strategy `lag-sticky`: balanced counts, then the largest lag near a proven bound, then few moves."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from counterpoise.assignors.sticky import prepare_optimal
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Assignor, Option, Strategy
from counterpoise.model.problem import Int32, Problem

__all__ = ["LAG_STICKY", "balance_lag", "prepare_lag_balance"]

_fraction = lru_cache(Fraction)


def balance_lag(problem: Problem, **options: Any) -> Int32:
    """Target owners by counts, lag and stickiness, in this order, int32[P]; options as for `prepare_lag_balance`."""
    return prepare_lag_balance(problem, **options)(problem)


def prepare_lag_balance(
    problem: Problem,
    *,
    # A member's lag per capacity may exceed the proven lower bound by this share before moves are made for it
    tolerance: float = 0.1,
    # A member's lag may also exceed its share of the bound by this many records before moves are made: the least lag worth a move
    min_lag_gain: int = 0,
    # The most owned partitions that move to reduce lag. Moves that validity or counts demand are made beyond it (at most
    # those of `sticky`). While a partition has no owner none moves for lag. Default: no cap.
    max_moves: int | None = None,
    # "balanced": loads are as balanced as those of `sticky`. A number: each member's count may differ from the balanced
    # one by at most this number (one as large as the group leaves counts free; partitions without lag and without an owner are
    # spread by count even then, those that have one stay).
    counts: str | int = "balanced",
) -> Assignor:
    """An assignor for problems that differ from this one only in claims: owners by counts, lag and stickiness, in this order.

    Guarantee: valid and complete; counts as said; the second round of a cooperative rebalance ends with the target of the first.
    The search, a heuristic, keeps each member's summed lag within ``(1 + tolerance)`` times the proven lower bound, rounded up
    to records, if it can; `counterpoise.laws.lag_bound.lag_report` states bound, gap and moves. If even the plan from scratch,
    which ignores claims, exceeds this limit, the limit becomes that plan's largest lag plus ``tolerance`` times the bound. If
    the limit is met, planning again with the same lag moves nothing. Without `Problem.lag`, or with balanced counts and no lag,
    the plan is that of `sticky`. Cost: O((P + S) log P), one balanced plan and one more for each placement that moves claims for
    counts (mostly none), and a number of steps that depends on P and M alone; if it is used up, claims stay where counts let
    them.
    """
    from counterpoise.solver.lag.search import LagSearch

    share = _fraction(str(tolerance))
    lag = problem.lag
    if lag is None or not problem.n_members or (counts == "balanced" and not lag.any()):
        return prepare_optimal(problem, racks="ignore")
    band = 0 if isinstance(counts, str) else counts
    return LagSearch(problem, lag, share, min_lag_gain, band, max_moves).plan


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1000


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_WHOLE = "expected a whole number, 0 or more"
_OPTIONS = MappingProxyType(
    {
        "tolerance": Option(
            "share by which a member's lag may exceed the bound before moves are made",
            0.1,
            fits=_is_share,
            wanted="expected 0 or more, below 1000 (0.1 means 10 %)",
        ),
        "min_lag_gain": Option(
            "records by which it may exceed the bound before moves are made", 0, fits=_is_count, wanted=_WHOLE
        ),
        "max_moves": Option(
            "moves per rebalance after which none is made for lag (None: no cap)",
            None,
            fits=lambda value: value is None or _is_count(value),
            wanted=f"{_WHOLE}, or None (on the command line: null) for no cap",
        ),
        "counts": Option(
            "'balanced', or how far a member's count may lie from the balanced one",
            "balanced",
            fits=lambda value: value == "balanced" or _is_count(value),
            wanted="expected 'balanced' or a whole number, 0 or more",
        ),
    }
)

LAG_STICKY = Strategy(
    name="lag-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=balance_lag,
    prepare=prepare_lag_balance,
    guarantee="counts as balanced as sticky, then the largest lag near a proven bound, then few moves",
    options=_OPTIONS,
    reads=frozenset({"previous_owner", "holder", "capacity", "lag"}),
)
