"""An update that makes everything anew: for captures so small that reading all of it costs less than going on from states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from counterpoise.pipeline import store
from counterpoise.pipeline.incremental.folded import STEP_STATES, fold_steps
from counterpoise.pipeline.incremental.journal import HandOver, Journal, files_in
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, text_of
from counterpoise.pipeline.incremental.seen import topic_ids
from counterpoise.pipeline.incremental.touched import topic_names_in
from counterpoise.pipeline.rebalances import group_records
from counterpoise.pipeline.run import Progress, Run
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.sources import Capture
from counterpoise.pipeline.store import Folder
from counterpoise.pipeline.tables import days, folder_of

__all__ = ["WHOLE", "is_small", "make_whole"]

WHOLE = 2_000_000
"""Up to so many records all are read again: the tasks of a whole audit cost less than the many plans of going on."""
_OF_A_DAY = ("group_report", "findings")


def is_small(captures: Mapping[str, Capture], choice: Choice) -> bool:
    """Whether everything is made anew: all in local files, with samples, and not too much of it."""
    found = [capture.local for capture in captures.values()]
    if choice != Choice() or any(one is None or not one.ends for one in found):
        return False
    rows: int = sum(pq.read_metadata(file).num_rows for one in found if one is not None for file in one.records)
    return rows <= WHOLE


def make_whole(
    spark: SparkSession,
    captures: Mapping[str, Capture],
    journal: Journal,
    saved: Saved | None,
    now: Mapping[str, ClusterState],
    options: Mapping[str, Any],
    where: str,
    handover: HandOver,
    progress: Progress | None,
) -> dict[str, Any]:
    """Audit all there is beside the tables, and put it in their place; the summary.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture, in local files.
    journal : Journal
    saved : Saved, optional
        What the last audit left: of `group_report` and `findings` the days before this one's stay.
    now : mapping
        Cluster name -> how far the captures are.
    options, where, handover, progress
        As for `update`.
    """
    names: Sequence[str] = options["--strategies"]
    made, number = journal.staged / "whole", 1 if saved is None else saved.number + 1
    run = Run(spark, captures, made, Choice(), None, None, progress)
    summary = run.run(where, names)
    _save_steps(spark, captures, made, journal.staged / "steps")
    moves = _moves(made, journal.out, number)
    gone = _gone(made, journal.out, fresh=saved is None)
    summary = _about(summary, number, moves, gone, journal.out)
    (journal.staged / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for one in now.values():
        one.end = text_of(_last(one))
    sums = {"transactional": run.transactional, **{name: summary[name] for name in ("records", "from", "to")}}
    state = Saved(number, dict(options), dict(now), sums, whole=True)
    (journal.staged / "state.json").write_text(state.text(), encoding="utf-8")
    for name in TABLES:
        folder_of(journal.out, name).mkdir(parents=True, exist_ok=True)  # A table without rows is a folder too.
    old = [folder for kind in ("steps", "replays", "parts") for folder in journal.root.glob(f"{kind}-*")]
    moves += [(journal.staged / "steps", journal.root / f"steps-{number:08d}")]
    moves += [(journal.staged / "summary.json", journal.out / "summary.json")]
    moves += [(journal.staged / "state.json", journal.root / "state.json")]
    with handover({name: one.positions for name, one in now.items()}, journal.staged) as live:
        journal.commit([*moves, *live], [*gone, *old])
    return summary


def _save_steps(spark: SparkSession, captures: Mapping[str, Capture], made: Path, place: Path) -> None:
    """The state of every group's steps, where a stream goes on."""
    generations, modern = (
        store.read(spark, name, Folder(made / "tables")).drop("date") for name in ("group_generations", "modern_group_records")
    )
    known: dict[str, str] = {}
    if any(pq.read_metadata(file).num_rows for file in folder_of(made, "modern_group_records").rglob("*.parquet")):
        known = topic_names_in([folder_of(made, "offset_commits")])
        for capture in captures.values():
            known |= {one: topic for topic, one in topic_ids(capture).items() if one is not None}
    names = spark.createDataFrame(list(known.items()), "topic_id string, topic string")
    rows = fold_steps(group_records(generations, modern, names), None)
    rows.where("state is not null").select(*STEP_STATES.names).write.parquet(str(place))


def _moves(made: Path, out: Path, number: int) -> list[tuple[Path, Path]]:
    found = []
    for name in TABLES:
        for file in sorted(folder_of(made, name).glob("cluster=*/date=*/*.parquet")):
            place = folder_of(out, name) / file.parent.parent.name / file.parent.name
            found.append((file, place / f"part-{number:08d}-whole-{file.name}"))
    return found


def _gone(made: Path, out: Path, *, fresh: bool) -> list[Path]:
    """Files that go: all, but of what is said of a day those of other days."""
    found = []
    for name in TABLES:
        mine, there = folder_of(made, name), folder_of(out, name)
        replaced = days(mine)
        for day in days(there):
            if fresh or name not in _OF_A_DAY or day in replaced:
                found += files_in(there / day)
    return found


def _about(
    summary: Mapping[str, Any], number: int, moves: Sequence[tuple[Path, Path]], gone: Sequence[Path], out: Path
) -> dict[str, Any]:
    """The summary as `update` has it: with the number of the audit, and the rows that the tables will have."""
    told: dict[str, Any] = {}
    for key, value in summary.items():
        told[key] = value
        if key == "hashed":
            told["since_last"] = number
    for name, about in told["tables"].items():
        stay = set(folder_of(out, name).glob("cluster=*/date=*/*.parquet")) - set(gone)
        files = [*stay, *(file for file, to in moves if to.is_relative_to(folder_of(out, name)))]
        about["rows"] = about["stored"] = sum(pq.read_metadata(file).num_rows for file in files)
    return told


def _last(state: ClusterState) -> datetime | None:
    """The time of the newest record."""
    newest = max(state.stamps.values(), default=None)
    return None if newest is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=newest)
