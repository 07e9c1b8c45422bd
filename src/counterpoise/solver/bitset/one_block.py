"""One block: groups whose members can all have the quotas of a single block, without classes and without a flow.

With equal capacities these loads are within one of each other. Free units go to the subscribers with most slack, the rest along
augmenting paths (`allocation`), and members above their quotas hand over surplus claims (`exchange`). The result
needs no further proof. Loads are balanced, because quotas and ceiling slots add up to the units. No balanced plan keeps more:
members keep as many claims as their quotas allow, which is the closed-form bound of `flows.transport`; if further claims must be
swapped, `exchange` takes the cheapest swaps.

Why this method exists beside `flows`: "40 topics x 25 partitions x 200 members, every member random" takes 0.2 ms here and 3 ms
by flows, "200 x 50 x 200" 0.8 ms and 20 ms. Sets of members are Python integers, so one operation handles thousands of members.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import compress, pairwise
from operator import or_

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import UNOWNED, Int32, Int64, Problem
from counterpoise.solver.bitset.allocation import Allocation, QuotaState
from counterpoise.solver.bitset.exchange import Exchange
from counterpoise.solver.bitset.sets import (
    ByCount,
    bits_of,
    bits_of_rows,
    each_bit,
    everybody,
    lowest,
    members_of,
    take_from,
    width,
)
from counterpoise.solver.claims import valid_claims
from counterpoise.solver.classes import subscriber_table
from counterpoise.solver.flows.quotas import Capacities, quotas_of

__all__ = ["OneBlock", "one_block"]

MANY_TOPICS, CLASS_SAMPLE = 2_000, 1_000
"""More topics are planned here only if the first `CLASS_SAMPLE` topics have at least half as many distinct sets of subscribers.
Otherwise there are few topic classes, and flows are faster."""
MOST_CELLS = 16_000_000
"""With more topics x members, flows are used: the sets of subscribers are made from a table with a byte for each pair. With more
different floors x members, too: the set of members with a floor is made by a pass over all members."""
FEW_SUBSCRIBERS = 4
"""With fewer per topic the network is sparse: flows are small, paths are long, and members are seldom in one block."""
LAYERS_PER_TOPIC = 3
"""With 500 layers more than this (a layer: one unit for each of a set of members), few members take many partitions of a topic
each, and flows are faster."""
MOST_HANDOVERS = 5_000
"""If members above their quotas must hand over more units, flows are used."""
VISITS_PER_TOPIC, EXTRA_VISITS, UNITS_PER_VISIT = 250, 4_000, 4
"""All searches together visit at most ``VISITS_PER_TOPIC * topics + EXTRA_VISITS + units / UNITS_PER_VISIT`` topics, each as
often as it is looked at; then flows are used. If members are not one block, searches would visit far more. Flows cost more if
there are more units."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _BlockQuotas:
    """Quotas of one block of all members that subscribe."""

    floor: Int64  # int64[M]
    members: ByCount  # By their floor, if it is not 0
    candidates: int  # Set of members that may take one unit more
    ceiling_slots: int  # How many of the candidates take it


def one_block(problem: Problem) -> OneBlock | None:
    """The group as one block; None if it certainly is not, or is beyond one of the limits above: then `flows` must plan it.

    The caller makes sure that racks do not count. About O(T M / 64 + P).
    """
    n_topics, wide = problem.n_topics, width(problem.n_members)
    sparse = len(problem.subscriber) < (FEW_SUBSCRIBERS * n_topics if n_topics > 64 else 1)
    if sparse or n_topics * wide > MOST_CELLS or (n_topics > MANY_TOPICS and _topics_share_subscribers(problem)):
        return None
    count = problem.subscriber_start[1:] - problem.subscriber_start[:-1]
    size = problem.topic_start[1:] - problem.topic_start[:-1]
    subscribers = bits_of_rows(subscriber_table(problem, np.arange(n_topics), wide))
    units, subscribing = _in_play(subscribers, size.tolist())
    quotas = _block_quotas(problem.capacity, subscribing, sum(units))
    if quotas is None or not _fits(subscribers, units, quotas):
        return None
    unsubscribed = None if count.all() else np.repeat(count == 0, size)
    return OneBlock(subscribers, size, count, count.argsort(kind="stable").tolist(), units, subscribing, quotas, unsubscribed)


@dataclass(frozen=True, slots=True)
class OneBlock:
    """A group whose members can all have the quotas of a single block: what does not depend on claims."""

    subscribers: list[int]  # Per topic, the set of its subscribers
    size: Int64  # int64[T]: partitions
    count: Int64  # int64[T]: subscribers
    order: list[int]  # Topics by their number of subscribers
    units: list[int]  # Per topic, the units to assign
    subscribing: int  # Set of members that subscribe to a topic with partitions
    quotas: _BlockQuotas
    unsubscribed: Bools | None  # bool[P]: partitions of topics without subscribers; None: there are none

    def assign(self, problem: Problem, *, with_history: bool) -> Int32 | None:
        """Owners, int32[P], optimal as those of `engine.solve`; None if `flows` must plan the group.

        That is so if the members are not one block, or if the search is beyond one of the limits above. `problem` is that of
        `one_block`, or has other claims. `with_history`: claims are kept as far as balance allows, or ignored. About
        O(T M / 64 + P), and at most T M / 64 for each topic that a search for an augmenting path expands.
        """
        quotas, units, subscribers, n_topics = self.quotas, self.units, self.subscribers, problem.n_topics
        if not with_history or int(problem.previous_owner.max(initial=UNOWNED)) < 0:
            state, left, free = QuotaState(quotas.members.copy(), {}, quotas.candidates, 0, quotas.ceiling_slots), units, None
            owner = np.full(problem.n_partitions, UNOWNED, np.int32)
        else:
            owner = valid_claims(problem)
            state, free = _quota_state(owner, self.subscribing, quotas), _free(owner, self.unsubscribed)
            until = free.searchsorted(problem.topic_start)
            left = (until[1:] - until[:-1]).tolist()  # np.diff takes ten times as long for few topics
        share = [-(-n // members) if n else 0 for n, members in zip(left, self.count.tolist(), strict=True)]
        if _too_much(share, state):
            return None
        work = VISITS_PER_TOPIC * n_topics + EXTRA_VISITS + sum(units) // UNITS_PER_VISIT
        allocation = Allocation(subscribers, left, share, state, fresh=free is None, work=work)
        waiting = allocation.fill_least_loaded([topic for topic in self.order if left[topic]])
        if allocation.slack and not _floors_possible(problem, self.size, self.count, quotas.floor):
            return None
        if waiting:
            allocation.subscriptions = _subscriptions(problem, self.count, np.array(left) > 0)
        allocation.reroute(waiting)
        allocation.fill_ceiling(waiting)
        if allocation.work < 0:
            return None
        if state.excess or any(allocation.left):
            if not _hand_over(problem, allocation, owner, state.excess, work):
                return None
            free = None
        if free is None:
            free = _free(owner, self.unsubscribed)
        owner[free] = members_of([layer for layers in allocation.assigned for layer in layers], problem.n_members)
        return owner


def _block_quotas(capacity: Int64, subscribing: int, units: int) -> _BlockQuotas | None:
    """The quotas of the members that subscribe; None if different floors x members exceed `MOST_CELLS`."""
    block = np.full(len(capacity), -1)
    block[members_of([subscribing], len(capacity))] = 0
    found = quotas_of(np.array([units]), block, Capacities.of(capacity))
    floors = sorted(set(found.floor.tolist()))
    if len(floors) * width(len(capacity)) > MOST_CELLS:
        return None
    members = {floor: bits_of(found.floor == floor) for floor in floors if floor}
    return _BlockQuotas(found.floor, members, bits_of(found.candidate), int(found.ceiling_slots[0]))


def _topics_share_subscribers(problem: Problem) -> bool:
    """Whether the first `CLASS_SAMPLE` topics have fewer than half as many distinct sets of subscribers."""
    ends = problem.subscriber_start[: CLASS_SAMPLE + 1].tolist()
    rows = [problem.subscriber[start:end].tobytes() for start, end in pairwise(ends)]
    return 2 * len(set(rows)) < len(rows)


def _subscriptions(problem: Problem, count: Int64, topics: Bools) -> list[list[int]] | None:
    """Per member, those of `topics` (bool[T]) to which it subscribes; `count` (int64[T]): subscribers of each topic.

    None if the subscribers of one topic have, on average, more than a quarter of these topics, counted once per member: to look
    at all of them then takes a search less time.
    """
    n_topics, links = int(topics.sum()), int(count[topics].sum())
    # A topic has links / n_topics subscribers, and a member has links / n_members topics
    if 4 * links**2 > n_topics**2 * problem.n_members:
        return None
    member = problem.subscriber[np.repeat(topics, count)]
    topic = np.repeat(topics.nonzero()[0], count[topics])
    by_member = topic[member.argsort(kind="stable")].tolist()
    ends = np.bincount(member, minlength=problem.n_members).cumsum().tolist()
    return [by_member[start:end] for start, end in pairwise([0, *ends])]


def _in_play(subscribers: list[int], size: list[int]) -> tuple[list[int], int]:
    """Units to assign of each topic (0 without subscribers), and the set of members that subscribe to one with partitions."""
    units = [n if members else 0 for members, n in zip(subscribers, size, strict=True)]
    return units, reduce(or_, compress(subscribers, units), 0)


def _floors_possible(problem: Problem, size: Int64, count: Int64, floor: Int64) -> bool:
    """Whether each member's topics have at least its floor of partitions (mostly a few of them do): necessary, not sufficient."""
    seen, begin = np.zeros(problem.n_members), 0
    while begin < len(size) and (seen < floor).any():
        some = slice(begin, 2 * begin + 64)
        member = problem.subscriber[problem.subscriber_start[begin] :][: count[some].sum()]
        seen += np.bincount(member, np.repeat(size[some], count[some]), problem.n_members)
        begin = some.stop
    return not bool((seen < floor).any())


def _free(owner: Int32, unsubscribed: Bools | None) -> Int64:
    """Partitions without an owner, of topics with subscribers, ascending."""
    return (owner < 0 if unsubscribed is None else (owner < 0) & ~unsubscribed).nonzero()[0]


def _too_much(share: list[int], state: QuotaState) -> bool:
    """Whether there are so many layers to assign, or claims to hand over, that flows are faster."""
    handovers = sum(level * members.bit_count() for level, members in state.excess.items())
    return sum(share) > LAYERS_PER_TOPIC * len(share) + 500 or handovers > MOST_HANDOVERS


def _fits(subscribers: list[int], units: list[int], quotas: _BlockQuotas) -> bool:
    """Whether each set of subscribers can hold all topics that have exactly this set: necessary, not sufficient."""
    least = min(quotas.members, default=0)
    units_of: dict[int, int] = {}
    for members, n in zip(subscribers, units, strict=True):
        units_of[members] = units_of.get(members, 0) + n
    for members, n in units_of.items():
        if n > members.bit_count() * least:
            places = min((members & quotas.candidates).bit_count(), quotas.ceiling_slots)
            if n > places + sum(floor * (members & who).bit_count() for floor, who in quotas.members.items()):
                return False
    return True


def _quota_state(owner: Int32, subscribing: int, quotas: _BlockQuotas) -> QuotaState:
    """The closed form for one block: ceiling slots to the candidates with most claims above the floor, ties by id."""
    above = np.bincount(owner + 1, minlength=len(quotas.floor) + 1)[1:] - quotas.floor
    slack: ByCount = {}
    excess: ByCount = {}
    at_ceiling, ceiling_slots = 0, quotas.ceiling_slots
    for level in sorted(set(above.tolist()), reverse=True):
        members = bits_of(above == level) & subscribing
        if level < 0 and members:
            slack[-level] = members
        elif level > 0:
            claiming = lowest(members & quotas.candidates, ceiling_slots)
            ceiling_slots -= claiming.bit_count()
            at_ceiling |= claiming
            for more, who in ((level, members ^ claiming), (level - 1, claiming)):
                if more and who:
                    excess[more] = excess.get(more, 0) | who
    return QuotaState(slack, excess, quotas.candidates & ~at_ceiling, at_ceiling, ceiling_slots)


def _hand_over(problem: Problem, allocation: Allocation, owner: Int32, excess: ByCount, work: int) -> bool:
    """Move claims from members above their quotas, and assign the units left; moved claims become UNOWNED in `owner`.

    False if a unit finds no place, or the limit of visits is reached. Mostly claims go directly to members below their quotas:
    then only claims of members above are read.
    """
    givers = np.zeros(problem.n_members + 1, np.bool_)  # the last entry is for UNOWNED
    givers[each_bit(everybody(excess))] = True
    kept = _claims(problem, owner, givers[owner].nonzero()[0])
    exchange = Exchange(allocation, kept, excess, work, len(owner))
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
    """Per topic, the set of members with at least one of the partitions `where` (ascending), with at least two, .."""
    wide = width(problem.n_members)
    held: list[list[int]] = [[] for _ in range(problem.n_topics)]
    until = where.searchsorted(problem.topic_start)
    number = until[1:] - until[:-1]
    topics = number.nonzero()[0].tolist()
    cell = np.repeat(np.arange(0, len(topics) * wide, wide), number[topics])
    cell += owner[where]
    claims = np.bincount(cell, minlength=len(topics) * wide).reshape(len(topics), wide)
    for layer in range(int(claims.max(initial=0))):
        for topic, members in zip(topics, bits_of_rows(claims > layer), strict=True):
            if members:
                held[topic].append(members)
    return held
