"""One audit under way: captures to tables, stage by stage, and all of it stored by one transaction."""

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

from counterpoise.pipeline.engine import ClusterInput, Engine
from counterpoise.pipeline.fold.ends_file import samples_of
from counterpoise.pipeline.incremental.history import History
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.scan.aggregation import NEVER
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.anonymous import fingerprint
from counterpoise.pipeline.source.capture import Capture, SourceFiles, source_files
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.storage.files import delete, is_local, list_files, parquet_footers
from counterpoise.pipeline.stored import store
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.compaction import compacted
from counterpoise.pipeline.stored.keyed import KEYS, RECORDS, stored
from counterpoise.pipeline.stored.tables import NO_DAY, day_folder
from counterpoise.pipeline.stored.transaction import TableTransaction
from counterpoise.pipeline.summary import (
    added_records,
    iso,
    lag_note,
    nothing_note,
    samples_note,
    summarize,
    sums_of,
    transaction_note,
)

__all__ = ["Progress", "Run"]

Progress = Callable[[str, int, int], None]
Files = dict[str, dict[str, list[str]]]
"""Table -> partition (``cluster=shop/date=2026-11-21``) -> files."""
_STAGES = ("records", "scan", "fold", "findings", "summary", "store")


class Run:
    """Makes the tables of one or more clusters, and stores them when all are there.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture.
    transaction : TableTransaction
        Open.
    choice : Choice
    salt : str, optional
        Names in tables are hashed with it. Files with names in them then stand beside `out` while the audit runs, never in it.
    into : Catalog, optional
        Where the rows go beside `out`.
    progress : callable, optional
    history : History, optional
        The audit continues the last one, and leaves a state for the next one. Without it rows are added to those that are stored.
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        transaction: TableTransaction,
        choice: Choice,
        salt: str | None,
        into: Catalog | None,
        progress: Progress | None,
        history: History | None = None,
    ) -> None:
        self._spark, self._choice = spark, choice
        self._captures, self._history = dict(captures), history
        self._transaction = transaction
        self._salt, self._into, self._progress = salt, into, progress
        self._ends: dict[str, int | None] = {}
        self._sums: dict[str, Any] = {}

    def run(self, source: str, strategies: Sequence[str]) -> dict[str, Any]:
        """All stages; returns the summary as written to ``summary.json``.

        Raises
        ------
        StateTooOldError
        """
        with self._work() as (scratch, work):
            self._begin("records")
            sources = source_files(self._captures, scratch)
            clusters = {name: self._input(name, one, scratch) for name, one in sources.items()}
            keep = self._history is not None
            engine = Engine(self._spark, clusters, work, self._transaction.new_files, self._choice, self._salt, keep=keep)
            try:
                self._stages(engine, strategies)
            finally:
                engine.close()
            return self._store(source, engine)

    @contextmanager
    def _work(self) -> Iterator[tuple[Path, str]]:
        """A folder on this machine for the driver, and one that tasks see too; beside `out` where names must not be in it."""
        parent, _, name = self._transaction.out.rpartition("/")
        beside = f"{parent}/.{name}-work" if not parent.endswith(":/") else f"{self._transaction.out}/.work"
        if not is_local(beside):
            with TemporaryDirectory() as scratch:
                _delete_below(beside)
                yield Path(scratch), beside
                _delete_below(beside)
            return
        folder = Path(self._transaction.out) / ".transaction" / "work" if self._salt is None else Path(beside)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            yield folder, str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _input(self, name: str, source: SourceFiles, scratch: Path) -> ClusterInput:
        if self._history is not None:
            return self._history.input(name, source, scratch)
        return ClusterInput(source, samples_of(source.files, (scratch / f"ends-{uuid4().hex}.bin").__str__, self._choice.window))

    def _stages(self, engine: Engine, strategies: Sequence[str]) -> None:
        self._begin("scan")
        engine.scan()
        settled: dict[str, int] = {}
        if self._history is None:
            self._ends = {name: engine.end_of(name) for name in engine.clusters}
        else:
            self._history.read(engine)
            settled = {name: -NEVER if one.settled is None else one.settled for name, one in self._history.clusters.items()}
            self._ends = {name: one.end for name, one in self._history.clusters.items()}
        # Of a cluster without records any time will do.
        known = {name: 0 if end is None else end for name, end in self._ends.items()}
        self._begin("fold")
        engine.fold(strategies, known, settled)
        self._begin("findings")
        engine.rank(known)

    def _store(self, source: str, engine: Engine) -> dict[str, Any]:
        """All tables to where they stay, in one transaction; nothing is stored if one of them cannot be."""
        self._begin("summary")
        final, provisional = _by_partition(engine.tables()), _by_partition(engine.open_tables())
        about = self._about(engine)
        self._begin("store")
        work, saved = self._transaction, None if self._history is None else self._history.saved
        for name in RECORDS:
            store.check_names(name, final[name], work)
        if self._history is None:
            for name in TABLES:
                store.check(self._spark, name, final[name], work)
        if self._into is not None:
            about["notes"] += self._into_catalog(self._into, final, provisional)
        added, removed = list[str](), list[str]()
        stored_rows: dict[str, int] = {}
        days = {name: None if end is None else moment_of(end).date().isoformat() for name, end in self._ends.items()}
        for name in TABLES:
            there = set(work.manifest.below("tables", name))
            more, gone = self._changed(name, final, provisional[name])
            if there <= set(gone) and not more:
                cluster, day = next(iter([pair for pair in days.items() if pair[1] is not None] or days.items()))
                more = [store.empty_file(name, cluster, day or NO_DAY, work.new_files)]
            added, removed = [*added, *more], [*removed, *gone]
            known = None if saved is None else saved.sums["rows"].get(name)
            stay = _rows(there - set(gone)) if known is None else known - _rows(gone)
            stored_rows[name] = stay + _rows(more)
        made = {name: sum(one["rows"] for table, _, one in engine.tables() if table == name) for name in TABLES}
        summary = self._summary(source, about, days, stored_rows if self._history is not None else made, stored_rows)
        if self._history is not None:
            opened = [file for new in provisional.values() for files in new.values() for file in files]
            more, gone = self._history.leave(engine, opened, {**self._sums, "rows": stored_rows})
            added, removed = [*added, *more], [*removed, *gone]
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        work.publish(added, removed, {"summary.json": text.encode()})
        return summary

    def _changed(self, name: str, final: Files, provisional: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
        """Files of a table that come, and those that go."""
        work, new = self._transaction, final[name]
        if self._history is None or name not in KEYS:
            return store.merge(self._spark, name, new, work, final["group_report"])
        old = self._replaced(name)
        merged, sources = compacted(work, name, new, old)
        return [*chain.from_iterable([*new.values(), *provisional.values()]), *merged], [*old, *sources]

    def _replaced(self, name: str) -> list[str]:
        """Stored files whose rows an update writes again: the provisional ones; all of them, if everything is read again."""
        work, saved = self._transaction, None if self._history is None else self._history.saved
        opened = None if saved is None else {work.place_of(file) for file in saved.open_files}
        return [file for file in work.manifest.below("tables", name) if opened is None or file in opened]

    def _into_catalog(self, target: Catalog, *new: Files) -> list[str]:
        """Final and provisional rows to the catalog; a note on those that it cannot take."""
        final, provisional = ({name: list(chain.from_iterable(one[name].values())) for name in TABLES} for one in new)
        replaced = None if self._history is None else {name: self._replaced(name) for name in TABLES}
        left_out = ", ".join(store.add_to_catalog(self._spark, target, final, provisional, replaced))
        words = (
            f"--into: {left_out} lack rows that may still change and keep those that they have: their format cannot replace rows"
        )
        return [words] if left_out else []

    def _about(self, engine: Engine) -> dict[str, Any]:
        """What the summary says of records, groups and findings, of this audit and those that it continues."""
        counted, sums = engine.counted(), sums_of(engine.folded)
        first, last = engine.lag_times()
        about = {"sampled_from": iso(first), "sampled_to": iso(last)} | summarize(counted, sums, engine.found(), engine.kinds())
        transactional = counted.transactional
        before = None if self._history is None or self._history.saved is None else self._history.saved.sums
        if before is not None:
            about["records"] = added_records(before["records"], about["records"])
            transactional += before["transactional"]
            for name, pick in (("from", min), ("to", max), ("sampled_from", min), ("sampled_to", max)):
                # All of one form (UTC, milliseconds): texts are ordered as times are.
                about[name] = pick((one for one in (before[name], about[name]) if one is not None), default=None)
        named = ("records", "from", "to", "sampled_from", "sampled_to")
        self._sums = {"transactional": transactional, **{name: about[name] for name in named}}
        clusters = list(self._captures)
        notes = [note if len(clusters) == 1 else f"{name}: {note}" for name in clusters for note in self._captures[name].notes]
        known = all(capture.tells_aborted for capture in self._captures.values())
        notes += samples_note({name: len(one.ends.conflicting) for name, one in engine.clusters.items()})
        notes += [*nothing_note(about), *transaction_note(transactional, known), *lag_note(sums.with_lag)]
        if self._salt is not None:
            notes.append("names are hashed; details of steps, metadata of commits, user data and raw bytes are left out")
        return {**about, "notes": notes}

    def _summary(
        self,
        source: str,
        about: Mapping[str, Any],
        days: Mapping[str, str | None],
        rows: Mapping[str, int],
        stored_rows: Mapping[str, int],
    ) -> dict[str, Any]:
        clusters = list(self._captures)
        tables = {
            name: {"path": f"tables/{name}", "rows": rows[name], "stored": stored_rows[name], "columns": stored(name).names}
            for name in TABLES
        }
        names = None if self._salt is None else fingerprint(self._salt)
        head = {"format": 2, "source": source if names is None else "(anonymized)", "cluster": ", ".join(clusters)}
        head |= {"clusters": clusters, "days": dict(days), "hashed": names}
        if self._history is not None:
            head["since_last"] = self._transaction.new_files.number
        return {
            **head,
            **{name: value for name, value in about.items() if name != "notes"},
            "tables": tables,
            "notes": about["notes"],
        }

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))


def _by_partition(manifests: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Files:
    found: Files = {name: {} for name in TABLES}
    for table, cluster, manifest in manifests:
        for day, file in manifest["days"].items():
            found[table].setdefault(day_folder(cluster, day), []).append(file)
    return found


def _rows(files: Iterable[str]) -> int:
    return sum(one.num_rows for one in parquet_footers(list(files)))


def _delete_below(uri: str) -> None:
    for file in list_files(uri):
        delete(file)
