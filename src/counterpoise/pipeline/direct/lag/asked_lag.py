"""The lag that leaders could have known (`lag.lag_at_generations`), for the groups of one bucket: set aside when lag is found,
looked up when strategies are replayed.

A generation is given the lag of the last instant at or before it at which log ends of its cluster were sampled, whether or not
its own logs were among them: so it does not matter which groups are looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.marked_file import Marked, marked_batches
from counterpoise.pipeline.direct.groups.held import coded

__all__ = ["ASKED", "AskedLag", "LagKnown"]

ASKED = pa.schema(
    [("group_id", pa.string()), ("at", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("lag", pa.int64())]
)
_NAME = pa.dictionary(pa.int32(), pa.string())
_ENCODED = pa.schema([(field.name, _NAME if pa.types.is_string(field.type) else field.type) for field in ASKED])


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
        group = np.array([number[group] for group, _ in generations], np.int64)
        last = np.searchsorted(instants, np.array([at for _, at in generations], np.int64), "right") - 1
        self._wanted = np.unique(group[last >= 0] * len(instants) + last[last >= 0])

    def of(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows of `ASKED` among rows of `partition_lag`."""
        if not len(self._wanted):
            return ASKED.empty_table()
        at = rows.column("at").cast(pa.int64()).to_numpy()
        group = pc.index_in(rows.column("group_id"), pa.array(self._groups, pa.string())).fill_null(-1).to_numpy()
        n = len(self._instants)
        place = np.minimum(np.searchsorted(self._instants, at), n - 1)
        mine = (self._instants[place] == at) & (group >= 0) & rows.column("lag").is_valid().to_numpy(zero_copy_only=False)
        mine &= np.isin(group.astype(np.int64) * n + place, self._wanted)
        found = rows.take(pa.array(np.flatnonzero(mine)))
        columns = [found.column("at").cast(pa.int64()) if name == "at" else found.column(name) for name in ASKED.names]
        return pa.Table.from_arrays(columns, schema=ASKED)


class LagKnown:
    """What was set aside for one bucket, by generation.

    Parameters
    ----------
    files : Marked
        Rows of `ASKED` by bucket.
    bucket : int
    instants : sequence of int
        At which log ends of the cluster were sampled, in microseconds, ascending.
    """

    def __init__(self, files: Marked, bucket: int, instants: Sequence[int]) -> None:
        self._instants = instants
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
        """``topic, partitions, lags`` of what is known of a group at a time; None: no log end had been sampled by then."""
        last = bisect_right(self._instants, moment) - 1
        if last < 0:
            return None
        return [
            {"topic": topic, "partitions": self._partition[begin:end], "lags": self._lag[begin:end]}
            for topic, begin, end in self._topics.get((group, self._instants[last]), ())
        ]


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=_ENCODED)


def _changes(*columns: npt.NDArray[Any]) -> Int64:
    """The rows in which any column differs from the row before; the first one too."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(new)
