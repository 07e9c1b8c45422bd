"""Placing partitions that wait: longest processing time first (LPT; Graham, 1969), within the counts that are free."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace

from counterpoise.solver.lag.state import PlanState

_SCALE = 2**40
"""Counts per capacity are compared in units of 1 / _SCALE."""

__all__ = ["Slots", "place_longest_first"]

Slots = dict[int, int]
"""How many more partitions each member takes; for balanced counts one such table per topic class."""


def place_longest_first(state: PlanState, waiting: Iterable[int], slots: list[Slots], *, idle_by_count: bool = False) -> None:
    """Give each partition to the member with most slack among those with a slot for it, ties by member.

    Parameters
    ----------
    waiting : iterable of int
        In the order in which they are placed; by falling lag the rule is LPT.
    slots : list of Slots
        Per topic class; several classes may share one table. Reduced by what is placed. If nobody has a slot left the subscriber
        with the fewest partitions takes it.
    idle_by_count : bool
        Whether partitions without lag go to the member with the fewest partitions per capacity.

    Notes
    -----
    One heap of members per topic class. Slack only shrinks, so an entry that is too high is corrected when it comes to the top.
    """
    lag, subscribers, takes, limit = state.group.lag, state.group.subscribers, state.group.takes, state.limit
    load, count, n = state.load, state.count, len(state.load)
    capacity = state.group.capacity
    heaps: dict[tuple[int, bool], list[int]] = {}
    for partition in waiting:
        number, by_count = state.group.topic_class[partition], idle_by_count and not lag[partition]
        free, heap = slots[number], heaps.get((number, by_count))
        if heap is None:
            some = [member for member, room in free.items() if room > 0 and takes[number][member]]
            heap = [(count[m] * _SCALE // capacity[m] if by_count else load[m] - limit[m]) * n + m for m in some]
            heapify(heap)
            heaps[number, by_count] = heap
        while heap:
            member = heap[0] % n
            level = count[member] * _SCALE // capacity[member] if by_count else load[member] - limit[member]
            if free[member] <= 0:
                heappop(heap)
            elif level * n + member != heap[0]:
                heapreplace(heap, level * n + member)
            else:
                break
        else:
            member = min(subscribers[number], key=lambda one: (count[one], one))
            free[member] = free.get(member, 0) + 1
        state.place(partition, member)
        free[member] -= 1
