"""Numbers that look like chance and are always the same, on every machine: splitmix64 in whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

_ODD, _MIX_1, _MIX_2 = (np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

__all__ = ["splitmix"]


def splitmix(first: int, number: int) -> Int64:
    """The numbers of splitmix64 from the state `first` on, int64[2, number]: the upper halves of each, the lower ones."""
    drawn: npt.NDArray[np.uint64] = np.arange(1, number + 1, dtype=np.uint64) + np.uint64(first)
    drawn *= _ODD
    for shift, factor in ((30, _MIX_1), (27, _MIX_2)):
        drawn ^= drawn >> np.uint64(shift)
        drawn *= factor
    drawn ^= drawn >> np.uint64(31)
    return np.stack((drawn >> np.uint64(32), drawn & np.uint64(2**32 - 1))).astype(np.int64)
