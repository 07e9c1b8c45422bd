"""The writers of a fold task: rows of tables to files by day; final rows and provisional rows are in different files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.pipeline.arrays import slices
from counterpoise.pipeline.findings.policy import Policy
from counterpoise.pipeline.findings.ranking import finding_rows
from counterpoise.pipeline.fold.group_report import ReportTotals, report_rows
from counterpoise.pipeline.fold.health_rows import HealthRows
from counterpoise.pipeline.fold.lag import LagRows
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.strategy_figures import METRICS_COLUMNS
from counterpoise.pipeline.history.replay_fold import Replay
from counterpoise.pipeline.history.replay_rows import replay_batch
from counterpoise.pipeline.records.group_records import error_rows, generation_row, modern_row
from counterpoise.pipeline.schemas import ACTION_PARTS, TABLES
from counterpoise.pipeline.shuffle.blocks import ClusterTask
from counterpoise.pipeline.tables.writers import FileWriter, TableWriter
from counterpoise.wire.offsets_topic.keys import group_of
from counterpoise.wire.offsets_topic.records import decode_record

__all__ = ["TableRows"]

_AT_ONCE = 2 << 20
"""Bytes of records that are decoded at a time."""
_REPLAYS = 1024
"""Replays of a batch, where one of a plan with 64 partitions counts as two."""
_GROUPS = 500
"""Rows of a batch of `group_report`."""
Row = Mapping[str, Any]


class TableRows(ExitStack):
    """Writers of one cluster's tables in a fold task; `end` is the time of its last record, in microseconds.

    `policy` is applied to findings.
    """

    def __init__(self, task: ClusterTask, end: int, policy: Policy) -> None:
        super().__init__()
        self._task, self._end, self._policy = task, end, policy
        self.provisional = False  # Whether later records may change the rows that are added now
        files = task.files

        def writer(table: str, time: str | int = "log_ts", **options: Any) -> TableWriter:
            return self.enter_context(TableWriter(files, task.cluster, table, time, **{"salt": task.salt, **options}))

        records = writer("group_generations"), writer("modern_group_records"), writer("decode_errors")
        at_end = writer("group_report", end, salt=None), writer("changes", end)
        self._whole = {one.table: one for one in (*records, *at_end)}
        self._final, self._provisional = (_writers_of_revised(writer) for _ in range(2))
        self._findings = self.enter_context(FileWriter(files.state_file("findings"), TABLES["findings"]))
        self._parts = self.enter_context(FileWriter(files.state_file("actions"), ACTION_PARTS))
        self._totals, self._replays, self._metrics = ReportTotals(), list[Replay](), list[pa.RecordBatch]()
        self._groups: list[Row] = []
        self._weight = 0
        self._lag_times: list[int] = []

    def __exit__(self, *error: Any) -> bool | None:
        if error[0] is None:
            self._add_groups()
        return super().__exit__(*error)

    @property
    def manifest(self) -> dict[str, Any]:
        """Files and counts; complete when the writers are closed."""
        times = self._lag_times
        return {
            "cluster": self._task.cluster,
            "tables": {name: one.manifest for name, one in {**self._whole, **self._final}.items()},
            "provisional": {name: one.manifest for name, one in self._provisional.items()},
            "findings": self._findings.file,
            "actions": self._parts.file,
            **self._totals.manifest,
            "lag_times": [min(times), max(times)] if times else None,
        }

    def decoded(self, records: pa.Table) -> Iterator[Row]:
        """Decode raw records; yields their rows group by group in log order, and writes these rows and errors to tables."""
        for batch in _in_log_order(records):
            for raw in batch.to_pylist():
                record = decode_record(raw["key"], raw["value"])
                size = 200 + 4 * len(raw["value"] or b"")
                for error in error_rows(raw, record):
                    self._whole["decode_errors"].add(error, size)
                row = generation_row(raw, record)
                if row is not None:
                    self._whole["group_generations"].add(row, size)
                    yield {**row, "record_type": None}
                elif (other := modern_row(raw, record)) is not None:
                    self._whole["modern_group_records"].add(other, size)
                    yield other

    def add_step(self, row: Row) -> None:
        """Add a row of `rebalances`."""
        topics = sum(len(one["topics"]) for one in row["subscriptions"] or ())
        size = 500 + 64 * (row["n_members"] or 0) + 8 * (row["n_partitions"] or 0) + 40 * topics
        self._revised["rebalances"].add(row, size)

    def add_lag(self, parts: PartitionStates, rows: LagRows) -> None:
        """Add rows of `partition_lag`."""
        if len(rows.time):
            self._revised["partition_lag"].write(rows.batch(parts))
            self._lag_times += [int(rows.time.min()), int(rows.time.max())]

    def add_health(self, parts: PartitionStates, rows: HealthRows) -> None:
        """Add rows of `health`."""
        if len(rows):
            self._revised["health"].write(rows.batch(parts))

    def add_replay(self, replay: Replay) -> None:
        """Add a row of `replays` and one of `metrics`; they are written in batches of a thousand, fewer if plans are large."""
        self._replays.append(replay)
        self._weight += 1 + len(replay.owner) // 64
        if self._weight >= _REPLAYS:
            self._write_replays()

    def _write_replays(self) -> None:
        if self._replays:
            batch = replay_batch(self._replays)
            self._revised["replays"].write(batch)
            self._revised["metrics"].write(batch)
            self._metrics.append(batch.select(list(METRICS_COLUMNS)))
            self._replays, self._weight = [], 0

    def add_change(self, row: Row) -> None:
        """Add a row of `changes`."""
        self._whole["changes"].add(row, 500)

    def take_metrics(self) -> pa.Table | None:
        """The rows of `metrics` since the last call, with `METRICS_COLUMNS`."""
        self._write_replays()
        metrics, self._metrics = self._metrics, []
        return pa.Table.from_batches(metrics) if metrics else None

    def add_group(self, figures: Row) -> None:
        """Add the figures of a group, in columns of `group_report`."""
        self._groups.append(figures)
        if len(self._groups) >= _GROUPS:
            self._add_groups()

    def _add_groups(self) -> None:
        if self._groups:
            groups = report_rows(self._groups, self._task.cluster, self._end, self._task.salt)
            plain = None if self._task.salt is None else [str(one["group_id"]) for one in self._groups]
            self._groups = []
            self._totals.add(groups)
            self._whole["group_report"].write(groups)
            findings, parts = finding_rows(groups, self._policy, self._end, plain)
            self._findings.write(findings)
            self._parts.write(parts)

    @property
    def _revised(self) -> dict[str, TableWriter]:
        return self._provisional if self.provisional else self._final


def _writers_of_revised(writer: Callable[..., TableWriter]) -> dict[str, TableWriter]:
    """The writers of the tables that have provisional rows."""
    lag, health = writer("partition_lag", "at", rising=("at",), single=("committed",)), writer("health", "since")
    return {one.table: one for one in (writer("rebalances"), lag, health, writer("replays"), writer("metrics"))}


def _in_log_order(records: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the records sorted by group, log partition and offset, in batches of some megabytes."""
    if not len(records):
        return
    encoded = records["key"].combine_chunks().dictionary_encode(null_encoding="encode")
    groups = [group_of(key) for key in encoded.dictionary.to_pylist()]
    number = {group: at for at, group in enumerate(sorted(set(groups)))}
    group = np.array([number[one] for one in groups], np.int64)[encoded.indices.to_numpy()]
    place = [records[name].fill_null(-1).to_numpy() for name in ("offset", "partition")]
    order = np.lexsort((*place, group))
    size = pc.add(*(pc.binary_length(records[name]).fill_null(0) for name in ("key", "value"))).to_numpy()
    for part in slices(size[order].astype(np.int64) + 1, _AT_ONCE):
        yield from records.take(pa.array(order[part])).combine_chunks().to_batches()
