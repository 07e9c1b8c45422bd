"""Direct: groups whose loads can all be within one are dealt topic by topic, without classes and without a flow.

Each topic's free units go to its subscribers with most room, what is left goes there through others, and members above their
quota hand over what is still missing (`counterpoise.solver.level.tray`). What comes out needs no further proof: loads are within
one of each other, because quotas and extras add up to the units, and everybody keeps the most its quota allows, which is the
closed-form bound of `counterpoise.solver.flows.transport` for every plan. Where a unit finds no place the answer is None, and
another path decides.

Small groups are all overhead, so arrays of topics and members are passed over as few times as can be.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.classes import DENSE_CELLS
from counterpoise.solver.level.bitsets import Levels, bits_of, bits_of_rows, lowest, members_of, width
from counterpoise.solver.level.handover import hand_over
from counterpoise.solver.level.tray import Shares, Tray

__all__ = ["deal_directly"]

MOST_TOPICS = 2_000
"""With more topics, loops over them cost more than the classes they save."""
FEW_SUBSCRIBERS = 4
"""With fewer a topic, the network is sparse: flows are small, walks are long, and chains hardly ever end level."""
LAYERS_PER_TOPIC = 3
"""With more, few members take many partitions of a topic each: sets of them are not worth while."""


MOST_HANDOVERS = 5_000
"""Units that members above quota hand over."""
LOOKS, MORE_LOOKS, UNITS_PER_LOOK = 20, 4_000, 4
"""Looks at a topic, per topic, on top, and one for so many units, after which walks end: groups that are no single block
would take far more, and the flows that follow cost more the more units there are."""

Bools = npt.NDArray[np.bool_]


def deal_directly(problem: Problem, *, with_history: bool) -> Int32 | None:
    """The optimal owners of a group of equal capacities without racks, or None where this path cannot tell.

    About O(T M / 64 + P), and T M / 64 for each walk.
    """
    n_topics, wide = problem.n_topics, width(problem.n_members)
    sparse = len(problem.subscriber) < (FEW_SUBSCRIBERS * n_topics if n_topics > 64 else 1)
    if sparse or n_topics > MOST_TOPICS or n_topics * wide > DENSE_CELLS:
        return None
    count = problem.subscriber_start[1:] - problem.subscriber_start[:-1]
    size = problem.topic_start[1:] - problem.topic_start[:-1]
    table = np.zeros(n_topics * wide, np.bool_)
    table[np.repeat(np.arange(0, len(table), wide), count) + problem.subscriber] = True
    subscribers, counts = bits_of_rows(table.reshape(n_topics, -1)), count.tolist()
    units, live = _in_play(subscribers, size.tolist())
    base, extras = divmod(sum(units), max(live.bit_count(), 1))
    if not _roomy_enough(subscribers, units, counts, base, extras):
        return None
    dead = None if all(counts) else np.repeat(count == 0, size)
    if not with_history or int(problem.previous_owner.max(initial=UNOWNED)) < 0:
        shares, left, free = Shares({base: live} if base else {}, {}, live, 0, extras), units, None
        owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    else:
        owner = np.maximum(problem.previous_owner, np.int32(UNOWNED))
        shares, free = _shares(owner, problem.n_members, live, base, extras), _free(owner, dead)
        left = np.diff(free.searchsorted(problem.topic_start)).tolist()
    if _too_much(left, counts, shares):
        return None
    work = LOOKS * n_topics + MORE_LOOKS + sum(units) // UNITS_PER_LOOK
    tray = Tray(subscribers, left, counts, shares, fresh=free is None, work=work)
    waiting = tray.pour([topic for topic in count.argsort(kind="stable").tolist() if left[topic]])
    if tray.rooms and not _within_reach(problem, size, count, base):
        return None
    tray.reroute(waiting)
    tray.top_up(waiting)
    if tray.work < 0:
        return None
    if shares.excess or any(tray.left):
        if not hand_over(problem, tray, owner, shares.excess, work):
            return None
        free = None
    if free is None:
        free = _free(owner, dead)
    owner[free] = members_of([layer for layers in tray.dealt for layer in layers], problem.n_members)
    return owner


def _in_play(subscribers: list[int], size: list[int]) -> tuple[list[int], int]:
    """Units of each topic, none where nobody subscribes, and the members that subscribe to any."""
    units = [n if members else 0 for members, n in zip(subscribers, size, strict=True)]
    if all(units):
        return units, reduce(or_, subscribers, 0)
    return units, reduce(or_, [members for members, n in zip(subscribers, units, strict=True) if n], 0)


def _within_reach(problem: Problem, size: Int64, count: Int64, base: int) -> bool:
    """Whether all who subscribe to anything can get the smaller quota at all."""
    times = np.bincount(problem.subscriber, minlength=problem.n_members)
    if int(times.min()) * int(size.min()) >= base:
        return True
    reach = np.bincount(problem.subscriber, np.repeat(size, count), problem.n_members)
    return not bool(((reach < base) & (reach > 0)).any())


def _free(owner: Int32, dead: Bools | None) -> Int64:
    """Partitions that wait for an owner, ascending."""
    return (owner < 0 if dead is None else (owner < 0) & ~dead).nonzero()[0]


def _too_much(left: list[int], count: list[int], shares: Shares) -> bool:
    """Whether there are more layers to deal or claims to hand over than sets are good for."""
    most = LAYERS_PER_TOPIC * len(left) + 500
    layers = sum(left) // max(min(count), 1) + len(left)  # no fewer than there are, and quicker to tell
    if layers > most:
        layers = sum(-(-n // members) for n, members in zip(left, count, strict=True) if n)
    return layers > most or sum(level * members.bit_count() for level, members in shares.excess.items()) > MOST_HANDOVERS


def _roomy_enough(subscribers: list[int], units: list[int], count: list[int], base: int, extras: int) -> bool:
    """Whether topics with the same subscribers fit on these at all, if nobody takes more than one unit above the base."""
    if max(units) <= min(count) * base and len(set(subscribers)) == len(subscribers):
        return True
    together: dict[int, int] = {}
    for members, n, takers in zip(subscribers, units, count, strict=True):
        n = together[members] = together.get(members, 0) + n
        if n > takers * base + min(takers, extras):
            return False
    return True


def _shares(owner: Int32, n_members: int, live: int, base: int, extras: int) -> Shares:
    """The closed form for one block: extras to the members with most claims above the base, ties by id, while there are any."""
    above = np.bincount(owner + 1, minlength=n_members + 1)[1:] - base
    room: Levels = {}
    excess: Levels = {}
    extra = 0
    for level in sorted(set(above.tolist()), reverse=True):
        members = bits_of(above == level) & live
        if level < 0 and members:
            room[-level] = members
        elif level > 0:
            keen = lowest(members, extras)
            extras -= keen.bit_count()
            extra |= keen
            for more, who in ((level, members ^ keen), (level - 1, keen)):
                if more and who:
                    excess[more] = excess.get(more, 0) | who
    return Shares(room, excess, live & ~extra, extra, extras)
