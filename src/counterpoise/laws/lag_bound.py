"""The lag of a plan compared with a proven lower bound, which is computed without the solver."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from counterpoise.errors import OptionError, ProblemError
from counterpoise.laws.balance import alike, marginal_costs
from counterpoise.laws.exchange_graph import equal_slices
from counterpoise.laws.owners import check_codes
from counterpoise.model.arrays import ranges, sums_by_code
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem, check_problem

Bools = npt.NDArray[np.bool_]

_CLOSURE_NODES = 1500
"""Beyond so many topic classes and load levels the exchanges that counts leave open are not traced: a weaker bound."""
_FILLED = 8
"""So many of the heaviest partitions are looked at together with what fills up their owners."""

__all__ = ["LagReport", "in_records", "lag_floor", "lag_report", "who_may_own"]


@dataclass(frozen=True, slots=True)
class LagReport:
    """The largest lag of a plan and a lower bound of it.

    Attributes
    ----------
    bound : Fraction
        No plan with such counts has a smaller largest lag per capacity (for equal capacities: round up to records).
    largest : Fraction
        The largest lag per capacity of a member in this plan.
    heaviest : int
        The member that has it; -1 without members.
    gap : float
        ``largest / bound - 1``, with the bound rounded up to whole records for equal capacities; 0 if nothing lags.
    reason : str
        What the bound rests on: "topics" (their lag and who may take it), "crowding" (single heavy partitions, or more
        of them than members) or "nothing".
    topics : tuple of int
        The topics whose lag gives the bound.
    moves : int
        Partitions that a member may keep and another gets.
    counts : "balanced", int or None
        The plans for which the bound holds: balanced ones, those within so many of balanced counts, or all.
    """

    bound: Fraction
    largest: Fraction
    heaviest: int
    gap: float
    reason: str
    topics: tuple[int, ...]
    moves: int
    counts: str | int | None = None


@dataclass(frozen=True, slots=True)
class _View:
    """The group by topic classes."""

    class_of_topic: Int64  # int64[T]: topic class of each topic; -1 if no member may own its partitions
    class_of_partition: Int64  # int64[P]: the same of each partition
    may: Bools  # bool[C, M]: which members may own partitions of a topic class
    lag: Int64  # int64[P]: lag of each partition


def lag_report(problem: Problem, owner: Int32, *, counts: str | int | None = None) -> LagReport:
    """Measure a plan's lag and prove how much better a plan could be at most.

    Parameters
    ----------
    problem : Problem
        With `lag`.
    owner : int32[P]
        Any valid plan.
    counts : "balanced", int or None
        What plans it is compared with: those with balanced counts (the plan itself must be balanced: that is another
        law), those with counts within so many of the balanced ones, or all.

    Raises
    ------
    ProblemError
        Without `Problem.lag`; `owner` holds codes that do not exist.
    OptionError
        `counts` is none of these.

    Notes
    -----
    The bound is the largest of: lag over capacity of the members that may own it, over sets of topics (those within one
    subscriber set, and those whose subscribers all lie above some lag in this plan); and within the densest of them what
    single partitions demand: the j heaviest lie on j members at most, and of the k*M + 1 heaviest some member owns k + 1.
    Exact integers. O(S + P log P + C*M + C**3) for C topic classes.
    """
    check_problem(problem)
    if problem.lag is None:
        raise ProblemError("lag: without it there is nothing to report; set Problem.lag")
    check_codes(problem, owner)
    whole = isinstance(counts, int | np.integer) and not isinstance(counts, bool) and counts >= 0
    if not whole and counts not in (None, "balanced"):
        raise OptionError(f"counts: {counts!r} does not fit; expected 'balanced', a whole number, 0 or more, or None")
    if not problem.n_members:
        return LagReport(Fraction(0), Fraction(0), -1, 0.0, "nothing", (), 0, counts)
    view = who_may_own(problem, problem.lag, owner if counts == "balanced" else None)
    load = sums_by_code(owner, problem.lag, problem.n_members)
    heaviest = max(range(len(load)), key=lambda m: (Fraction(int(load[m]), int(problem.capacity[m])), -m))
    largest = Fraction(int(load[heaviest]), int(problem.capacity[heaviest]))
    bound, chosen = _densest(view, problem.capacity, load)
    partition_bound = _pigeonhole_bound(view, problem.capacity, chosen, _least_count(view, problem, counts))
    partition_bound = max(partition_bound, _heaviest_bound(view, problem, owner, counts))
    reason = "nothing" if not max(bound, partition_bound) else "topics" if bound >= partition_bound else "crowding"
    bound = max(bound, partition_bound)
    floor = in_records(bound, problem.capacity)
    moves = int(np.count_nonzero((problem.previous_owner >= 0) & (owner >= 0) & (owner != problem.previous_owner)))
    named = tuple(np.flatnonzero(np.append(chosen, False)[view.class_of_topic]).tolist())
    gap = float(largest / floor - 1) if floor else 0.0
    return LagReport(bound, largest, heaviest, gap, reason, named, moves, counts)


def lag_floor(
    problem: Problem,
    # A plan, int32[P]: the lags of its members suggest more sets of topics to look at, for a better bound
    owner: Int32 | None = None,
) -> Fraction:
    """A lower bound of the largest lag per capacity of every plan; 0 without members, or if no lag is known.

    The bound of `lag_report` for any plan; for equal capacities in whole records. The cost is that of `lag_report`, and O(P log
    P) if all members subscribe alike.
    """
    if problem.lag is None or not problem.n_members:
        return Fraction(0)
    if alike(problem):
        return Fraction(_alike_bound(problem.lag, problem.n_members), int(problem.capacity[0]))
    view, capacity = _view(problem, problem.lag), problem.capacity
    nobody = np.full(problem.n_partitions, UNOWNED, np.int32)
    load = sums_by_code(nobody if owner is None else owner, problem.lag, problem.n_members)
    bound, chosen = _densest(view, capacity, load)
    partition_bound = max(_pigeonhole_bound(view, capacity, one, 0) for one in (chosen, np.ones(len(chosen), np.bool_)))
    return in_records(max(bound, partition_bound, _heaviest_bound(view, problem, nobody, None)), capacity)


def in_records(bound: Fraction, capacity: Int64) -> Fraction:
    """A bound of the lag per capacity: rounded up to whole records if all capacities are equal, otherwise unchanged."""
    step = int(capacity[0])
    even = step == int(capacity.min()) == int(capacity.max())
    return Fraction(-(-bound.numerator * step // bound.denominator), step) if even else bound


def _alike_bound(lag: Int64, n_members: int) -> int:
    """The bound of `lag_report` for any plan if all members subscribe to everything at capacity 1, rounded up to records.

    The largest of: the even share; the heaviest partition; for each k, the k + 1 lightest of the k*M + 1 heaviest partitions,
    because one member owns at least k + 1 of these. O(P log P). Small groups take 0.02 instead of 0.3 ms: an
    audit computes this for every generation.
    """
    if not len(lag):
        return 0
    weights = np.sort(lag)[::-1]
    total = np.concatenate(([0], np.cumsum(weights)))
    last = np.arange(1, (len(lag) - 1) // n_members + 1) * n_members + 1
    pigeonhole = total[last] - total[last - 2 - np.arange(len(last))]
    return max(-(-int(total[-1]) // n_members), int(weights[0]), int(pigeonhole.max(initial=0)))


def who_may_own(problem: Problem, lag: Int64, balanced: Int32 | None) -> _View:
    """Topic classes and who may own them: in any plan, or, given the owners of one balanced plan, in any balanced plan."""
    view = _view(problem, lag)
    return view if balanced is None else _within_cycles(view, balanced, problem.capacity)


def _view(problem: Problem, lag: Int64) -> _View:
    """Topic classes by equal subscriber lists."""
    of_topic, first = equal_slices(problem.subscriber, problem.subscriber_start)
    size, degree = np.diff(problem.topic_start), np.diff(problem.subscriber_start)
    alive, class_of_topic = (degree > 0) & (size > 0), np.full(problem.n_topics, -1, np.int64)
    used, class_of_topic[alive] = np.unique(of_topic[alive], return_inverse=True)
    example = first[used]
    may = np.zeros((len(used), problem.n_members), np.bool_)
    member = problem.subscriber[ranges(problem.subscriber_start[example], degree[example])]
    may[np.repeat(np.arange(len(used)), degree[example]), member] = True
    return _View(class_of_topic, np.repeat(class_of_topic, size), may, lag)


def _within_cycles(view: _View, owner: Int32, capacity: Int64) -> _View:
    """Who may own what in *some* balanced plan, given one of them.

    Balanced plans differ by exchanges along cycles: a topic class goes to a subscriber, who gives up a class it holds, or
    whose next partition has the marginal cost of another member's last one, who then gives. An arc without a way back is in none.
    """
    n_classes, n = view.may.shape
    owned = np.flatnonzero(owner >= 0)
    load = np.bincount(owner[owned], minlength=n).astype(np.int64)
    marginal = marginal_costs(load, capacity)
    level, place = np.unique(np.concatenate([marginal.last, marginal.following]), return_inverse=True)
    size = n_classes + len(level)
    if n_classes < 2 or size > _CLOSURE_NODES:
        return view
    member = np.arange(n)
    gives = np.zeros((n, size), np.float32)
    gives[owner[owned], view.class_of_partition[owned]] = 1
    gives[member, n_classes + place[n:]] = 1  # it takes, and one who gives at that cost gives
    takes = np.zeros((size, n), np.float32)
    takes[:n_classes] = view.may
    takes[n_classes + place[:n], member] = 1
    closure = ((takes @ gives) > 0) | np.eye(size, dtype=np.bool_)
    for _ in range(int(size).bit_length()):
        wider = (closure.astype(np.float32) @ closure.astype(np.float32)) > 0
        if np.array_equal(wider, closure):
            break
        closure = wider
    way_back = (gives @ closure[:, :n_classes].astype(np.float32)) > 0
    return _View(view.class_of_topic, view.class_of_partition, view.may & way_back.T, view.lag)


def _densest(view: _View, capacity: Int64, load: Int64) -> tuple[Fraction, Bools]:
    """The largest lag over capacity among some sets of topic classes: all, those within a subscriber set, those above a load."""
    n_classes = len(view.may)
    lag = sums_by_code(view.class_of_partition, view.lag, n_classes)
    best, chosen = Fraction(0), np.zeros(n_classes, np.bool_)
    sets = [np.ones(n_classes, np.bool_)]
    packed = np.packbits(view.may, axis=1)
    sets += [~(packed & ~inside).any(axis=1) for inside in np.unique(packed, axis=0)[:1000]]
    ratio = load // capacity
    lowest = np.where(view.may, ratio, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    sets += [lowest >= value for value in np.unique(lowest)[-1000:]]
    for one in sets:
        share = int(capacity[view.may[one].any(axis=0)].sum())
        density = Fraction(int(lag[one].sum()), share) if share else Fraction(0)
        if density > best:
            best, chosen = density, one
    return best, chosen


def _heaviest_bound(view: _View, problem: Problem, owner: Int32, counts: str | int | None) -> Fraction:
    """A bound from the heaviest partition of each topic class, on the member with the largest capacity for it.

    In balanced plans that member also fills up to its count with the lightest partitions it may own.
    """
    capacity = problem.capacity
    heaviest = np.zeros(len(view.may) + 1, np.int64)
    np.maximum.at(heaviest, view.class_of_partition, view.lag)
    strongest = np.where(view.may, capacity, 0).max(axis=1, initial=1)
    alone = max((Fraction(int(w), int(c)) for w, c in zip(heaviest, strongest, strict=False)), default=Fraction(0))
    if counts != "balanced" or len(np.unique(capacity)) > 1:
        return alone
    load = np.bincount(owner[owner >= 0], minlength=len(capacity))
    # Loads of balanced plans are the same numbers in another order, and no member's differ by more than one.
    least = load - np.isin(load - 1, load)
    order = np.argsort(view.lag, kind="stable")
    order = order[view.class_of_partition[order] >= 0][: 4 * int(least.max(initial=0)) + 16]
    for number in np.argsort(-heaviest[:-1], kind="stable")[:_FILLED].tolist():
        weight, members = int(heaviest[number]), np.flatnonzero(view.may[number])
        if len(members) and weight > 0:
            fill = _least_fill(view, order[view.lag[order] < weight], members, least[members] - 1)
            alone = max(alone, Fraction(weight + int(fill.min()), int(capacity[0])))
    return alone


def _least_fill(view: _View, order: Int64, members: Int64, number: Int64) -> Int64:
    """For each of `members`, the least total lag of so many partitions that it may own, of those in `order` (lightest first)."""
    mine = view.may[view.class_of_partition[order]][:, members]
    taken = mine & (np.cumsum(mine, axis=0) <= number)
    return np.asarray((taken * view.lag[order][:, None]).sum(axis=0), np.int64)


def _least_count(view: _View, problem: Problem, counts: str | int | None) -> int:
    """A lower bound of each member's number of partitions; 0 if no simple one is known."""
    if counts is None or len(view.may) != 1 or len(np.unique(problem.capacity)) != 1:
        return 0
    share = int((view.class_of_partition >= 0).sum()) // int(view.may[0].sum())
    return share if isinstance(counts, str) else max(share - counts, 0)


def _pigeonhole_bound(view: _View, capacity: Int64, chosen: Bools, least: int) -> Fraction:
    """A bound from the heaviest partitions of some topic classes: of k n + 1 partitions one of n members owns k + 1."""
    weights = -np.sort(-view.lag[np.append(chosen, False)[view.class_of_partition]])
    strong = -np.sort(-capacity[view.may[chosen].any(axis=0)])
    n = min(len(weights), len(strong))
    if not n:
        return Fraction(0)
    total = np.concatenate(([0], np.cumsum(weights))).tolist()
    fill = np.concatenate(([0], np.cumsum(weights[::-1]))).tolist()
    spread = max(map(Fraction, total[1 : n + 1], np.cumsum(strong).tolist()))
    crowded = [0] + [
        total[k * len(strong) + 1] - total[k * len(strong) - k] + fill[max(least - k - 1, 0)]
        for k in range((len(weights) - 1) // len(strong) + 1)
    ]
    return max(spread, Fraction(max(crowded), int(strong[0])))
