"""Reads the output folder of an audit: small tables whole, large ones a few groups at a time."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import CaptureError
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.storage.files import absolute, first_line, join
from counterpoise.pipeline.tables.manifest import Manifest, load_manifest, summary_of
from counterpoise.pipeline.tables.paths import dataset
from counterpoise.report.history import GroupHistory, LagNow, LagSeries, Row, by_group, history_of
from counterpoise.report.ribbons import Ints

__all__ = ["Audit", "open_audit"]

_HEALTH = ["group_id", "state", "since", "until", "detected", "open", "partitions", "lag_begin", "lag_end"]
_RHYTHM = ["group_id", "log_ts", "log_offset", "kind"]
_STEPS = [
    "group_id", "generation", "log_offset", "log_ts", "protocol_kind", "kind", "cause", "joined", "left", "missed_generations",
    "sync_latency_ms", "settle_ms", "n_members", "n_partitions", "n_moved", "n_kept", "detail", "complete", "assignment",
]  # fmt: skip


class Audit:
    """One audit's output folder, opened for reading.

    The folder may hold rows of earlier audits; only those of the last one, which wrote the summary, are read. If it holds
    several clusters, groups are named cluster/group here.
    """

    def __init__(self, out: str, summary: Row, manifest: Manifest | None = None, *, by_cluster: bool = False) -> None:
        self.out = out
        self.summary = summary
        self.clusters = frozenset(summary["clusters"])
        self._manifest = manifest
        self._several = by_cluster or len(self.clusters) > 1

    def named_by_cluster(self) -> Audit:
        """The same audit with groups named cluster/group, also if it has one cluster."""
        return Audit(self.out, self.summary, self._manifest, by_cluster=True)

    def groups(self, columns: list[str] | None = None, names: list[str] | None = None) -> list[Row]:
        """The rows of `group_report` by group id, default all; maps are dicts, times microseconds. A whole row takes 25 KB."""
        where = None if names is None else self._group.isin(pa.array(names, pa.string()))
        rows = _rows(self._table("group_report", columns, where))
        for row in rows:
            for name in {"causes", "fidelity_by_library"} & row.keys():
                row[name] = dict(row[name] or [])
        return sorted(rows, key=lambda row: str(row["group_id"]))

    def findings(self, columns: list[str] | None = None, most: int | None = None) -> list[Row]:
        """The rows of `findings`, all or so many, the most important first."""
        where = None if most is None else pc.field("rank") <= most
        return sorted(_rows(self._table("findings", columns, where)), key=lambda row: int(row["rank"]))

    def action_groups(self) -> dict[str, list[str]]:
        """Group -> the ranks of the actions that are about it."""
        ranks: dict[str, list[str]] = {}
        for row in sorted(_rows(self._table("actions")), key=lambda row: int(row["rank"])):
            for group in row["groups"]:
                name = f"{row['cluster']}/{group['group_id']}" if self._several else group["group_id"]
                ranks.setdefault(name, []).append(str(row["rank"]))
        return ranks

    def changes(self) -> dict[str, list[Row]]:
        """The rows of `changes` of each group."""
        return by_group(_rows(self._table("changes")))

    def health(self, groups: list[str]) -> dict[str, list[Row]]:
        """The states of each of the given groups."""
        wanted = self._group.isin(pa.array(groups, pa.string())) & (pc.field("scope") == "group")
        return by_group(_rows(self._table("health", columns=_HEALTH, where=wanted)))

    def rhythm(self, bins: int, start: int, stop: int) -> dict[str, tuple[Ints, Ints]]:
        """Per group: its rebalances per time bin, and the log offsets of all its steps, ascending."""
        table = self._table("rebalances", columns=_RHYTHM)
        if table.num_rows == 0:
            return {}
        encoded = table.column("group_id").combine_chunks().dictionary_encode()
        group = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        at = _micros(table.column("log_ts"))
        offset = table.column("log_offset").to_numpy().astype(np.int64)
        place = np.clip((at - start) * bins // max(stop - start, 1), 0, bins - 1)
        grid = np.zeros((len(encoded.dictionary), bins), np.int64)
        np.add.at(grid, (group, place), pc.equal(table.column("kind"), "rebalance").to_numpy())
        order = np.lexsort((offset, group))
        cuts = np.searchsorted(group[order], np.arange(1, len(encoded.dictionary)))
        per_group = np.split(offset[order], cuts)
        return {name: (grid[code], per_group[code]) for code, name in enumerate(encoded.dictionary.to_pylist())}

    def histories(self, offsets: dict[str, Ints], most: int) -> dict[str, GroupHistory]:
        """The last `most` steps of each of a few groups; `offsets` as `rhythm` gave them. One pass over the table."""
        if not offsets:
            return {}
        skipped = {name: max(at.size - most, 0) for name, at in offsets.items()}
        wanted = self._group.isin(pa.array([name for name in offsets if not skipped[name]], pa.string()))
        for name, at in offsets.items():
            if skipped[name]:
                wanted = wanted | ((self._group == name) & (pc.field("log_offset") >= int(at[skipped[name]])))
        table = self._table("rebalances", columns=_STEPS, where=wanted)
        table = table.take(np.argsort(table.column("log_offset").to_numpy(), kind="stable"))
        names = table.column("group_id")
        return {name: self._history(table.filter(pc.equal(names, name)), skipped[name]) for name in offsets}

    def _history(self, table: Any, skipped: int) -> GroupHistory:
        return history_of(_rows(table.drop_columns(["assignment"])), skipped, table.column("assignment").combine_chunks())

    def lags(self, groups: list[str], now: dict[str, LagNow]) -> dict[str, LagSeries]:
        """Lag over time of the given groups; the table is read in batches and summed at once. `now` as `lags_now` gave it."""
        names, parts = pa.array(groups, pa.string()), []
        known = self._group.isin(names) & pc.field("lag").is_valid()
        for batch in self._batches("partition_lag", ["group_id", "at", "lag"], known):
            columns = [pc.index_in(batch.column("group_id"), names), batch.column("at"), batch.column("lag")]
            parts.append(pa.table(columns, ["group", "at", "lag"]).group_by(["group", "at"]).aggregate([("lag", "sum")]))
        if not parts:
            return {}
        sums = pa.concat_tables(parts).group_by(["group", "at"]).aggregate([("lag_sum", "sum")])
        sums = sums.sort_by([("group", "ascending"), ("at", "ascending")])
        at, total = _micros(sums.column("at")), sums.column("lag_sum_sum").to_numpy().astype(np.int64)
        bounds = np.searchsorted(sums.column("group").to_numpy(), np.arange(len(groups) + 1)).tolist()
        series = {}
        for name, begin, end in zip(groups, bounds[:-1], bounds[1:], strict=True):
            if begin < end:
                series[name] = LagSeries(at[begin:end], total[begin:end], now[name].owners)
        return series

    def lags_now(self) -> dict[str, LagNow]:
        """The known lag of each group at the last sample of its cluster; two passes over the table."""
        known = pc.field("lag").is_valid()
        last: dict[str, int] = {}
        topics: dict[str, Counter[str]] = {}
        keys = ["cluster", "group_id", "topic"]
        for batch in self._batches("partition_lag", [*keys, "at"], known):
            for row in _rows(pa.Table.from_batches([batch]).group_by(keys).aggregate([("at", "max"), ("at", "count_distinct")])):
                last[row["cluster"]] = max(last.get(row["cluster"], 0), row["at_max"])
                topics.setdefault(row["group_id"], Counter())[row["topic"]] += row["at_count_distinct"]
        if not last:
            return {}
        found = {name: LagNow({}, None, sorted(some), max(some.values())) for name, some in topics.items()}
        kind = self._source("partition_lag").schema.field("at").type
        earliest = pa.scalar(min(last.values()), pa.int64()).cast(pa.timestamp("us", tz=kind.tz)).cast(kind)
        keys = ["cluster", "group_id", "at", "owner"]
        columns = [*keys, "lag", "time_lag_ms"]
        for batch in self._batches("partition_lag", columns, known & (pc.field("at") >= earliest)):
            table = pa.Table.from_batches([batch]).group_by(keys).aggregate([("lag", "sum"), ("time_lag_ms", "max")])
            for row in _rows(table):
                if row["at"] == last[row["cluster"]]:
                    found[row["group_id"]].add(row["owner"], row["lag_sum"], row["time_lag_ms_max"])
        return found

    def _table(self, name: str, columns: list[str] | None = None, where: Any = None) -> Any:
        batches = list(self._batches(name, columns, where))
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def _batches(self, name: str, columns: list[str] | None, where: Any) -> Any:
        source = self._source(name)
        if not source.files:
            return
        try:
            wanted = self._within(name, source, where)
            batches = source.to_batches(columns=self._columns(source, columns), filter=wanted)
            yield from (batch for batch in batches if batch.num_rows)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(name, error) from error

    @property
    def _group(self) -> Any:
        """The name of a group, as an expression over a table's rows."""
        group = pc.field("group_id")
        return pc.binary_join_element_wise(pc.field("cluster"), group, "/") if self._several else group

    def _columns(self, source: Any, columns: list[str] | None) -> Any:
        if not self._several:
            return columns
        listed = columns or source.schema.names
        return {name: self._group if name == "group_id" else pc.field(name) for name in listed}

    def _within(self, name: str, source: Any, where: Any) -> Any:
        """`where`, and only rows of the audit that wrote the summary."""
        parts = [] if where is None else [where]
        if name in ("group_report", "changes", "findings", "actions"):
            parts.append(reduce(or_, (_on_day(cluster, day) for cluster, day in self.summary["days"].items())))
        else:
            parts.append(pc.field("cluster").isin(list(self.summary["days"])))
            parts += _between(source, *_SPANS[name], self.summary)
        return reduce(and_, parts)

    def _source(self, name: str) -> Any:
        try:
            source = dataset(f"{self.out}/tables/{name}", self._manifest)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(name, error) from error
        lacking = [column for column in TABLES[name].names if column not in source.schema.names]
        if lacking:
            words = f"no column {', '.join(lacking)}; an earlier version wrote it: run the audit again, into a new folder"
            raise CaptureError(f"{self.out}/tables/{name}: {words}")
        return source

    def _unreadable(self, name: str, error: BaseException) -> CaptureError:
        replaced = " (an audit may have replaced it meanwhile)" if isinstance(error, FileNotFoundError) else ""
        return CaptureError(f"{self.out}/tables/{name}: {first_line(error)}{replaced}; run the audit again")


_SPANS = {
    "health": ("until", ("sampled_from", "sampled_to")),
    "rebalances": ("log_ts", ("from", "to")),
    "partition_lag": ("at", ("sampled_from", "sampled_to")),
}
"""Table -> its time column, and the fields of the summary that it lies between."""


def _on_day(cluster: str, day: str | None) -> Any:
    on = pc.field("date").is_null() if day is None else pc.field("date") == date.fromisoformat(day)
    return (pc.field("cluster") == cluster) & on


def _between(source: Any, column: str, names: tuple[str, str], summary: Row) -> list[Any]:
    """Conditions that keep `column` between two times of the summary, which are cut to milliseconds."""
    if summary[names[0]] is None:
        return [pc.scalar(value=False)]
    first, last = (datetime.fromisoformat(summary[name]).astimezone(UTC) for name in names)
    kind = source.schema.field(column).type
    bounds = [pa.scalar(moment, pa.timestamp("us", tz="UTC")).cast(kind) for moment in (first, last + timedelta(milliseconds=1))]
    return [pc.field(column) >= bounds[0], pc.field(column) < bounds[1]]


def open_audit(out: str | Path) -> Audit:
    """The audit in folder `out`, a local path or a URI.

    Raises `CaptureError` if the folder holds no readable summary.
    """
    place = absolute(out)
    path = join(place, "summary.json")
    manifest = load_manifest(place)
    found = summary_of(place, manifest)
    if found is None:
        raise CaptureError(f"{path}: not found; {out} is no audit's output, run `counterpoise audit SOURCE --out {out}` first")
    try:
        summary = json.loads(found)
    except ValueError as error:
        raise CaptureError(f"{path}: cannot be read ({first_line(error)}); run the audit again") from error
    if not isinstance(summary, dict) or "clusters" not in summary:
        raise CaptureError(f"{path}: is not an audit's summary; run the audit again")
    return Audit(place, summary, manifest)


def _micros(column: Any) -> Ints:
    """A timestamp column as microseconds since 1970; null becomes 0."""
    micros = pc.fill_null(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 0)
    return np.asarray(micros.to_numpy(), dtype=np.int64)


def _rows(table: Any) -> list[Row]:
    """The table as dicts; times become whole microseconds, so that no time zone database is needed."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            micros = table.column(index).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            table = table.set_column(index, field.name, micros)
    rows: list[Row] = table.to_pylist()
    return rows
