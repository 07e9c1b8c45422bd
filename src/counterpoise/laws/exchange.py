"""From a walk or cycle in the exchange graph back to partitions: the moves that make a plan better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from counterpoise.laws.exchange_graph import Classes
from counterpoise.laws.violation import Move
from counterpoise.model.problem import Int32, Int64, Problem

__all__ = ["along_walk", "around_cycle", "gain_in_kept"]


class _Plan:
    """One plan with its classes: finds partitions to pass on."""

    def __init__(self, problem: Problem, owner: Int32, known: Classes, movable: npt.NDArray[np.bool_] | None):
        self.owner, self.claims, self.movable = owner, problem.previous_owner, movable
        order = np.argsort(known.of_topic, kind="stable")
        self._topics = order
        self._bounds = np.searchsorted(known.of_topic[order], np.arange(known.n + 1))
        self._start = problem.topic_start

    def partitions(self, topic_class: int) -> Int64:
        """All partitions of the topics of a class."""
        topics = self._topics[self._bounds[topic_class] : self._bounds[topic_class + 1]]
        return np.concatenate([np.arange(self._start[t], self._start[t + 1], dtype=np.int64) for t in topics.tolist()])

    def handover(self, giver: int, topic_class: int, taker: int) -> list[Move]:
        """`giver` passes on one partition of the class, `taker` gets one, a claim of its own if it has an unmet one."""
        inside = self.partitions(topic_class)
        owner, claims = self.owner[inside], self.claims[inside]
        mine = owner == giver if self.movable is None else (owner == giver) & self.movable[inside]
        wanted = inside[(claims == taker) & (owner != taker)] if self.movable is None else inside[:0]
        if len(wanted):
            of_giver = wanted[self.owner[wanted] == giver]
            if len(of_giver):
                return [Move(int(of_giver[0]), giver, taker)]
            back = int(wanted[0])
            other = int(self.owner[back])
            given = self._cheapest(inside[mine], other)
            return [Move(back, other, taker), Move(given, giver, other)]
        if giver == taker:
            return []
        return [Move(self._cheapest(inside[mine], taker), giver, taker)]

    def _cheapest(self, candidates: Int64, taker: int) -> int:
        """The cheapest to pass on: one that `taker` claims, else one that no member keeps, else the first."""
        claims, owner = self.claims[candidates], self.owner[candidates]
        rank = np.where(claims == taker, 0, np.where(claims != owner, 1, 2))
        return int(candidates[int(np.argmin(rank))])


def along_walk(
    problem: Problem, owner: Int32, known: Classes, nodes: Sequence[int], movable: npt.NDArray[np.bool_] | None = None
) -> list[Move]:
    """Moves for a walk member, class, member, ..., member (from `balance.walk`)."""
    plan = _Plan(problem, owner, known, movable)
    moves: list[Move] = []
    for at in range(0, len(nodes) - 1, 2):
        moves += plan.handover(nodes[at], nodes[at + 1], nodes[at + 2])
    return moves


def around_cycle(problem: Problem, owner: Int32, known: Classes, cycle: Sequence[int]) -> list[Move]:
    """Moves for a cycle of nodes (from `stickiness.shortest_labels`): every class in it is one handover."""
    plan = _Plan(problem, owner, known, None)
    moves: list[Move] = []
    for at, node in enumerate(cycle):
        if node < known.n:
            before, after = cycle[at - 1], cycle[(at + 1) % len(cycle)]
            moves += plan.handover(before - known.n, node, after - known.n)
    return moves


def gain_in_kept(owner: Int32, claims: Int32, moves: Sequence[Move]) -> int:
    """How many partitions more stay with the member that may keep them once the moves are made."""
    after = sum(int(claims[m.partition]) == m.taker for m in moves)
    before = sum(int(claims[m.partition]) == int(owner[m.partition]) for m in moves)
    return after - before
