"""Exchange: members above their quota hand over units, through others who claim theirs where it must be, at the least cost.

Successive shortest paths on sets of members. A path starts at a topic with a unit left, or at a member with claims to give
up, and ends at a member with room, or at one that may take an extra. On its way a member takes a unit of one topic and gives
one of another: at no cost if that was only dealt to it, at cost 1 if it is a claim, and at a gain of 1 if the unit it takes is
a claim it gave up before. Who takes an extra can also relieve a member of its extra, whoever that is.

The flow so far costs as little as any of its size, and so it stays when it is raised along shortest paths (Ahuja, Magnanti,
Orlin: *Network Flows*). When all is dealt, no plan of balanced loads keeps more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from counterpoise.solver.level.bitsets import Levels, add_to, everybody, lowest, take_from, take_most
from counterpoise.solver.level.tray import Tray

__all__ = ["Exchange"]

NOTHING = -1
"""No topic: what a member takes that only needs an extra for one of its claims."""


class _Step(NamedTuple):
    """A member gives a unit of some topic because it takes one of topic `taken`; by way of `relief`, who takes its extra."""

    taken: int
    member: int
    claimed: bool
    relief: int


@dataclass(frozen=True, slots=True)
class _Map:
    """How far every topic is, by which step it was reached, and which are still to be looked at, by distance.

    `beyond` holds, per distance, topics that were further when somebody last asked: only these can get so near.
    """

    distance: dict[int, int]
    how: dict[int, _Step | None]
    queue: dict[int, list[int]]
    beyond: dict[int, Sequence[int]]

    def nearest(self) -> list[tuple[int, int]]:
        """The nearest topics and their distance; they leave the queue."""
        here = min(self.queue)
        return [(topic, here) for topic in self.queue.pop(here) if self.distance[topic] == here]


class Exchange:
    """What changes hands after the free units are dealt as far as that goes.

    Parameters
    ----------
    tray : Tray
    kept : list of list of int
        Per topic, the members that hold at least one claim, at least two, ..
    excess : dict
        From a number of claims to the members that must give up so many.
    work : int
        Looks at a topic before giving up.
    """

    def __init__(self, tray: Tray, kept: list[list[int]], excess: Levels, work: int) -> None:
        self.tray, self.kept, self.excess, self._work = tray, kept, excess, work
        self.shed: list[list[int]] = [[] for _ in kept]
        self._cost = 0

    def settled(self) -> bool:
        """Whether nothing is left to deal or to give up."""
        return not self.excess and not any(self.tray.left)

    def settle(self) -> bool:
        """Deal all that is left; False where that is impossible, or more work than allowed."""
        self.hand_over()
        while not self.settled():
            end = self._search()
            if end is None or not self._follow(*end):
                return False
        return True

    def hand_over(self) -> None:
        """Paths of one step, topic by topic in turns, many units at a time."""
        tray, kept = self.tray, self.kept
        goal, givers = tray.goal(), everybody(self.excess)
        turns = [topic for topic, layers in enumerate(kept) if layers and layers[0] & givers and tray.subscribers[topic] & goal]
        while turns and givers:
            units = sum(level * members.bit_count() for level, members in self.excess.items())
            each, again = -(-units // len(turns)), []
            for topic in turns:
                takers = tray.subscribers[topic] & goal
                mine = kept[topic][0] & givers if kept[topic] else 0
                if not takers or not mine:
                    continue
                n = min(each, takers.bit_count(), mine.bit_count())
                if not tray.rooms:
                    n = min(n, tray.extras)
                tray.place(topic, tray.choose(topic, takers, n))
                self._give(topic, take_most(self.excess, mine, n), claimed=True)
                goal, givers = tray.goal(), everybody(self.excess)
                again.append(topic)
            turns = again

    def _search(self) -> tuple[int, int, _Map] | None:
        """The last topic of a shortest path, the member that ends it, and how every topic was reached."""
        tray, givers = self.tray, everybody(self.excess)
        goal = everybody(tray.rooms) | (tray.spare if tray.extras else 0)
        start = [t for t, layers in enumerate(self.kept) if tray.left[t] or (layers and layers[0] & givers)]
        found = _Map(dict.fromkeys(start, 0), dict.fromkeys(start), {0: start}, {})
        seen: Levels = {}
        best: tuple[int, int, int] | None = None
        relieved = None
        if givers & tray.spare and tray.extra:  # it may keep all it has, if another's extra is given up instead
            self._spread(NOTHING, tray.extra, lowest(givers & tray.spare, 1), -1, found)
        while found.queue and self._work >= 0:
            for topic, here in found.nearest():
                for members, cost in self._takers(topic, here, seen):
                    if members & goal and (best is None or cost < best[0]):
                        best = (cost, topic, lowest(members & goal, 1))
                        if cost == self._cost:  # paths never get cheaper from one search to the next
                            return topic, best[2], found
                    self._spread(topic, members, 0, cost, found)
                    if members & tray.spare and tray.extra and (relieved is None or cost < relieved):
                        relieved = cost
                        self._spread(topic, tray.extra & ~members, lowest(members & tray.spare, 1), cost, found)
        if best is None or self._work < 0:
            return None
        self._cost = best[0]
        return best[1], best[2], found

    def _takers(self, topic: int, here: int, seen: Levels) -> list[tuple[int, int]]:
        """Members that can take a unit of the topic, at what cost, unless `seen` at no more; those who gave one up gain."""
        able, shed = (self.tray.subscribers[topic], here), self.shed[topic]
        found = []
        for members, cost in ((shed[0], here - 1), able) if shed else (able,):
            for known, others in seen.items():
                if known <= cost:
                    members &= ~others
            if members:
                seen[cost] = seen.get(cost, 0) | members
                found.append((members, cost))
        return found

    def _spread(self, topic: int, members: int, relief: int, cost: int, found: _Map) -> None:
        """Note which topics the members can give a unit of, after taking one of `topic`."""
        everything = range(len(self.kept))
        distance, far = found.distance, len(everything) + 1
        self._work -= far
        for claimed, table in ((False, self.tray.dealt), (True, self.kept)):
            there, further = cost + claimed, []
            for other in found.beyond.get(there, everything):
                if distance.get(other, far) <= there:
                    continue
                layers = table[other]
                if layers and layers[0] & members:
                    distance[other] = there
                    found.how[other] = _Step(topic, lowest(layers[0] & members, 1), claimed, relief)
                    found.queue.setdefault(there, []).append(other)
                else:
                    further.append(other)
            found.beyond[there] = further

    def _follow(self, topic: int, member: int, found: _Map) -> bool:
        """Change hands along the path; False, with nothing changed, where it meets a member twice."""
        how = found.how
        path, at = [], how[topic]
        ending = topic
        while at is not None:
            path.append((topic, at))
            topic, at = at.taken, how[at.taken] if at.taken >= 0 else None
        giver = 0 if topic == NOTHING or self.tray.left[topic] else lowest(self.kept[topic][0] & everybody(self.excess), 1)
        met = [member, giver, *(who for _, step in path for who in (step.member, step.relief))]
        if len({who for who in met if who}) != sum(who > 0 for who in met):
            return False
        self._take(ending, member)
        self.tray.seat(member)
        for given, step in path:
            self._give(given, step.member, claimed=step.claimed)
            if step.taken >= 0:
                self._take(step.taken, step.relief or step.member)
            else:
                take_most(self.excess, step.relief, 1)
            if step.relief:
                self.tray.swap_extra(step.member, step.relief)
        if giver:
            self._give(topic, giver, claimed=True)
            take_most(self.excess, giver, 1)
        elif topic >= 0:
            self.tray.left[topic] -= 1
        return True

    def _give(self, topic: int, member: int, *, claimed: bool) -> None:
        if claimed:
            take_from(self.kept[topic], member)
            add_to(self.shed[topic], member)
        else:
            take_from(self.tray.dealt[topic], member)

    def _take(self, topic: int, member: int) -> None:
        if self.shed[topic] and self.shed[topic][0] & member:
            take_from(self.shed[topic], member)
            add_to(self.kept[topic], member)
        else:
            add_to(self.tray.dealt[topic], member)
