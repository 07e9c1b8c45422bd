"""The lag of an audited group at a time, from table `partition_lag`: for plans, and for leaders without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import OptionError
from counterpoise.pipeline.arrays import first_of_runs, last_of_runs
from counterpoise.pipeline.tables.paths import rows_of_group

__all__ = ["AuditedLag", "AuditedProduction", "audited_lag", "audited_production", "audited_source", "group_rows", "newest_rows"]

_UNKNOWN = -1


@dataclass(frozen=True)
class AuditedLag:
    """The lag of a group at a time."""

    at: datetime  # The newest time in the rows, UTC
    known: Mapping[str, npt.NDArray[np.int64]]  # topic -> records behind, int64[partitions]; -1: unknown

    def of(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """Records behind of every partition of `topics` (partition counts by name), as `Group.lag` takes them; unknown: 0."""
        return {topic: np.maximum(lag, 0).tolist() for topic, lag in self._fitted(topics)}

    def unknown(self, topics: Mapping[str, int]) -> int:
        """The number of these partitions with an unknown lag, which `of` returns as 0."""
        return sum(int(np.count_nonzero(lag < 0)) for _, lag in self._fitted(topics))

    def _fitted(self, topics: Mapping[str, int]) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        for topic, partitions in topics.items():
            lag, have = np.full(partitions, _UNKNOWN, np.int64), self.known.get(topic, np.empty(0, np.int64))[:partitions]
            lag[: len(have)] = have
            yield topic, lag


def audited_lag(out: str | Path, group: str, at: datetime | None = None, *, cluster: str | None = None) -> AuditedLag:
    """Read the lag of a group from an audit's output folder. Time: O(rows of the table); memory: O(rows of the group).

    `cluster` is needed only if several clusters have a group of this name. The result is of the last sample of log ends up to the
    time `at` (default: the end), and of the steps of the group since then; see `newest_rows` for what that sample lacks.

    Raises `CaptureError` if the folder is no audit's output, and `OptionError` if the group does not exist, is in several
    clusters, or has no rows up to this time.
    """
    table = group_rows(out, group, cluster)
    if at is not None:
        moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        first = pc.min(table.column("at")).as_py()
        table = table.filter(pc.less_equal(table.column("at"), pa.scalar(moment, table.schema.field("at").type)))
        if not table.num_rows:
            raise OptionError(
                f"{out}: nothing is known about group {group} at {moment.isoformat()}; it begins at {first.isoformat()}"
            )
    rows = newest_rows(table)
    names = rows.column("topic").combine_chunks().dictionary_encode()
    topic, partition = names.indices.to_numpy(), rows.column("partition").to_numpy()
    lag = pc.fill_null(rows.column("lag"), _UNKNOWN).to_numpy()
    known = {}
    for code, name in enumerate(names.dictionary.to_pylist()):
        mine = np.flatnonzero(topic == code)
        known[name] = np.full(int(partition[mine].max()) + 1, _UNKNOWN, np.int64)
        known[name][partition[mine]] = lag[mine]
    return AuditedLag(pc.max(table.column("at")).as_py().astimezone(UTC), known)


def audited_source(
    out: str | Path, group: str, *, cluster: str | None = None
) -> Callable[[Mapping[str, int]], Mapping[str, list[int]]]:
    """A `LagSource` for `LagStickyAssignor` and `LagAssignor`: the lag at the end of the audit, read again at each rebalance."""
    return lambda topics: audited_lag(out, group, cluster=cluster).of(topics)


@dataclass(frozen=True)
class AuditedProduction:
    """What was produced for a group, and how far it was behind."""

    at: npt.NDArray[np.datetime64]  # datetime64[us][T + 1]: Times of samples of log ends, UTC
    # float64[P, T]: Records produced between two samples, by partition in the order of topic and number. A partition that
    # appears later begins with its lag.
    produced: npt.NDArray[np.float64]
    lag: npt.NDArray[np.float64]  # float64[T + 1]: The recorded lag of the group
    first: npt.NDArray[np.float64]  # float64[P]: The recorded lag of each partition at the first sample

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Seconds between the samples."""
        return np.diff(self.at) / np.timedelta64(1, "s")


def audited_production(out: str | Path, group: str, cluster: str | None = None) -> AuditedProduction:
    """Read the production for a group from an audit's output folder.

    Raises as `group_rows`, and `OptionError` if there are not two samples. O(partitions x samples).
    """
    table = group_rows(out, group, cluster)
    table = table.filter(_sampled(table)).sort_by([("topic", "ascending"), ("partition", "ascending"), ("at", "ascending")])
    places = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
    row_of: dict[tuple[str, int], int] = {}
    row = np.array([row_of.setdefault(place, len(row_of)) for place in places], np.int64)
    at, column = np.unique(table.column("at").to_numpy().astype("datetime64[us]"), return_inverse=True)
    if len(at) < 2:
        raise OptionError(
            f"{out}: group {group} has fewer than two samples of log ends there; record them with `counterpoise capture`"
        )
    ends, lag = np.full((len(row_of), len(at)), np.nan), np.zeros((len(row_of), len(at)))
    ends[row, column] = table.column("log_end").to_numpy()
    lag[row, column] = pc.fill_null(table.column("lag"), 0).to_numpy()
    known = ~np.isnan(ends)
    newest = np.maximum.accumulate(np.where(known, np.arange(len(at)), -1), axis=1)
    ends, lag = (np.take_along_axis(one, np.maximum(newest, 0), axis=1) for one in (ends, lag))
    # A partition without a leader has no sample, and the lag of the one before; a topic without any was deleted.
    first = first_of_runs(np.array([topic for topic, _ in row_of]))
    exists = np.logical_or.reduceat(known, np.flatnonzero(first), axis=0)[np.cumsum(first) - 1] & (newest >= 0)
    ends, lag = np.where(newest >= 0, ends, np.nan), np.where(exists, lag, 0)
    produced = np.nan_to_num(np.maximum(np.diff(ends, axis=1), 0.0))
    later, begins = np.flatnonzero(~known[:, 0]), np.argmax(known, axis=1)
    produced[later, begins[later] - 1] = lag[later, begins[later]]
    return AuditedProduction(at, produced, lag.sum(axis=0), lag[:, 0])


def newest_rows(table: pa.Table) -> pa.Table:
    """The newest row of each partition, sorted by topic and partition; `table` has rows of `partition_lag` of one group.

    A partition has no row at the last sample of log ends if it had no leader then, or the group neither owns it nor has a
    commit. Then its latest earlier row is returned, if that sample has any partition of its topic. Other topics are left out. If
    a log ended lower than before, its topic was recreated: earlier rows of the whole topic are left out. Without samples the
    newest row of each partition is returned. The table must not be empty.
    """
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("at", "ascending")])
    topic = table.column("topic").combine_chunks().dictionary_encode().indices.to_numpy()
    partition, at = table.column("partition").to_numpy(), pc.cast(table.column("at"), pa.int64()).to_numpy()
    sampled = np.flatnonzero(_sampled(table).to_numpy())
    last = at[sampled].max(initial=at.min())
    end = table.column("log_end").take(pa.array(sampled)).to_numpy()
    fell = sampled[1:][~first_of_runs(topic[sampled], partition[sampled])[1:] & (end[1:] < end[:-1])]
    begin = np.full(len(table), at.min())  # by topic
    np.maximum.at(begin, topic[fell], at[fell])
    exists = np.bincount(topic[at >= last], minlength=len(table)) > 0
    newest = np.flatnonzero(last_of_runs(topic, partition))
    return table.take(pa.array(newest[exists[topic[newest]] & (at[newest] >= begin[topic[newest]])]))


def _sampled(table: pa.Table) -> pa.ChunkedArray:
    """A mask: true for rows at a sample of log ends, false for rows at a step of the group between two samples."""
    return pc.and_(pc.is_valid(table.column("log_end")), pc.not_equal(table.column("quality"), "interpolated"))


def group_rows(out: str | Path, group: str, cluster: str | None = None) -> pa.Table:
    """The rows of `partition_lag` of one group.

    Raises as `rows_of_group`, and `OptionError` if the group does not exist.
    """
    table = rows_of_group(out, "partition_lag", group, cluster)
    if not table.num_rows:
        raise OptionError(f"{out}: group {group} has no partitions there; the names are in the table group_report")
    return table
