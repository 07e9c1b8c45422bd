"""Sorted arrays: runs of equal rows, slices, look-ups in many ranges at once; and tables as dataclasses of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from counterpoise.model.problem import Int64

__all__ = [
    "NEVER", "Bool", "Columns", "Float", "first_of_runs", "last_at", "last_of_runs", "pick", "run_starts", "runs", "slices",
    "widened",
]  # fmt: skip

Bool = npt.NDArray[np.bool_]
Float = npt.NDArray[np.float64]
NEVER = np.iinfo(np.int64).max
"""The largest int64. As an earliest time: there is none. `-NEVER` as a latest time: there is none."""
_KINDS = {"Int64": np.int64, "Int32": np.int32, "Bool": np.bool_, "Float": np.float64}


class Columns:
    """A dataclass of columns: arrays (or lists) of equal length."""

    @classmethod
    def empty(cls) -> Self:
        """A table without rows."""
        return cls(*([] if str(one.type) not in _KINDS else np.zeros(0, _KINDS[str(one.type)]) for one in fields(cls)))  # type: ignore[arg-type]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of all tables, at least one."""
        columns = ([getattr(part, one.name) for part in parts] for one in fields(cls))  # type: ignore[arg-type]
        return cls(*(list(chain(*values)) if isinstance(values[0], list) else np.concatenate(values) for values in columns))

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def take(self, rows: Any) -> Self:
        """The given rows."""
        columns = (getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]
        return type(self)(*([one[at] for at in rows.tolist()] if isinstance(one, list) else one[rows] for one in columns))

    def put(self, rows: npt.NDArray[Any], **values: Any) -> Self:
        """A copy with these values of arrays in the given rows; of several values for one row the last one wins."""
        columns = {name: getattr(self, name).copy() for name in values}
        for name, column in columns.items():
            column[rows] = values[name]
        return replace(self, **columns)  # type: ignore[type-var]


def first_of_runs(*columns: npt.NDArray[Any]) -> Bool:
    """Whether each row differs from the previous one in any of the columns."""
    first = np.ones(len(columns[0]), np.bool_)
    first[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        first[1:] |= column[1:] != column[:-1]
    return first


def last_of_runs(*columns: npt.NDArray[Any]) -> Bool:
    """Whether each row differs from the next one in any of the columns."""
    return np.append(first_of_runs(*columns)[1:], True)[: len(columns[0])]


def run_starts(*columns: npt.NDArray[Any]) -> Int64:
    """The first row of each run of rows that are equal in all columns."""
    return np.flatnonzero(first_of_runs(*columns))


def runs(*columns: npt.NDArray[Any]) -> Iterator[slice]:
    """The runs of rows that are equal in all columns."""
    starts = run_starts(*columns).tolist()
    return map(slice, starts, [*starts[1:], len(columns[0])])


def slices(sizes: npt.NDArray[Any], most: int) -> Iterator[slice]:
    """Slices of consecutive rows whose sizes add up to `most` at most; a slice has at least one row."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most, "right")))
        yield slice(start, end)
        start = end


def widened(column: Int64, size: int, fill: int = 0) -> Int64:
    """The column extended to `size` rows; new rows hold `fill`."""
    return np.concatenate((column, np.full(size - len(column), fill)))


def pick(column: npt.NDArray[Any], rows: Int64) -> Any:
    """`column[rows]`, where row -1 gives any value; the column may be empty if all rows are -1."""
    return column[rows] if len(column) else np.zeros(len(rows), column.dtype)


def last_at(values: Int64, first: Int64, after: Int64, limit: Int64) -> Int64:
    """For each row, the index of the last value in ``values[first:after]``, which rises, up to `limit`; -1 = none."""
    low, high = first.astype(np.int64), after.astype(np.int64)
    while (searching := low < high).any():
        middle = (low + high) // 2
        fits = np.zeros(len(low), np.bool_)
        fits[searching] = values[middle[searching]] <= limit[searching]
        low, high = np.where(searching & fits, middle + 1, low), np.where(searching & ~fits, middle, high)
    return np.where(low > first, low - 1, -1)
