"""What every strategy would have done in the generations of a bucket's groups: files of `replays` and `metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from counterpoise.pipeline.direct.files.day_rows import DayRows
from counterpoise.pipeline.direct.files.marked_file import Marked, marked_batches
from counterpoise.pipeline.direct.groups.folding import micros
from counterpoise.pipeline.direct.groups.handed_on import handed_on
from counterpoise.pipeline.direct.lag.asked_lag import LagKnown
from counterpoise.pipeline.direct.report.report_files import GROUPS_AT_ONCE, ReportFiles
from counterpoise.pipeline.direct.report.strategy_sums import SLIM, StrategySums, strategies_of_groups
from counterpoise.pipeline.direct.tasks import give_back
from counterpoise.pipeline.folds.replay_fold import Replay, replays_of_group
from counterpoise.pipeline.folds.replay_memo import Plans
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.replays import in_batches
from counterpoise.pipeline.schemas import METRICS, REPLAYS

__all__ = ["Replayed", "plans_so_far", "replay_buckets"]

_REPLAYS, _METRICS = (arrow_schema(StructType(table.fields[1:])) for table in (REPLAYS, METRICS))
_SLIM = pa.schema([_METRICS.field(name) for name in SLIM])
_PARTS = 64
"""Of a group with large plans figures come by the half dozen: each column of so few has its own buffers."""


@dataclass(frozen=True)
class Replayed:
    """What a task needs of one cluster.

    Attributes
    ----------
    name, folder : str
    handed : Marked
        The generations, as decoded.
    strategies : tuple of str
    asked : Marked
        The lag that was set aside.
    instants : tuple of int
        At which log ends were sampled, ascending.
    groups : Marked
        What is known of groups.
    until, end : int
        When the last step or commit of the cluster was, and its last record of any kind, in microseconds.
    salt : str, optional
        Names in tables are hashed with it.
    """

    name: str
    folder: str
    handed: Marked
    strategies: tuple[str, ...]
    asked: Marked
    instants: tuple[int, ...]
    groups: Marked
    until: int
    end: int
    salt: str | None = None


def replay_buckets(of: Replayed, buckets: Sequence[int]) -> dict[str, Any]:
    """Write the files; what the task tells."""
    sums = StrategySums()
    known: list[Mapping[str, Any]] = []
    strategies: dict[str, Mapping[str, Any]] = {}
    with (
        DayRows(of.folder, "replays", _REPLAYS, salt=of.salt) as replays,
        DayRows(of.folder, "metrics", _METRICS, salt=of.salt) as metrics,
        ReportFiles(of.folder, of.name, of.until, of.end, of.salt) as report,
    ):
        for number in buckets:
            give_back()  # as in `judge_buckets`
            slim = [_SLIM.empty_table()]
            for batch in in_batches((of.name, one) for one in _of_bucket(of, number)):
                for rows, schema in ((replays, _REPLAYS), (metrics, _METRICS)):
                    rows.write(batch.select(schema.names))
                slim.append(pa.table(batch.select(list(SLIM))))
                if len(slim) > _PARTS:
                    slim = [pa.concat_tables(slim).combine_chunks()]
            figures = pa.concat_tables(slim)
            sums.add(figures)
            known += [row for batch in marked_batches(of.groups, number) for row in batch.to_pylist()]
            strategies |= strategies_of_groups(figures)
            if len(known) >= GROUPS_AT_ONCE or number == buckets[-1]:
                report.add(known, strategies)
                known, strategies = [], {}
    tables = {"replays": replays.told, "metrics": metrics.told, "group_report": report.table}
    return {"tables": tables, **report.told, **sums.told}


def _of_bucket(of: Replayed, number: int) -> Iterator[Replay]:
    for _, rows in groupby(_generations(of, number), key=lambda row: str(row["group_id"])):
        yield from replays_of_group(rows, of.strategies, plans_so_far())


def _generations(of: Replayed, number: int) -> Iterator[Mapping[str, Any]]:
    with LagKnown(of.asked, number, of.instants, of.folder) as known:
        for row in handed_on(of.handed, number):
            if row["members"]:
                row["lag"] = known.at(row["group_id"], micros(row["log_ts"]))
            yield row


@cache
def plans_so_far() -> Plans:
    """One for all buckets of a task: what was asked in one need not be asked in another one. It changes no result."""
    return Plans()
