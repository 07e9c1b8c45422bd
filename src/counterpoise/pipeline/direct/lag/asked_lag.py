"""The lag that leaders could have known, for the groups of one bucket: set aside when lag is found,
looked up when strategies are replayed.

A generation is given the lag of the last instant at or before it at which log ends of its cluster were sampled, whether or not
its own logs were among them: so it does not matter which groups are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.files.marked_file import Marked, marked_batches
from counterpoise.pipeline.direct.groups.dealt import AT_ONCE, PARTS, Dealt
from counterpoise.pipeline.direct.groups.held import coded, recoded

__all__ = ["ASKED", "AskedLag", "LagKnown"]

ASKED = pa.schema(
    [("group_id", pa.string()), ("at", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("lag", pa.int64())]
)
_ROWS = pa.schema([("place", pa.int64()), ("topic", pa.int64()), ("partition", pa.int32()), ("lag", pa.int64())])


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
    """What was set aside for one bucket, by generation; where that is much some instants at a time, from disk.

    Parameters
    ----------
    files : Marked
        Rows of `ASKED` by bucket.
    bucket : int
    instants : sequence of int
        At which log ends of the cluster were sampled, in microseconds, ascending.
    folder : str
        For what is dealt, until this is closed.
    at_once : int
        So many rows are held at a time, about.
    """

    def __init__(self, files: Marked, bucket: int, instants: Sequence[int], folder: str, at_once: int = AT_ONCE) -> None:
        self._instants = np.array(instants, np.int64)
        self._groups: dict[str, int] = {}
        self._topics: dict[str, int] = {}
        self._dealt: Dealt | None = None
        self._part = 0
        held = [_ROWS.empty_table()]
        rows = 0
        for batch in marked_batches(files, bucket):
            rows += len(batch)
            if rows > at_once:
                held = [_ROWS.empty_table()]
                self._deal(files, bucket, folder, at_once)
                break
            held.append(self._coded(batch))
        self._known = _Known(pa.concat_tables(held))
        self._names = list(self._topics)

    def __enter__(self) -> LagKnown:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dealt is not None:
            self._dealt.delete()

    def at(self, group: str, moment: int) -> list[Mapping[str, Any]] | None:
        """``topic, partitions, lags`` of what is known of a group at a time; None: no log end had been sampled by then.

        Where groups are asked for one after the other, with rising times, a part is read once, or once for each group in it.
        """
        last = int(np.searchsorted(self._instants, moment, "right")) - 1
        if last < 0:
            return None
        if group not in self._groups:
            return []
        place = self._groups[group] * len(self._instants) + last
        if self._dealt is not None:
            part = int(np.searchsorted(self._begins, place, "right"))
            if part != self._part:
                self._known = _Known(_ROWS.empty_table())  # before the next is read
                self._known, self._part = _Known(self._dealt.read(range(part, part + 1))), part
        return [
            {"topic": self._names[topic], "partitions": partition, "lags": lag} for topic, partition, lag in self._known.at(place)
        ]

    def _deal(self, files: Marked, bucket: int, folder: str, at_once: int) -> None:
        """All rows over parts by their place, of about equal size: a part begins at each of `_begins`, the first is empty."""
        places, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for batch in marked_batches(files, bucket):
            place, count = np.unique(self._coded(batch)["place"].to_numpy(), return_counts=True)
            places, at = np.unique(np.concatenate((places, place)), return_inverse=True)
            counts = np.bincount(at, np.concatenate((counts, count)), len(places)).astype(np.int64)
        part = (np.cumsum(counts) - counts) // max(at_once, -(-int(counts.sum()) // (PARTS - 1)))
        self._begins = places[np.concatenate(([True], part[1:] != part[:-1]))]
        self._dealt = Dealt(folder, "lag-known", _ROWS)
        for batch in marked_batches(files, bucket):
            rows = self._coded(batch)
            self._dealt.add(rows, np.searchsorted(self._begins, rows["place"].to_numpy(), "right").astype(np.int64))

    def _coded(self, batch: pa.RecordBatch) -> pa.Table:
        """Rows of `ASKED` with group and instant as one number, their place, and a code of the topic."""
        group = recoded(*coded(batch.column("group_id")), self._groups)
        topic = recoded(*coded(batch.column("topic")), self._topics)
        place = group * len(self._instants) + np.searchsorted(self._instants, batch.column("at").to_numpy())
        return pa.table([pa.array(place), pa.array(topic), batch.column("partition"), batch.column("lag")], schema=_ROWS)


class _Known:
    """Some rows, by place."""

    def __init__(self, rows: pa.Table) -> None:
        place, topic, partition, lag = (rows[name].to_numpy() for name in _ROWS.names)
        order = np.lexsort((partition, topic, place))
        self._partition, self._lag = partition[order], lag[order]
        self._entries: dict[int, list[tuple[int, int, int]]] = {}
        begins = _changes(place[order], topic[order])
        for begin, end in pairwise([*begins.tolist(), len(order)]):
            row = order[begin]
            self._entries.setdefault(int(place[row]), []).append((int(topic[row]), begin, end))

    def at(self, place: int) -> Iterator[tuple[int, npt.NDArray[np.int32], Int64]]:
        """Topic, partitions and lags."""
        for topic, begin, end in self._entries.get(place, ()):
            yield topic, self._partition[begin:end], self._lag[begin:end]


def _changes(*columns: npt.NDArray[Any]) -> Int64:
    """The rows in which any column differs from the row before; the first one too."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(new)
