"""Raw records to what following needs of them: group records one by one, and of commits the last word per partition."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from counterpoise.pipeline.folds.fold_state import to_text
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.commits import commit_batch
from counterpoise.pipeline.records.generations import generation_batches
from counterpoise.pipeline.records.modern import modern_batches
from counterpoise.pipeline.source.sources import check_columns

__all__ = ["COMMITS", "COMMIT_FIGURES", "EVENTS", "OF_GROUP", "commits_of", "events", "last_words"]

OF_GROUP, COMMITS = "=", "commits"
"""What a lane starts with: one lane for each group, and one for all commits. A key is dear in the state store, a row is not."""
EVENTS = StructType([StructField("cluster", StringType()), StructField("lane", StringType()), StructField("data", BinaryType())])
"""A record of a group as text (`fold_state`), or commits as an Arrow stream."""
_SCHEMA = arrow_schema(EVENTS)
_PARTITION = ["group_id", "topic", "partition"]
_PLACE = ["log_partition", "log_offset"]
COMMIT_FIGURES = (*_PARTITION, *_PLACE, "committed_offset", "deleted", "topic_id")
"""The columns of `offset_commits` that figures need."""
_CLASSIC = ("deleted", "protocol_type", "protocol", "generation", "leader", "state_ts", "members", "leader_library")
_MODERN = ("deleted", "record_type", "member_id", "payload")


def events(records: DataFrame, cluster: str, groups: Iterable[str] = (), aborted: Iterable[tuple[int, int]] = ()) -> DataFrame:
    """`EVENTS` of a stream (or a batch) of raw records; each is decoded by the audit's own kernels.

    Parameters
    ----------
    records : DataFrame
    cluster : str
    groups : iterable of str
        Patterns of names, as in `choice.Choice`; none: all groups.
    aborted : iterable of (log partition, log offset)
        Commits that never took effect.
    """
    kernel = _kernel(cluster, _chosen(tuple(groups)), frozenset(aborted))
    return check_columns(records, "records").mapInArrow(kernel, EVENTS)


def commits_of(data: bytes) -> list[dict[str, Any]]:
    """The rows (`COMMIT_FIGURES`) in the data of an event of the lane `COMMITS`."""
    rows: list[dict[str, Any]] = pa.ipc.open_stream(data).read_all().to_pylist()
    return rows


def last_words(commits: pa.Table) -> pa.Table:
    """Of rows with `COMMIT_FIGURES` the last one for each partition of a group."""
    last = commits.group_by(_PARTITION).aggregate([("log_offset", "max")])
    return commits.join(last, [*_PARTITION, "log_offset"], [*_PARTITION, "log_offset_max"], "left semi")


def _kernel(
    cluster: str, chosen: Callable[[str], bool], aborted: frozenset[tuple[int, int]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [(OF_GROUP + row["group_id"], to_text(row).encode()) for row in _records(batch) if chosen(row["group_id"])]
            said = _commits(batch, chosen, aborted)
            if said.num_rows:
                found.append((COMMITS, _packed(said)))
            rows = [{"cluster": cluster, "lane": lane, "data": data} for lane, data in found]
            yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return run


def _records(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    """What `rebalances.group_records` has of each record."""
    common = ("group_id", *_PLACE, "log_ts")
    for found in generation_batches([batch]):
        yield from ({**row, "record_type": None} for row in found.select([*common, *_CLASSIC]).to_pylist())
    for found in modern_batches([batch]):
        yield from found.select([*common, *_MODERN]).to_pylist()


def _commits(batch: pa.RecordBatch, chosen: Callable[[str], bool], aborted: frozenset[tuple[int, int]]) -> pa.Table:
    table = pa.Table.from_batches([commit_batch(batch, damaged=False)]).select(list(COMMIT_FIGURES))
    wanted = [one for one in pc.unique(table["group_id"]).to_pylist() if chosen(one)]
    table = table.filter(pc.is_in(table["group_id"], pa.array(wanted, pa.string())))
    if aborted:
        places = zip(table["log_partition"].to_pylist(), table["log_offset"].to_pylist(), strict=True)
        table = table.filter(pa.array([place not in aborted for place in places], pa.bool_()))
    return last_words(table)


def _packed(table: pa.Table) -> bytes:
    into = io.BytesIO()
    with pa.ipc.new_stream(into, table.schema) as writer:
        writer.write_table(table)
    return into.getvalue()


def _chosen(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda name: not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
