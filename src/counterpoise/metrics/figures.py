"""Single figures of a plan, each a function of a few integer arrays; counts stay exact integers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem

__all__ = [
    "held",
    "jain",
    "jains",
    "kip54_score",
    "kip54_scores",
    "lag_floor",
    "max_topic_spread",
    "member_lag",
    "member_lags",
    "subscribed",
    "topic_spreads",
    "variation",
    "within_topics",
]

_CELLS_AT_ONCE = 4_000_000
"""Cells of the topics x members table that are counted at a time (32 MB)."""
_EXACT = 2.0**52
"""Doubles add up integers exactly as long as all together stay below twice this."""
_CLASSES_COMPARED = 512
"""Up to so many distinct subscriber sets are compared pairwise for the lag bound; beyond it only the simple bounds count."""


def kip54_score(load: Int64) -> int:
    """KIP-54's balance score: the sum of |load difference| over all pairs of members; 0 is perfect.

    By sorting, not by pairs: the i-th smallest of M loads enters (2i - M + 1) times. O(M log M), exact.
    """
    ordered = np.sort(load)
    weight = 2 * np.arange(len(load), dtype=np.int64) - len(load) + 1
    if len(load) and int(ordered[-1]) * len(load) ** 2 >= 2**62:
        return sum(a * b for a, b in zip(ordered.tolist(), weight.tolist(), strict=True))
    return int(np.dot(ordered, weight))


def kip54_scores(loads: Int64) -> list[int]:
    """`kip54_score` of each row."""
    n = loads.shape[1]
    if not n or int(loads.max(initial=0)) * n**2 >= 2**62:
        return [kip54_score(load) for load in loads]
    scores: list[int] = (np.sort(loads, axis=1) @ (2 * np.arange(n, dtype=np.int64) - n + 1)).tolist()
    return scores


def jain(load: Int64) -> float:
    """Jain's fairness index (Σx)² / (n Σx²): 1 is even, 1/n one member has everything; 1 where nobody has anything.

    Jain, Chiu and Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.
    """
    values = load.tolist()
    squares = sum(x * x for x in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


def jains(loads: Int64) -> list[float]:
    """`jain` of each row, for loads whose squares add up below 2**63."""
    totals, squares = loads.sum(axis=1).tolist(), (loads * loads).sum(axis=1).tolist()
    return [1.0 if b == 0 else a**2 / (loads.shape[1] * b) for a, b in zip(totals, squares, strict=True)]


def max_topic_spread(problem: Problem, owner: Int32) -> int:
    """Largest difference, over the topics, between what two subscribers of a topic own of it; 0 without subscribers."""
    return int(within_topics(problem, owner).max(initial=0))


def within_topics(problem: Problem, owner: Int32) -> Int64:
    """Of each topic the largest difference between what two of its subscribers own of it, int64[T]; 0 without subscribers.

    O(P + S + T * M) in slices of topics that bound the memory.
    """
    found, first = np.zeros(problem.n_topics, np.int64), 0
    at_once = max(1, _CELLS_AT_ONCE // max(problem.n_members, 1))
    while first < problem.n_topics:
        end = min(first + at_once, problem.n_topics)
        found[first:end] = _within_topics(problem, owner, first, end)
        first = end
    return found


def topic_spreads(problem: Problem, owners: npt.NDArray[np.int32]) -> Int64:
    """`max_topic_spread` of each row of `owners`, int64[rows], by one table of rows x topics x members."""
    rows, n, topics = len(owners), problem.n_members, problem.n_topics
    degree = np.diff(problem.subscriber_start)
    used = np.flatnonzero(degree)
    if not len(used):
        return np.zeros(rows, np.int64)
    wide = n + 1  # a column for what nobody owns
    topic = np.repeat(np.arange(1, topics * wide, wide), np.diff(problem.topic_start))
    cell = owners + topic + (np.arange(rows) * (topics * wide))[:, None]
    counts = np.bincount(cell.ravel(), minlength=rows * topics * wide).reshape(rows, topics, wide)
    if len(problem.subscriber) == topics * n:
        return np.asarray(np.ptp(counts[:, :, 1:], axis=2).max(axis=1), np.int64)
    of_pair = counts.reshape(rows, -1)[:, np.repeat(np.arange(1, topics * wide, wide), degree) + problem.subscriber]
    start = problem.subscriber_start[used]
    spread = np.maximum.reduceat(of_pair, start, axis=1) - np.minimum.reduceat(of_pair, start, axis=1)
    return np.asarray(spread.max(axis=1), np.int64)


def member_lags(problem: Problem, owners: npt.NDArray[np.int32], lag: Int64) -> Int64:
    """`member_lag` of each row of `owners`, int64[rows, M]."""
    rows, wide = len(owners), problem.n_members + 1  # a column for what nobody owns
    cell = (owners + np.arange(1, rows * wide, wide)[:, None]).ravel()
    return _sums(cell, np.tile(lag, rows), rows * wide).reshape(rows, wide)[:, 1:]


def member_lag(problem: Problem, owner: Int32, lag: Int64) -> Int64:
    """Summed lag of what each member owns, int64[M], exact below 2**63."""
    owned = owner >= 0
    return _sums(owner[owned], lag[owned], problem.n_members)


def lag_floor(problem: Problem, lag: Int64) -> int:
    """A proven lower bound on the largest member lag of any plan.

    The largest of: the largest single lag; over sets of topics, their summed lag over the number of members that
    subscribe to any of them, rounded up (the sets tried: all topics, and for each distinct subscriber set the topics
    whose subscribers all lie in it); and, with M members in all, the M-th and (M+1)-th largest lags together,
    because two of the M+1 largest must share a member. Topics without subscribers do not count.
    """
    degree = np.diff(problem.subscriber_start)
    ownable = np.repeat(degree > 0, np.diff(problem.topic_start))
    lags = lag[ownable]
    if not len(lags):
        return 0
    n_active = len(np.unique(problem.subscriber))
    floors = [int(lags.max()), _share(int(lags.sum()), n_active)]
    if len(lags) > n_active:
        largest = np.partition(lags, len(lags) - n_active - 1)[len(lags) - n_active - 1 :]
        pair = np.partition(largest, 1)[:2]
        floors.append(int(pair.sum()))
    of_topic = _sums(problem.topic_of_partition(), lag, problem.n_topics)
    return max(*floors, _floor_of_sets(problem, of_topic, degree))


def variation(lags: list[int]) -> float:
    """Standard deviation over mean, sqrt(n Σx² - (Σx)²) / Σx; 0 where nothing lags. Integers but for the root and the ratio."""
    total = sum(lags)
    return math.sqrt(len(lags) * sum(x * x for x in lags) - total * total) / total if total else 0.0


def subscribed(problem: Problem) -> npt.NDArray[np.bool_]:
    """Members that could own something, bool[M]: they subscribe to a topic with at least one partition."""
    filled = np.repeat(np.diff(problem.topic_start) > 0, np.diff(problem.subscriber_start))
    result = np.zeros(problem.n_members, np.bool_)
    result[problem.subscriber[filled]] = True
    return result


def held(problem: Problem) -> npt.NDArray[np.bool_]:
    """Partitions some member of the group holds now, bool[P]; disputed ones are held, by more than one."""
    now: npt.NDArray[np.bool_] = (problem.holder != UNOWNED) & (problem.holder < problem.n_members)
    return now


def _within_topics(problem: Problem, owner: Int32, first: int, end: int) -> Int64:
    """The same for the topics first..end-1, by a dense table of counts."""
    part = slice(int(problem.topic_start[first]), int(problem.topic_start[end]))
    row = np.repeat(np.arange(end - first, dtype=np.int64), np.diff(problem.topic_start[first : end + 1]))
    mine = owner[part]
    owned = mine >= 0
    counts = np.bincount(row[owned] * problem.n_members + mine[owned], minlength=(end - first) * problem.n_members)
    start = problem.subscriber_start[first : end + 1]
    degree = np.diff(start)
    rows = np.repeat(np.arange(end - first, dtype=np.int64), degree)
    of_pair = counts[rows * problem.n_members + problem.subscriber[start[0] : start[-1]]]
    used = (start[:-1] - start[0])[degree > 0]
    found = np.zeros(end - first, np.int64)
    if len(used):
        found[degree > 0] = np.maximum.reduceat(of_pair, used) - np.minimum.reduceat(of_pair, used)
    return found


def _sums(code: npt.NDArray[np.integer], values: Int64, n: int) -> Int64:
    """Exact sums per code; large ones in pieces of 21 bits, so that the doubles of bincount lose nothing up to 2**32 values."""
    if float(values.sum(dtype=np.float64)) < _EXACT:
        return np.bincount(code, weights=values, minlength=n).astype(np.int64)
    result = np.zeros(n, np.int64)
    for shift in range(0, max(int(values.max(initial=0)).bit_length(), 1), 21):
        piece = ((values >> shift) & 0x1F_FFFF).astype(np.float64)
        result += np.bincount(code, weights=piece, minlength=n).astype(np.int64) << shift
    return result


def _share(total: int, members: int) -> int:
    return -(-total // members)


def _floor_of_sets(problem: Problem, of_topic: Int64, degree: Int64) -> int:
    """Over the distinct subscriber sets N: lag of the topics whose subscribers all lie in N, over |N|, rounded up."""
    first_of: dict[bytes, int] = {}
    lags: list[int] = []
    sets: list[Int32] = []
    bounds = problem.subscriber_start.tolist()
    for topic in np.flatnonzero(degree > 0).tolist():
        members = problem.subscriber[bounds[topic] : bounds[topic + 1]]
        at = first_of.setdefault(members.tobytes(), len(sets))
        if at == len(sets):
            sets.append(members)
            lags.append(0)
        lags[at] += int(of_topic[topic])
    if len(sets) > _CLASSES_COMPARED or len(sets) * problem.n_members > _CELLS_AT_ONCE:
        return max(_share(total, len(members)) for total, members in zip(lags, sets, strict=True))
    table = np.zeros((len(sets), problem.n_members), np.float32)
    for at, members in enumerate(sets):
        table[at, members] = 1
    size = np.array([len(members) for members in sets])
    inside = np.rint(table @ table.T).astype(np.int64) == size  # [n, c]: set c lies in set n; sums below 2**24 are exact
    return max(
        _share(sum(lag for lag, belongs in zip(lags, row, strict=True) if belongs), count)
        for row, count in zip(inside.tolist(), size.tolist(), strict=True)
    )
