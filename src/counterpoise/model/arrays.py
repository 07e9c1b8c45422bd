"""Arrays that describe a group: their types, the codes for no member, and the checks that make them read-only."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from counterpoise.errors import ProblemError

Int32: TypeAlias = npt.NDArray[np.int32]
Int64: TypeAlias = npt.NDArray[np.int64]

UNOWNED = -1
"""No member: none claims the partition, or none may have it."""
CONTESTED = -2
"""Two members claim the partition in the same, highest generation: neither owns it."""

__all__ = [
    "CONTESTED",
    "UNOWNED",
    "Int32",
    "Int64",
    "LockedArrays",
    "as_array",
    "codes",
    "locked",
    "python_scalar",
    "ranges",
    "ranks_in_runs",
    "read_only",
    "starts",
    "sums_by_code",
]


def as_array(name: str, values: object) -> npt.NDArray[Any]:
    """The values as an array. Raises `ProblemError` if they are lists of different lengths; the message starts with `name`."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ProblemError(f"{name}: expected a flat list of integers") from None


def locked(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, made read-only; the caller holds the only reference."""
    array.flags.writeable = False
    return array


def python_scalar(value: object) -> Any:
    """The Python number, bool or text that a NumPy scalar holds; any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


class LockedArrays:
    """Base of results with read-only arrays: NumPy makes a copied or pickled array writeable, this locks it again."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: locked(part) if isinstance(part, np.ndarray) else part for name, part in state.items()})


def read_only(name: str, values: object, dtype: type, length: int) -> npt.NDArray[Any]:
    """Integers as a read-only array of this type and length; copied if other code could change them.

    Raises `ProblemError` if they have another length, are no integers, or lie outside the type; the message starts with `name`.
    """
    if type(values) is np.ndarray and values.dtype == dtype and values.shape == (length,):
        return locked(values.copy()) if values.flags.writeable or values.base is not None else values
    given = as_array(name, values)
    if given.ndim != 1 or len(given) != length:
        raise ProblemError(f"{name}: expected length {length}, got shape {given.shape}")
    if given.dtype.kind not in "iu" and given.size:
        raise ProblemError(f"{name}: expected integers, not {given.dtype}")
    if given.size and given.dtype != dtype and not np.can_cast(given.dtype, dtype):
        limits = np.iinfo(dtype)
        if not limits.min <= int(given.min()) <= int(given.max()) <= limits.max:
            raise ProblemError(f"{name}: a value lies beyond {limits.min}..{limits.max}")
    array: npt.NDArray[Any] = np.ascontiguousarray(given, dtype)
    return locked(array.copy() if array is given and (array.flags.writeable or array.base is not None) else array)


def codes(name: str, values: object, length: int) -> Int32:
    """Member codes as int32. A code outside int32 is no member: it is clipped, so that it stays no member.

    Raises `ProblemError` if they have another length, or are no integers; the message starts with `name`.
    """
    given = as_array(name, values)
    if given.dtype.kind in "iu" and given.dtype != np.int32:
        limits, known = np.iinfo(np.int32), np.iinfo(given.dtype)
        given = np.asarray(np.clip(given, max(limits.min, int(known.min)), min(limits.max, int(known.max))))
    return read_only(name, given, np.int32, length)


def starts(name: str, values: object, length: int | None = None) -> npt.NDArray[Any]:
    """Slice bounds as int64, of this length if one is given: they start at 0 and never fall.

    Raises `ProblemError` if they do otherwise; the message starts with `name`.
    """
    given = as_array(name, values)
    if given.ndim != 1 or not len(given):
        raise ProblemError(f"{name}: expected at least the leading 0, in a list")
    array = read_only(name, given, np.int64, len(given) if length is None else length)
    if array[0] != 0 or (array[1:] < array[:-1]).any():
        raise ProblemError(f"{name}: must start at 0 and never fall")
    return array


def ranks_in_runs(run_length: Int64) -> Int64:
    """0, 1, .. within each run: ``[2, 3] -> [0, 1, 0, 1, 2]``; O(sum of lengths)."""
    ends = np.cumsum(run_length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - run_length, run_length)


def ranges(start: Int64, length: Int64) -> Int64:
    """The numbers of all ranges [start, start + length), one range after the other."""
    return np.asarray(np.repeat(start, length) + ranks_in_runs(length), np.int64)


def sums_by_code(code: npt.NDArray[np.integer], values: Int64, n: int) -> Int64:
    """Sum of the values of each code in 0..n-1, int64[n]; exact if it fits. Values of negative codes are left out."""
    total = np.zeros(n, np.int64)
    inside = np.flatnonzero(code >= 0)
    np.add.at(total, code[inside], values[inside])
    return total
