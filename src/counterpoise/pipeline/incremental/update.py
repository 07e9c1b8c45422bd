"""`audit --since last`: what is new since the last audit into the same folder, with the result of an audit of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from counterpoise.errors import OptionError
from counterpoise.pipeline.audit import AuditResult, check_out, check_writable, result_of
from counterpoise.pipeline.engine import ClusterInput, Engine, place_files
from counterpoise.pipeline.fold.ends_file import EndsFile
from counterpoise.pipeline.fold.samples import samples_of
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.incremental.journal import Journal, left_over
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, identity_of, load
from counterpoise.pipeline.incremental.snapshot import (
    changed_files,
    check_same_capture,
    files_of,
    read_until,
    recreated,
    settled_until,
    topic_ids_of,
)
from counterpoise.pipeline.incremental.summing import in_full, write_summary
from counterpoise.pipeline.incremental.view import View
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.scan.aggregation import NEVER
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.layout import check_source, count_records
from counterpoise.pipeline.source.sources import read_capture, reading
from counterpoise.pipeline.source.staging import SourceFiles, source_files
from counterpoise.pipeline.stored import store
from counterpoise.pipeline.stored.catalog import Catalog, check_lasting, check_target
from counterpoise.pipeline.stored.tables import folder_of
from counterpoise.pipeline.stored.transaction import NewFiles
from counterpoise.pipeline.totals import sums_of

__all__ = ["check_kept_up", "run_update", "update", "update_session"]

_STAGES = ("records", "scan", "fold", "findings", "summary", "store")


def run_update(
    sources: Mapping[str, str | Path],
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
    into: Catalog | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """`update` with a session of our own (or the active one), stopped if it was made here.

    Raises
    ------
    CaptureError
    OptionError
    """
    for one in sources.values():
        check_source(one)
    _checked(sources, out, strategies, choice or Choice(), into)
    check_writable(out)
    spark, made = update_session(sources)
    try:
        if made and into is not None:
            check_lasting(spark, into)
        return update(spark, sources, out, strategies=strategies, choice=choice, into=into, progress=progress)
    finally:
        if made:
            spark.stop()


def update_session(sources: Mapping[str, str | Path], settings: Mapping[str, str] | None = None) -> tuple[SparkSession, bool]:
    """A session for `update`, as `local_session` gives it; with further settings."""
    sizes = [count_records(one) for one in sources.values()]
    return local_session(settings, records=None if None in sizes else sum(size for size in sizes if size is not None))


def update(
    spark: SparkSession,
    sources: Mapping[str, str | Path],
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
    into: Catalog | None = None,
    progress: Progress | None = None,
    held: Journal | None = None,
) -> AuditResult:
    """Bring the tables in `out` up to date with the captures.

    Parameters
    ----------
    spark : SparkSession
    sources : mapping
        Cluster name -> local capture folder (or Parquet file).
    out : path
        Without the state of an earlier `update` in it, all is audited, and what stands there is replaced.
    strategies, choice, progress
        As for `audit`. They must be the same each time.
    into : Catalog, optional
        Tables of a Spark catalog that get the rows that are final.
    held : Journal, optional
        Of `out`, where the caller holds it open for more than this audit.

    Returns
    -------
    AuditResult
        With nothing new it is that of the last audit, and nothing is written.

    Raises
    ------
    CaptureError
        A capture is not the one of the last audit, or has dropped what was not read yet; what the last audit left cannot be read.
    OptionError
        An option is not the one of the last audit, or cannot be kept up; the tables in `out` are not kept up this way.
    """
    options, identities = _checked(sources, out, strategies, choice or Choice(), into)
    if into is not None:
        check_target(spark, into)
    journal = held or Journal(Path(out))
    where = ", ".join(map(str, sources.values()))
    with journal.open() if held is None else nullcontext(), reading(where):
        journal.recover()
        saved = load(journal.root / "state.json")
        captures = {name: read_capture(source) for name, source in sources.items()}
        if progress is not None:
            progress("records", 0, len(_STAGES))
        now = {name: _seen(captures[name], identities[name]) for name in sources}
        if saved is not None and all(
            (now[name].files, now[name].topics, now[name].notes) == (was.files, was.topics, was.notes)
            for name, was in saved.clusters.items()
        ):
            summary = Path(out) / "summary.json"
            if summary.exists():
                return replace(_result(Path(out), json.loads(summary.read_bytes())), nothing_new=True)
        work = _Update(spark, captures, journal, saved, now, choice or Choice(), options, into, progress)
        try:
            made = work.run(where)
        except _StateTooOldError:
            journal.sweep()
            made = _Update(spark, captures, journal, None, now, choice or Choice(), options, into, progress, saved).run(where)
    return _result(Path(out), made)


def _result(out: Path, summary: dict[str, Any]) -> AuditResult:
    """Tables without a row get a file from which any engine learns their columns."""
    dated = {cluster: day for cluster, day in summary["days"].items() if day is not None}
    store.leave_columns(store.Folder(out / "tables"), *next(iter((dated or summary["days"]).items())))
    return result_of(out, summary)


class _StateTooOldError(Exception):
    """What is new says something else of records that were folded: all is to be read again."""


def _seen(capture: Capture, identity: Mapping[str, Any]) -> ClusterState:
    """What a capture holds, before any of it is read."""
    assert capture.files is not None
    found = ClusterState(identity=dict(identity), notes=list(capture.notes), files=files_of(capture.files))
    found.topics = topic_ids_of(capture.files)
    return found


class _Update:
    """One update of all clusters.

    Parameters
    ----------
    spark : SparkSession
    captures : mapping
        Cluster name -> capture.
    journal : Journal
        Of the output folder, open.
    saved : Saved, optional
        What the last update left; None: all is read.
    now : mapping
        Cluster name -> what its capture holds.
    choice : Choice
    options : mapping
        What `Saved.check` will expect again.
    into : Catalog, optional
    progress : callable, optional
    before : Saved, optional
        What is replaced, if all is read although there is something.
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        journal: Journal,
        saved: Saved | None,
        now: Mapping[str, ClusterState],
        choice: Choice,
        options: Mapping[str, Any],
        into: Catalog | None,
        progress: Progress | None,
        before: Saved | None = None,
    ) -> None:
        self._spark, self._into = spark, into
        self._captures, self._journal, self._saved, self._now, self._choice = captures, journal, saved, now, choice
        self._options, self._progress = options, progress
        self._number = 1 + max((one.number for one in (saved, before) if one is not None), default=0)
        self._was = {name: ClusterState() if saved is None else saved.clusters[name] for name in captures}
        self._view = View(journal, fresh=saved is None)
        self._base = journal.staged / "kept"
        work = journal.staged / "records"
        clusters = {name: self._input(name, one) for name, one in source_files(captures, work).items()}
        files = NewFiles(str(work.absolute()), self._number)
        self._engine = Engine(spark, clusters, str(work.absolute()), files, choice, keep=True)

    def _input(self, name: str, source: SourceFiles) -> ClusterInput:
        was, root = self._was[name], self._journal.root
        before = None if was.ends is None else EndsFile.load(root / "ends" / was.ends, root / "ends")
        ends = samples_of(source.files, self._journal.staged / "records", self._choice.window, before, was.settled)
        new = changed_files(source.files, was.files, self._now[name].files)
        return ClusterInput(
            replace(source, files=new),
            ends,
            begin={int(partition): at for partition, at in was.positions.items()},
            # Samples come in the order of time: none will lie between earlier commits.
            settled=int(ends.instants[-1]) if len(ends.instants) else NEVER,
            states=tuple(str(root / f"states-{self._saved.number:08d}" / file) for file in was.states) if self._saved else (),
            buckets=was.buckets,
            names=was.names,
            groups=was.groups,
        )

    def run(self, where: str) -> dict[str, Any]:
        """Read what is new, and store it; returns the summary."""
        engine = self._engine
        self._begin("scan")
        engine.scan()
        self._check()
        ends = {name: self._reached(name) for name in self._now}
        self._begin("fold")
        known = {name: 0 if end is None else end for name, end in ends.items()}
        settled = {name: -NEVER if one.settled is None else one.settled for name, one in self._now.items()}
        engine.fold(self._options["--strategies"], known, settled)
        self._begin("findings")
        engine.rank(known)
        self._begin("summary")
        for name in TABLES:
            (self._view.final / name).mkdir(parents=True, exist_ok=True)
        place_files(engine.tables(), self._view.final)
        place_files(engine.open_tables(), self._view.open)
        self._view.merge()
        sums = sums_of(engine.folded)
        disagreeing = {name: len(one.ends.odd) for name, one in engine.clusters.items()}
        about, kept = in_full(self._captures, self._saved, engine.counted(), engine.kinds(), sums, engine.found(), disagreeing)
        file = self._journal.staged / "summary.json"
        span, rows = self._view.span("partition_lag", "at"), self._view.rows(self._number)
        summary = write_summary(file, where, self._now, self._number, span, rows, about)
        self._begin("store")
        if self._into is not None:
            staged = {name: sorted(map(str, (self._view.final / name).rglob("*.parquet"))) for name in TABLES}
            store.add_to_catalog(self._spark, staged, self._into)
        moves = [*self._view.moves(self._number), *self._left(), (file, self._journal.out / "summary.json")]
        state = self._journal.staged / "state.json"
        state.write_text(Saved(self._number, dict(self._options), dict(self._now), kept).text(), encoding="utf-8")
        self._commit([*moves, (state, self._journal.root / "state.json")])
        return summary

    def _check(self) -> None:
        """Whether the captures are those of the last update, and what is new changes nothing that was folded.

        Raises
        ------
        CaptureError
        _StateTooOldError
        """
        names = self._engine.names()
        for name, was in self._was.items():
            mine = [one for one in self._engine.scanned if one["cluster"] == name]
            now = self._now[name]
            still = any(was.files.get(file) == marks for file, marks in now.files.items())
            first = min((time for one in mine for time, _ in one["cuts"]), default=None)
            check_same_capture(name, was, still, mine, first)
            named = any(one in names for one in was.unnamed)
            late = first is not None and was.settled is not None and first <= was.settled
            now.lives = self._engine.clusters[name].ends.lives_of_topics()
            now.groups = self._engine.groups.get(name, {})
            chosen = any(now.groups[group] and not before for group, before in was.groups.items())
            # What a capture has dropped cannot be read again: then rows stay as they are.
            if (named or late or chosen or recreated(was, now)) and all(file in now.files for file in was.files):
                raise _StateTooOldError

    def _reached(self, name: str) -> int | None:
        """How far a cluster was read; the time of its last record."""
        was, now, engine = self._was[name], self._now[name], self._engine
        now.positions, now.stamps = dict(was.positions), dict(was.stamps)
        for one in engine.scanned:
            for partition, offset, time in one["last"] if one["cluster"] == name else ():
                if offset >= now.positions.get(str(partition), 0):
                    now.positions[str(partition)], now.stamps[str(partition)] = offset + 1, time
        now.end = max((at for at in (was.end, engine.end_of(name)) if at is not None), default=None)
        now.read = was.read | read_until(engine.clusters[name].source.files, now.positions)
        now.settled = settled_until(engine.clusters[name].ends, now.read, now.end, was.settled)
        now.buckets, now.names = engine.clusters[name].buckets, dict(sorted(engine.names().items()))
        return now.end

    def _left(self) -> list[tuple[Path, Path]]:
        """Files for the next update, and where they go; what `ClusterState` says of them."""
        root, moves = self._journal.root, list[tuple[Path, Path]]()
        for name, now in self._now.items():
            mine = [one for one in self._engine.folded if one["cluster"] == name]
            now.unnamed = sorted({topic_id for one in mine for topic_id in one["unnamed"]})
            files = [Path(one["states"]) for one in mine if one["states"] is not None]
            moves += [(file, root / f"states-{self._number:08d}" / file.name) for file in files]
            now.states = sorted(file.name for file in files)
            moves += self._left_samples(name, now)
        return moves

    def _left_samples(self, name: str, now: ClusterState) -> list[tuple[Path, Path]]:
        """Samples up to what is settled need not be read again; a later one of the others may still be to come."""
        ends, folder = self._engine.clusters[name].ends, self._journal.root / "ends"
        now.ends = None
        if now.settled is None or not ends.file:
            return []
        self._base.mkdir(parents=True, exist_ok=True)
        place = self._base / f"ends-{uuid4().hex}.json"
        ends.up_to(now.settled).save(place)
        now.ends = place.name
        return [(place, folder / place.name), (Path(ends.file), folder / Path(ends.file).name)]

    def _commit(self, moves: list[tuple[Path, Path]]) -> None:
        journal = self._journal
        for name in TABLES:
            folder_of(journal.out, name).mkdir(parents=True, exist_ok=True)  # a table without rows is a folder too
        root = journal.out.absolute()
        # Tasks name their files by whole paths.
        named = [(journal.out / one.relative_to(root) if one.is_relative_to(root) else one, to) for one, to in moves]
        whole, stay = [pair for pair in named if pair[0] != pair[1]], {one for one, to in named if one == to}
        old = [file for file in left_over(journal.root) if file not in stay]
        journal.commit(whole, [*self._view.gone(), *old])

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))


def check_kept_up(out: str | Path) -> bool:
    """Whether there is an earlier audit in `out` to go on from.

    Raises
    ------
    OptionError
        There are tables that were made without ``--since last``: it would have to replace them.
    """
    root, file = Path(out) / ".since", Path(out) / "summary.json"
    if (root / "state.json").exists() or (root / "journal.json").exists():
        return True
    if file.exists() and "since_last" not in json.loads(file.read_bytes()):
        raise OptionError(
            f"--since last: the audit in {out} was made without it, and it cannot go on from there; give another --out"
        )
    return False


def _checked(
    sources: Mapping[str, str | Path],
    out: str | Path,
    strategies: Sequence[str] | None,
    choice: Choice,
    into: Catalog | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and identities to keep, held against those of the last audit: all that can be said before anything is read."""
    options: dict[str, Any] = {"--cluster": list(sources), "--group": list(choice.groups), "--topic": list(choice.topics)}
    options |= {name: None if at is None else at.isoformat() for name, at in (("--from", choice.since), ("--to", choice.until))}
    options |= {"--reset": choice.reset, "--into": None if into is None else f"{into.schema}.{into.prefix}"}
    options["--strategies"] = list(comparable(strategies))
    check_out(out, None)
    identities = {name: identity_of(source) for name, source in sources.items()}
    saved = load(Path(out) / ".since" / "state.json") if check_kept_up(out) else None
    if saved is not None:
        saved.check(options, identities)
    return options, identities
