"""The groups of a bucket laid out: whole or, where that is too much, some partitions at a time; what stood still, likewise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums_file import read_bucket
from counterpoise.pipeline.direct.groups.bucket import Bucket, laid_out, whole_bucket
from counterpoise.pipeline.direct.groups.commit_counts import counts_of, slim_counts
from counterpoise.pipeline.direct.groups.dealt import AT_ONCE, PARTS, Dealt, part_of
from counterpoise.pipeline.direct.groups.folding import Folded
from counterpoise.pipeline.direct.groups.held import coded
from counterpoise.pipeline.direct.groups.owners import OwnedOnDisk, moments_of
from counterpoise.pipeline.direct.groups.steps_taken import DealtHeld
from counterpoise.pipeline.direct.groups.stop_rows import spans_of, stop_rows
from counterpoise.pipeline.direct.tasks import give_back

__all__ = ["Slices"]


class Slices:
    """A bucket's groups.

    Parameters
    ----------
    folder : str
        For what is dealt, until this is closed.
    sums : iterator of pyarrow.Table
        Of the bucket, some at a time, as `sums_file.bucket_parts` gives them.
    folded : Folded
    samples : int64
        Instants of samples, ascending.
    width : float, optional
        Mean time between them.
    keep : bool
        Whether `told` will be asked for.

    Attributes
    ----------
    counted : pyarrow.Table
        `commit_counts.counts_of` the bucket.
    """

    def __init__(
        self,
        folder: str,
        sums: Iterator[pa.Table],
        folded: Folded,
        samples: Int64,
        width: float | None,
        *,
        keep: bool = False,
    ) -> None:
        self._folder, self._steps, self._cut = folder, folded.steps, (samples, width)
        self._whole: Bucket | None = None
        self._told: pa.Table | None = None
        self._held: DealtHeld | None = folded.dealt
        self._sums: Dealt | None = None
        self._parts = [range(PARTS)]
        some, rows = [read_bucket((), 0)], 0
        for told in sums if folded.dealt is None else ():
            some.append(told)
            rows += len(told)
            if rows > AT_ONCE:
                break
        if folded.dealt is None and rows <= AT_ONCE:
            told = pa.concat_tables(some).combine_chunks()
            self.counted = counts_of(told)
            self._whole = whole_bucket(told, folded.steps, *self._cut)
            self._told = told if keep else None
        else:
            self._deal(chain(some, sums))

    def __enter__(self) -> Slices:
        return self

    def __exit__(self, *_: object) -> None:
        for rows in (None if self._held is None else self._held.rows, self._sums):
            if rows is not None:
                rows.delete()

    def _deal(self, sums: Iterator[pa.Table]) -> None:
        if self._held is None:
            self._held = DealtHeld(self._folder)
            self._held.add(self._steps)
        empty = read_bucket((), 0)
        self._sums, counts = Dealt(self._folder, "dealt", empty.schema), [slim_counts(empty)]
        for told in sums:
            partition = told["partition"].to_numpy().astype(np.int64)
            self._sums.add(told, part_of(*coded(told["group_id"]), *coded(told["topic"]), partition))
            counts.append(slim_counts(told))
        self.counted = counts_of(pa.concat_tables(counts))
        self._parts = list(_together(self._held.rows.rows + self._sums.rows))

    def __len__(self) -> int:
        return len(self._parts)

    def bucket(self, at: int) -> Bucket:
        """One slice, laid out when it is asked for; at most one of them at a time is wanted."""
        if self._whole is not None:
            return self._whole
        assert self._held is not None
        assert self._sums is not None
        give_back()
        parts = self._parts[at]
        return laid_out(self._sums.read(parts), self._steps, self._held.read(parts), *self._cut)

    def told(self, at: int) -> pa.Table:
        """The sums that one slice was laid out from."""
        if self._sums is not None:
            return self._sums.read(self._parts[at])
        assert self._told is not None, "is not kept"
        return self._told

    def stops(self) -> Iterator[pa.RecordBatch]:
        """Rows of `stop_rows.stop_rows`."""
        if self._whole is not None:
            yield stop_rows(self._whole)
            return
        with OwnedOnDisk(self._folder, self._ends()) as owned:
            for at in range(len(self)):
                bucket = self.bucket(at)
                owned.add(spans_of(bucket).committed(bucket))
                del bucket
            owned.settle()
            for at in range(len(self)):
                yield stop_rows(self.bucket(at), owned)

    def _ends(self) -> list[int]:
        """Where to divide moments and owners, as `Spans.committed` numbers them: not too many rows in each part."""
        assert self._held is not None
        bucket = self.bucket(0)
        at = moments_of(bucket.steps).of_step
        weight = np.zeros(int(at.max(initial=0)) + 1, np.int64)
        np.add.at(weight, at, np.concatenate([np.zeros(0, np.int64), *self._held.of_step]))
        part = np.cumsum(weight) // AT_ONCE
        ends = [*np.flatnonzero(part[1:] != part[:-1]) + 1, len(weight)]
        return [int(end) * (len(bucket.members) + 1) for end in ends]


def _together(rows: Int64) -> Iterator[range]:
    """Parts that are read together."""
    first, held = 0, 0
    for at, more in enumerate(rows.tolist()):
        if held and held + more > AT_ONCE:
            yield range(first, at)
            first, held = at, 0
        held += more
    yield range(first, len(rows))
