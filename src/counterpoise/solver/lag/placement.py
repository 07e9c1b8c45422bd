"""Placing unassigned partitions: longest processing time first (LPT; Graham, 1969), within the counts that are free."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from itertools import chain

from counterpoise.solver.lag.state import PlanState, Ratio

_SCALE = 2**40
"""Counts per capacity are compared in units of 1 / _SCALE."""
_LOOKS = 8
"""`place` gives up after this many looks at members per partition and member of the group."""

__all__ = ["CountSlack", "place"]


@dataclass
class CountSlack:
    """How many more partitions each member may take, whatever their topic class. If members own none yet, these are quotas."""

    least: list[int]  # How many each member must take
    most: list[int]  # The largest count of each member
    # By the marginal cost of a member's next partition: how many members take one more at that cost
    ceilings: dict[Ratio, int]
    takers: list[list[int]]  # Per topic class: the member classes that may take its partitions
    reserve: int = 0  # The lag that a member keeps free for each further partition that it must take: that of the lightest one
    # Best fit: a partition goes to the member with the least slack that suffices; if none has as much, to the one with most slack
    best_fit: bool = False

    def has(self, state: PlanState, member: int) -> bool:
        """Whether the member may take another partition."""
        if self.least[member] > 0:
            return True
        return state.count[member] < self.most[member] and self.ceilings.get(state.next_cost(member), 0) > 0

    def copy(self, reserve: int, *, best_fit: bool = False) -> CountSlack:
        """The same with another reserve and choice of members."""
        return CountSlack(self.least[:], self.most, dict(self.ceilings), self.takers, reserve, best_fit)


def place(
    state: PlanState,
    # In the order in which they are placed, those without lag last; by falling lag the rule is LPT. A partition without lag goes
    # to the member with the fewest partitions per capacity.
    partitions: list[int],
    counts: CountSlack,  # Reduced by what is placed
) -> bool:
    """Give each partition to a subscriber whose count may rise: the one with most slack, or by best fit; ties by member.

    Returns whether all were placed.

    If no subscriber's count may rise, partitions that were just placed are passed on along an augmenting path.
    O(P log M + M). Returns False too if the search for members takes longer than that.
    """
    lag, queue = state.group.lag, _Queue(state, counts)
    looks = _LOOKS * (len(partitions) + len(state.load))
    for partition in partitions:
        if not queue.idle and not lag[partition]:
            queue.idle = True
            queue.fill()
        entry, looked = queue.pop(partition)
        if entry is None:
            entry, looked = _free_slot(queue, partition)
        looks -= looked
        if looks < 0 or entry is None:
            return False
        queue.give(partition, entry)
    return True


class _Queue:
    """Members that may take another partition, by rank, then by member: a sorted list per member class.

    An entry is one number: the rank times the number of members, plus the member. The rank is the excess and the slack that the
    member keeps for further partitions, or, for partitions without lag (`idle`), the count per capacity. `placed`: the partitions
    placed, in order, per topic class. `by_last`: sorted pairs (lag of the last one, class), with stale entries; made when needed.
    """

    def __init__(self, state: PlanState, counts: CountSlack) -> None:
        self.state, self.counts, self.idle, self.n = state, counts, False, len(state.load)
        self.topic_class, self.able, self.member_class = state.group.topic_class, state.group.takes, state.group.member_class
        self.takers = counts.takers
        self.lists: list[list[int]] = []
        self.placed: list[list[int]] = [[] for _ in self.able]
        self.by_last: list[tuple[int, int]] = []
        self.fill()

    def fill(self) -> None:
        """List the members that may take another partition."""
        self.lists = [[] for _ in range(max(self.member_class) + 1)]
        for member, number in enumerate(self.member_class):
            if self.counts.has(self.state, member):
                self.lists[number].append(self._entry(member))
        for some in self.lists:
            some.sort()

    def _entry(self, member: int) -> int:
        state, more = self.state, self.counts.least[member]
        if self.idle:
            return state.count[member] * _SCALE // state.group.capacity[member] * self.n + member
        excess = state.load[member] - state.limit[member]
        return (excess + max(more - 1, 0) * self.counts.reserve) * self.n + member

    def pop(self, partition: int) -> tuple[int | None, int]:
        """Remove and return the first subscriber of the partition: (its entry or None, number of members looked at)."""
        n, looked, first, number = self.n, 0, None, self.topic_class[partition]
        able, tightest = self.able[number], (1 - self.state.group.lag[partition]) * n - 1
        best_fit = self.counts.best_fit and not self.idle
        for one in self.takers[number]:
            some = self.lists[one]
            fitting = bisect_right(some, tightest) if best_fit else 0
            for entry in chain(reversed(some[:fitting]), some[fitting:]) if fitting else some:
                looked += 1
                if able[entry % n]:
                    if first is None or (first < entry <= tightest if best_fit and first <= tightest else entry < first):
                        first, source = entry, some
                    break
        if first is not None:
            source.remove(first)
        return first, looked

    def give(self, partition: int, entry: int) -> None:
        """Place the partition with a member whose entry is in no list; list it again if the member may take another partition."""
        state, counts, member = self.state, self.counts, entry % self.n
        more = counts.least[member] - 1
        if more >= 0:
            counts.least[member] = more
        else:
            self._use_ceiling(state.next_cost(member))
        state.place(partition, member)
        self.placed[self.topic_class[partition]].append(partition)
        if self.by_last:
            entered = state.group.lag[partition], self.topic_class[partition]
            at = bisect_left(self.by_last, entered)
            if self.by_last[at : at + 1] != [entered]:
                self.by_last.insert(at, entered)
        if more > 0 or counts.has(state, member):
            entry += (state.group.lag[partition] - (counts.reserve if more > 0 else 0)) * self.n
            insort(self.lists[self.member_class[member]], self._entry(member) if self.idle else entry)

    def _use_ceiling(self, cost: Ratio) -> None:
        """Use a ceiling slot of this cost; after the last one, members that may take no other partition leave the lists."""
        counts = self.counts
        counts.ceilings[cost] -= 1
        if not counts.ceilings[cost]:
            self.lists = [[entry for entry in some if counts.has(self.state, entry % self.n)] for some in self.lists]

    def pass_on(self, path: list[int], entry: int) -> int:
        """Pass on the partitions of an augmenting path, the last one to this member. Returns the entry of the first holder."""
        for partition in reversed(path):
            holder = self.state.owner[partition]
            self.state.release(partition)
            self.placed[self.topic_class[partition]].remove(partition)
            self.give(partition, entry)
            self.counts.least[holder] += 1
            entry = self._entry(holder)
        return entry


def _free_slot(queue: _Queue, unplaced: int) -> tuple[int | None, int]:
    """Free a slot along a shortest augmenting path: (the entry of a subscriber of the partition or None, number of looks).

    Nodes are topic classes. There is an edge from class a to class b if a subscriber of a was given a partition of b; the one
    given last (the lightest) is passed on. The path ends with a member whose count may rise. Breadth first, each class once.
    """
    owner, lag, takers, looked = queue.state.owner, queue.state.group.lag, queue.takers, 0
    if not 0 < len(queue.by_last) <= 2 * len(queue.placed):  # not made yet, or most entries are stale
        queue.by_last = sorted((lag[some[-1]], number) for number, some in enumerate(queue.placed) if some)
    paths: dict[int, list[int]] = {queue.topic_class[unplaced]: []}
    reached = list(paths)
    for number in reached:
        able, mine = queue.able[number], set(takers[number])
        for last, other in queue.by_last:
            if other in paths or last != lag[queue.placed[other][-1]] or mine.isdisjoint(takers[other]):
                continue
            for partition in reversed(queue.placed[other]):
                looked, holder = looked + 1, owner[partition]
                if able[holder] and queue.member_class[holder] in mine:
                    path = [*paths[number], partition]
                    entry, more = queue.pop(partition)
                    looked += more
                    if entry is not None:
                        return queue.pass_on(path, entry), looked
                    paths[other] = path
                    reached.append(other)
                    break
    return None, looked
