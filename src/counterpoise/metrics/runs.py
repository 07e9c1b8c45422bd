"""Array operations over runs of entries that lie end to end: sums, extremes, spreads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int32, Int64, Problem, keepers

__all__ = ["Runs", "subscribed", "topic_spreads", "within_topics"]


class Runs:
    """N runs of entries of any length, end to end; a run may be empty. `length` and `start` are int64[N]."""

    def __init__(self, length: Int64) -> None:
        self.length = length
        self.start = np.cumsum(length) - length
        self.total = int(length.sum())
        self._filled = np.flatnonzero(length)  # `reduceat` takes a neighbour's entry for an empty run

    def each(self, values: Int64) -> Int64:
        """One value per run, repeated for each of its entries."""
        return np.repeat(values, self.length)

    def sums(self, values: npt.NDArray[np.generic]) -> Int64:
        """The sum of each run; exact if it fits in int64."""
        return self._reduced(np.add, values)

    def largest(self, values: Int64) -> Int64:
        """The largest value of each run, 0 if it is empty."""
        return self._reduced(np.maximum, values)

    def spread(self, values: Int64) -> Int64:
        """Largest minus smallest value of each run, 0 if it is empty."""
        return self._reduced(np.maximum, values) - self._reduced(np.minimum, values)

    def _reduced(self, ufunc: np.ufunc, values: npt.NDArray[np.generic]) -> Int64:
        found = np.zeros(len(self.start), np.int64)
        if len(self._filled):
            found[self._filled] = ufunc.reduceat(values, self.start[self._filled], dtype=np.int64)
        return found


def topic_spreads(
    topic: Int64,  # int64[P]: topic of each partition, ascending
    owner: npt.NDArray[np.integer],  # int[P]: members below `n_members` that subscribe to the topic, or UNOWNED
    degree: Int64,  # int64[T]: number of subscribers
    n_members: int,
) -> Int64:
    """Of each topic the largest difference between what two of its subscribers own of it, int64[T]; 0 without subscribers.

    O(P log P), whatever the number of members: a subscriber that owns nothing shows in the number of owners.
    """
    owned = owner >= 0
    cell = np.sort(topic[owned] * n_members + owner[owned])
    found = np.zeros(len(degree), np.int64)
    if not len(cell):
        return found
    first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
    count = np.diff(np.append(first, len(cell)))
    owners = Runs(np.bincount(cell[first] // n_members, minlength=len(degree)))
    least = np.where(owners.length == degree, -owners.largest(-count), 0)
    return np.asarray(owners.largest(count) - least)


def within_topics(problem: Problem, owner: Int32) -> Int64:
    """`topic_spreads` of one plan, int64[T]; owners that do not subscribe to a topic do not count for it."""
    topic = problem.topic_of_partition().astype(np.int64)
    return topic_spreads(topic, keepers(owner, problem), np.diff(problem.subscriber_start), max(problem.n_members, 1))


def subscribed(problem: Problem) -> npt.NDArray[np.bool_]:
    """Members that could own something, bool[M]: they subscribe to a topic with at least one partition."""
    filled = np.repeat(np.diff(problem.topic_start) > 0, np.diff(problem.subscriber_start))
    result = np.zeros(problem.n_members, np.bool_)
    result[problem.subscriber[filled]] = True
    return result
