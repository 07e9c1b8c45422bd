"""One update: what is new through the stages, tables and states brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from counterpoise.pipeline.incremental.folded import STEP_STATES
from counterpoise.pipeline.incremental.journal import HandOver, Journal, left_over
from counterpoise.pipeline.incremental.news import Looked, last_settled
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, micros_of, moment, text_of
from counterpoise.pipeline.incremental.summing import counted_of, told_in_full, write_summary
from counterpoise.pipeline.incremental.tasks.by_tasks import ByTasks, Places
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.capture import Capture, Local
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.stored.tables import folder_of
from counterpoise.pipeline.summary import added_kinds

__all__ = ["update_by_tasks"]

_STAGES = ("new records", "groups", "replays", "findings", "summary", "store")


def update_by_tasks(
    spark: SparkSession,
    captures: Mapping[str, Capture],
    files: Mapping[str, Local],
    choice: Choice,
    journal: Journal,
    saved: Saved | None,
    looked: Looked,
    options: Mapping[str, Any],
    where: str,
    handover: HandOver,
    progress: Progress | None,
) -> dict[str, Any]:
    """Read what is new, and store; the summary.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture.
    files : mapping
        Cluster name -> its files.
    choice : Choice
        Patterns of groups, and the reset policy.
    journal : Journal
        Of the output folder, open.
    saved : Saved, optional
        What the last audit left.
    looked : Looked
        What the captures hold.
    options : mapping
        What `Saved.check` will want to see again.
    where : str
        The source, in words.
    handover, progress
        As for `update`.
    """

    def begin(stage: str) -> None:
        if progress is not None:
            progress(stage, _STAGES.index(stage), len(_STAGES))

    before = saved.clusters if saved is not None else {name: ClusterState() for name in captures}
    number = 1 if saved is None else saved.number + 1
    view = View(spark, journal, fresh=saved is None)
    places = _places(journal, view, 0 if saved is None else saved.number)
    tasks = ByTasks(spark, files, choice, places, before, looked)
    begin("new records")
    told = tasks.decode(view.final)
    kinds = {name: added_kinds(rows) for name, rows in tasks.kinds.items()}
    for at, (name, seen) in enumerate(kinds.items()):
        _set_end(before[name], looked.now[name], looked.instants[name], [told[f"end{at}"], *(last for *_, last in seen.values())])
    tasks.tails()
    begin("groups")
    view.redo(tasks.judge_news())
    begin("replays")
    ends = {name: micros_of(one.end) or 0 for name, one in looked.now.items()}  # of a cluster without records any time will do
    tasks.replay_news(options["--strategies"], ends)
    begin("findings")
    tasks.rank(view.final, ends)
    begin("summary")
    errors = sum(pq.read_metadata(file).num_rows for file in view.staged("decode_errors").rglob("*.parquet"))
    whole = added_kinds([(kind, *row) for seen in kinds.values() for kind, row in seen.items()])
    counted = counted_of(told, errors)
    about, sums = told_in_full(captures, saved, counted, whole, tasks.sums(), tasks.found(), tasks.disagreeing)
    file = journal.staged / "summary.json"
    summary = write_summary(file, where, looked.now, number, view.span("partition_lag", "at"), view.rows(number), about)
    begin("store")
    moves = [*view.moves(number), *_left_moves(tasks, journal, number)]
    state = Saved(number, dict(options), looked.now, sums)
    (journal.staged / "state.json").write_text(state.text(), encoding="utf-8")
    moves += [(file, journal.out / "summary.json"), (journal.staged / "state.json", journal.root / "state.json")]
    _commit(journal, view, moves, looked.now, handover)
    return summary


def _places(journal: Journal, view: View, number: int) -> Places:
    root = journal.root
    return Places(
        journal.out,
        root / f"kept-{number:08d}",
        root / f"steps-{number:08d}",
        journal.staged,
        view.final,
        view.open,
        view.records,
    )


def _set_end(was: ClusterState, now: ClusterState, instants: list[datetime], ends: list[datetime | None]) -> None:
    """When the last record of a cluster was, and up to which sample its lag is final."""
    known = [one.astimezone(UTC) for one in ends if one is not None]
    now.end = text_of(max((one for one in (*known, moment(was.end)) if one is not None), default=None))
    now.final_until = text_of(last_settled(instants, moment(now.end), moment(was.final_until)))


def _left_moves(tasks: ByTasks, journal: Journal, number: int) -> list[tuple[Path, Path]]:
    """Files for the next audit; only those that a task told of, because a stream reads whatever is in the folder of states."""
    nobody = journal.staged / "nobody.parquet"
    pq.write_table(arrow_schema(STEP_STATES).empty_table(), nobody)
    left = tasks.leave()
    ends = [(file, journal.root / "ends" / file.name) for file in left.pop("ends")]
    files = [(kind, file) for kind, told in left.items() for file in told]
    numbered = [(file, journal.root / f"{kind}-{number:08d}" / file.name) for kind, file in [*files, ("steps", nobody)]]
    return [*numbered, *ends]


def _commit(
    journal: Journal, view: View, moves: list[tuple[Path, Path]], now: Mapping[str, ClusterState], handover: HandOver
) -> None:
    for name in TABLES:
        folder_of(journal.out, name).mkdir(parents=True, exist_ok=True)  # A table without rows is a folder too.
    root = journal.out.absolute()
    whole = [(_within(one, root, journal.out), to) for one, to in moves]
    # What samples are added to stays where it is.
    whole, stay = [pair for pair in whole if pair[0] != pair[1]], {one for one, to in whole if one == to}
    old = [file for file in left_over(journal.root) if file not in stay]
    with handover({name: one.positions for name, one in now.items()}, journal.staged) as live:
        journal.commit([*whole, *live], [*view.gone(), *old])


def _within(file: Path, root: Path, out: Path) -> Path:
    """A file of a task, told as a whole path, as one that begins as `out` does."""
    return out / file.relative_to(root) if file.is_relative_to(root) else file
