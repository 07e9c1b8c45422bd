"""Direct: groups whose loads can all be within one are dealt topic by topic, without classes and without a flow.

Each topic's free units go to its subscribers with most room, what is left goes there through others, and members above their
quota hand over what is still missing (`counterpoise.solver.tray`). What comes out needs no further proof: loads are within
one of each other, and everybody keeps the most its quota allows, which is the closed-form bound of
`counterpoise.solver.transport` for every plan. Where a unit finds no place the answer is None, and another path decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.bitsets import bits_of_rows, each_bit, levels_of, members_of, width
from counterpoise.solver.classes import DENSE_CELLS
from counterpoise.solver.exchange import Exchange
from counterpoise.solver.tray import Tray

__all__ = ["deal_directly"]

MOST_TOPICS = 2_000
"""With more topics, loops over them cost more than the classes they save."""
FEW_SUBSCRIBERS = 4
"""With fewer a topic, the network is sparse: flows are small, walks are long, and chains hardly ever end level."""
LAYERS_PER_TOPIC = 3
"""With more, few members take many partitions of a topic each: sets of them are not worth while."""


MOST_HANDOVERS = 5_000
"""Units that members above quota hand over."""
LOOKS, MORE_LOOKS = 20, 4_000
"""Looks at a topic, per topic and on top, after which walks end: groups that are no single block would take far more."""


@dataclass(frozen=True, slots=True)
class _Shares:
    """The closed form for one block.

    Attributes
    ----------
    quota, excess, room : int64[M]
        What members end with at least, claims above it, places below it.
    spare, extra : bool[M]
        Who takes part with the smaller quota, and who has one unit more.
    extras : int
        How many of the spare ones must take one more.
    """

    quota: Int64
    excess: Int64
    room: Int64
    spare: npt.NDArray[np.bool_]
    extra: npt.NDArray[np.bool_]
    extras: int


def deal_directly(problem: Problem, *, with_history: bool) -> Int32 | None:
    """The optimal owners of a group of equal capacities without racks, or None where this path cannot tell.

    About O(T M / 64 + P), and T M / 64 for each walk.
    """
    n_topics, n_members = problem.n_topics, problem.n_members
    sparse = n_topics > 64 and len(problem.subscriber) < FEW_SUBSCRIBERS * n_topics
    if sparse or n_topics > MOST_TOPICS or n_topics * width(n_members) > DENSE_CELLS:
        return None
    count, size = np.diff(problem.subscriber_start), np.diff(problem.topic_start)
    units = np.where(count > 0, size, 0)
    table = np.zeros(n_topics * width(n_members), np.bool_)
    table[np.repeat(np.arange(0, len(table), width(n_members)), count) + problem.subscriber] = True
    owner = _valid_claims(problem, table, size) if with_history else None
    held = np.zeros(n_members, np.int64) if owner is None else np.bincount(owner + 1, minlength=n_members + 1)[1:]
    reach = np.bincount(problem.subscriber, np.repeat(units, count), n_members)
    shares = _closed_form(int(units.sum()), reach > 0, held)
    if bool((reach < shares.quota).any()):
        return None
    left = units
    if owner is None:
        owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    else:
        left = units - np.diff(np.append(0, np.cumsum(owner >= 0))[problem.topic_start])
    layers = left // np.maximum(count, 1) + (left > 0)
    if int(layers.sum()) > LAYERS_PER_TOPIC * n_topics + 500 or int(shares.excess.sum()) > MOST_HANDOVERS:
        return None
    subscribers = bits_of_rows(table.reshape(n_topics, -1))
    if not _roomy_enough(subscribers, units.tolist(), *divmod(int(units.sum()), max(int((reach > 0).sum()), 1))):
        return None
    tray = Tray(
        subscribers,
        left.tolist(),
        shares.room,
        (shares.spare, shares.extra),
        shares.extras,
        fresh=left is units,
        work=LOOKS * n_topics + MORE_LOOKS,
    )
    topics = [topic for topic in np.argsort(count, kind="stable").tolist() if tray.left[topic]]
    tray.pour(topics)
    tray.reroute(topics)
    tray.top_up(topics)
    if tray.work < 0:
        return None
    if (any(tray.left) or shares.excess.any()) and not _hand_over(problem, tray, owner, size, shares.excess):
        return None
    free = owner < 0 if bool(count.all()) else (owner < 0) & np.repeat(count > 0, size)
    owner[free] = members_of([layer for layers in tray.dealt for layer in layers], n_members)
    return owner


def _roomy_enough(subscribers: list[int], units: list[int], base: int, extras: int) -> bool:
    """Whether topics with the same subscribers fit on these at all, if nobody takes more than one unit above the base."""
    together: dict[int, int] = {}
    for members, n in zip(subscribers, units, strict=True):
        together[members] = together.get(members, 0) + n
    return all(n <= members.bit_count() * base + min(members.bit_count(), extras) for members, n in together.items())


def _hand_over(problem: Problem, tray: Tray, owner: Int32, size: Int64, excess: Int64) -> bool:
    """Settle what is left with claims that change hands; those become UNOWNED in `owner`."""
    n_topics, n_members = problem.n_topics, problem.n_members
    row = np.repeat(np.arange(0, n_topics * width(n_members), width(n_members)), size)
    where = owner >= 0
    claims = np.bincount((row + owner)[where], minlength=n_topics * width(n_members)).reshape(n_topics, -1)
    kept: list[list[int]] = [[] for _ in range(n_topics)]
    most = claims.max(axis=1, initial=0)
    for layer in range(int(most.max(initial=0))):
        rows = np.flatnonzero(most > layer)
        for topic, members in zip(rows.tolist(), bits_of_rows(claims[rows] > layer), strict=True):
            kept[topic].append(members)
    exchange = Exchange(tray, kept, levels_of(excess), LOOKS * n_topics + MORE_LOOKS)
    if not exchange.settle():
        return False
    starts = problem.topic_start.tolist()
    for topic, layers in enumerate(exchange.shed):
        mine = owner[starts[topic] : starts[topic + 1]]
        for layer in layers:
            for member in each_bit(layer):
                mine[np.argmax(mine == member)] = UNOWNED
    return True


def _valid_claims(problem: Problem, table: npt.NDArray[np.bool_], size: Int64) -> Int32 | None:
    """A copy of the previous owners with UNOWNED where nobody may keep; None: no claims at all."""
    previous, n_members = problem.previous_owner, problem.n_members
    if not len(previous) or int(previous.max()) < 0:
        return None
    row = np.repeat(np.arange(0, len(table), width(n_members)), size)
    owner = np.where((previous >= 0) & (previous < n_members), previous, UNOWNED)
    owner[~table[row + owner]] = UNOWNED  # where the owner is UNOWNED already, it does not matter what stands there
    return owner


def _closed_form(units: int, live: npt.NDArray[np.bool_], held: Int64) -> _Shares:
    """Extras to the members with most claims above the base, ties by id, as far as extras go."""
    base, extras = divmod(units, max(int(live.sum()), 1))
    quota = live * base
    keen = np.flatnonzero(held > base)
    if len(keen) > extras:
        keen = keen[np.argsort(-held[keen], kind="stable")[:extras]]
    quota[keen] += 1
    extras -= len(keen)
    extra = quota > base
    return _Shares(quota, np.maximum(held - quota, 0), np.maximum(quota - held, 0), live & ~extra, extra, extras)
