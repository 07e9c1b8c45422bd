"""The audit: all stages in order, every table to Parquet, and a summary of sums; records never reach the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from counterpoise.pipeline import decode
from counterpoise.pipeline.findings import Finding
from counterpoise.pipeline.group_report import group_report
from counterpoise.pipeline.lag import partition_lag
from counterpoise.pipeline.ranking import findings
from counterpoise.pipeline.rebalances import rebalances, topic_names
from counterpoise.pipeline.replay_fold import comparable
from counterpoise.pipeline.replays import measured_replays, metrics, replays
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import local_session, portable_timestamps
from counterpoise.pipeline.sources import Capture, check_columns, check_source, count_records, read_capture, reading
from counterpoise.pipeline.stops import stops
from counterpoise.pipeline.summary import Counted, summarize

__all__ = ["AuditResult", "audit", "run_audit"]

Progress = Callable[[str, int, int], None]
_STAGES = ("commits", "groups", "rebalances", "lag", "replays", "report", "findings", "summary")


@dataclass(frozen=True)
class AuditResult:
    """What an audit leaves behind.

    Attributes
    ----------
    out : Path
        Folder with ``tables/`` and ``summary.json``.
    summary : dict
        As in summary.json.
    findings : tuple of Finding
        Ranked, at most 200; all of them are in the table.
    """

    out: Path
    summary: dict[str, Any]
    findings: tuple[Finding, ...]


def run_audit(
    source: str | Path,
    out: str | Path,
    *,
    cluster: str = "default",
    strategies: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a capture with a session of our own (or the active one), and stop it if it was made here.

    Raises
    ------
    CaptureError
        The source cannot be read; one line says why.
    """
    check_source(source)
    spark, made = local_session(records=count_records(source))
    try:
        return audit(spark, source, out, cluster=cluster, strategies=strategies, progress=progress)
    finally:
        if made:
            spark.stop()


def audit(
    spark: SparkSession,
    source: str | Path | DataFrame | Capture,
    out: str | Path,
    *,
    cluster: str = "default",
    strategies: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Run all stages and write ``out/tables/<table>/`` and ``out/summary.json``.

    Parameters
    ----------
    spark : SparkSession
    source : path, DataFrame or Capture
        A capture folder, a Parquet file or folder, or any DataFrame with the columns of Spark's Kafka source.
    out : path
        Tables in it are overwritten: the same capture gives the same tables.
    cluster : str
        Goes into the column of that name.
    strategies : sequence of str, optional
        What to compare; default: all that need no lag.
    progress : callable, optional
        ``progress(stage, done, total)``, at the start of each stage.

    Raises
    ------
    CaptureError
        The source cannot be read.
    UnknownStrategyError

    Notes
    -----
    Every table is written once and read back, so nothing is computed twice; raw records are read twice (commits, the rest).
    Only sums and the top findings come to the driver.
    """
    comparable(strategies)
    capture = _capture(spark, source)
    where = str(source) if isinstance(source, str | Path) else "records"
    with reading(where), portable_timestamps(spark):
        return _Run(spark, capture, Path(out), cluster, progress).run(where, strategies)


def _capture(spark: SparkSession, source: str | Path | DataFrame | Capture) -> Capture:
    if isinstance(source, Capture):
        return source
    if isinstance(source, DataFrame):
        return Capture(check_columns(source, "records"), notes=("only records were given: lag is unknown",))
    return read_capture(spark, source)


def _finding(row: Mapping[str, Any]) -> Finding:
    moment = None if row["at"] is None else datetime.fromisoformat(row["at"])
    return Finding(**{name: value for name, value in row.items() if name not in ("score", "at")}, at=moment)


class _Run:
    """One audit under way: writes tables, keeps their counts."""

    def __init__(self, spark: SparkSession, capture: Capture, out: Path, cluster: str, progress: Progress | None) -> None:
        self._spark = spark
        self._capture = capture
        self._out = out
        self._cluster = cluster
        self._progress = progress
        self._rows: dict[str, int] = {}

    def run(self, where: str, strategies: Sequence[str] | None) -> AuditResult:
        capture = self._capture
        self._begin("commits")
        rest = capture.records.where(~decode.is_commit()).persist()
        counted = self._commits(rest)
        commits = self._read("offset_commits")
        self._begin("groups")
        generations = self._write("group_generations", decode.group_generations(rest, self._cluster))
        modern = self._write("modern_group_records", decode.modern_group_records(rest, self._cluster))
        self._begin("rebalances")
        steps = self._write("rebalances", rebalances(generations, modern, topic_names(commits, capture.topics)))
        self._begin("lag")
        lag = self._write("partition_lag", partition_lag(commits, steps, capture.log_ends, capture.aborted))
        self._begin("replays")
        measured = measured_replays(generations, strategies).persist()
        self._write("replays", replays(measured))
        figures = self._write("metrics", metrics(measured))
        measured.unpersist()
        self._begin("report")
        report = group_report(steps, generations, figures, commits, lag, stops(commits, steps))
        groups = self._write("group_report", report)
        self._begin("findings")
        found = self._write("findings", findings(groups))
        self._begin("summary")
        summary = summarize(counted, steps, figures, groups, found, rest)
        rest.unpersist()
        summary = {"source": where, "cluster": self._cluster, **summary, "tables": self._tables(), "notes": list(capture.notes)}
        summary = {"format": 1, **summary}
        (self._out / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return AuditResult(self._out, summary, tuple(map(_finding, summary["findings"]["top"])))

    def _commits(self, rest: DataFrame) -> Counted:
        seen = Observation()
        whole = decode.decoded_commits(self._capture.records, self._cluster).observe(
            seen,
            fn.count(fn.when(fn.col("group_id").isNull(), 1)).alias("errors"),
            fn.count(fn.when(fn.col("deleted"), 1)).alias("tombstones"),
            fn.count("group_id").alias("decoded"),
            fn.min("log_ts").alias("first"),
            fn.max("log_ts").alias("last"),
        )
        self._write("offset_commits", whole.where("group_id is not null"))
        told = seen.get
        damaged = rest if not told["errors"] else self._capture.records
        self._write("decode_errors", decode.decode_errors(damaged, self._cluster))
        return Counted(
            told["decoded"] - told["tombstones"],
            told["tombstones"],
            told["errors"],
            told["first"],
            told["last"],
            self._rows["decode_errors"],
        )

    def _begin(self, stage: str) -> None:
        if self._progress is not None:
            self._progress(stage, _STAGES.index(stage), len(_STAGES))

    def _write(self, name: str, table: DataFrame) -> DataFrame:
        seen = Observation()
        table.observe(seen, fn.count(fn.lit(1)).alias("rows")).write.mode("overwrite").parquet(self._path(name))
        self._rows[name] = int(seen.get["rows"])
        return self._read(name)

    def _read(self, name: str) -> DataFrame:
        return self._spark.read.schema(TABLES[name]).parquet(self._path(name))

    def _path(self, name: str) -> str:
        return str(self._out / "tables" / name)

    def _tables(self) -> dict[str, Any]:
        return {
            name: {"path": f"tables/{name}", "rows": self._rows[name], "columns": schema.names} for name, schema in TABLES.items()
        }
