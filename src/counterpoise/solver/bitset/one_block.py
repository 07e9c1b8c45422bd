"""One block: groups whose members can all have the quotas of a single block, without classes and without a flow.

With equal capacities these loads are within one of each other. Free units go to the subscribers with most slack, the rest along
augmenting paths (`allocation`), and members above their quota hand over what is still missing (`exchange`). The result needs no
further proof: loads are balanced, because quotas and ceiling slots add up to the units, and everybody keeps the most its quota
allows, which is the closed-form bound of `flows.transport` for every plan. If a unit finds no place the answer is None, and
`flows` decides.

Why beside `flows`: "40 x 25 x 200, every member random" takes 0.2 ms here and 3 ms by flows, "200 x 50 x 200" 0.8 ms and 20 ms;
franz-go lies between. Sets of members are Python integers, so one operation handles thousands of members.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.bitset.allocation import Allocation, Shares
from counterpoise.solver.bitset.exchange import Exchange
from counterpoise.solver.bitset.sets import (
    ByCount,
    add_to,
    bits_of,
    bits_of_rows,
    each_bit,
    everybody,
    lowest,
    members_of,
    take_from,
    width,
)
from counterpoise.solver.flows.quotas import Demand, quotas, unequal
from counterpoise.solver.history import valid_claims

__all__ = ["assign_one_block"]

MANY_TOPICS, LOOKED_AT = 2_000, 1_000
"""More topics are planned here only if most of the first `LOOKED_AT` have subscribers of their own. Otherwise classes are fewer
than topics, and flows are faster."""
MOST_CELLS = 16_000_000
"""Topics x members: a byte each, for a moment."""
FEW_SUBSCRIBERS = 4
"""With fewer per topic the network is sparse: flows are small, paths are long, and members are seldom in one block."""
LAYERS_PER_TOPIC = 3
"""With more, few members take many partitions of a topic each, and sets of members do not pay."""
MOST_QUOTAS = 64
"""With more different floors, flows are used: each topic looks at the set of members of each floor."""
MOST_HANDOVERS = 5_000
"""Units that members above quota hand over."""
FEW_CLAIMS = 100
"""So many are added to sets one by one."""
LOOKS, MORE_LOOKS, UNITS_PER_LOOK = 20, 4_000, 4
"""Limit on the topics that searches visit: so many per topic, so many on top, and one per so many units. Groups that are no
single block would visit far more, and the flows that follow cost more the more units there are."""

Bools = npt.NDArray[np.bool_]


def assign_one_block(problem: Problem, *, with_history: bool) -> Int32 | None:
    """The optimal owners of a group without racks, or None if this path does not find them.

    About O(T M / 64 + P), and T M / 64 for each augmenting path.
    """
    n_topics, wide = problem.n_topics, width(problem.n_members)
    sparse = len(problem.subscriber) < (FEW_SUBSCRIBERS * n_topics if n_topics > 64 else 1)
    if sparse or n_topics * wide > MOST_CELLS or (n_topics > MANY_TOPICS and _in_classes(problem)):
        return None
    count = problem.subscriber_start[1:] - problem.subscriber_start[:-1]
    size = problem.topic_start[1:] - problem.topic_start[:-1]
    table = np.zeros(n_topics * wide, np.bool_)
    table[np.repeat(np.arange(0, len(table), wide), count) + problem.subscriber] = True
    subscribers, counts = bits_of_rows(table.reshape(n_topics, -1)), count.tolist()
    units, live = _in_play(subscribers, size.tolist())
    quota = _quota(problem.capacity, live, sum(units))
    if quota is None or not _fits(subscribers, units, counts, quota):
        return None
    dead = None if all(counts) else np.repeat(count == 0, size)
    if not with_history or int(problem.previous_owner.max(initial=UNOWNED)) < 0:
        shares, left, free = Shares(quota.members.copy(), {}, quota.candidates, 0, quota.ceiling_slots), units, None
        owner = np.full(problem.n_partitions, UNOWNED, np.int32)
    else:
        owner = valid_claims(problem)
        shares, free = _shares(owner, live, quota), _free(owner, dead)
        left = np.diff(free.searchsorted(problem.topic_start)).tolist()
    if _too_much(left, counts, shares):
        return None
    work = LOOKS * n_topics + MORE_LOOKS + sum(units) // UNITS_PER_LOOK
    allocation = Allocation(subscribers, left, counts, shares, fresh=free is None, work=work)
    waiting = allocation.fill_least_loaded([topic for topic in count.argsort(kind="stable").tolist() if left[topic]])
    if allocation.slack and not _floor_not_ruled_out(problem, size, count, quota.floor):
        return None
    allocation.reroute(waiting)
    allocation.fill_ceiling(waiting)
    if allocation.work < 0:
        return None
    if shares.excess or any(allocation.left):
        if not _hand_over(problem, allocation, owner, shares.excess, work):
            return None
        free = None
    if free is None:
        free = _free(owner, dead)
    owner[free] = members_of([layer for layers in allocation.assigned for layer in layers], problem.n_members)
    return owner


@dataclass(frozen=True, slots=True)
class _Quota:
    """The balanced loads of one block of all members."""

    floor: Int64  # int64[M]
    members: ByCount  # By their floor, if it is not 0
    candidates: int  # Members that may take one unit more
    ceiling_slots: int  # How many of them take it


def _quota(capacity: Int64, live: int, units: int) -> _Quota | None:
    """The quotas of the members that subscribe; None if they have more than `MOST_QUOTAS` different floors."""
    block = np.full(len(capacity), -1)
    block[members_of([live], len(capacity))] = 0
    shares = quotas(np.array([units]), block, Demand(unequal(capacity)))
    floors = sorted(set(shares.floor.tolist()))
    if len(floors) > MOST_QUOTAS:
        return None
    members = {floor: bits_of(shares.floor == floor) for floor in floors if floor}
    return _Quota(shares.floor, members, bits_of(shares.candidate), int(shares.ceiling_slots[0]))


def _in_classes(problem: Problem) -> bool:
    """Whether the first topics have fewer than half as many different sets of subscribers."""
    ends = problem.subscriber_start[: LOOKED_AT + 1].tolist()
    rows = [problem.subscriber[start:end].tobytes() for start, end in pairwise(ends)]
    return 2 * len(set(rows)) < len(rows)


def _in_play(subscribers: list[int], size: list[int]) -> tuple[list[int], int]:
    """Units of each topic, 0 if nobody subscribes, and the members that subscribe to any."""
    units = [n if members else 0 for members, n in zip(subscribers, size, strict=True)]
    if all(units):
        return units, reduce(or_, subscribers, 0)
    return units, reduce(or_, [members for members, n in zip(subscribers, units, strict=True) if n], 0)


def _floor_not_ruled_out(problem: Problem, size: Int64, count: Int64, floor: Int64) -> bool:
    """Whether the topics of every subscribing member have enough partitions for the floor: necessary, not sufficient."""
    times = np.bincount(problem.subscriber, minlength=problem.n_members)
    if int(times.min()) * int(size.min()) >= int(floor.max()):
        return True
    most = np.bincount(problem.subscriber, np.repeat(size, count), problem.n_members)
    return not bool(((most < floor) & (most > 0)).any())


def _free(owner: Int32, dead: Bools | None) -> Int64:
    """Partitions without an owner that have subscribers, ascending."""
    return (owner < 0 if dead is None else (owner < 0) & ~dead).nonzero()[0]


def _too_much(left: list[int], count: list[int], shares: Shares) -> bool:
    """Whether there are more layers to assign or claims to hand over than sets of members pay for."""
    most = LAYERS_PER_TOPIC * len(left) + 500
    layers = sum(left) // max(min(count), 1) + len(left)  # an upper bound that costs less
    if layers > most:
        layers = sum(-(-n // members) for n, members in zip(left, count, strict=True) if n)
    return layers > most or sum(level * members.bit_count() for level, members in shares.excess.items()) > MOST_HANDOVERS


def _fits(subscribers: list[int], units: list[int], count: list[int], quota: _Quota) -> bool:
    """Whether topics with the same subscribers fit on these if nobody takes more than one unit above the floor.

    A cheap test, which counts too much for members with a floor of 0, then the exact one. A wrong yes only costs time.
    """
    least = min(quota.members, default=0)
    if max(units) <= min(count) * least and len(set(subscribers)) == len(subscribers):
        return True
    units_of: dict[int, int] = {}
    for members, n in zip(subscribers, units, strict=True):
        units_of[members] = units_of.get(members, 0) + n
    for members, n in units_of.items():
        if n > members.bit_count() * least:
            places = min((members & quota.candidates).bit_count(), quota.ceiling_slots)
            if n > places + sum(floor * (members & who).bit_count() for floor, who in quota.members.items()):
                return False
    return True


def _shares(owner: Int32, live: int, quota: _Quota) -> Shares:
    """The closed form for one block: ceiling slots to the candidates with most claims above the floor, ties by id."""
    above = np.bincount(owner + 1, minlength=len(quota.floor) + 1)[1:] - quota.floor
    slack: ByCount = {}
    excess: ByCount = {}
    at_ceiling, ceiling_slots = 0, quota.ceiling_slots
    for level in sorted(set(above.tolist()), reverse=True):
        members = bits_of(above == level) & live
        if level < 0 and members:
            slack[-level] = members
        elif level > 0:
            claiming = lowest(members & quota.candidates, ceiling_slots)
            ceiling_slots -= claiming.bit_count()
            at_ceiling |= claiming
            for more, who in ((level, members ^ claiming), (level - 1, claiming)):
                if more and who:
                    excess[more] = excess.get(more, 0) | who
    return Shares(slack, excess, quota.candidates & ~at_ceiling, at_ceiling, ceiling_slots)


def _hand_over(problem: Problem, allocation: Allocation, owner: Int32, excess: ByCount, work: int) -> bool:
    """Assign what is left with claims that change hands; those become UNOWNED in `owner`. False if that fails.

    Mostly members above their quota can give directly to members below it: then only their claims are read.
    """
    givers = np.zeros(problem.n_members + 1, np.bool_)  # the last entry is for UNOWNED
    givers[each_bit(everybody(excess))] = True
    exchange = Exchange(allocation, _claims(problem, owner, givers[owner].nonzero()[0]), excess, work)
    exchange.hand_over()
    if not exchange.settled():
        kept = _claims(problem, owner, (owner >= 0).nonzero()[0])
        for layers, gone in zip(kept, exchange.shed, strict=True):
            for members in gone:
                take_from(layers, members)
        exchange.kept = kept
        if not exchange.settle():
            return False
    starts = problem.topic_start.tolist()
    for topic, layers in enumerate(exchange.shed):
        for layer in layers:
            mine = owner[starts[topic] : starts[topic + 1]]
            for member in each_bit(layer):
                mine[(mine == member).argmax()] = UNOWNED
    return True


def _claims(problem: Problem, owner: Int32, where: Int64) -> list[list[int]]:
    """Per topic, the members that hold at least one of the partitions `where`, at least two, .."""
    n_topics, wide = problem.n_topics, width(problem.n_members)
    held: list[list[int]] = [[] for _ in range(n_topics)]
    topic = problem.topic_start.searchsorted(where, side="right") - 1
    if len(where) <= FEW_CLAIMS:
        for mine, member in zip(topic.tolist(), owner[where].tolist(), strict=True):
            add_to(held[mine], 1 << member)
        return held
    topic *= wide
    topic += owner[where]
    claims = np.bincount(topic, minlength=n_topics * wide).reshape(n_topics, -1)
    for layer in range(int(claims.max())):
        for layers, members in zip(held, bits_of_rows(claims > layer), strict=True):
            if members:
                layers.append(members)
    return held
