"""The strategy `lag-sticky`: balanced counts, then the largest lag near a proven bound, then few moves."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from counterpoise.assignors.lag_alike import all_alike, plan_alike
from counterpoise.assignors.lag_counts import balanced_plan, may_have_fewer
from counterpoise.assignors.lag_small import plan_small
from counterpoise.assignors.strategy import COOPERATIVE, EAGER, Option, Strategy
from counterpoise.errors import OptionError
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.engine import solve
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.bound import bound_of, levels_of
from counterpoise.solver.lag.cells import place_in_cells
from counterpoise.solver.lag.counts import demand_counts, fill_up, shed_lag
from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.lower import lower, worst_of
from counterpoise.solver.lag.moves.fewer import fewer_moves
from counterpoise.solver.lag.near import settle_near
from counterpoise.solver.lag.opening import open_desk
from counterpoise.solver.lag.place import place_waiting
from counterpoise.solver.lag.repair import repair

__all__ = ["LAG_STICKY", "balance_lag"]

_UNLIMITED = 2**62


def balance_lag(
    problem: Problem,
    *,
    tolerance: float = 0.1,
    min_lag_gain: int = 0,
    max_moves: int | None = None,
    counts: str | int = "balanced",
) -> Int32:
    """Target owners by counts, lag and stickiness, in this order, int32[P].

    Parameters
    ----------
    tolerance : float
        A member's lag per capacity may exceed the proven lower bound by this share before moves are made for it.
    min_lag_gain : int
        A member's lag may also exceed its share of the bound by this many records before moves are made: the least
        lag worth a move.
    max_moves : int, optional
        No move is made for the sake of lag once so many owned partitions change hands. Moves that validity or counts
        demand are made all the same (they are what `sticky` would make). Default: no cap.
    counts : "balanced" or int
        "balanced": loads are as balanced as those of `sticky`. A number: each member's count may differ by so many from the
        balanced one (a number as large as the group leaves counts free; partitions without lag that wait for an owner are
        spread by count all the same, those that have one stay).

    Raises
    ------
    OptionError
        An option does not fit.

    Notes
    -----
    Guarantee: valid and complete; counts as said; once the largest lag is within its limit (``(1 + tolerance)`` times
    the bound, rounded up to records), planning again moves nothing. The search for that is a heuristic; the bound is
    proven: `counterpoise.laws.lag_bound.lag_report` states bound, gap and moves for the plan at hand. Where the limit is
    out of reach, a plan that keeps little is taken only if it is better by more than the tolerance. Without `Problem.lag`, or
    with balanced counts where all is read, it is `sticky`. Cost: O((P + S) log P) in NumPy, a few max flows for unequal
    subscriptions, and a Python step per member over its limit.
    """
    share = _checked(tolerance=tolerance, min_lag_gain=min_lag_gain, max_moves=max_moves, counts=counts)
    lag = problem.lag
    most = 0 if lag is None else int(lag.max(initial=0))
    if lag is None or not problem.n_members or not most:
        if counts == "balanced" or lag is None:
            return solve(problem, racks="ignore")
        lag = np.zeros(problem.n_partitions, np.int64)
    stretch = 1 + float(share)
    if most * len(lag) * stretch >= _UNLIMITED / 2 and float(lag.sum(dtype=np.float64)) * stretch >= _UNLIMITED:
        raise _misfit("tolerance", tolerance, "a smaller one is wanted: such a share of lags like these is 2**62 records or more")
    budget = _UNLIMITED if max_moves is None else max_moves
    if counts == "balanced" and max_moves is None:
        owner = plan_small(problem, lag, share, min_lag_gain)
        if owner is not None:
            return owner
    if counts == "balanced" and all_alike(problem):
        desk = plan_alike(problem, lag, share, min_lag_gain, budget)
        if desk is not None:
            return fewer_moves(desk)
    return fewer_moves(_Planner(problem, lag, share, min_lag_gain, budget, counts).plan())


class _Planner:
    """One call's inputs, and the steps from them to a finished desk."""

    def __init__(self, problem: Problem, lag: Int64, share: Fraction, gain: int, budget: int, counts: str | int) -> None:
        self.problem, self.lag, self.budget = problem, lag, budget
        self.share, self.gain, self.slack = share, gain, Fraction(0)
        self.band = 0 if isinstance(counts, str) else min(counts, problem.n_partitions)
        self.trade = isinstance(counts, str)
        self.uneven = self.trade and int(problem.capacity.min()) < int(problem.capacity.max())
        self.free = self.band >= problem.n_partitions
        self.target = np.full(problem.n_partitions, UNOWNED, np.int32) if self.free else balanced_plan(problem)
        n = problem.n_members
        self.balanced = np.bincount(self.target + 1, minlength=n + 1)[1:].astype(np.int64)
        desk = open_desk(problem, lag, budget, self.target if self.trade else None)
        self.blocks = levels_of(desk)
        self._limit(desk)
        self.fresh = desk

    def plan(self) -> Desk:
        """The first attempt that meets the limits; where none does, the calmest that nothing beats by the tolerance."""
        first = self._attempt(keep=True, shed=True)
        if not first.excess():
            return first
        best = self._attempt(keep=True, shed=False)
        near = self._near(best)
        if near:
            return near
        rivals = [first] if self.budget < _UNLIMITED else [first, self._attempt(keep=False, shed=False)]
        calm = best
        if self.uneven:
            rivals = [lower(rival) for rival in [best, *rivals]]
        for rival in rivals:
            if worst_of(rival) + self.slack < worst_of(best):
                best = rival
        near = None if best is calm else self._near(best)
        return near or best

    def _near(self, desk: Desk) -> Desk | None:
        """What meets the limits and differs from `desk` for a few members only, `desk` itself included."""
        if not desk.excess():
            return desk
        return settle_near(desk, self.blocks, cells=not self.free) if self.budget == _UNLIMITED else None

    def _attempt(self, *, keep: bool, shed: bool) -> Desk:
        """Release, place, repair; without `keep` from an empty desk, for when keeping stands in the way."""
        desk, blocks = self.fresh.saved(), self.blocks
        if not keep:
            desk.release(np.flatnonzero(desk.owner != UNOWNED))
        if self.trade and len(desk.may) != 1:
            self._along_target(desk, blocks, keep=keep)
        else:
            if not self.free:
                demand_counts(desk, self.balanced, self.band)
            if shed:
                shed_lag(desk)
            place_waiting(desk, blocks)
            if not fill_up(desk) or (desk.count > desk.most).any():
                desk = self.fresh.saved()
                self._along_target(desk, blocks, keep=keep)
        desk.trade_counts = self.trade
        repair(desk)
        return desk

    def _limit(self, desk: Desk) -> None:
        """Lag limits: the bound and what may be added to it, per capacity, rounded up to records."""
        least = np.maximum(self.balanced - self.band, 0)
        if self.uneven:
            least -= may_have_fewer(self.balanced, desk.capacity)
        bound = bound_of(desk, self.blocks, least, self.balanced if self.trade else None)
        self.slack = max(bound * self.share, Fraction(self.gain))
        top, bottom = (bound * (1 + self.share)).as_integer_ratio()
        low, high = bound.as_integer_ratio()
        capacity, which = np.unique(desk.capacity, return_inverse=True)
        limits = [max(-(-top * c // bottom), -(-low * c // high) + self.gain) for c in capacity.tolist()]
        desk.limit = np.array([min(limit, _UNLIMITED) for limit in limits], np.int64)[which]

    def _along_target(self, desk: Desk, blocks: LagBlocks, *, keep: bool) -> None:
        """Counts per member and topic class as in the balanced target; what it keeps is kept.

        Without keeping, the target knows no history either: the outcome is then the same whatever was there before.
        """
        target = self.target if keep else balanced_plan(self.problem, history="ignore")
        kept = (desk.previous == target) & keep
        desk.release(np.flatnonzero((desk.owner != UNOWNED) & ~kept))
        place_in_cells(desk, target, blocks)
        counts = np.bincount(target + 1, minlength=len(desk.load) + 1)[1:]
        desk.least, desk.most = np.maximum(counts - self.band, 0), counts + self.band


def _checked(**given: object) -> Fraction:
    """The tolerance as an exact fraction; raises OptionError for what does not fit."""
    for name, value in given.items():
        option = _OPTIONS[name]
        if option.fits is not None and not option.fits(value):
            raise _misfit(name, value, option.wanted)
    return _fraction(str(given["tolerance"]))


@lru_cache
def _fraction(text: str) -> Fraction:
    return Fraction(text)


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1000


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_cap(value: object) -> bool:
    return value is None or _is_count(value)


def _is_band(value: object) -> bool:
    return value == "balanced" or _is_count(value)


def _misfit(option: str, value: object, wanted: str) -> OptionError:
    return OptionError(f"strategy 'lag-sticky', option {option!r}: {value!r} does not fit; {wanted}")


_WHOLE = "a whole number, 0 or more, is wanted"
_OPTIONS = MappingProxyType(
    {
        "tolerance": Option(
            "share by which a member's lag may exceed the bound before moves are made",
            0.1,
            fits=_is_share,
            wanted="0 or more, below 1000, is wanted (0.1 means 10 %)",
        ),
        "min_lag_gain": Option(
            "records by which it may exceed the bound before moves are made", 0, fits=_is_count, wanted=_WHOLE
        ),
        "max_moves": Option(
            "moves per rebalance after which none is made for lag (None: no cap)",
            None,
            fits=_is_cap,
            wanted=f"{_WHOLE}, or None for no cap",
        ),
        "counts": Option(
            "'balanced', or how far a member's count may lie from the balanced one",
            "balanced",
            fits=_is_band,
            wanted=f"'balanced' or {_WHOLE}",
        ),
    }
)

LAG_STICKY = Strategy(
    name="lag-sticky",
    protocols=(COOPERATIVE, EAGER),
    kernel=balance_lag,
    guarantee="counts as balanced as sticky, then the largest lag near a proven bound, then few moves",
    options=_OPTIONS,
    reads=frozenset({"previous_owner", "capacity", "lag"}),
)
