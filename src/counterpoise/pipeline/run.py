"""One audit under way: captures to tables, stage by stage, every table written once and stored at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from counterpoise.pipeline.engine import ClusterInput, Engine, place_files
from counterpoise.pipeline.fold.samples import samples_of
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.records.place import moment_of
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.anonymous import fingerprint
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.staging import source_files
from counterpoise.pipeline.stored import catalog, store
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.keyed import stored
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import STAGED, dataset, days
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
    out : Path
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
        out: Path,
        choice: Choice,
        salt: str | None,
        into: Catalog | None,
        progress: Progress | None,
    ) -> None:
        self._spark, self._out, self._choice = spark, out, choice
        self._captures = dict(captures)
        self._made = Folder(out / "tables" / STAGED)
        self._scratch = self._made.path / ".work" if salt is None else out.absolute().parent / f".{out.name}-work"
        self._salt, self._into, self._progress = salt, into, progress
        self._rows: dict[str, int] = {}
        self._ends: dict[str, datetime | None] = {}
        self._sampled: tuple[datetime | None, datetime | None] = (None, None)

    def run(self, source: str, strategies: Sequence[str] | None) -> dict[str, Any]:
        """All stages; returns the summary as written to ``summary.json``."""
        self._clear()
        try:
            self._begin("records")
            sources = source_files(self._captures, self._scratch)
            clusters = {
                name: ClusterInput(one, samples_of(one.files, self._scratch, self._choice.window))
                for name, one in sources.items()
            }
            engine = Engine(self._spark, clusters, self._scratch, self._choice, self._salt)
            about = self._stages(engine, comparable(strategies))
            self._store()
        finally:
            self._clear()
        return self._write_summary(source, about)

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
        for table in TABLES:
            (self._made.path / table).mkdir(parents=True, exist_ok=True)
        self._rows = dict.fromkeys(TABLES, 0) | place_files(engine.tables(), self._made)
        rows = place_files(engine.open_tables(), self._made)
        self._rows = {name: n + rows.get(name, 0) for name, n in self._rows.items()}
        counted, sums = engine.counted(), sums_of(engine.folded)
        about = summarize(counted, sums, engine.found(), engine.kinds())
        disagreeing = {name: len(one.ends.odd) for name, one in engine.clusters.items()}
        about["notes"] = self._notes(about, counted, sums, disagreeing)
        return about

    def _clear(self) -> None:
        for folder in (self._made.path, self._scratch):
            shutil.rmtree(folder, ignore_errors=True)

    def _store(self) -> None:
        """All tables to where they stay; nothing is stored if one of them cannot be."""
        self._begin("store")
        kept = Folder(self._out / "tables")
        for name in TABLES:
            store.check(self._spark, name, self._made, kept)
        if self._into is not None:
            self._store_in(self._into)
        ended = days(self._made.path / "group_report")
        for name in TABLES:
            store.merge(self._spark, name, self._made, kept, ended)

    def _store_in(self, target: Catalog) -> None:
        tables = {name: store.read(self._spark, name, self._made) for name in TABLES}
        for name, table in tables.items():
            catalog.check(table, name, target)
        reported = tables["group_report"].select("cluster", "date").distinct().collect()
        for name, table in tables.items():
            catalog.add(table, name, target, {(row["cluster"], row["date"]) for row in reported})

    def _write_summary(self, source: str, about: Mapping[str, Any]) -> dict[str, Any]:
        clusters = list(self._captures)
        tables = {
            name: {
                "path": f"tables/{name}",
                "rows": self._rows[name],
                "stored": dataset(self._out / "tables" / name).count_rows(),
                "columns": stored(name).names,
            }
            for name in TABLES
        }
        days = {name: None if end is None else end.astimezone(UTC).date().isoformat() for name, end in self._ends.items()}
        names = None if self._salt is None else fingerprint(self._salt)
        head = {"format": 2, "source": source if names is None else "(anonymized)", "cluster": ", ".join(clusters)}
        head |= {"clusters": clusters, "days": days, "hashed": names}
        head |= {"sampled_from": iso(self._sampled[0]), "sampled_to": iso(self._sampled[1])}
        summary = {**head, **{name: value for name, value in about.items() if name != "notes"}, "tables": tables}
        summary["notes"] = about["notes"]
        (self._out / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return summary

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
