"""The lag that leaders could have known (`lag.lag_at_generations`), for the groups of one bucket: set aside when lag is found,
looked up when strategies are replayed.

A generation is given the lag of the last instant at or before it at which any group of the cluster has a row by a sample. Which
instants these are is known when all buckets are through; a bucket sets aside what may be asked of it then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.marked_file import Marked, marked_batches
from counterpoise.pipeline.direct.groups.held import coded

__all__ = ["ASKED", "AskedLag", "LagKnown", "seen_at"]

ASKED = pa.schema(
    [("group_id", pa.string()), ("at", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("lag", pa.int64())]
)
_NAME = pa.dictionary(pa.int32(), pa.string())
_ENCODED = pa.schema([(field.name, _NAME if pa.types.is_string(field.type) else field.type) for field in ASKED])
_INTERPOLATED = "interpolated"


def seen_at(batch: pa.RecordBatch) -> set[int]:
    """The instants of rows of `partition_lag` that are by a sample, in microseconds."""
    by_sample = batch.filter(pc.not_equal(batch.column("quality"), _INTERPOLATED))
    return set(by_sample.column("at").cast(pa.int64()).unique().to_pylist())


class AskedLag:
    """Picks what generations may ask for out of a bucket's rows of `partition_lag`.

    Parameters
    ----------
    generations : sequence of (group, microseconds)
    instants : int64
        At which was sampled, ascending.
    """

    def __init__(self, generations: Sequence[tuple[str, int]], instants: Int64) -> None:
        self._groups = sorted({group for group, _ in generations})
        number = {group: at for at, group in enumerate(self._groups)}
        self._instants = instants
        self._group = np.array([number[group] for group, _ in generations], np.int64)
        self._last = np.searchsorted(instants, np.array([at for _, at in generations], np.int64), "right") - 1

    def pick(self, rows: Callable[[], Iterable[pa.RecordBatch]], seen: set[int]) -> Iterator[pa.Table]:
        """Rows of `ASKED`; `rows` gives the bucket's rows of `partition_lag`, `seen` gains their instants.

        Notes
        -----
        The rows are asked for a second time where no group of this bucket has a row at the last sample before a generation: then
        an earlier one may count.
        """
        known, n = self._last >= 0, max(len(self._instants), 1)
        here: set[int] = set()
        wanted = np.unique(self._group[known] * n + self._last[known])
        for batch in rows():
            here |= seen_at(batch)
            yield self._of(batch, wanted)
        seen |= here
        found = np.isin(self._instants, np.array(sorted(here), np.int64))
        newest = np.maximum.accumulate(np.where(found, np.arange(len(found)), -1)) if len(found) else np.zeros(0, np.int64)
        earlier: set[int] = set()
        for group, last in zip(self._group[known].tolist(), self._last[known].tolist(), strict=True):
            earlier.update(group * n + at for at in range(max(int(newest[last]), 0), last))
        wanted = np.setdiff1d(np.array(sorted(earlier), np.int64), wanted)
        if len(wanted):
            for batch in rows():
                yield self._of(batch, wanted)

    def _of(self, batch: pa.RecordBatch, wanted: Int64) -> pa.Table:
        n = max(len(self._instants), 1)
        at = batch.column("at").cast(pa.int64()).to_numpy()
        group = pc.index_in(batch.column("group_id"), pa.array(self._groups, pa.string())).fill_null(-1).to_numpy()
        place = np.minimum(np.searchsorted(self._instants, at), n - 1)
        exact = self._instants[place] == at if len(self._instants) else np.zeros(len(at), np.bool_)
        mine = exact & (group >= 0) & batch.column("lag").is_valid().to_numpy(zero_copy_only=False)
        mine &= np.isin(group.astype(np.int64) * n + place, wanted)
        rows = batch.take(pa.array(np.flatnonzero(mine)))
        columns = [rows.column("at").cast(pa.int64()) if name == "at" else rows.column(name) for name in ASKED.names]
        return pa.Table.from_arrays(columns, schema=ASKED)


class LagKnown:
    """What was set aside for one bucket, by generation.

    Parameters
    ----------
    files : Marked
        Rows of `ASKED` by bucket.
    bucket : int
    seen : int64
        The instants of the cluster that count, ascending.
    """

    def __init__(self, files: Marked, bucket: int, seen: Int64) -> None:
        self._seen: list[int] = seen.tolist()
        # Of a huge group these are many: its name and those of its topics are held once, not in every row.
        parts = [_encoded(batch) for batch in marked_batches(files, bucket)]
        rows = pa.Table.from_batches(parts, _ENCODED).unify_dictionaries().combine_chunks()
        (group, groups), (topic, topics) = coded(rows["group_id"]), coded(rows["topic"])
        at, partition = rows["at"].to_numpy(), rows["partition"].to_numpy()
        order = np.lexsort((partition, topic, at, group))
        self._partition, self._lag = partition[order], rows["lag"].to_numpy()[order]
        self._topics: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
        begins = _changes(group[order], at[order], topic[order])
        for begin, end in pairwise([*begins.tolist(), len(order)]):
            row = order[begin]
            place = (groups[group[row]], int(at[row]))
            self._topics.setdefault(place, []).append((topics[topic[row]], begin, end))

    def at(self, group: str, moment: int) -> list[Mapping[str, Any]] | None:
        """``topic, partitions, lags`` of what is known of a group at a time; None: nobody's lag was known by then."""
        last = bisect_right(self._seen, moment) - 1
        if last < 0:
            return None
        return [
            {"topic": topic, "partitions": self._partition[begin:end], "lags": self._lag[begin:end]}
            for topic, begin, end in self._topics.get((group, self._seen[last]), ())
        ]


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=_ENCODED)


def _changes(*columns: npt.NDArray[Any]) -> Int64:
    """The rows in which any column differs from the row before; the first one too."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(new)
