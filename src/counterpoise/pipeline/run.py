"""One audit under way: captures to tables, stage by stage, every table written once, read back, and stored at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import TimestampType

from counterpoise.pipeline.clusters import decode_errors, disagreeing_samples, group_records, observed_commits, samples_of, union
from counterpoise.pipeline.decode import is_commit
from counterpoise.pipeline.direct.direct import Direct
from counterpoise.pipeline.findings.ranking import findings
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.group_report import group_report
from counterpoise.pipeline.lag import partition_lag
from counterpoise.pipeline.rebalances import rebalances, topic_names
from counterpoise.pipeline.replays import measured_replays, metrics, replays
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.source.anonymous import anonymous, fingerprint
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice, within
from counterpoise.pipeline.source.repeats import refuse_repeats
from counterpoise.pipeline.stops import stops
from counterpoise.pipeline.stored import catalog, store
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.keyed import stored
from counterpoise.pipeline.stored.store import Folder
from counterpoise.pipeline.stored.tables import STAGED, dataset, days
from counterpoise.pipeline.summary import (
    Counted,
    Found,
    Kinds,
    Sums,
    added_kinds,
    found_of,
    iso,
    kinds_of,
    lag_note,
    nothing_note,
    samples_note,
    summarize,
    sums_of,
    transaction_note,
)
from counterpoise.pipeline.timelines.timeline import committed

__all__ = ["Progress", "Run"]

Progress = Callable[[str, int, int], None]
_STAGES = ("commits", "groups", "rebalances", "lag", "replays", "report", "findings", "summary", "store")


class Run:
    """Makes the tables of one or more clusters beside the stored ones, counts their rows, and stores them when all are there.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture.
    out : Path
    choice : Choice
    salt : str, optional
        Names are hashed with it. Tables with names in them then stand beside `out` while the audit runs, never in it.
    into : Catalog, optional
        Where the rows go beside `out`.
    progress : callable, optional

    Attributes
    ----------
    transactional : int
        How many commits look like those of transactions.
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
        self._spark = spark
        self._captures = {name: within(capture, choice) for name, capture in captures.items()}
        self._out = out
        self._made = Folder(out / "tables" / STAGED)
        self._at = self._made if salt is None else Folder(out.absolute().parent / f".{out.name}-with-names")
        self._choice = choice
        self._scratch = self._made.path / ".work" if salt is None else out.absolute().parent / f".{out.name}-work"
        whole = choice == Choice() and all(capture.local is not None for capture in self._captures.values())
        self._direct = Direct(spark, self._captures, self._scratch) if whole else None
        self._salt = salt
        self._into = into
        self._progress = progress
        self._reported = False
        self.transactional = 0
        self._rows: dict[str, int] = {}
        self._ends: dict[str, datetime | None] = {}
        self._sampled: tuple[datetime | None, datetime | None] = (None, None)

    def run(self, source: str, strategies: Sequence[str] | None) -> dict[str, Any]:
        """All stages; returns the summary as written to ``summary.json``."""
        self._clear()
        rests: dict[str, DataFrame] = {}
        try:
            if self._direct is not None:
                counted, kinds = self._by_tasks(self._direct, strategies)
            else:
                rests = {name: one.records.where(~is_commit()).persist() for name, one in self._captures.items()}
                counted, kinds = self._decode(rests), kinds_of(union(list(rests.values())))
                self._replay(strategies)
            if self._salt is not None:
                self._hide_names(self._salt)
            self._judge()
            self._begin("summary")
            sums = self._sums()
            about = summarize(counted, sums, self._found(), kinds)
            about["notes"] = self._notes(about, counted, sums)
            self._store()
        finally:
            for one in rests.values():
                one.unpersist()
            self._clear()
        return self._write_summary(source, about)

    def _by_tasks(self, direct: Direct, strategies: Sequence[str] | None) -> tuple[Counted, Kinds]:
        """All tables before the report from local files; what was counted."""
        self._begin("commits")
        told = direct.decode(self._at)
        self._begin("groups")
        self._reported = direct.sampled and self._salt is None
        self._rows |= {"offset_commits": told["decoded"], **direct.judge(self._at, aside=not self._reported)}
        damaged = direct.damaged()
        if damaged:
            self._write("decode_errors", decode_errors(damaged))
        else:
            (self._at.path / "decode_errors").mkdir(parents=True, exist_ok=True)
            self._rows["decode_errors"] = 0
        kinds = {name: added_kinds(rows) for name, rows in direct.kinds.items()}
        for at, (name, seen) in enumerate(kinds.items()):
            self._ends[name] = max((one for one in (told[f"end{at}"], *(row[3] for row in seen.values())) if one), default=None)
        if direct.sampled:
            self._sampled = direct.lag_span
        else:
            self._begin("lag")
            self._spark_lag(self._read("rebalances"))
        self._begin("replays")
        if direct.sampled or not self._ends_known():
            self._rows |= direct.replay(self._at, comparable(strategies), self._end_times())
        else:
            generations, steps = self._read("group_generations"), self._read("rebalances")
            self._spark_replays(generations, steps, strategies, self._read("partition_lag"))
        return self._counted(told), added_kinds([(kind, *row) for seen in kinds.values() for kind, row in seen.items()])

    def _clear(self) -> None:
        for folder in (self._made.path, self._at.path, self._scratch):
            shutil.rmtree(folder, ignore_errors=True)

    def _decode(self, rests: Mapping[str, DataFrame]) -> Counted:
        self._begin("commits")
        told, generations, modern = self._decode_commits(*group_records(rests))
        damaged = rests if not told["errors"] else {name: capture.records for name, capture in self._captures.items()}
        self._ends = {name: _later(told[f"end{at}"], rests[name]) for at, name in enumerate(rests)}
        self._write("decode_errors", decode_errors(damaged))
        self._begin("groups")
        groups = [self._write("group_generations", generations), self._write("modern_group_records", modern)]
        refuse_repeats(self._read("offset_commits"), groups)
        return self._counted(told)

    def _counted(self, told: Mapping[str, Any]) -> Counted:
        sound, errors = told["decoded"] - told["tombstones"], self._rows["decode_errors"]
        self.transactional = transactional = told["transactional"]
        return Counted(sound, told["tombstones"], told["errors"], told["first"], told["last"], errors, transactional)

    def _decode_commits(self, generations: DataFrame, modern: DataFrame) -> tuple[dict[str, Any], DataFrame, DataFrame]:
        """The table `offset_commits` by Spark; what was seen on the way, and the chosen groups' other records."""
        whole, seen = observed_commits({name: capture.records for name, capture in self._captures.items()})
        commits, generations, modern = self._choice.of_groups(whole.where("group_id is not null"), generations, modern)
        self._write("offset_commits", commits)
        return seen.get, generations, modern

    def _replay(self, strategies: Sequence[str] | None) -> None:
        self._begin("rebalances")
        generations, modern = self._read("group_generations"), self._read("modern_group_records")
        metadata = [capture.topics for capture in self._captures.values() if capture.topics is not None]
        told = topic_names(self._read("offset_commits"), union(metadata) if metadata else None)
        steps = self._write("rebalances", rebalances(generations, modern, told))
        self._begin("lag")
        lag = self._spark_lag(steps)
        self._begin("replays")
        self._spark_replays(generations, steps, strategies, lag)

    def _spark_lag(self, steps: DataFrame) -> DataFrame:
        """The table `partition_lag`."""
        parts = [
            partition_lag(valid, _of(steps, name, self._captures), one.log_ends, reset=self._choice.reset, topics=one.topics)
            for (name, valid), one in zip(self._valid().items(), self._captures.values(), strict=True)
        ]
        return self._write("partition_lag", union(parts), fn.min("at").alias("first"), fn.max("at").alias("last"))

    def _spark_replays(self, generations: DataFrame, steps: DataFrame, strategies: Sequence[str] | None, lag: DataFrame) -> None:
        """The tables `replays` and `metrics`."""
        measured = measured_replays(generations, steps, strategies, lag, samples_of(self._captures)).persist()
        self._write("replays", replays(measured))
        self._write("metrics", metrics(measured))
        measured.unpersist()

    def _ends_known(self) -> bool:
        """Whether log ends were sampled in any cluster."""
        return any(capture.log_ends is not None for capture in self._captures.values())

    def _hide_names(self, salt: str) -> None:
        found, self._at = self._at, self._made
        for name in list(self._rows):
            self._write(name, anonymous(store.read(self._spark, name, found).drop("date"), salt))
        shutil.rmtree(found.path, ignore_errors=True)

    def _end_times(self) -> dict[str, int]:
        """When the last record of each cluster was, in microseconds; of one that has none any time will do."""
        return {name: 0 if end is None else TimestampType().toInternal(end) for name, end in self._ends.items()}

    def _found(self) -> Found:
        if self._direct is not None and self._reported:
            return self._direct.found()
        return found_of(self._read("findings"))

    def _sums(self) -> Sums:
        if self._direct is not None and self._reported:
            return self._direct.sums()
        return sums_of(self._read("rebalances"), self._read("metrics"), self._read("group_report"))

    def _judge(self) -> None:
        self._begin("report")
        if self._direct is not None and self._reported:
            self._begin("findings")
            self._rows["findings"] = self._direct.rank(self._at, self._end_times())
            return
        steps, generations = self._read("rebalances"), self._read("group_generations")
        modern = self._read("modern_group_records")
        figures, lag = self._read("metrics"), self._read("partition_lag")
        if self._direct is None:
            valid = union(list(self._valid().values()))
            report = group_report(steps, generations, modern, figures, valid, lag, stops(valid, steps))
        else:
            counts, stopped = self._named(self._direct.counts()), self._named(self._direct.stops())
            report = group_report(steps, generations, modern, figures, counts, lag, stopped, counts.drop("log_ts"))
        groups = self._write("group_report", self._as_of(report))
        self._begin("findings")
        self._write("findings", self._as_of(findings(groups)))

    def _named(self, table: DataFrame) -> DataFrame:
        """A table that is in no folder of the audit, with the names that are in its tables."""
        return table if self._salt is None else anonymous(table, self._salt)

    def _as_of(self, table: DataFrame) -> DataFrame:
        """A table that tells how things stand at the end: dated by the last record of each cluster."""
        day = fn.lit(None).cast("date")
        for name, end in self._ends.items():
            if end is not None:
                day = fn.when(fn.col("cluster") == name, fn.lit(end.astimezone(UTC).date())).otherwise(day)
        return table.withColumn("date", day)

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

    def _valid(self) -> dict[str, DataFrame]:
        """Per cluster, the commits that count."""
        commits = self._read("offset_commits")
        return {name: committed(_of(commits, name, self._captures), one.aborted) for name, one in self._captures.items()}

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

    def _notes(self, about: Mapping[str, Any], counted: Counted, sums: Sums) -> list[str]:
        clusters = list(self._captures)
        notes = [note if len(clusters) == 1 else f"{name}: {note}" for name in clusters for note in self._captures[name].notes]
        known = all(capture.tells_aborted for capture in self._captures.values())
        told = self._direct.disagreeing if self._direct is not None and self._direct.sampled else None
        notes += samples_note(disagreeing_samples(self._captures) if told is None else told)
        notes += [*nothing_note(about), *transaction_note(counted.transactional, known), *lag_note(sums.with_lag)]
        if self._salt is not None:
            notes.append("names are hashed; details of steps, metadata of commits, user data and raw bytes are left out")
        return notes

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))

    def _write(self, name: str, table: DataFrame, *also: Column) -> DataFrame:
        seen = Observation()
        store.put(table.observe(seen, fn.count(fn.lit(1)).alias("rows"), *also), name, self._at)
        self._rows[name] = int(seen.get["rows"])
        if also:
            self._sampled = seen.get["first"], seen.get["last"]
        return self._read(name)

    def _read(self, name: str) -> DataFrame:
        return store.read(self._spark, name, self._at).drop("date")


def _later(moment: datetime | None, rest: DataFrame) -> datetime | None:
    """The time of a cluster's last record: of its last commit, or of one that is no commit."""
    row = rest.agg(fn.max("timestamp")).first()
    times = [time for time in (moment, None if row is None else row[0]) if time is not None]
    return max(times, default=None)


def _of(table: DataFrame, cluster: str, captures: Mapping[str, Capture]) -> DataFrame:
    """The rows of one cluster; the table itself where there is no other."""
    return table if len(captures) == 1 else table.where(fn.col("cluster") == cluster)
