"""One audit under way: captures to tables, stage by stage, every table written once and stored at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from counterpoise.pipeline.engine import ClusterInput, Engine
from counterpoise.pipeline.fold.samples import samples_of
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.anonymous import fingerprint
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.staging import source_files
from counterpoise.pipeline.storage.files import delete, is_local, list_files, parquet_footers
from counterpoise.pipeline.stored import store
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.keyed import stored
from counterpoise.pipeline.stored.tables import NO_DAY, day_folder
from counterpoise.pipeline.stored.transaction import TableTransaction
from counterpoise.pipeline.summary import (
    Counted,
    Sums,
    iso,
    lag_note,
    nothing_note,
    samples_note,
    summarize,
    transaction_note,
)
from counterpoise.pipeline.totals import sums_of

__all__ = ["Progress", "Run"]

Progress = Callable[[str, int, int], None]
_STAGES = ("records", "scan", "fold", "findings", "summary", "store")


class Run:
    """Makes the tables of one or more clusters beside the stored ones, counts their rows, and stores them when all are there.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture.
    out : str
        A local path or a URI.
    choice : Choice
    salt : str, optional
        Names in tables are hashed with it. Files with names in them then stand beside `out` while the audit runs, never in it.
    into : Catalog, optional
        Where the rows go beside `out`.
    progress : callable, optional
    """

    def __init__(
        self,
        spark: SparkSession,
        captures: Mapping[str, Capture],
        out: str,
        choice: Choice,
        salt: str | None,
        into: Catalog | None,
        progress: Progress | None,
    ) -> None:
        self._spark, self._choice = spark, choice
        self._captures = dict(captures)
        self._transaction = TableTransaction(out)
        self._salt, self._into, self._progress = salt, into, progress
        self._new: dict[str, dict[str, list[str]]] = {name: {} for name in TABLES}
        self._rows = dict.fromkeys(TABLES, 0)
        self._ends: dict[str, datetime | None] = {}
        self._sampled: tuple[datetime | None, datetime | None] = (None, None)

    def run(self, source: str, strategies: Sequence[str] | None) -> dict[str, Any]:
        """All stages; returns the summary as written to ``summary.json``."""
        with self._transaction.open(), self._work() as (scratch, work):
            self._begin("records")
            sources = source_files(self._captures, scratch)
            clusters = {
                name: ClusterInput(one, samples_of(one.files, scratch, self._choice.window)) for name, one in sources.items()
            }
            engine = Engine(self._spark, clusters, work, self._transaction.new_files, self._choice, self._salt)
            return self._store(source, self._stages(engine, comparable(strategies)))

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

    def _stages(self, engine: Engine, strategies: Sequence[str]) -> dict[str, Any]:
        """All tables; what the summary says of them."""
        self._begin("scan")
        engine.scan()
        ends = {name: engine.end_of(name) for name in engine.clusters}
        # Of a cluster without records any time will do.
        known = {name: 0 if end is None else end for name, end in ends.items()}
        self._ends = {name: None if end is None else moment_of(end) for name, end in ends.items()}
        self._begin("fold")
        engine.fold(strategies, known)
        self._begin("findings")
        engine.rank(known)
        self._begin("summary")
        self._sampled = engine.lag_times()
        for table, cluster, manifest in (*engine.tables(), *engine.open_tables()):
            self._rows[table] += manifest["rows"]
            for day, file in manifest["days"].items():
                self._new[table].setdefault(day_folder(cluster, day), []).append(file)
        counted, sums = engine.counted(), sums_of(engine.folded)
        about = summarize(counted, sums, engine.found(), engine.kinds())
        disagreeing = {name: len(one.ends.odd) for name, one in engine.clusters.items()}
        about["notes"] = self._notes(about, counted, sums, disagreeing)
        return about

    def _store(self, source: str, about: Mapping[str, Any]) -> dict[str, Any]:
        """All tables to where they stay, in one transaction; nothing is stored if one of them cannot be."""
        self._begin("store")
        work, spark = self._transaction, self._spark
        for name, new in self._new.items():
            store.check(spark, name, new, work)
        if self._into is not None:
            listed = {name: list(chain.from_iterable(new.values())) for name, new in self._new.items()}
            store.add_to_catalog(spark, listed, self._into)
        added, removed = list[str](), list[str]()
        files: dict[str, list[str]] = {}
        days = {name: None if end is None else end.astimezone(UTC).date().isoformat() for name, end in self._ends.items()}
        cluster, day = next(iter([pair for pair in days.items() if pair[1] is not None] or days.items()))
        for name, new in self._new.items():
            more, gone = store.merge(spark, name, new, work, self._new["group_report"])
            stay = [file for file in work.manifest.below("tables", name) if file not in gone]
            if not stay and not more:
                more = [store.empty_file(name, cluster, day or NO_DAY, work.new_files)]
            added, removed, files[name] = [*added, *more], [*removed, *gone], [*stay, *more]
        summary = self._summary(source, about, days, files)
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        work.publish(added, removed, {"summary.json": text.encode()})
        return summary

    def _summary(
        self, source: str, about: Mapping[str, Any], days: Mapping[str, str | None], files: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        clusters = list(self._captures)
        tables = {
            name: {
                "path": f"tables/{name}",
                "rows": self._rows[name],
                "stored": sum(one.num_rows for one in parquet_footers(files[name])),
                "columns": stored(name).names,
            }
            for name in TABLES
        }
        names = None if self._salt is None else fingerprint(self._salt)
        head = {"format": 2, "source": source if names is None else "(anonymized)", "cluster": ", ".join(clusters)}
        head |= {"clusters": clusters, "days": dict(days), "hashed": names}
        head |= {"sampled_from": iso(self._sampled[0]), "sampled_to": iso(self._sampled[1])}
        summary = {**head, **{name: value for name, value in about.items() if name != "notes"}, "tables": tables}
        return {**summary, "notes": about["notes"]}

    def _notes(self, about: Mapping[str, Any], counted: Counted, sums: Sums, disagreeing: Mapping[str, int]) -> list[str]:
        clusters = list(self._captures)
        notes = [note if len(clusters) == 1 else f"{name}: {note}" for name in clusters for note in self._captures[name].notes]
        known = all(capture.tells_aborted for capture in self._captures.values())
        notes += samples_note(disagreeing)
        notes += [*nothing_note(about), *transaction_note(counted.transactional, known), *lag_note(sums.with_lag)]
        if self._salt is not None:
            notes.append("names are hashed; details of steps, metadata of commits, user data and raw bytes are left out")
        return notes

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))


def _delete_below(uri: str) -> None:
    for file in list_files(uri):
        delete(file)
