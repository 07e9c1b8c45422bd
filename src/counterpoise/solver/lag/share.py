"""Even shares: how much of each topic class goes to each column, as evenly as supply, room and subscriptions allow.

Iterated proportional fitting: shares are `row[k] * column[m]` wherever the class may go, with factors such that rows add up
to the supply and columns fill in one proportion. A max flow would do as well, but answers with a few big amounts; even
shares can be dealt to everybody at once. The factors are rounded to so few bits that every sum of them is exact: no order
of summation, library or processor changes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

_ROUNDS = 24
_MANTISSA = 52

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

__all__ = ["Bools", "Floats", "Shares", "even_shares"]


@dataclass(frozen=True, slots=True)
class Shares:
    """Factors of the shares.

    Attributes
    ----------
    row : float64[rows]
    column : float64[columns]
        Row k sends `row[k] * column[m]` of everything (the sum of the supply is 1) to each column m that it may go to.
    fullest : float
        The largest part of its room that a column is given, over the part that all together are.
    """

    row: Floats
    column: Floats
    fullest: float


def even_shares(supply: Int64, room: Int64, may: Bools, *, near: float) -> Shares:
    """Fit until no column is fuller than the average one by more than `near`, or the rounds are over.

    Rows without supply, columns without room and columns that no supply may go to take no part.

    Notes
    -----
    O(cells) a round. Converges in a handful of rounds where every column can be filled alike, and slowly where only just.
    """
    table = may.astype(np.float64)
    rows, columns = may.shape
    row_steps, column_steps = 2.0 ** (_MANTISSA - rows.bit_length()), 2.0 ** (_MANTISSA - columns.bit_length())
    wanted = supply / max(int(supply.sum()), 1)
    usable = np.where((supply > 0).astype(np.float64) @ table > 0, np.maximum(room, 0), 0)
    have = usable / max(int(usable.sum()), 1)
    row, column, fullest = np.zeros(rows), have, np.inf
    takes = np.where(have > 0, have, np.inf)  # nothing of nothing is 0
    for _ in range(_ROUNDS if usable.any() else 0):
        column = column * (column_steps / max(float(column.max()), 1e-300))
        np.rint(column, out=column)
        row = _over(wanted, table @ column)
        top = max(float(row.max(initial=0)), 1e-300)
        press = np.rint(row * (row_steps / top)) @ table
        press *= top / row_steps
        given = column * press
        lost = abs(float(given.cumsum()[-1]) - 1) > near  # a factor has been rounded away
        fullest = np.inf if lost else float((given / takes).max())
        if fullest <= 1 + near:
            break
        column = have / press if float(press.min()) > 0 else _over(have, press)
    return Shares(row, column, fullest)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """n / d, and 0 where d is 0."""
    return np.divide(numerator, denominator, out=np.zeros(len(denominator)), where=denominator > 0)
