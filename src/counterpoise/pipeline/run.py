"""One run of the stages: captures to tables, all stored by one transaction."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.engine import ClusterInput, Engine, Job
from counterpoise.pipeline.fold.ends_file import samples_of
from counterpoise.pipeline.incremental.since_last import Update
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.storage.files import delete, is_local, list_files, parquet_footers
from counterpoise.pipeline.summary import count_records, data_notes, lag_note, sum_records, summarize
from counterpoise.pipeline.tables import store
from counterpoise.pipeline.tables.anonymous import fingerprint
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.compaction import compacted
from counterpoise.pipeline.tables.keyed import KEYS, RECORDS, stored
from counterpoise.pipeline.tables.paths import NO_DAY, day_folder
from counterpoise.pipeline.wording import iso, times

__all__ = ["SUMMARY_FORMAT", "Progress", "Run"]

Progress = Callable[[str, int, int], None]
Files = dict[str, dict[str, list[str]]]
"""Table -> partition (``cluster=shop/date=2026-11-21``) -> files."""
SUMMARY_FORMAT = 3
"""Version of the layout of ``summary.json``; an audit adds rows only to a folder of the same version."""
_STAGES = ("records", "scan", "fold", "findings", "summary", "store")


class Run:
    """Computes the tables of a job, and stores all of them in its transaction.

    If names are hashed, temporary files with plain names are beside `out`, not in it. With `update` the previous audit is
    continued, and a state for the next one is written; without it rows are added to the stored ones.
    """

    def __init__(self, spark: SparkSession, job: Job, progress: Progress | None, update: Update | None = None) -> None:
        self._spark, self._job, self._progress, self._update = spark, job, progress, update
        self._saved = None if update is None else update.saved
        self._transaction = job.transaction
        self._ends: dict[str, int | None] = {}
        self._sums: dict[str, Any] = {}

    def run(self, source: str) -> dict[str, Any]:
        """Run all stages; returns the summary as written to ``summary.json``.

        Raises `FinalRowsChangedError` if an update contradicts stored final rows: the caller audits everything again. Raises
        `CaptureError` if a source cannot be read or is not the one of the last audit.
        """
        with self._work_folders() as (scratch, work):
            self._report_progress("records")
            clusters = {name: self._input(name, one, scratch) for name, one in self._job.captures.items()}
            engine = Engine(self._spark, self._job, clusters, work, write_states=self._update is not None)
            try:
                self._stages(engine)
            finally:
                engine.close()
            return self._store(source, engine)

    @contextmanager
    def _work_folders(self) -> Iterator[tuple[Path, str]]:
        """A folder on this machine for the driver, and one that tasks share; beside `out` if names are hashed."""
        parent, _, name = self._transaction.out.rpartition("/")
        beside = f"{parent}/.{name}-work" if not parent.endswith(":/") else f"{self._transaction.out}/.work"
        if not is_local(beside):
            with TemporaryDirectory() as scratch:
                _delete_below(beside)
                yield Path(scratch), beside
                _delete_below(beside)
            return
        folder = Path(self._transaction.out) / ".transaction" / "work" if self._job.salt is None else Path(beside)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder, str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _input(self, name: str, source: Capture, scratch: Path) -> ClusterInput:
        if self._update is not None:
            return self._update.input(name, scratch)
        samples = samples_of(source.files, str(scratch / f"ends-{uuid4().hex}.bin"), self._job.scope.window)
        return ClusterInput(source.files.records, samples)

    def _stages(self, engine: Engine) -> None:
        self._report_progress("scan")
        engine.scan()
        watermarks: dict[str, int] = {}
        if self._update is None:
            self._ends = {name: engine.last_record_time(name) for name in engine.clusters}
        else:
            self._update.add_scanned(engine)
            states = self._update.clusters.items()
            watermarks = {name: -NEVER if one.watermark is None else one.watermark for name, one in states}
            self._ends = {name: one.end for name, one in states}
        # For a cluster without records any time is fine.
        last_times = {name: 0 if end is None else end for name, end in self._ends.items()}
        self._report_progress("fold")
        engine.fold(last_times, watermarks)
        self._report_progress("findings")
        engine.rank(last_times)

    def _store(self, source: str, engine: Engine) -> dict[str, Any]:
        """Store all tables in one transaction; nothing is stored if one of them fails."""
        self._report_progress("summary")
        final, provisional = (_by_partition(engine.tables(kind)) for kind in ("tables", "provisional"))
        about, notes = self._sums_and_notes(engine)
        self._report_progress("store")
        work, saved = self._transaction, self._saved
        for name in RECORDS:
            store.check_cluster_is_new(name, final[name], work)
        if self._update is None:
            for name in TABLES:
                store.check(self._spark, name, final[name], work)
        if self._job.into is not None:
            notes += self._into_catalog(self._job.into, final, provisional)
        added, removed = list[str](), list[str]()
        stored_rows: dict[str, int] = {}
        days = {name: None if end is None else moment_of(end).date().isoformat() for name, end in self._ends.items()}
        for name in TABLES:
            stored_files = set(work.manifest.below("tables", name))
            new, old = self._file_changes(name, final, provisional[name])
            if stored_files <= set(old) and not new:
                cluster, day = next(iter([pair for pair in days.items() if pair[1] is not None] or days.items()))
                new = [store.empty_file(name, cluster, day or NO_DAY, work.new_files)]
            added, removed = [*added, *new], [*removed, *old]
            known = None if saved is None else saved.sums["rows"].get(name)
            stay = _rows(stored_files - set(old)) if known is None else known - _rows(old)
            stored_rows[name] = stay + _rows(new)
        rows = stored_rows
        if self._update is None:
            rows = {name: sum(one["rows"] for table, _, one in engine.tables("tables") if table == name) for name in TABLES}
        tables = {
            name: {"path": f"tables/{name}", "rows": rows[name], "stored": stored_rows[name], "columns": stored(name).names}
            for name in TABLES
        }
        summary = {**self._head(source, days), **about, "tables": tables, "notes": notes}
        if self._update is not None:
            files = [file for by_day in provisional.values() for listed in by_day.values() for file in listed]
            new, old = self._update.save_state(engine, files, {**self._sums, "rows": stored_rows})
            added, removed = [*added, *new], [*removed, *old]
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        work.publish(added, removed, {"summary.json": text.encode()})
        return summary

    def _file_changes(self, name: str, final: Files, provisional: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
        """The files of a table that this audit adds, and those that it removes."""
        work, new = self._transaction, final[name]
        if self._update is None or name not in KEYS:
            return store.merge(self._spark, name, new, work, final["group_report"])
        old = self._replaced_files(name)
        merged, sources = compacted(work, name, new, old)
        return [*chain.from_iterable([*new.values(), *provisional.values()]), *merged], [*old, *sources]

    def _replaced_files(self, name: str) -> list[str]:
        """The stored files that an update replaces: those with provisional rows; all of them, if it reads everything again."""
        work, saved = self._transaction, self._saved
        provisional = None if saved is None else {work.place_of(file) for file in saved.provisional_files}
        return [file for file in work.manifest.below("tables", name) if provisional is None or file in provisional]

    def _into_catalog(self, target: Catalog, *new: Files) -> list[str]:
        """Write final and provisional rows to the catalog; returns a note on tables that cannot hold provisional rows."""
        final, provisional = ({name: list(chain.from_iterable(one[name].values())) for name in TABLES} for one in new)
        replaced = None if self._update is None else {name: self._replaced_files(name) for name in TABLES}
        left_out = ", ".join(store.add_to_catalog(self._spark, target, final, provisional, replaced))
        words = (
            f"--into: {left_out} lack rows that may still change and keep those that they have: their format cannot replace rows"
        )
        return [words] if left_out else []

    def _sums_and_notes(self, engine: Engine) -> tuple[dict[str, Any], list[str]]:
        """Sums over records, groups and findings of this audit and those that it continues, and notes, for the summary."""
        counted, transactional = count_records(engine.scanned, engine.folded)
        about = summarize(counted, engine.folded, engine.ranked)
        if self._saved is not None:
            before = self._saved.sums
            about["records"] = sum_records(before["records"], about["records"])
            transactional += before["transactional"]
            for name, pick in (("from", min), ("to", max), ("sampled_from", min), ("sampled_to", max)):
                # All have one format (UTC, milliseconds): texts are ordered as times are.
                about[name] = pick((one for one in (before[name], about[name]) if one is not None), default=None)
        self._sums = {"transactional": transactional, **{name: about[name] for name in counted}}
        clusters = list(self._job.captures)
        notes = [
            note if len(clusters) == 1 else f"{name}: {note}"
            for name in clusters
            for note in _notes_of(self._job.captures[name], with_names=self._job.salt is None)
        ]
        known = all(one.files.aborted_records is not None for one in self._job.captures.values())
        disagreeing = {name: len(one.ends.conflicting) for name, one in engine.clusters.items()}
        notes += [*data_notes(about["records"]["total"], transactional, known, disagreeing), *lag_note(engine.folded)]
        if self._job.salt is None:
            notes += self._job.scope.policy.ended({name: moment_of(end or 0).date() for name, end in self._ends.items()})
        else:
            notes.append("names are hashed; details of steps, metadata of commits, user data and raw bytes are left out")
        return about, notes

    def _head(self, source: str, days: Mapping[str, str | None]) -> dict[str, Any]:
        """What the summary says about the audit itself."""
        names, clusters = None if self._job.salt is None else fingerprint(self._job.salt), list(self._job.captures)
        head = {"format": SUMMARY_FORMAT, "source": source if names is None else "(anonymized)", "cluster": ", ".join(clusters)}
        docs = None if names is not None else self._job.scope.policy.docs
        head |= {"clusters": clusters, "days": dict(days), "since": iso(self._job.scope.since), "hashed": names, "docs": docs}
        return head if self._update is None else {**head, "since_last": self._transaction.new_files.number}

    def _report_progress(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))


def _notes_of(capture: Capture, *, with_names: bool) -> list[str]:
    faults = capture.faults
    left_out = [f"{times(len(faults), 'faults')} of polls left out: they name groups"] if faults else []
    return [*capture.notes, *(faults if with_names else left_out)]


def _by_partition(manifests: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Files:
    files: Files = {name: {} for name in TABLES}
    for table, cluster, manifest in manifests:
        for day, file in manifest["days"].items():
            files[table].setdefault(day_folder(cluster, day), []).append(file)
    return files


def _rows(files: Iterable[str]) -> int:
    return sum(one.num_rows for one in parquet_footers(list(files)))


def _delete_below(uri: str) -> None:
    for file in list_files(uri):
        delete(file)
