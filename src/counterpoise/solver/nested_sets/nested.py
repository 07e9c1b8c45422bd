"""Nested sets: groups in which of any two topics one has all subscribers of the other, dealt without a table of who may what.

Put the members in a row, those with most topics first: the subscribers of a topic are then the first so many. So a plan exists
for some loads exactly if, for every k, the first k members take at least the units that only they may take (Hall). Balanced
loads follow the lowest concave line above these sums; where it falls from one whole price to the next, members do not trade.
Free units always fit if topics with fewest subscribers are dealt first, whoever of their subscribers takes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.errors import InvariantError
from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.classes import sum_by
from counterpoise.solver.decode import excess_claims
from counterpoise.solver.level.bitsets import Levels, bits_of_rows, members_of, take_most, width
from counterpoise.solver.nested_sets.claims import Cells, keep_most

__all__ = ["Nest", "deal_nested"]

FEW_KINDS = 32
"""With so few different sets, other paths take no longer, whatever the sets are."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The row, and how balanced loads lie in it.

    Attributes
    ----------
    member : int64[N]
        Members that take part, those with most topics first, then by id.
    reach : int64[T]
        How many members of the row subscribe to each topic; 0 for topics without partitions.
    must : int64[N+1]
        Units that the first k members have to take at least.
    price : int64[N]
        The load of each member is its price or one less. Prices fall along the row; units go to the cheapest subscribers.
    """

    member: Int64
    reach: Int64
    must: Int64
    price: Int64


def deal_nested(problem: Problem, *, with_history: bool) -> Int32 | None:
    """The optimal owners of a group of equal capacities without racks, or None if its topics are not nested; O(S + P log P)."""
    nest = _nest_of(problem)
    if nest is None:
        return None
    owner = _valid_claims(problem, nest) if with_history else np.full(problem.n_partitions, UNOWNED, np.int32)
    size = np.diff(problem.topic_start)
    start = _block_starts(nest.price)
    room = _keep(owner, nest, size, start)
    left = size - np.diff(np.append(0, np.cumsum(owner >= 0))[problem.topic_start])
    left[nest.reach == 0] = 0
    _pour(problem, nest, owner, start, room, left)
    return owner


def _keep(owner: Int32, nest: Nest, size: Int64, start: Int64) -> Int64:
    """Set the claims that cannot stay to UNOWNED, in place; the room that is left at each place of the row."""
    place = np.zeros(int(nest.member.max()) + 1, np.int64)
    place[nest.member] = np.arange(len(nest.member))
    reach = np.repeat(nest.reach, size)
    where = np.flatnonzero(owner >= 0)
    at, upto = place[owner[where]], reach[where]
    home = at >= start[upto - 1]  # no plan keeps a claim on units that others, of a lower price, must take
    owner[where[~home]] = UNOWNED
    where, at, upto = where[home], at[home], upto[home]
    most = len(nest.member) + 1
    key, cell, count = np.unique(at * most + upto, return_inverse=True, return_counts=True)
    cells = Cells(key // most, key % most, count)
    kept, load = keep_most(cells, nest.must, nest.price, start)
    if bool((kept < count).any()):
        owner[excess_claims(cell, where, count - kept, spread=True)] = UNOWNED
    return load - sum_by(cells.place, kept, len(nest.member))


def _nest_of(problem: Problem) -> Nest | None:
    """The row and its prices, or None if the topics are not nested.

    Degrees tell: if the members sorted by their number of topics have as many topics as there are topics with more than
    0, 1, 2, .. subscribers, no other table has these degrees than the nested one (Gale and Ryser).
    """
    size, count = np.diff(problem.topic_start), np.diff(problem.subscriber_start)
    reach = np.where(size > 0, count, 0)
    kinds = np.bincount(reach, minlength=problem.n_members + 1)
    if np.count_nonzero(kinds[1:]) <= FEW_KINDS or not _at_sight(problem, reach):
        return None
    subscriber = problem.subscriber if bool((reach == count).all()) else problem.subscriber[np.repeat(reach > 0, count)]
    degree = np.bincount(subscriber, minlength=problem.n_members)
    n = int(reach.max())
    falling = len(reach) - np.cumsum(kinds)
    member = np.argsort(-degree, kind="stable")
    if not np.array_equal(degree[member], falling[: problem.n_members]):
        return None
    must = np.cumsum(np.bincount(reach, np.where(reach > 0, size, 0), n + 1)).astype(np.int64)
    return Nest(member[:n], reach, must, _prices(must.tolist()))


def _at_sight(problem: Problem, reach: Int64) -> bool:
    """Whether the largest set holds the smallest: all other groups need not be counted through."""
    most, fewest = int(reach.argmax()), int(np.where(reach > 0, reach, problem.n_members + 1).argmin())
    starts = problem.subscriber_start
    inside = np.zeros(problem.n_members, np.bool_)
    inside[problem.subscriber[starts[most] : starts[most + 1]]] = True
    return bool(inside[problem.subscriber[starts[fewest] : starts[fewest + 1]]].all())


def _prices(must: list[int]) -> Int64:
    """The slopes, rounded up, of the lowest concave line above `must`; one pass over its corners."""
    corners = [0]
    for at in range(1, len(must)):
        while len(corners) > 1:
            before, last = corners[-2], corners[-1]
            if (must[last] - must[before]) * (at - last) > (must[at] - must[last]) * (last - before):
                break
            corners.pop()
        corners.append(at)
    length = np.diff(corners)
    rise = np.diff(np.array(must, np.int64)[corners])
    return np.repeat(-(-rise // length), length).astype(np.int64)


def _block_starts(price: Int64) -> Int64:
    """The first place in the row with the same price, of each place."""
    change = np.append(True, price[1:] != price[:-1])
    return np.asarray(np.flatnonzero(change)[np.cumsum(change) - 1], np.int64)


def _valid_claims(problem: Problem, nest: Nest) -> Int32:
    """Previous owners with UNOWNED where nobody may keep."""
    place = np.full(problem.n_members + 1, problem.n_members, np.int64)
    place[nest.member] = np.arange(len(nest.member))
    previous = problem.previous_owner
    owner = np.where((previous >= 0) & (previous < problem.n_members), previous, UNOWNED)
    owner[place[owner] >= np.repeat(nest.reach, np.diff(problem.topic_start))] = UNOWNED
    return owner


def _levels(room: Int64) -> Levels:
    """The places by their room."""
    values = np.unique(room[room > 0])
    columns = np.zeros((len(values), width(len(room))), np.bool_)
    columns[:, : len(room)] = room == values[:, None]
    return dict(zip(values.tolist(), bits_of_rows(columns), strict=True))


def _pour(problem: Problem, nest: Nest, owner: Int32, start: Int64, room: Int64, left: Int64) -> None:
    """Free units to the subscribers of the same price with most room, one each before anybody gets a second, in place."""
    rooms = _levels(room)
    taken: dict[int, list[int]] = {}
    topics = np.flatnonzero(left)
    topics = topics[np.argsort(nest.reach[topics], kind="stable")]
    begin = start[nest.reach[topics] - 1]
    for topic, units, upto, since in zip(
        topics.tolist(), left[topics].tolist(), nest.reach[topics].tolist(), begin.tolist(), strict=True
    ):
        who = (1 << upto) - (1 << since)
        layers = taken[topic] = []
        while units:
            some = take_most(rooms, who, units)
            if not some:
                raise InvariantError(f"{units} units of topic {topic} found no room among nested sets")
            units -= some.bit_count()
            layers.append(some)
    free = (owner < 0) & np.repeat(left > 0, np.diff(problem.topic_start))
    owner[free] = nest.member[members_of([some for topic in sorted(taken) for some in taken[topic]], len(room))]
