"""Tray: deals the units of topics to members with room, on sets of members held as bits.

`pour` gives a topic's units to its subscribers with most room, one each before anybody gets a second. What finds no room goes
there through others (`reroute`): a subscriber takes the unit and passes on one of another topic that was dealt to it, along a
shortest chain of such steps. These are the augmenting paths of a flow from topics to rooms, many units at a time; only what
the tray dealt is passed on, never what a member keeps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.errors import InvariantError
from counterpoise.model.problem import Int64
from counterpoise.solver.bitsets import add_to, bits_of_rows, everybody, levels_of, lowest, step_down, take_from, take_most, width

__all__ = ["Tray"]


class Tray:
    """What is dealt so far.

    Attributes
    ----------
    subscribers : list of int
        Set of members per topic.
    left : list of int
        Units of each topic still to deal.
    dealt : list of list of int
        Per topic, the members that got at least one unit, at least two, ..
    rooms : dict
        From places left to the members who have that many; empty when everybody has its quota.
    spare, extra : int
        The members who take part with the smaller quota, and those with one unit more.
    extras : int
        How many spare members must still take one more.
    """

    def __init__(
        self,
        subscribers: list[int],
        left: list[int],
        room: Int64,
        sides: tuple[npt.NDArray[np.bool_], ...],
        extras: int,
        *,
        fresh: bool,
        work: int,
    ) -> None:
        self.subscribers, self.left, self.extras = subscribers, left, extras
        self.cap = [-(-units // max(members.bit_count(), 1)) for units, members in zip(left, subscribers, strict=True)]
        self.fresh, self.work = fresh, work
        self.dealt: list[list[int]] = [[] for _ in subscribers]
        columns = np.zeros((2, width(len(room))), np.bool_)
        columns[:, : len(room)] = sides
        self.spare, self.extra = bits_of_rows(columns)
        self.rooms = levels_of(room)

    def pour(self, topics: list[int]) -> None:
        """Deal the units of these topics, in this order, as far as their subscribers have room; at first in even shares."""
        for topic in topics:
            self._pour(topic, self.cap[topic] if self.fresh else self.left[topic])

    def _pour(self, topic: int, layers: int) -> None:
        for _ in range(layers):
            taken = take_most(self.rooms, self.subscribers[topic], self.left[topic])
            if not taken:
                break
            self.left[topic] -= taken.bit_count()
            add_to(self.dealt[topic], taken)

    def reroute(self, topics: list[int]) -> None:
        """Deal what is left of these topics through others, as long as there is room."""
        waiting = [topic for topic in topics if self.left[topic]]
        for even in (True, False) if self.fresh else (False,):
            if not even:
                for topic in waiting:
                    self._pour(topic, self.left[topic])
                waiting = [topic for topic in waiting if self.left[topic]]
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
        return layers[self.cap[topic] - 1] if len(layers) >= self.cap[topic] > 0 else 0

    def _walk(self, start: list[int], goal: int, even: bool) -> bool:
        """Deal units of one of the topics along a shortest chain that ends at members of the goal, if there is one."""
        came_from: dict[int, int | None] = dict.fromkeys(start)
        others = [topic for topic, layers in enumerate(self.dealt) if layers and topic not in came_from]
        seen, frontier = 0, start
        while frontier:
            further: list[int] = []
            for topic in frontier:
                members = self.subscribers[topic]
                ends = members & goal
                if ends and even:
                    ends &= ~self._full(topic)
                if ends:
                    self._follow(topic, came_from, ends)
                    return True
                fresh = members & ~seen
                if fresh:
                    seen |= fresh
                    self.work -= len(others)
                    if self.work < 0:
                        return False
                    here = [other for other in others if self.dealt[other][0] & fresh]
                    if here:
                        came_from.update(dict.fromkeys(here, topic))
                        others = [other for other in others if other not in came_from]
                        further += here
            frontier = further
        return False

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

    def choose(self, topic: int, members: int, n: int) -> int:
        """n of the members, first those without a unit of the topic."""
        first = lowest(members & ~self._having(topic), n)
        missing = n - first.bit_count()
        return first | lowest(members & ~first, missing) if missing else first
