"""Lag from offsets: committed, first and end offset of each partition to records behind, in one vectorised pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.errors import OptionError, ProblemError, some
from counterpoise.model.arrays import LockedArrays, as_array, locked
from counterpoise.model.problem import Int64

EXACT = 0
"""End minus committed, both as given."""
RESET_POLICY = 1
"""Nothing committed: the lag follows from `auto.offset.reset`."""
BEYOND_END = 2
"""Committed beyond the end (topic created again, log truncated): clamped to 0."""
BELOW_BEGIN = 3
"""Committed below the first offset (retention): clamped to what is still there."""

UInt8: TypeAlias = npt.NDArray[np.uint8]

__all__ = ["BELOW_BEGIN", "BEYOND_END", "EXACT", "RESET_POLICY", "PartitionLag", "partition_lag"]


@dataclass(frozen=True, eq=False)
class PartitionLag(LockedArrays):
    """Lag per partition and how it was found.

    Attributes
    ----------
    lag : int64[P]
        Records behind, at least 0.
    quality : uint8[P]
        EXACT, RESET_POLICY, BEYOND_END or BELOW_BEGIN.
    """

    lag: Int64
    quality: UInt8


def partition_lag(
    committed: npt.ArrayLike | Sequence[int | None],
    begin: npt.ArrayLike,
    end: npt.ArrayLike,
    *,
    reset: str = "latest",
    names: Sequence[str] | None = None,
) -> PartitionLag:
    """Records behind, per partition.

    Parameters
    ----------
    committed : int64[P], or a sequence with None
        Committed offset (the next one to read); negative or None if nothing is committed.
    begin, end : int64[P]
        First offset still there, and log end offset.
    reset : str
        The group's `auto.offset.reset`: with nothing committed `latest` means lag 0, `none` is an error, and
        `earliest` or any other value means all that is there, end - begin.
    names : sequence of str, optional
        Partition names for messages; default: their positions.

    Returns
    -------
    PartitionLag

    Raises
    ------
    OptionError
        `reset` is `none` and some partition has nothing committed: Kafka's consumers stop with an exception there. Or it
        is no text.
    ProblemError
        Lengths differ, an offset is negative or beyond int64, or an end lies below its begin.

    Notes
    -----
    O(P). Source: the lag rules of KAFKA-5337; its text subtracts the wrong way round once; here lag is end minus
    committed.

    Examples
    --------
    >>> partition_lag([40, None, 7], [0, 5, 0], [100, 25, 5]).lag.tolist()
    [60, 0, 0]
    >>> partition_lag([40, None, 7], [0, 5, 0], [100, 25, 5], reset="earliest").lag.tolist()
    [60, 20, 0]
    """
    given = [-1 if offset is None else offset for offset in committed] if isinstance(committed, Sequence) else committed
    done, first, last = _offsets("committed", given), _offsets("begin", begin), _offsets("end", end)
    if not isinstance(reset, str):
        raise OptionError(f"reset: {reset!r} is no policy; expected 'latest', 'earliest' or 'none', or another one of Kafka's")
    if names is not None and len(names) != len(done):
        raise ProblemError(f"names: {len(names)} for {len(done)} partitions")
    if not len(done) == len(first) == len(last):
        raise ProblemError(f"committed, begin, end: expected equal lengths, got {len(done)}, {len(first)}, {len(last)}")
    wrong = np.flatnonzero((first < 0) | (last < first))
    if len(wrong):
        at = int(wrong[0])
        raise ProblemError(f"partition {_named(wrong, names)}: begin {first[at]} and end {last[at]} are no range of offsets")
    missing = done < 0
    policy = reset.lower()
    if policy == "none" and missing.any():
        raise OptionError(
            f"nothing is committed for partition {_named(np.flatnonzero(missing), names)} and auto.offset.reset is none: "
            "the lag is not defined; commit offsets first, or name another policy"
        )
    nothing_done = last if policy == "latest" else first
    position = np.where(missing, nothing_done, np.clip(done, first, last))
    quality = np.full(len(done), EXACT, np.uint8)
    quality[done > last] = BEYOND_END
    quality[done < first] = BELOW_BEGIN
    quality[missing] = RESET_POLICY
    return PartitionLag(locked(last - position), locked(quality))


def _offsets(name: str, values: object) -> Int64:
    array = as_array(name, values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ProblemError(f"{name}: expected one integer per partition")
    if array.size and array.dtype.kind == "u" and int(array.max()) >= 2**63:
        raise ProblemError(f"{name}: {array.max()} is no offset; these end at 2**63 - 1")
    return array.astype(np.int64)


def _named(at: Int64 | npt.NDArray[np.intp], names: Sequence[str] | None) -> str:
    """The first few partitions of `at` in words."""
    return some([str(i) if names is None else names[i] for i in at.tolist()])
