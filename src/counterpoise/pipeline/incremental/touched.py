"""Which groups new records touch, whose newest replays they change, and which groups must be made again from their beginning."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from counterpoise.pipeline.stored.tables import dataset

__all__ = ["Group", "Moments", "States", "Touched", "find_touched", "groups_of_topics", "news_of", "topic_names_in"]

Group: TypeAlias = tuple[str, str]
"""Cluster and name."""


@dataclass(frozen=True)
class Moments:
    """Of one cluster: up to when rows of `partition_lag` were final before, and the first sample since; None: there is none."""

    settled: datetime | None
    sampled: datetime | None


@dataclass(frozen=True)
class States:
    """What the last audit left of each group: times of its last generation and of the one before; ids nobody had named."""

    last: Mapping[Group, datetime] = field(default_factory=dict)
    finished: Mapping[Group, datetime] = field(default_factory=dict)
    unnamed: Mapping[Group, Collection[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, replays: Path, steps: Path) -> States:
        """From the folders of the two states."""
        micros = {"coerce_int96_timestamp_unit": "us"}
        replayed = pq.read_table(replays, columns=["cluster", "group_id", "last_ts", "finished_ts"], **micros).to_pylist()
        stepped = pq.read_table(steps, columns=["cluster", "group_id", "unnamed"]).to_pylist()
        return cls(
            {_group(row): _utc(row["last_ts"]) for row in replayed if row["last_ts"] is not None},
            {_group(row): _utc(row["finished_ts"]) for row in replayed if row["finished_ts"] is not None},
            {_group(row): row["unnamed"] for row in stepped if row["unnamed"]},
        )


@dataclass(frozen=True)
class Touched:
    """The groups.

    Attributes
    ----------
    since : dict
        Groups with new records -> the time of the earliest one.
    replayed : set
        Those whose newest generations are replayed (again).
    redone : set
        Those that are made again: something older than expected came in, or what their steps were made with has changed.
    """

    since: dict[Group, datetime]
    replayed: set[Group]
    redone: set[Group]


def find_touched(
    since: Mapping[Group, datetime],
    generations: Collection[Group],
    states: States,
    clusters: Mapping[str, Moments],
    names: Collection[str],
    anew: Iterable[Group],
) -> Touched:
    """Sort the groups.

    Parameters
    ----------
    since : mapping
        As in `Touched`.
    generations : collection of Group
        With new records of their own, which may be generations.
    states : States
    clusters : mapping
        Name -> moments.
    names : collection of str
        Topic ids that are named by now.
    anew : iterable of Group
        With commits on topics that were made anew since.
    """
    redone = {group for group, first in since.items() if _reaches(clusters[group[0]].settled, first)}
    redone |= {group for group, ids in states.unnamed.items() if any(one in names for one in ids)}
    redone |= set(anew)
    replayed = set(generations)
    for times, found in ((states.finished, redone), (states.last, replayed)):
        # A generation is replayed with the lag of the last sample before it: a new sample may be that, as a new record may.
        found |= {
            group
            for group, at in times.items()
            if _reaches(at, since.get(group)) or _reaches(at, clusters[group[0]].sampled if group[0] in clusters else None)
        }
    return Touched(dict(since), replayed | redone, redone)


def news_of(tables: Iterable[Path]) -> tuple[dict[Group, datetime], list[set[Group]]]:
    """Per group the time of its earliest row in tables of records; and the groups of each table."""
    since: dict[Group, datetime] = {}
    groups: list[set[Group]] = []
    for table in tables:
        mine: set[Group] = set()
        for batch in _batches(dataset(table), ["cluster", "group_id", "log_ts"]):
            firsts = pa.Table.from_batches([batch]).group_by(["cluster", "group_id"]).aggregate([("log_ts", "min")])
            for row in firsts.to_pylist():
                group, first = _group(row), _utc(row["log_ts_min"])
                since[group] = min(first, since.get(group, first))
                mine.add(group)
        groups.append(mine)
    return since, groups


def topic_names_in(tables: Iterable[Path]) -> dict[str, str]:
    """Topic id -> topic, by commits."""
    found: set[tuple[str, str]] = set()
    for table in tables:
        for batch in _batches(dataset(table), ["topic_id", "topic"]):
            pairs = pa.Table.from_batches([batch]).drop_null().group_by(["topic_id", "topic"]).aggregate([])
            found.update((row["topic_id"], row["topic"]) for row in pairs.to_pylist())
    return dict(sorted(found))


def groups_of_topics(table: Path, cluster: str, topics: Collection[str]) -> set[Group]:
    """The groups of a cluster with commits on some topics."""
    wanted = (ds.field("cluster") == cluster) & ds.field("topic").isin(sorted(topics))
    found: set[Group] = set()
    for batch in _batches(dataset(table), ["group_id"], wanted):
        found.update((cluster, name) for name in batch.column("group_id").unique().to_pylist())
    return found


def _batches(found: ds.Dataset, columns: list[str], wanted: Any = None) -> Iterator[pa.RecordBatch]:
    """Nothing of a table without rows, which has no columns."""
    if found.files:
        yield from found.to_batches(columns=columns, filter=wanted)


def _reaches(at: datetime | None, first: datetime | None) -> bool:
    return at is not None and first is not None and first <= at


def _group(row: Mapping[str, Any]) -> Group:
    return row["cluster"], row["group_id"]


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
