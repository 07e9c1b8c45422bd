"""Numbers that look like chance and are always the same, on every machine: splitmix64 in whole numbers, and noise made of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

_ODD, _MIX_1, _MIX_2 = (np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_TABLE = 1 << 15
_STRIDE = 7_368_787
"""A prime larger than the table: where the next numbers are read is far from where the last ones were."""
_LN2 = 0.6931471805599453

__all__ = ["Noise", "splitmix"]

Floats = npt.NDArray[np.float64]


def splitmix(first: int, number: int) -> Int64:
    """The numbers of splitmix64 from the state `first` on, int64[2, number]: the upper halves of each, the lower ones."""
    drawn: npt.NDArray[np.uint64] = np.arange(1, number + 1, dtype=np.uint64) + np.uint64(first)
    drawn *= _ODD
    for shift, factor in ((30, _MIX_1), (27, _MIX_2)):
        drawn ^= drawn >> np.uint64(shift)
        drawn *= factor
    drawn ^= drawn >> np.uint64(31)
    return np.stack((drawn >> np.uint64(32), drawn & np.uint64(2**32 - 1))).astype(np.int64)


class Noise:
    """A reader of a table that begins anew each time: what is read depends on what has been asked for so far alone."""

    def __init__(self) -> None:
        self._at = 0

    def below(self, bound: int, number: int) -> Int64:
        """So many numbers from 0 to `bound` - 1."""
        return self._next(_tables()[0], number) * bound >> 32

    def gumbel(self, *shape: int) -> Floats:
        """Gumbel noise: what is least after it is taken off is drawn by the Boltzmann distribution."""
        number = 1
        for size in shape:
            number *= size
        return self._next(_tables()[1], number).reshape(shape)

    def _next(self, table: npt.NDArray[Any], number: int) -> npt.NDArray[Any]:
        self._at += _STRIDE
        if number > len(table):
            table = np.resize(table, number)
        begin = self._at % (len(table) - number + 1)
        return table[begin : begin + number]


@lru_cache(maxsize=1)
def _tables() -> tuple[Int64, Floats]:
    """Numbers below 2**32, and Gumbel noise by others."""
    numbers, others = splitmix(0, _TABLE)
    return numbers, -_log(-_log((others + 0.5) * 2.0**-32))


def _log(value: Floats) -> Floats:
    """The natural logarithm, straight between powers of two: libraries differ in the last digit of a better one."""
    fraction, exponent = np.frexp(value)
    straight: Floats = _LN2 * (exponent + 2 * fraction - 2)
    return straight
