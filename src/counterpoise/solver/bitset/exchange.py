"""Exchange: members above their quota hand over claims at the least cost, by successive shortest paths on sets of members.

A path starts at a topic with a unit left, or at a member with claims to give up, and ends at a member with slack, or at a
candidate for a ceiling slot. On its way a member takes a unit of one topic and gives a unit of another: at cost 0 if the unit was
only assigned to it, at cost 1 if it is a claim, and at cost -1 if the unit it takes is a claim that it gave up before. A member
that takes a ceiling slot can also take it over from any other member.

The flow is cheapest for its size and stays so when it is augmented along shortest paths (Ahuja, Magnanti, Orlin: *Network
Flows*). So when everything is assigned, no plan of balanced loads keeps more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from counterpoise.solver.bitset.allocation import Allocation
from counterpoise.solver.bitset.sets import ByCount, add_to, each_bit, everybody, lowest, take_from, take_most

__all__ = ["Exchange"]

NOTHING = -1
"""No topic: the member takes only a ceiling slot, for one of its claims."""


_Givers: TypeAlias = list[tuple[int, int]]
"""Topics, ascending, each with the set of members that can give a unit of it."""

_VISITS_PER_ENTRY = 16
"""Listing one topic of one member costs this many topic visits."""


class _Step(NamedTuple):
    """A member gives a unit because it takes one of topic `taken`, or because `relief` takes over its ceiling slot."""

    taken: int
    member: int
    claimed: bool
    relief: int


@dataclass(frozen=True, slots=True)
class _Labels:
    """Shortest-path labels: distance of each topic, the step that reached it, and the queue by distance.

    `givers[claimed]`: all topics with the members that can give an assigned unit (0) or a claim (1). `beyond[claimed, distance]`:
    its entries whose topics were further away than `distance` when last examined; all others cannot come nearer.
    """

    distance: dict[int, int]
    how: dict[int, _Step | None]
    queue: dict[int, list[int]]
    givers: tuple[_Givers, _Givers]
    beyond: dict[tuple[bool, int], _Givers]


class Exchange:
    """Claims that change hands after the free units are assigned as far as possible.

    `kept`: per topic, the members that hold at least one claim, at least two, ..; `excess`: members by the number of claims they
    must give up; `work`: topics to visit before it stops; `units`: partitions of the group.
    """

    def __init__(self, allocation: Allocation, kept: list[list[int]], excess: ByCount, work: int, units: int) -> None:
        self.allocation, self.kept, self.excess, self._work = allocation, kept, excess, work
        self._lists_below = work - _VISITS_PER_ENTRY * units
        self._topics: defaultdict[int, list[int]] = defaultdict(list)  # Of which each member has or had a unit; made if needed
        self.shed: list[list[int]] = [[] for _ in kept]
        self._cost = 0

    def settled(self) -> bool:
        """Whether nothing is left to assign or to give up."""
        return not self.excess and not any(self.allocation.left)

    def settle(self) -> bool:
        """Assign all that is left; False if that is impossible, or more work than allowed."""
        self.hand_over()
        while not self.settled():
            end = self._search()
            if end is None or not self._push(*end):
                return False
        return True

    def hand_over(self) -> None:
        """Paths of one step, topic by topic in turns, many units at a time."""
        allocation, kept = self.allocation, self.kept
        goal, givers = allocation.goal(), everybody(self.excess)
        waiting = [
            topic for topic, layers in enumerate(kept) if layers and layers[0] & givers and allocation.subscribers[topic] & goal
        ]
        while waiting and givers:
            units = sum(level * members.bit_count() for level, members in self.excess.items())
            each, again = -(-units // len(waiting)), []
            for topic in waiting:
                takers = allocation.subscribers[topic] & goal
                mine = kept[topic][0] & givers if kept[topic] else 0
                if not takers or not mine:
                    continue
                n = min(each, takers.bit_count(), mine.bit_count())
                if not allocation.slack:
                    n = min(n, allocation.ceiling_slots)
                allocation.assign_all(topic, allocation.choose(topic, takers, n))
                self._give(topic, take_most(self.excess, mine, n), claimed=True)
                goal, givers = allocation.goal(), everybody(self.excess)
                again.append(topic)
            waiting = again

    def _search(self) -> tuple[int, int, _Labels] | None:
        """The last topic of a shortest path, the member that ends it, and how every topic was reached."""
        allocation, givers = self.allocation, everybody(self.excess)
        goal = everybody(allocation.slack) | (allocation.candidates if allocation.ceiling_slots else 0)
        start = [t for t, layers in enumerate(self.kept) if allocation.left[t] or (layers and layers[0] & givers)]
        givers_of = _givers(allocation.assigned), _givers(self.kept)
        found = _Labels(dict.fromkeys(start, 0), dict.fromkeys(start), {0: start}, givers_of, {})
        seen: ByCount = {}
        best: tuple[int, int, int] | None = None
        relieved = None
        if givers & allocation.candidates and allocation.at_ceiling:  # it keeps all it has if another gives up a ceiling slot
            self._label(NOTHING, allocation.at_ceiling, lowest(givers & allocation.candidates, 1), -1, found)
        while found.queue and self._work >= 0:
            here = min(found.queue)
            for topic in [topic for topic in found.queue.pop(here) if found.distance[topic] == here]:
                for members, cost in self._takers(topic, here, seen):
                    if members & goal and (best is None or cost < best[0]):
                        best = (cost, topic, lowest(members & goal, 1))
                        if cost == self._cost:  # paths never get cheaper from one search to the next
                            return topic, best[2], found
                    self._label(topic, members, 0, cost, found)
                    if members & allocation.candidates and allocation.at_ceiling and (relieved is None or cost < relieved):
                        relieved = cost
                        self._label(
                            topic, allocation.at_ceiling & ~members, lowest(members & allocation.candidates, 1), cost, found
                        )
        if best is None or self._work < 0:
            return None
        self._cost = best[0]
        return best[1], best[2], found

    def _takers(self, topic: int, here: int, seen: ByCount) -> list[tuple[int, int]]:
        """Members that can take a unit of the topic, and the cost: 1 less if it is a claim that they gave up before.

        Members that were `seen` at this cost or a lower one are left out.
        """
        able, shed = (self.allocation.subscribers[topic], here), self.shed[topic]
        found = []
        for members, cost in ((shed[0], here - 1), able) if shed else (able,):
            for known, others in seen.items():
                if known <= cost:
                    members &= ~others
            if members:
                seen[cost] = seen.get(cost, 0) | members
                found.append((members, cost))
        return found

    def _label(self, topic: int, members: int, relief: int, cost: int, found: _Labels) -> None:
        """Label the topics of which the members can give a unit after taking one of `topic`."""
        distance, far, topics = found.distance, len(self.kept) + 1, self._topics_of(members)
        self._work -= far
        for claimed, table in ((False, self.allocation.assigned), (True, self.kept)):
            there, further = cost + claimed, []
            everywhere = found.beyond.get((claimed, there), found.givers[claimed])
            for giving in everywhere if topics is None else [(one, table[one][0]) for one in topics if table[one]]:
                other, givers = giving
                if distance.get(other, far) <= there:
                    continue
                if givers & members:
                    distance[other] = there
                    found.how[other] = _Step(topic, lowest(givers & members, 1), claimed, relief)
                    found.queue.setdefault(there, []).append(other)
                else:
                    further.append(giving)
            if topics is None:
                found.beyond[claimed, there] = further

    def _topics_of(self, members: int) -> list[int] | None:
        """Topics of which the members may have units, ascending; None (all) until visits have cost as much as the lists."""
        if self._work > self._lists_below:
            return None
        if not self._topics:
            for topic, tables in enumerate(zip(self.allocation.assigned, self.kept, self.shed, strict=True)):
                for member in each_bit(reduce(or_, (layers[0] for layers in tables if layers), 0)):
                    self._topics[member].append(topic)
        return sorted({topic for member in each_bit(members) for topic in self._topics[member]})

    def _push(self, topic: int, member: int, found: _Labels) -> bool:
        """Augment along the path; False, with nothing changed, if it meets a member twice."""
        how = found.how
        path, at = [], how[topic]
        ending = topic
        while at is not None:
            path.append((topic, at))
            topic, at = at.taken, how[at.taken] if at.taken >= 0 else None
        giver = 0 if topic == NOTHING or self.allocation.left[topic] else lowest(self.kept[topic][0] & everybody(self.excess), 1)
        met = [member, giver, *(who for _, step in path for who in (step.member, step.relief))]
        if len({who for who in met if who}) != sum(who > 0 for who in met):
            return False
        self._take(ending, member)
        self.allocation.assign(member)
        for given, step in path:
            self._give(given, step.member, claimed=step.claimed)
            if step.taken >= 0:
                self._take(step.taken, step.relief or step.member)
            else:
                take_most(self.excess, step.relief, 1)
            if step.relief:
                self.allocation.swap_ceiling(step.member, step.relief)
        if giver:
            self._give(topic, giver, claimed=True)
            take_most(self.excess, giver, 1)
        elif topic >= 0:
            self.allocation.left[topic] -= 1
        return True

    def _give(self, topic: int, member: int, *, claimed: bool) -> None:
        if claimed:
            take_from(self.kept[topic], member)
            add_to(self.shed[topic], member)
        else:
            take_from(self.allocation.assigned[topic], member)

    def _take(self, topic: int, member: int) -> None:
        if self.shed[topic] and self.shed[topic][0] & member:
            take_from(self.shed[topic], member)
            add_to(self.kept[topic], member)
        else:
            add_to(self.allocation.assigned[topic], member)
            if self._topics:
                self._topics[member.bit_length() - 1].append(topic)


def _givers(table: list[list[int]]) -> _Givers:
    return [(topic, layers[0]) for topic, layers in enumerate(table) if layers]
