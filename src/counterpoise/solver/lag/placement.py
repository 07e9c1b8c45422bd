"""Placing partitions that wait: longest processing time first (LPT; Graham, 1969), within the counts that are free."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from counterpoise.solver.lag.state import PlanState

_SCALE = 2**40
"""Counts per capacity are compared in units of 1 / _SCALE."""
_STEPS = 8
"""So many members are looked at for each partition and for each member, on average."""

Slots = dict[int, int]
"""How many partitions of one topic class each member takes."""

__all__ = ["CountSlack", "Slots", "place_by_class", "place_by_count"]


@dataclass
class CountSlack:
    """How many more partitions members may take, of any topic class.

    Attributes
    ----------
    least : list of int
        How many each member must take.
    ceilings : dict of int to int
        By the marginal cost of a member's next partition: how many members take one more at that cost.
    reserve : int
        The slack that a member keeps for each further partition that it must take: the lightest one weighs as much.
    """

    least: list[int]
    ceilings: dict[int, int]
    reserve: int = 0

    def has(self, state: PlanState, member: int) -> bool:
        """Whether the member takes another one."""
        return self.least[member] > 0 or self.ceilings.get(state.next_cost(member), 0) > 0

    def kept(self, member: int) -> int:
        """The slack that the member keeps for what it must take besides its next partition."""
        return max(self.least[member] - 1, 0) * self.reserve

    def take(self, state: PlanState, member: int) -> bool:
        """The member is about to take one; whether it was the last one at its cost."""
        if self.least[member] > 0:
            self.least[member] -= 1
            return False
        self.ceilings[state.next_cost(member)] -= 1
        return not self.ceilings[state.next_cost(member)]

    def copy(self, reserve: int) -> CountSlack:
        """The same with another reserve."""
        return CountSlack(self.least[:], dict(self.ceilings), reserve)


def place_by_count(state: PlanState, waiting: list[int], counts: CountSlack) -> bool:
    """Give each partition to the subscriber with most slack whose count may rise, ties by member; whether all found one.

    Parameters
    ----------
    waiting : list of int
        In the order in which they are placed; by falling lag the rule is LPT. Those without lag come last, each to the member
        with the fewest partitions per capacity.
    counts : CountSlack
        Reduced by what is placed.

    Notes
    -----
    If no subscriber's count may rise, one of them passes a partition that it was just given to a member whose count may.
    O(P log M + M): False also if more members must be looked at than that.
    """
    lag, takes = state.group.lag, state.group.takes
    idle, placed, steps = False, list[int](), _STEPS * (len(waiting) + len(state.load))
    order = [
        (_level(state, member, idle) + counts.kept(member), member)
        for member in range(len(state.load))
        if counts.has(state, member)
    ]
    order.sort()
    for partition in sorted(waiting, key=lambda one: not lag[one]):
        if not idle and not lag[partition]:
            idle = True
            order = sorted((_level(state, member, idle), member) for _, member in order)
        able, looked = takes[state.group.topic_class[partition]], 0
        for at, (_, member) in enumerate(order):
            if able[member]:
                looked = at
                del order[at]
                break
        else:
            member, looked = _free_slot(state, able, placed, order, counts, steps)
        steps -= looked
        if steps < 0 or member < 0:
            return False
        if counts.take(state, member):
            order = [entry for entry in order if counts.has(state, entry[1])]
        state.place(partition, member)
        placed.append(partition)
        if counts.has(state, member):
            insort(order, (_level(state, member, idle) + (0 if idle else counts.kept(member)), member))
    return True


def _free_slot(
    state: PlanState, able: bytes, placed: list[int], order: list[tuple[int, int]], counts: CountSlack, steps: int
) -> tuple[int, int]:
    """A subscriber of the next partition passes on the last one that fits: (that subscriber or -1, members looked at)."""
    looked = len(order)
    for place in range(len(placed) - 1, -1, -1):
        holder = state.owner[placed[place]]
        looked += 1
        if looked > steps:
            break
        if able[holder]:
            row = state.group.takes[state.group.topic_class[placed[place]]]
            for at, (_, member) in enumerate(order):
                if row[member]:
                    partition = placed.pop(place)
                    state.release(partition)
                    counts.take(state, member)
                    state.place(partition, member)
                    placed.append(partition)
                    order[:] = [entry for entry in order if counts.has(state, entry[1])]
                    counts.least[holder] += 1
                    return holder, looked + at
            looked += len(order)
    return -1, looked


def place_by_class(state: PlanState, waiting: list[int], slots: list[Slots]) -> bool:
    """Give each partition to the member with most slack among those with a slot for its topic class, as `place_by_count` does.

    Several topic classes may share one table of slots. One heap of members per topic class; O((S + P) log M). A member's level
    only rises, so an entry that is too low is corrected when it comes to the top.
    """
    lag, topic_class, takes = state.group.lag, state.group.topic_class, state.group.takes
    heaps: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for partition in waiting:
        number, idle = topic_class[partition], not lag[partition]
        free, heap = slots[number], heaps.get((number, idle))
        if heap is None:
            some = [member for member, left in free.items() if left > 0 and takes[number][member]]
            heap = heaps[number, idle] = [(_level(state, member, idle), member) for member in some]
            heapify(heap)
        while heap:
            member = heap[0][1]
            level = _level(state, member, idle)
            if not free[member]:
                heappop(heap)
            elif level != heap[0][0]:
                heapreplace(heap, (level, member))
            else:
                break
        else:
            return False
        state.place(partition, member)
        free[member] -= 1
    return True


def _level(state: PlanState, member: int, idle: bool) -> int:
    """By what members are compared: their excess, or, for partitions without lag, their count per capacity."""
    if idle:
        return state.count[member] * _SCALE // state.group.capacity[member]
    return state.load[member] - state.limit[member]
