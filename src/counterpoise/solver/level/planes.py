"""Planes: counts of members in binary, a set of members per binary digit; a step down for many takes a few operations.

With few counts a set for each of them (`bitsets.Levels`) is quicker; with dozens these are.
"""

from __future__ import annotations

from counterpoise.solver.level.bitsets import Levels, lowest

__all__ = ["Planes"]


class Planes:
    """What `take_most` changes in `Levels`, in another form: to be made, used many times, and turned back."""

    def __init__(self, levels: Levels) -> None:
        self._planes = [
            sum(members for level, members in levels.items() if level >> digit & 1)  # no member has two counts
            for digit in range(max(levels, default=0).bit_length())
        ]

    def take_most(self, members: int, n: int) -> int:
        """Up to n of the members, those with most first, ties by member; each then has one less."""
        some = 0
        for plane in self._planes:
            some |= plane
        chosen = members & some
        if chosen.bit_count() > n:
            chosen = self._most(chosen, n)
        borrow = chosen
        for digit, plane in enumerate(self._planes):
            if not borrow:
                break
            self._planes[digit] = plane ^ borrow
            borrow &= ~plane
        return chosen

    def _most(self, members: int, n: int) -> int:
        """n of the members, who are more: digit by digit, who has it has more than who does not."""
        chosen = 0
        for plane in reversed(self._planes):
            higher = members & plane
            number = higher.bit_count()
            if number > n:
                members = higher
            else:
                chosen |= higher
                members ^= higher
                n -= number
        return chosen | lowest(members, n) if n else chosen

    def levels(self) -> Levels:
        """A set for each count again."""
        everybody = 0
        for plane in self._planes:
            everybody |= plane
        levels: Levels = {0: everybody} if everybody else {}
        for plane in reversed(self._planes):
            halves: Levels = {}
            for level, members in levels.items():
                higher = members & plane
                if higher:
                    halves[2 * level + 1] = higher
                if higher != members:
                    halves[2 * level] = members ^ higher
            levels = halves
        return levels
