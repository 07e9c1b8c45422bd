"""A linear programme of chains: which of them, in parts, relieve every member once at least cost; by the simplex method.

A row for each member to relieve and one for each member with room, which is used once at most; a column for each chain, for each
member that is left out, and for each room that is. Only single sums, products and quotients of doubles in a fixed order are used,
and no library's solver: so every machine finds the same corner and the same prices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.solver.lag.moves.chains import Chain

_PIVOTS = 1_500
"""So many at most, each time; a few dozen are usual."""
_NOTHING, _NO_GAIN = 1e-9, -1e-7
_UNEVEN = 2.0**-26
"""Rows differ by up to 65,536 times this; where they are all alike the method stands still for long."""
_HALF = 0.4
_FIRST = 256

__all__ = ["Programme"]

Floats = npt.NDArray[np.float64]


class Programme:
    """A tableau: right-hand side, a column for each row, and one for each chain; the last row is what each of them would cost."""

    def __init__(self, bits: list[int], rooms: list[int], left_out: float) -> None:
        self.bits, self.rows = bits, len(bits) + len(rooms)
        self.row_of_bit = {bit: row for row, bit in enumerate(bits)}
        self.row_of_room = {room: len(bits) + row for row, room in enumerate(rooms)}
        self.cost = np.repeat((left_out, 0.0), (len(bits), len(rooms)))
        self.table = np.zeros((self.rows + 1, 1 + self.rows + _FIRST))
        self.table[:-1, 1 : self.rows + 1] = np.eye(self.rows)
        self.table[:-1, 0] = 1 + np.arange(1, self.rows + 1) * 40_503 % 65_536 * _UNEVEN
        self.basis = list(range(self.rows))
        self.chains: list[Chain] = []
        self.known: set[tuple[int, tuple[int, ...]]] = set()

    def add(self, chains: list[Chain]) -> None:
        """More columns, but for those that relieve the same by the same rooms as one before."""
        price = self._prices()
        for chain in chains:
            if (chain.relieved, chain.rooms) in self.known:
                continue
            self.known.add((chain.relieved, chain.rooms))
            rows = [row for bit, row in self.row_of_bit.items() if chain.relieved >> bit & 1]
            rows += [self.row_of_room[room] for room in chain.rooms]
            column, cost = np.zeros(self.rows), float(chain.cost)
            for row in rows:
                column += self.table[:-1, 1 + row]
                cost -= float(price[row])
            at = 1 + self.rows + len(self.chains)
            if at == self.table.shape[1]:
                self.table = np.concatenate((self.table, np.zeros_like(self.table)), axis=1)
            self.table[:-1, at], self.table[-1, at] = column, cost
            self.chains.append(chain)

    def solve(self) -> None:
        """Pivot until no column makes it cheaper."""
        table = self.table[:, : 1 + self.rows + len(self.chains)]
        for _ in range(_PIVOTS):
            enters = 1 + int(table[-1, 1:].argmin())
            column = table[:-1, enters]
            able = column > _NOTHING
            if table[-1, enters] > _NO_GAIN or not able.any():
                return
            leaves = int(np.where(able, table[:-1, 0] / np.where(able, column, 1), np.inf).argmin())
            row, factor = table[leaves] / table[leaves, enters], table[:, enters].copy()
            factor[leaves] = 0
            others = np.flatnonzero(factor)
            table[others] -= factor[others, None] * row
            table[leaves] = row
            self.basis[leaves] = enters - 1

    def prices(self, unit: int) -> tuple[dict[int, int], dict[int, int]]:
        """What it is worth to relieve each member, by its bit, and what a room is (0 or less), in parts of a move."""
        price = np.rint(self._prices() * unit).astype(np.int64).tolist()
        of_bit = {bit: price[row] for bit, row in self.row_of_bit.items()}
        return of_bit, {room: price[row] for room, row in self.row_of_room.items()}

    def parts(self) -> list[tuple[float, Chain]]:
        """How much of each chain is used, most first."""
        used = [(-float(self.table[row, 0]), column - self.rows) for row, column in enumerate(self.basis) if column >= self.rows]
        return [(-part, self.chains[at]) for part, at in sorted(used)]

    def left_out(self) -> list[int]:
        """Bits of members of which about half is not relieved, or more."""
        rows = [row for row, column in enumerate(self.basis) if column < len(self.bits) and self.table[row, 0] >= _HALF]
        return sorted(self.bits[self.basis[row]] for row in rows)

    def _prices(self) -> Floats:
        price: Floats = self.cost - self.table[-1, 1 : self.rows + 1]
        return price
