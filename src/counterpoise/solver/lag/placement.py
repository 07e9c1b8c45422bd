"""Placing unassigned partitions: longest processing time first (LPT; Graham, 1969), within the counts that are free."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from dataclasses import dataclass

from counterpoise.solver.lag.state import PlanState

_SCALE = 2**40
"""Counts per capacity are compared in units of 1 / _SCALE."""
_STEPS = 8
"""So many members are looked at for each partition and for each member, on average."""

__all__ = ["CountSlack", "place"]


@dataclass
class CountSlack:
    """How many more partitions members may take, of any topic class; quotas, if they own none yet.

    Attributes
    ----------
    least : list of int
        How many each member must take.
    most : list of int
        The largest count of each member.
    ceilings : dict of int to int
        By the marginal cost of a member's next partition: how many members take one more at that cost.
    takers : list of list of int
        Per topic class: the member classes that may take its partitions.
    reserve : int
        The slack that a member keeps for each further partition that it must take: the lightest one weighs as much.
    """

    least: list[int]
    most: list[int]
    ceilings: dict[int, int]
    takers: list[list[int]]
    reserve: int = 0

    def has(self, state: PlanState, member: int) -> bool:
        """Whether the member takes another one."""
        if self.least[member] > 0:
            return True
        return state.count[member] < self.most[member] and self.ceilings.get(state.next_cost(member), 0) > 0

    def copy(self, reserve: int) -> CountSlack:
        """The same with another reserve."""
        return CountSlack(self.least[:], self.most, dict(self.ceilings), self.takers, reserve)


def place(state: PlanState, partitions: list[int], counts: CountSlack) -> bool:
    """Give each partition to the subscriber with most slack whose count may rise, ties by member; whether all found one.

    Parameters
    ----------
    partitions : list of int
        In the order in which they are placed, those without lag last; by falling lag the rule is LPT. A partition without lag
        goes to the member with the fewest partitions per capacity.
    counts : CountSlack
        Reduced by what is placed.

    Notes
    -----
    If no subscriber's count may rise, partitions that were just placed are passed on along an augmenting path.
    O(P log M + M): False also if more members must be looked at than that.
    """
    queue, placed = _Queue(state, counts, idle=False), defaultdict[int, list[int]](list)
    steps = _STEPS * (len(partitions) + len(state.load))
    for partition in partitions:
        if not queue.idle and not state.group.lag[partition]:
            queue = _Queue(state, counts, idle=True)
        member, looked = queue.pop(partition)
        if member < 0:
            member, looked = _free_slot(queue, partition, placed)
        steps -= looked
        if steps < 0 or member < 0:
            return False
        queue.give(partition, member, placed)
    return True


class _Queue:
    """Members that take another partition, by level, then by member: a sorted list per member class.

    An entry is one number: the level times the number of members, plus the member. The level is the excess and the slack that the
    member keeps for further partitions, or, for partitions without lag (`idle`), the count per capacity.
    """

    def __init__(self, state: PlanState, counts: CountSlack, *, idle: bool) -> None:
        self.state, self.counts, self.idle, self.n = state, counts, idle, len(state.load)
        self.lists: list[list[int]] = [[] for _ in range(max(state.group.member_class) + 1)]
        for member, number in enumerate(state.group.member_class):
            if counts.has(state, member):
                self.lists[number].append(self._entry(member))
        for some in self.lists:
            some.sort()

    def _entry(self, member: int) -> int:
        state, more = self.state, self.counts.least[member]
        if self.idle:
            return state.count[member] * _SCALE // state.group.capacity[member] * self.n + member
        level = state.load[member] - state.limit[member]
        if more > 1:
            level += (more - 1) * self.counts.reserve
        return level * self.n + member

    def pop(self, partition: int) -> tuple[int, int]:
        """Take out the first subscriber: (it or -1, members looked at)."""
        group, n, looked = self.state.group, self.n, 0
        number = group.topic_class[partition]
        able, first, best, found = group.takes[number], 0, 0, None
        for one in self.counts.takers[number]:
            some = self.lists[one]
            for at, entry in enumerate(some):
                if able[entry % n]:
                    looked += at
                    if found is None or entry < first:
                        found, first, best = some, entry, at
                    break
            else:
                looked += len(some)
        return (found.pop(best) % n, looked) if found is not None else (-1, looked)

    def give(self, partition: int, member: int, placed: dict[int, list[int]]) -> None:
        """Place the partition with a member that is in no list; it goes back if it takes another one.

        `placed`: per topic class, the partitions placed, in order.
        """
        state, counts = self.state, self.counts
        more = counts.least[member] - 1
        if more >= 0:
            counts.least[member] = more
        else:
            counts.ceilings[state.next_cost(member)] -= 1
            if not counts.ceilings[state.next_cost(member)]:
                self.lists = [[entry for entry in some if counts.has(state, entry % self.n)] for some in self.lists]
        state.place(partition, member)
        placed[state.group.topic_class[partition]].append(partition)
        if more > 0 or counts.has(state, member):
            insort(self.lists[state.group.member_class[member]], self._entry(member))


def _free_slot(queue: _Queue, unplaced: int, placed: dict[int, list[int]]) -> tuple[int, int]:
    """Free a slot along a shortest augmenting path: (the subscriber that can take the partition or -1, partitions looked at).

    Nodes are topic classes. There is an edge to another class if a subscriber of this one was given a partition of it; the
    lightest one is passed on. The path ends if a member whose count may rise takes it. Breadth first, each class once.
    """
    state, group, looked = queue.state, queue.state.group, 0
    paths: dict[int, list[int]] = {group.topic_class[unplaced]: []}
    reached = list(paths)
    for number in reached:
        able, mine = group.takes[number], set(queue.counts.takers[number])
        found = list[tuple[int, int]]()
        for other, some in placed.items():
            if other in paths or mine.isdisjoint(queue.counts.takers[other]):
                continue
            for partition in reversed(some):
                looked, holder = looked + 1, state.owner[partition]
                if able[holder] and group.member_class[holder] in mine:
                    found.append((group.lag[partition], partition))
                    break
        for _, partition in sorted(found):
            member, more = queue.pop(partition)
            looked += more
            path = paths[group.topic_class[partition]] = [*paths[number], partition]
            if member >= 0:
                for passed in reversed(path):
                    holder = state.owner[passed]
                    state.release(passed)
                    placed[group.topic_class[passed]].remove(passed)
                    queue.give(passed, member, placed)
                    queue.counts.least[holder] += 1
                    member = holder
                return member, looked
            reached.append(group.topic_class[partition])
    return -1, looked
