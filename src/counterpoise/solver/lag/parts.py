"""What waits to be placed, part by part: the goal of each member, heavy partitions apart, topic classes within a part."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from counterpoise.model.problem import Int32, Int64
from counterpoise.solver.decode import ascending, ranks_in_runs
from counterpoise.solver.lag.blocks import LagBlocks
from counterpoise.solver.lag.desk import Desk

_PER_GOAL = 2
"""A partition that weighs more than this part of a member's goal goes by itself: its place in the order matters."""
_SHORT = 32

__all__ = ["by_class", "cut", "goals", "in_turns"]


def goals(desk: Desk, blocks: LagBlocks) -> Int64:
    """The lag each member would bear if lag were divisible: its block's level times its capacity."""
    level = [*blocks.level, Fraction(0)]
    block = blocks.block_of_member_class[desk.camp]
    goal = np.zeros(len(desk.load), np.int64)
    for number in range(len(blocks.level)):
        mine = block == number
        top, bottom = level[number].as_integer_ratio()
        goal[mine] = [top * c // bottom for c in desk.capacity[mine].tolist()] if bottom > 1 else top * desk.capacity[mine]
    return goal


def cut(weights: Int64, goal: Int64, shares: tuple[int, ...]) -> list[int]:
    """Where `weights` (falling) are cut: after those that go by themselves, then where `shares` (‰) of the lag are reached."""
    if not len(weights):
        return [0]
    heavy = int(np.count_nonzero(weights > int(goal.max(initial=0)) // _PER_GOAL))
    total = weights.cumsum()
    cuts = [int(np.searchsorted(total, int(total[-1]) * share // 1000)) + 1 for share in shares]
    return [heavy, *(cut for cut in cuts if heavy < cut < len(weights)), len(weights)]


def by_class(kinds: Int32, n_kinds: int) -> tuple[Int64, list[tuple[int, int, int]]]:
    """The stable order by topic class, and for each class among `kinds` its number and where in this order it begins and ends."""
    ends = np.bincount(kinds, minlength=n_kinds).cumsum().tolist()
    runs = [(number, begin, end) for number, (begin, end) in enumerate(pairwise([0, *ends])) if begin < end]
    return ascending(kinds.astype(np.int64)), runs


def in_turns(slots: Int64) -> Int64:
    """Members, class by class (`slots` are [topic classes, M]): in each everybody with slots in turns."""
    n, most, flat = slots.shape[1], int(slots.max(initial=0)), slots.reshape(-1)
    bits = n.bit_length()
    cell = (flat > 0).nonzero()[0]
    count, kind = flat[cell], cell // n
    # Topic class, turn and member in one number: sorted, they are in order; in 32 bits they sort fastest.
    first = (kind * most << bits) | (cell - kind * n)
    size = np.uint32 if (len(slots) * most).bit_length() + bits <= _SHORT else np.int64
    packed = (np.repeat(first, count) + (ranks_in_runs(count) << bits)).astype(size)
    packed.sort()
    packed &= size((1 << bits) - 1)
    return np.asarray(packed, np.int64)
