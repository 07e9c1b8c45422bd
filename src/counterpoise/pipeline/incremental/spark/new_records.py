"""The new records of an update, decoded and staged: by tasks on local files, by Spark where that does not do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from counterpoise.pipeline.clusters import decode_errors, group_records, observed_commits
from counterpoise.pipeline.decode import is_commit
from counterpoise.pipeline.direct.direct import Direct
from counterpoise.pipeline.direct.tasks import Stretch
from counterpoise.pipeline.incremental.news import news
from counterpoise.pipeline.incremental.saved import ClusterState
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.repeats import refuse_repeats
from counterpoise.pipeline.summary import Kinds, added_kinds, kinds_of

__all__ = ["Decoded", "decode_news"]


@dataclass
class Decoded:
    """What was found; the tables of records are staged.

    Attributes
    ----------
    counted : dict
        What was seen of commits.
    kinds : mapping
        What was seen of the records that are no commits.
    ends : dict
        Cluster name -> time of the last new record.
    errors : int
        Records that cannot be decoded.
    generations, modern : DataFrame
        The new rows.
    kept : list of DataFrame
        What is to be let go in the end.
    """

    counted: dict[str, Any]
    kinds: Kinds
    ends: dict[str, datetime | None]
    errors: int
    generations: DataFrame
    modern: DataFrame
    kept: list[DataFrame] = field(default_factory=list)


def decode_news(
    spark: SparkSession,
    captures: Mapping[str, Capture],
    choice: Choice,
    view: View,
    was: Mapping[str, ClusterState],
    now: Mapping[str, ClusterState],
) -> Decoded:
    """Decode what lies between two states of the captures, and stage it in `view`."""
    fresh = {name: news(capture.records, was[name].positions) for name, capture in captures.items()}
    kept: list[DataFrame] = []
    if choice == Choice() and all(capture.local is not None for capture in captures.values()):
        direct = Direct(spark, captures, view.records, _stretches(was, now))
        rests = direct.rests()
        kinds = {name: added_kinds(rows) for name, rows in direct.kinds.items()}
        generations, modern = group_records(rests)
        counted, staged = view.stage_by("offset_commits", direct.decode)
        damaged: Mapping[str, DataFrame] = direct.suspects(rests)
    else:
        rests = {name: records.where(~is_commit()).persist() for name, records in fresh.items()}
        kept += rests.values()
        kinds = {name: kinds_of(rest) for name, rest in rests.items()}
        commits, seen = observed_commits(fresh)
        commits, generations, modern = choice.of_groups(commits.where("group_id is not null"), *group_records(rests))
        staged = view.stage("offset_commits", commits)
        counted = seen.get
        damaged = fresh if counted["errors"] else rests
    view.stage("decode_errors", decode_errors(damaged))
    errors = sum(pq.read_metadata(file).num_rows for file in view.staged("decode_errors").rglob("*.parquet"))
    generations = view.stage("group_generations", generations)
    modern = view.stage("modern_group_records", modern)
    refuse_repeats(staged, [generations, modern])
    ends = {name: _last(counted[f"end{at}"], of) for at, (name, of) in enumerate(kinds.items())}
    whole = added_kinds([(kind, *figures) for of in kinds.values() for kind, figures in of.items()])
    return Decoded(counted, whole, ends, errors, generations, modern, kept)


def _stretches(was: Mapping[str, ClusterState], now: Mapping[str, ClusterState]) -> dict[str, Stretch]:
    return {
        name: Stretch(*({int(index): at for index, at in one.positions.items()} for one in (was[name], after)))
        for name, after in now.items()
    }


def _last(commit: datetime | None, kinds: Kinds) -> datetime | None:
    """The time of the last record: of a commit, or of one that is none."""
    times = (commit, *(last for *_, last in kinds.values()))
    return max((one.astimezone(UTC) for one in times if one is not None), default=None)
