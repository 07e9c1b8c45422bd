"""Relief: all members over their limit at once, each by one partition where that can be, through as few rooms as can be found.

Circles one after another fill the first rooms well and the last ones badly. Which chains together relieve everybody at least cost
is a linear programme with a column for each chain; as there are far too many, those that its prices ask for are found as they are
needed (column generation: Gilmore, Gomory, 1961). Chains that it uses whole are taken, or the one it uses most; the rest is
solved again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from counterpoise.solver.lag.desk import Desk
from counterpoise.solver.lag.moves.chains import Chain, Start, Sweep, Task
from counterpoise.solver.lag.moves.programme import Programme
from counterpoise.solver.lag.moves.starts import kinds_of, long_starts, picked, starts_of

_BITS, _OVER = 62, 50
"""A bit of a word for each piece; so many members at once, those most over their limit."""
_SPLITS = 2
"""So often whoever is left out is relieved in one piece more."""
_BATCHES = 3
"""So often the next ones follow, where more are over their limit."""
_STARTS, _NODES = 600, 1_200
"""So many partitions of members with room, and so many of members to relieve, are looked at, or about."""
_FIRST, _LATER = 3, 1
"""So often prices ask for more chains at first and whenever there is more to begin with, and after some were taken."""
_EACH, _BY_START = 4, 2
"""So many chains by the price for each room and start; twice as many for each room before there are prices."""
_UNIT = 10**6
"""Prices are in millionths of a move."""
_WORTH = 12
"""At first a move is worth the relief of this part of a limit."""
_LEFT_OUT = 6.0
"""What it costs to leave somebody out: the repair takes about so many moves more."""
_USED, _SURE = 0.05, 0.6
"""A chain of which less is used is not taken; one of which so much is, at once."""

__all__ = ["relieve"]


def relieve(desk: Desk) -> None:
    """Turn chains that relieve members over their limit; who cannot be relieved, or in part only, is left to the repair.

    Nobody gets over its limit, or further over it; counts change places at most. Capacities are equal.
    """
    for _ in range(_BATCHES):
        over = np.flatnonzero(desk.load > desk.limit)
        if not len(over):
            return
        desk.hold_all()
        chains = _Search(desk, over[np.argsort(-(desk.load - desk.limit)[over], kind="stable")][:_OVER].tolist()).chains()
        for chain in chains:
            _turn(desk, chain)
        if not chains or len(over) <= _OVER:
            return


def _turn(desk: Desk, chain: Chain) -> None:
    """Each partition to the owner of the next one, the last to the first room."""
    givers = [int(desk.owner[one]) for one in chain.links]
    for one, taker in zip(chain.links, [*givers[1:], chain.rooms[0]], strict=True):
        desk.give(one, taker)
    if not chain.cost:
        desk.trade_bounds(givers[0], chain.rooms[0])


@dataclass(slots=True)
class _Search:
    """What is to be done, by its bit; pieces of each member; what is left to begin with; chains taken, and chains known."""

    desk: Desk
    members: list[int]
    tasks: dict[int, Task] = field(default_factory=dict)
    pieces: dict[int, int] = field(init=False)
    starts: list[Start] = field(init=False)
    taken: list[Chain] = field(default_factory=list)
    known: list[Chain] = field(default_factory=list)
    bits: int = 0

    def __post_init__(self) -> None:
        self.pieces, self.starts = dict.fromkeys(self.members, 1), starts_of(self.desk, _STARTS)
        for member in self.members:
            self._add(member)

    def chains(self) -> list[Chain]:
        """The chains to turn: no two of them through the same room, or for the same part of a member's excess."""
        programme = self._solved(_FIRST)
        hard = {self.tasks[bit].member for bit in programme.left_out()}
        more = {start for member in sorted(hard) for start in long_starts(self.desk, member)} - set(self.starts)
        if more:
            self.starts, self.known = sorted({*self.starts, *more}), programme.chains
            programme = self._solved(_FIRST)
        for _ in range(_SPLITS):
            hard = {self.tasks[bit].member for bit in programme.left_out()}
            if not hard or self.bits + sum(self.pieces[member] + 1 for member in hard) > _BITS:
                break
            self._split(hard, programme.chains)
            programme = self._solved(_FIRST)
        while self._take(programme) and self.tasks and self.starts:
            programme = self._solved(_LATER)
        return self.taken

    def _split(self, hard: set[int], chains: list[Chain]) -> None:
        """One piece more for each of some members."""
        gone = {bit for bit, task in self.tasks.items() if task.member in hard}
        self.tasks = {bit: task for bit, task in self.tasks.items() if bit not in gone}
        mask = sum(1 << bit for bit in gone)
        self.known = [chain for chain in chains if not chain.relieved & mask]
        for member in sorted(hard):
            self.pieces[member] += 1
            self._add(member)

    def _add(self, member: int) -> None:
        """What is to be done for a member: in pieces by its heaviest partitions that any start can take, as they weigh."""
        desk, pieces, highest = self.desk, self.pieces[member], max((start.most for start in self.starts), default=0)
        some = [one for one in picked(desk, member, _NODES // len(self.members)) if int(desk.weight[one]) <= highest][::-1]
        heaviest = [int(desk.weight[one]) for one in some[:pieces]]
        rest, total, excess = -desk.room(member), max(sum(heaviest), 1), -desk.room(member)
        for piece in range(pieces):
            share = rest if piece == pieces - 1 or piece >= len(heaviest) else excess * heaviest[piece] // total
            rest -= share
            self.tasks[self.bits] = Task(member, share, some[piece::pieces][::-1], kinds_of(desk, member, alone=piece == 0))
            self.bits += 1

    def _solved(self, rounds: int) -> Programme:
        """The programme of what is left, by the chains known and those that its prices ask for, so many times."""
        programme = Programme(list(self.tasks), sorted({room for start in self.starts for room in start.rooms}), _LEFT_OUT)
        programme.add(self.known)
        programme.solve()
        sweep, limit = Sweep(self.desk, self.tasks, self.starts), int(self.desk.limit.max())
        price, rooms = {bit: task.excess * _WORTH * _UNIT // limit + 1 for bit, task in self.tasks.items()}, dict[int, int]()
        if self.known:
            price, rooms = programme.prices(_UNIT)
        for _ in range(rounds):
            sweep.run(price)
            anew = not programme.chains
            found = sweep.chains(-_UNIT * _UNIT if anew else _UNIT, rooms, 2 * _EACH if anew else _EACH, _BY_START)
            if not found:
                break
            programme.add(found)
            programme.solve()
            price, rooms = programme.prices(_UNIT)
        return programme

    def _take(self, programme: Programme) -> bool:
        """Take the chains that are used for sure, one at least if any is used; whether there was one."""
        relieved, rooms = 0, set[int]()
        for part, chain in programme.parts():
            if part < _USED or (relieved and part < _SURE):
                break
            self.taken.append(chain)  # no other one is for the same: more than half of it, and they would be used more than once
            relieved |= chain.relieved
            rooms.update(chain.rooms)
        self.tasks = {bit: task for bit, task in self.tasks.items() if not relieved >> bit & 1}
        self.starts = [start for start in self.starts if rooms.isdisjoint(start.rooms)]
        self.known = [one for one in programme.chains if not one.relieved & relieved and rooms.isdisjoint(one.rooms)]
        return relieved > 0
