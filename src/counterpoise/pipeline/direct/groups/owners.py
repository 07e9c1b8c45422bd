"""What owners committed of all that they were handed at one time: the first commit, the last one, the shortest usual gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.marked_file import MarkedFile, marked_batches
from counterpoise.pipeline.direct.groups.held import Steps

__all__ = ["Moments", "Owned", "OwnedOnDisk", "moments_of", "owned_of"]

Float = npt.NDArray[np.float64]
_SCHEMA = pa.schema([("key", pa.int64()), ("first", pa.int64()), ("last", pa.int64()), ("gap", pa.float64())])


@dataclass(frozen=True)
class Moments:
    """The different times of each group's steps, numbered through; before those of a group there is one for its time before.

    Attributes
    ----------
    of_step, before : int64
        By step, and by group as far as groups have steps.
    """

    of_step: Int64
    before: Int64


def moments_of(steps: Steps) -> Moments:
    """The moments of some steps."""
    order = np.lexsort((steps.time, steps.group))
    group, time = steps.group[order], steps.time[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = group[1:] != group[:-1]
    new = fresh.copy()
    new[1:] |= time[1:] != time[:-1]
    number = np.cumsum(new) + np.cumsum(fresh) - 1
    of_step = np.empty(len(order), np.int64)
    of_step[order] = number
    before = np.zeros(int(group[-1]) + 1 if len(group) else 0, np.int64)
    before[group[fresh]] = number[fresh] - 1
    return Moments(of_step, before)


@dataclass(frozen=True)
class Owned:
    """One row per moment and owner, both as one number, ascending; as in `stop_rows.Spans`."""

    key: Int64
    first: Int64
    last: Int64
    gap: Float


def owned_of(rows: Owned) -> Owned:
    """Rows of equal keys as one."""
    order = np.argsort(rows.key, kind="stable")
    key = rows.key[order]
    starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1]))) if len(key) else order
    if not len(starts):
        return rows
    first, last = np.minimum.reduceat(rows.first[order], starts), np.maximum.reduceat(rows.last[order], starts)
    return Owned(key[starts], first, last, np.fmin.reduceat(rows.gap[order], starts))


class OwnedOnDisk:
    """The same over several slices of partitions: some moments at a time, on disk.

    Parameters
    ----------
    folder : str
    ends : sequence of int
        The numbers up to which each part of it goes, ascending.
    """

    def __init__(self, folder: str, ends: Sequence[int]) -> None:
        self._folder, self._ends = folder, np.array(ends, np.int64)
        self._files: list[MarkedFile] = [MarkedFile(folder, "owned", _SCHEMA), MarkedFile(folder, "owned", _SCHEMA)]

    def __enter__(self) -> OwnedOnDisk:
        return self

    def __exit__(self, *_: object) -> None:
        for out in self._files:
            out.__exit__()
            if out.file is not None:
                Path(out.file).unlink()

    def add(self, rows: Owned) -> None:
        """What the owners committed of one slice."""
        self._write(self._files[0], owned_of(rows))

    def settle(self) -> None:
        """There are no more slices."""
        slices, whole = self._files
        slices.__exit__()
        for part in range(len(self._ends)):
            self._write(whole, owned_of(_read(slices, part)))
        whole.__exit__()

    def of(self, key: Int64) -> tuple[Int64, Int64, Float]:
        """First, last and gap of each of some keys that were added, when all is settled."""
        order = np.argsort(key, kind="stable")
        bounds = [0, *np.searchsorted(key[order], self._ends).tolist()]
        first, last, gap = np.empty(len(key), np.int64), np.empty(len(key), np.int64), np.empty(len(key))
        for part, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                known, rows = _read(self._files[1], part), order[begin:end]
                at = np.searchsorted(known.key, key[rows])
                first[rows], last[rows], gap[rows] = known.first[at], known.last[at], known.gap[at]
        return first, last, gap

    def _write(self, out: MarkedFile, rows: Owned) -> None:
        bounds = [0, *np.searchsorted(rows.key, self._ends).tolist()]
        table = pa.table([pa.array(column) for column in (rows.key, rows.first, rows.last, rows.gap)], schema=_SCHEMA)
        for part, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                out.write(table.slice(begin, end - begin), part)


def _read(file: MarkedFile, part: int) -> Owned:
    batches = marked_batches([(file.file, file.marks)], part) if file.file is not None else ()
    table = pa.Table.from_batches(batches, _SCHEMA).combine_chunks()
    return Owned(*(table[name].to_numpy() for name in _SCHEMA.names))
