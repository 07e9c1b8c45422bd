"""Allocation: units of topics go to members with slack, on sets of members held as bits.

`fill_least_loaded` gives a topic's units to its subscribers with most slack, one each before anybody gets a second. Units left
over follow augmenting paths (`reroute`): a subscriber takes the unit and passes on one of another topic that was assigned to
it, until a member with slack is reached; shortest paths first, many units at a time. Only units assigned here are passed on,
never claims that a member keeps.
"""

from __future__ import annotations

from dataclasses import dataclass

from counterpoise.errors import InvariantError
from counterpoise.solver.bitset.sets import ByCount, add_to, each_bit, everybody, lowest, step_down, take_from, take_most

__all__ = ["Allocation", "QuotaState"]


@dataclass(frozen=True, slots=True)
class QuotaState:
    """Quotas of the members of one block, and how far each member is from its quota."""

    # slack, excess: Members by their number of units below the quota, and by their number of claims above it
    slack: ByCount
    excess: ByCount
    # candidates, at_ceiling: Members whose quota is the floor, and members that have a ceiling slot
    candidates: int
    at_ceiling: int
    ceiling_slots: int  # How many candidates must still take one more


class Allocation:
    """Units assigned so far."""

    def __init__(
        self, subscribers: list[int], left: list[int], share: list[int], state: QuotaState, *, fresh: bool, work: int
    ) -> None:
        self.subscribers, self.left = subscribers, left.copy()  # per topic: set of members; units still to assign
        self.share = share  # per topic: an even share of these units, rounded up
        self.fresh, self.work = fresh, work  # without a history; topics that searches may still visit
        self.assigned: list[list[int]] = [[] for _ in subscribers]  # per topic: who got at least one unit, at least two, ..
        self._topics = [topic for topic, n in enumerate(left) if n]  # only of these are units assigned, and passed on
        # Per member, which of `_topics` it subscribes to: a search looks only at those of the members that it reaches.
        # None: at all of `_topics`. Set by the caller before `reroute`
        self.subscriptions: list[list[int]] | None = None
        self._dead_ends: set[int] = set()
        self.slack = state.slack  # empty when everybody has its quota
        self.candidates, self.at_ceiling, self.ceiling_slots = state.candidates, state.at_ceiling, state.ceiling_slots

    def fill_least_loaded(self, topics: list[int]) -> list[int]:
        """Assign the units of these topics, in this order, while there is slack; return the topics with units left."""
        for topic in topics:
            self._fill(topic, self.share[topic] if self.fresh else self.left[topic])
        return [topic for topic in topics if self.left[topic]]

    def _fill(self, topic: int, layers: int) -> None:
        left, members, assigned = self.left[topic], self.subscribers[topic], self.assigned[topic]
        while left and layers:
            taken = take_most(self.slack, members, left)
            if not taken:
                break
            left -= taken.bit_count()
            layers -= 1
            add_to(assigned, taken)
        self.left[topic] = left

    def reroute(self, topics: list[int]) -> None:
        """Assign what is left of these topics along augmenting paths to members with slack."""
        waiting = topics if self.slack else []
        for even in (True, False) if self.fresh else (False,):
            if not even:
                for topic in waiting:
                    self._fill(topic, self.left[topic])
                waiting = [topic for topic in waiting if self.left[topic]]
            self._dead_ends.clear()
            while waiting and self.slack and self._augment(waiting, everybody(self.slack), even):
                waiting = [topic for topic in waiting if self.left[topic]]

    def fill_ceiling(self, topics: list[int]) -> None:
        """Assign what is left of these topics to candidates for ceiling slots, directly, then along augmenting paths."""
        waiting = []
        for topic in topics:
            if self.left[topic] and self.ceiling_slots:
                goal = self.subscribers[topic] & self.candidates & ~everybody(self.slack) & ~self._full(topic)
                chosen = lowest(goal, min(self.left[topic], self.ceiling_slots))
                self.left[topic] -= chosen.bit_count()
                self.assign_all(topic, chosen)
            if self.left[topic]:
                waiting.append(topic)
        for even in (True, False):
            self._dead_ends.clear()
            while waiting and self.ceiling_slots and self._augment(waiting, self.candidates & ~everybody(self.slack), even):
                waiting = [topic for topic in waiting if self.left[topic]]

    def goal(self) -> int:
        """Members with slack; if there are none, candidates for the ceiling slots left."""
        return everybody(self.slack) or (self.candidates if self.ceiling_slots else 0)

    def assign_all(self, topic: int, members: int) -> None:
        """Assign one unit of the topic to each of the members."""
        if members:
            add_to(self.assigned[topic], members)
            self.assign(members)

    def assign(self, members: int) -> None:
        """Count one more unit for each of the members: it takes slack, or else a ceiling slot."""
        for slack in sorted(self.slack):
            here = self.slack[slack] & members
            if here:
                step_down(self.slack, slack, here)
                members ^= here
                if not members:
                    return
        self.ceiling_slots -= members.bit_count()
        if self.ceiling_slots < 0:
            raise InvariantError(f"{-self.ceiling_slots} members have a ceiling slot more than there are, while others are short")
        self.at_ceiling |= members
        self.candidates &= ~members

    def swap_ceiling(self, member: int, relief: int) -> None:
        """Move a ceiling slot from `member` to `relief`."""
        self.at_ceiling ^= member | relief
        self.candidates ^= member | relief

    def _having(self, topic: int) -> int:
        return self.assigned[topic][0] if self.assigned[topic] else 0

    def _full(self, topic: int) -> int:
        """Members that have an even share of the topic already."""
        layers = self.assigned[topic]
        return layers[self.share[topic] - 1] if len(layers) >= self.share[topic] > 0 else 0

    def _augment(self, start: list[int], goal: int, even: bool) -> bool:
        """Augment along a shortest path from one of the topics to members of the goal; False: there is none, or no `work` left.

        `even`: only to members that have less than an even share of the last topic.
        """
        came_from: dict[int, int | None] = {}
        for topic in start:
            came_from[topic] = None
            if topic not in self._dead_ends and self._ends(topic, goal, came_from, even):
                return True
        seen, frontier = 0, start
        while frontier:
            further: list[int] = []
            for topic in frontier:
                found = self.subscribers[topic] & ~seen
                if not found:
                    continue
                seen |= found
                others = self._topics_of(found)
                self.work -= len(others)
                if self.work < 0:
                    return False
                for other in others:
                    if other not in came_from and self.assigned[other] and self.assigned[other][0] & found:
                        came_from[other] = topic
                        if other not in self._dead_ends and self._ends(other, goal, came_from, even):
                            return True
                        further.append(other)
            frontier = further
        return False

    def _topics_of(self, members: int) -> list[int]:
        """All topics of which the members may have got units here, among others; some more than once."""
        if self.subscriptions is None:
            return self._topics
        return [topic for member in each_bit(members) for topic in self.subscriptions[member]]

    def _ends(self, topic: int, goal: int, came_from: dict[int, int | None], even: bool) -> bool:
        """Whether the path to this topic can end at one of its subscribers; if so, augment along it.

        If not, no path can end there until the topic gives a unit: goals only shrink from one search to the next.
        """
        ends = self.subscribers[topic] & goal
        if ends and even:
            ends &= ~self._full(topic)
        if ends:
            self._push(topic, came_from, ends)
        else:
            self._dead_ends.add(topic)
        return ends > 0

    def _push(self, topic: int, came_from: dict[int, int | None], last: int) -> None:
        """Push as many units along the path as every step allows."""
        steps: list[tuple[int, int, int]] = []
        ending = topic
        before = came_from[topic]
        while before is not None:
            steps.append((topic, before, self.assigned[topic][0] & self.subscribers[before]))
            topic, before = before, came_from[before]
        n = min([self.left[topic], last.bit_count(), *(members.bit_count() for _, _, members in steps)])
        if not last & everybody(self.slack):  # other members may still be short: only ceiling slots are left to give
            n = min(n, self.ceiling_slots)
        self.left[topic] -= n
        last = self.choose(ending, last, n)
        self.assign_all(ending, last)
        for giving, taking, members in steps:
            chosen = self.choose(taking, members, n)
            take_from(self.assigned[giving], chosen)
            add_to(self.assigned[taking], chosen)
            self._dead_ends.discard(giving)

    def choose(self, topic: int, members: int, n: int) -> int:
        """n of the members, those without a unit of the topic first."""
        first = lowest(members & ~self._having(topic), n)
        missing = n - first.bit_count()
        return first | lowest(members & ~first, missing) if missing else first
