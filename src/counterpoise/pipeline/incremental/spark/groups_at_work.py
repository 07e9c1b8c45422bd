"""The groups that an update by Spark works on, as tables of their names: those that go on, and those that are made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from counterpoise.pipeline.incremental.news import Looked, first_after
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, moment
from counterpoise.pipeline.incremental.seen import topic_ids
from counterpoise.pipeline.incremental.touched import (
    Group,
    Moments,
    States,
    find_touched,
    groups_of_topics,
    news_of,
    topic_names_in,
)
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.stored.tables import folder_of

__all__ = ["KEY", "AtWork", "groups_at_work"]

KEY = ["cluster", "group_id"]
_GROUPS = pa.schema([(name, pa.string()) for name in KEY])
_RECORDS = ("offset_commits", "group_generations", "modern_group_records")


@dataclass(frozen=True)
class AtWork:
    """Groups, as rows of their cluster and name.

    Attributes
    ----------
    stepped, replayed, told : DataFrame
        Those whose steps go on, whose newest replays change, and whose report does.
    redone : DataFrame, optional
        Those that are made again from their beginning; None: no group.
    named : dict
        Topic id -> topic; nothing where no record says an id in the place of a name.
    """

    stepped: DataFrame
    replayed: DataFrame
    told: DataFrame
    redone: DataFrame | None
    named: dict[str, str]


def groups_at_work(
    view: View,
    out: Path,
    saved: Saved | None,
    captures: Mapping[str, Capture],
    was: Mapping[str, ClusterState],
    looked: Looked,
    generations: DataFrame,
) -> AtWork:
    """What new records, which are staged in `view`, touch; rows of groups that are made again are taken out of it.

    Parameters
    ----------
    view : View
    out : Path
        The output folder.
    saved : Saved, optional
        What the last audit left.
    captures, was : mapping
        Cluster name -> capture, and how far the last audit came.
    looked : Looked
    generations : DataFrame
        The new ones.
    """
    named = _topic_names(view, captures)
    if saved is None:
        everyone = generations.select(*KEY).distinct()
        return AtWork(everyone, everyone, everyone, None, named)
    if saved.tasks:
        # There are no states to go on from: all groups are made again, from the stored records.
        since, _ = news_of(folder for name in _RECORDS for folder in view.folders(name))
        everyone = _groups(view, "redone", since)
        view.redo(since)
        return AtWork(everyone, everyone, everyone, everyone, named)
    since, (_, classic, modern) = news_of(view.staged(name) for name in _RECORDS)
    root = out / ".since"
    states = States.read(*(root / f"{kind}-{saved.number:08d}" for kind in ("replays", "steps")))
    moments = {
        name: Moments(moment(one.final_until), first_after(looked.instants[name], moment(one.sampled_to)))
        for name, one in was.items()
    }
    found = find_touched(since, classic | modern, states, moments, named, _of_new_topics(out, was, looked.now))
    redone = _groups(view, "redone", found.redone) if found.redone else None
    if found.redone:
        view.redo(found.redone)
    return AtWork(
        _groups(view, "stepped", classic | modern | found.redone),
        _groups(view, "replayed", found.replayed),
        _groups(view, "told", found.since.keys() | found.replayed),
        redone,
        named,
    )


def _topic_names(view: View, captures: Mapping[str, Capture]) -> dict[str, str]:
    if not view.has_rows("modern_group_records"):
        return {}
    found = topic_names_in(view.folders("offset_commits"))
    for capture in captures.values():
        found |= {one: topic for topic, one in topic_ids(capture).items() if one is not None}
    return found


def _of_new_topics(out: Path, was: Mapping[str, ClusterState], now: Mapping[str, ClusterState]) -> set[Group]:
    """Groups with commits on topics that were made anew since: which of their commits count is to be told again."""
    found: set[Group] = set()
    for name, one in now.items():
        before = was[name].topics
        anew = [topic for topic in {**before, **one.topics} if before.get(topic) != one.topics.get(topic)]
        found |= groups_of_topics(folder_of(out, "offset_commits"), name, anew) if anew else set()
    return found


def _groups(view: View, name: str, groups: Iterable[Group]) -> DataFrame:
    return view.rows_aside(name, pa.Table.from_pylist([dict(zip(KEY, one, strict=True)) for one in sorted(groups)], _GROUPS))
