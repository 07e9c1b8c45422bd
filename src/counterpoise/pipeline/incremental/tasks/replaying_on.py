"""What `replaying` does for a bucket's groups, gone on with: only what is new is replayed, and what may still change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from heapq import merge
from itertools import chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from counterpoise.pipeline.direct.files.day_rows import DayRows
from counterpoise.pipeline.direct.files.marked_file import Marked, marked_batches
from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.direct.groups.handed_on import handed_on
from counterpoise.pipeline.direct.lag.asked_lag import LagKnown
from counterpoise.pipeline.direct.replaying import plans_so_far
from counterpoise.pipeline.direct.report.report_files import GROUPS_AT_ONCE, ReportFiles
from counterpoise.pipeline.direct.report.strategy_sums import SLIM, StrategySums, strategies_of_groups
from counterpoise.pipeline.folds.replay_fold import Replay
from counterpoise.pipeline.incremental.kept.kept_file import KeptFile, but_of, kept_rows
from counterpoise.pipeline.incremental.kept.kept_replays import REPLAYS_KEPT, Again, read_again, replays_on
from counterpoise.pipeline.incremental.kept.stored_rows import stored_records
from counterpoise.pipeline.incremental.tasks.judging_on import News
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.replays import COLUMNS, Pending
from counterpoise.pipeline.schemas import METRICS, REPLAYS

__all__ = ["ToReplay", "replay_on"]

_REPLAYS, _METRICS = (arrow_schema(StructType(table.fields[1:])) for table in (REPLAYS, METRICS))
_SLIM = pa.schema([_METRICS.field(name) for name in SLIM])
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ToReplay:
    """What a task needs of one cluster.

    Attributes
    ----------
    news : News
    handed : Marked
        The new generations, as decoded.
    strategies : tuple of str
    asked : Marked
        The lag that was set aside.
    instants : tuple of int
        At which log ends were sampled, ascending.
    groups : Marked
        What is known of groups.
    again : mapping
        Bucket -> groups that are made again from their stored records.
    until, end : int
        When the last step or commit of the cluster was, and its last record of any kind, in microseconds.
    """

    news: News
    handed: Marked
    strategies: tuple[str, ...]
    asked: Marked
    instants: tuple[int, ...]
    groups: Marked
    again: Mapping[int, Sequence[str]]
    until: int
    end: int


def replay_on(of: ToReplay, buckets: Sequence[int]) -> dict[str, Any]:
    """Write files of tables from `replays` on, and of what is left for the next audit; what the task tells."""
    sums = StrategySums()
    replayed = 0
    with (
        _Measured(of.news.folder, "final", _SLIM) as final,
        _Measured(of.news.folder, "open", COLUMNS) as unsettled,
        ReportFiles(of.news.folder, of.news.name, of.until, of.end) as report,
        KeptFile(of.news.base, "kept", REPLAYS_KEPT) as standing,
        KeptFile(of.news.base, "kept", COLUMNS) as open_rows,
        KeptFile(of.news.base, "kept", _SLIM) as figures,
    ):
        known: list[Row] = []
        told = [_SLIM.empty_table()]
        for number in buckets:
            with LagKnown(of.asked, number, of.instants, of.news.folder) as lag:
                replayed += _replay(of, number, lag, final, unsettled, standing)
            made, may_change = final.take(), unsettled.take()
            old = kept_rows(of.news.kept, "figures", _SLIM, number)
            whole = pa.concat_tables([but_of(old, of.again.get(number, ())), made])
            figures.write(whole, number)
            open_rows.write(may_change, number)
            told += [whole, may_change.select(_SLIM.names)]
            known += [row for batch in marked_batches(of.groups, number) for row in batch.to_pylist()]
            if len(known) >= GROUPS_AT_ONCE or number == buckets[-1]:
                whole = pa.concat_tables(told)
                sums.add(whole)
                report.add(known, dict(strategies_of_groups(whole)))
                known, told = [], [_SLIM.empty_table()]
    tables = {**final.told, "group_report": report.table}
    kept = {"replays": standing.told, "open": open_rows.told, "figures": figures.told}
    about = {"tables": tables, "open": unsettled.told, "kept": kept, "replayed": replayed}
    return {**about, **report.told, **sums.told}


def _replay(of: ToReplay, number: int, lag: LagKnown, final: _Measured, unsettled: _Measured, standing: KeptFile) -> int:
    """The replays of a bucket; how many generations were looked at."""
    stored = stored_records(of.news.out, of.news.name, of.again.get(number, ()), classic=True)
    before = read_again(of.news.kept, number, stored)
    kept: list[Mapping[str, Any]] = []
    count = 0

    def tell(replay: Replay, is_final: bool) -> None:
        (final if is_final else unsettled).add(of.news.name, replay)

    def asked(row: Row) -> Row:
        return {**row, "lag": lag.at(row["group_id"], micros(row["log_ts"]))} if row["members"] else row

    def counted(rows: Iterable[Row]) -> Iterator[Row]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    def go_on(group: str, new: Iterator[Row]) -> None:
        again = Again.of(before[group]) if group in before else Again()
        was = of.news.was_settled
        old = (row if was is not None and micros(row["log_ts"]) <= was else asked(row) for row in again.rows)
        if group in stored:  # which is in memory anyhow; its records and its epochs do not come in one order
            new = iter(sorted(new, key=_place))
        rows = counted(chain(old, map(asked, merge(stored.get(group, ()), new, key=_place))))
        kept.append(replays_on(again, rows, of.strategies, plans_so_far(), of.news.settled, tell).kept(group))

    new = set()
    for group, rows in groupby(handed_on(of.handed, number), key=lambda row: str(row["group_id"])):
        new.add(group)
        go_on(group, rows)
    idle = []
    for group in sorted({*before, *stored} - new):
        if group in before and _is_settled(before[group]["times"], of.news.was_settled):
            idle.append(group)
            kept.append(before[group])
        else:
            go_on(group, iter(()))
    final.settle()
    unsettled.settle()
    old = kept_rows(of.news.kept, "open", COLUMNS, number)
    unsettled.write(old.filter(pc.is_in(old["group_id"], pa.array(idle, pa.string()))))
    standing.write(pa.Table.from_pylist(kept, REPLAYS_KEPT), number)
    return count


def _is_settled(times: Sequence[int], was_settled: int | None) -> bool:
    return was_settled is not None and all(at <= was_settled for at in times)


def _place(row: Row) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


class _Measured:
    """Replays to files of `replays` and `metrics`, some hundreds at a time; of `columns` they are held until they are taken."""

    def __init__(self, folder: str, kind: str, columns: pa.Schema) -> None:
        self._columns = columns
        schemas = {"replays": _REPLAYS, "metrics": _METRICS}
        self._tables = {name: DayRows(folder, f"{kind}-{name}", schema) for name, schema in schemas.items()}
        self._open = ExitStack()
        self._pending = Pending()
        self._made: list[pa.RecordBatch] = []

    def __enter__(self) -> _Measured:
        for one in self._tables.values():
            self._open.enter_context(one)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    @property
    def told(self) -> dict[str, Any]:
        """Files by table, complete when this is closed."""
        return {name: rows.told for name, rows in self._tables.items()}

    def add(self, cluster: str, replay: Replay) -> None:
        """One replay."""
        self._write(self._pending.add(cluster, replay))

    def settle(self) -> None:
        """Write all that was added."""
        self._write(self._pending.settle())

    def write(self, rows: pa.Table) -> None:
        """Rows of `MEASURED_REPLAYS`."""
        self._write(rows.to_batches())

    def _write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            for name, schema in (("replays", _REPLAYS), ("metrics", _METRICS)):
                self._tables[name].write(batch.select(schema.names))
            self._made.append(batch.select(self._columns.names))

    def take(self) -> pa.Table:
        """All rows since this was asked last."""
        made, self._made = self._made, []
        return pa.Table.from_batches(made, self._columns)
