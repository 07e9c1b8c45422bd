"""Tray: deals the units of topics to members with room, on sets of members held as bits.

`pour` gives a topic's units to its subscribers with most room, one each before anybody gets a second. What finds no room goes
there through others (`reroute`): a subscriber takes the unit and passes on one of another topic that was dealt to it, along a
shortest chain of such steps. These are the augmenting paths of a flow from topics to rooms, many units at a time; only what
the tray dealt is passed on, never what a member keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.errors import InvariantError
from counterpoise.solver.level.bitsets import Levels, add_to, everybody, lowest, step_down, take_from, take_most

__all__ = ["Shares", "Tray"]


@dataclass(frozen=True, slots=True)
class Shares:
    """What each member of a block is to have, and how far it is from that.

    Attributes
    ----------
    room, excess : Levels
        From places to the members that have so many below their quota; from claims to those with so many above it.
    spare, extra : int
        The members who take part with the smaller quota, and those with one unit more.
    extras : int
        How many spare members must still take one more.
    """

    room: Levels
    excess: Levels
    spare: int
    extra: int
    extras: int


class Tray:
    """What is dealt so far.

    Attributes
    ----------
    subscribers : list of int
        Set of members per topic.
    left : list of int
        Units of each topic still to deal.
    share : list of int
        An even share of these units, rounded up.
    dealt : list of list of int
        Per topic, the members that got at least one unit, at least two, ..
    rooms : Levels
        From places left to the members who have that many; empty when everybody has its quota.
    spare, extra, extras : int
        See `Shares`; they change as extras are dealt.
    """

    def __init__(
        self, subscribers: list[int], left: list[int], count: list[int], shares: Shares, *, fresh: bool, work: int
    ) -> None:
        self.subscribers, self.left = subscribers, left.copy()
        self.share = [-(-units // members) if units else 0 for units, members in zip(left, count, strict=True)]
        self.fresh, self.work = fresh, work
        self.dealt: list[list[int]] = [[] for _ in subscribers]
        self._shut: set[int] = set()
        self.rooms = shares.room
        self.spare, self.extra, self.extras = shares.spare, shares.extra, shares.extras

    def pour(self, topics: list[int]) -> list[int]:
        """Deal the units of these topics, in this order, as far as there is room, at first in even shares; those unfinished."""
        for topic in topics:
            self._pour(topic, self.share[topic] if self.fresh else self.left[topic])
        return [topic for topic in topics if self.left[topic]]

    def _pour(self, topic: int, layers: int) -> None:
        left, members, dealt = self.left[topic], self.subscribers[topic], self.dealt[topic]
        while left and layers:
            taken = take_most(self.rooms, members, left)
            if not taken:
                break
            left -= taken.bit_count()
            layers -= 1
            add_to(dealt, taken)
        self.left[topic] = left

    def reroute(self, topics: list[int]) -> None:
        """Deal what is left of these topics through others, as long as there is room."""
        waiting = topics if self.rooms else []
        for even in (True, False) if self.fresh else (False,):
            if not even:
                for topic in waiting:
                    self._pour(topic, self.left[topic])
                waiting = [topic for topic in waiting if self.left[topic]]
            self._shut.clear()
            while waiting and self.rooms and self._walk(waiting, everybody(self.rooms), even):
                waiting = [topic for topic in waiting if self.left[topic]]

    def top_up(self, topics: list[int]) -> None:
        """Deal what is left of these topics to spare members, then through others, as long as there are extras."""
        waiting = []
        for topic in topics:
            if self.left[topic] and self.extras:
                goal = self.subscribers[topic] & self.spare & ~everybody(self.rooms) & ~self._full(topic)
                chosen = lowest(goal, min(self.left[topic], self.extras))
                self.left[topic] -= chosen.bit_count()
                self.place(topic, chosen)
            if self.left[topic]:
                waiting.append(topic)
        for even in (True, False):
            self._shut.clear()
            while waiting and self.extras and self._walk(waiting, self.spare & ~everybody(self.rooms), even):
                waiting = [topic for topic in waiting if self.left[topic]]

    def goal(self) -> int:
        """Where the next units belong: members with room; when there are none, those who may take an extra."""
        return everybody(self.rooms) or (self.spare if self.extras else 0)

    def place(self, topic: int, members: int) -> None:
        """One unit of the topic to each of the members."""
        if members:
            add_to(self.dealt[topic], members)
            self.seat(members)

    def seat(self, members: int) -> None:
        """Count one more unit for each of the members, where they have room, else as an extra."""
        for room in sorted(self.rooms):
            here = self.rooms[room] & members
            if here:
                step_down(self.rooms, room, here)
                members ^= here
                if not members:
                    return
        self.extras -= members.bit_count()
        if self.extras < 0:
            raise InvariantError(f"{-self.extras} members have an extra that belongs to others, who are still short")
        self.extra |= members
        self.spare &= ~members

    def swap_extra(self, member: int, relief: int) -> None:
        """`relief` has an extra instead of `member`."""
        self.extra ^= member | relief
        self.spare ^= member | relief

    def _having(self, topic: int) -> int:
        return self.dealt[topic][0] if self.dealt[topic] else 0

    def _full(self, topic: int) -> int:
        """Who has an even share of the topic already."""
        layers = self.dealt[topic]
        return layers[self.share[topic] - 1] if len(layers) >= self.share[topic] > 0 else 0

    def _walk(self, start: list[int], goal: int, even: bool) -> bool:
        """Deal units of one of the topics along a shortest chain that ends at members of the goal, if there is one."""
        came_from: dict[int, int | None] = {}
        for topic in start:
            came_from[topic] = None
            if topic not in self._shut and self._ends(topic, goal, came_from, even):
                return True
        others = [topic for topic, layers in enumerate(self.dealt) if layers and topic not in came_from]
        seen, frontier = 0, start
        while frontier:
            further: list[int] = []
            for topic in frontier:
                fresh = self.subscribers[topic] & ~seen
                if fresh:
                    seen |= fresh
                    self.work -= len(others)
                    if self.work < 0:
                        return False
                    missed = []
                    for other in others:
                        if self.dealt[other][0] & fresh:
                            came_from[other] = topic
                            if other not in self._shut and self._ends(other, goal, came_from, even):
                                return True
                            further.append(other)
                        else:
                            missed.append(other)
                    others = missed
            frontier = further
        return False

    def _ends(self, topic: int, goal: int, came_from: dict[int, int | None], even: bool) -> bool:
        """Whether the chain that led to this topic can end there; then units have gone along it.

        Where it cannot no chain can until the topic gives a unit: goals only shrink from one walk to the next.
        """
        ends = self.subscribers[topic] & goal
        if ends and even:
            ends &= ~self._full(topic)
        if ends:
            self._follow(topic, came_from, ends)
        else:
            self._shut.add(topic)
        return ends > 0

    def _follow(self, topic: int, came_from: dict[int, int | None], last: int) -> None:
        """Pass as many units along the chain that ends with this topic as every step allows."""
        steps: list[tuple[int, int, int]] = []
        ending = topic
        before = came_from[topic]
        while before is not None:
            steps.append((topic, before, self.dealt[topic][0] & self.subscribers[before]))
            topic, before = before, came_from[before]
        n = min([self.left[topic], last.bit_count(), *(members.bit_count() for _, _, members in steps)])
        if not last & everybody(self.rooms):  # somebody else may still be short: the extras are what is left to give
            n = min(n, self.extras)
        self.left[topic] -= n
        last = self.choose(ending, last, n)
        self.place(ending, last)
        for giving, taking, members in steps:
            chosen = self.choose(taking, members, n)
            take_from(self.dealt[giving], chosen)
            add_to(self.dealt[taking], chosen)
            self._shut.discard(giving)

    def choose(self, topic: int, members: int, n: int) -> int:
        """n of the members, first those without a unit of the topic."""
        first = lowest(members & ~self._having(topic), n)
        missing = n - first.bit_count()
        return first | lowest(members & ~first, missing) if missing else first
