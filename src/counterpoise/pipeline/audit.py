"""The audit: all stages in order, every table to Parquet, and a summary of sums; records never reach the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from counterpoise.errors import CaptureError, OptionError, StorageError
from counterpoise.pipeline.findings import Finding
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.run import Progress, Run
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.anonymous import fingerprint
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.layout import check_source, count_records
from counterpoise.pipeline.source.sources import ONLY_RECORDS, check_columns, read_capture, reading
from counterpoise.pipeline.storage.files import delete, exists, is_local, join, write_bytes
from counterpoise.pipeline.stored.catalog import Catalog, check_lasting, check_target
from counterpoise.pipeline.stored.manifest import summary_of

__all__ = ["AuditResult", "Source", "audit", "check_kept", "check_out", "check_writable", "result_of", "run_audit"]

Source: TypeAlias = str | Path | DataFrame | Capture


@dataclass(frozen=True)
class AuditResult:
    """What an audit leaves behind.

    Attributes
    ----------
    place : str
        Folder with ``tables/`` and ``summary.json``, a path or a URI.
    summary : dict
        As in summary.json.
    findings : tuple of Finding
        Ranked, at most 200; all of them are in the table.
    nothing_new : bool
        ``--since last`` found nothing that the last audit had not seen: this is its result.
    """

    place: str
    summary: dict[str, Any]
    findings: tuple[Finding, ...]
    nothing_new: bool = False

    @property
    def out(self) -> Path:
        """`place` as a local path."""
        if not is_local(self.place):
            raise OptionError(f"{self.place}: not a local folder; read `place`")
        return Path(self.place)


def run_audit(
    source: str | Path | Mapping[str, str | Path],
    out: str | Path,
    *,
    cluster: str = "default",
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
    salt: str | None = None,
    into: Catalog | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit captures with a session of our own (or the active one), and stop it if it was made here.

    Parameters are those of `audit`.

    Raises
    ------
    CaptureError
        The source cannot be read; one line says why.
    """
    comparable(strategies)
    sources = source if isinstance(source, Mapping) else {cluster: source}
    for one in sources.values():
        check_source(one)
    check_out(out, salt)
    check_writable(out)
    sizes = [count_records(one) for one in sources.values()]
    known = [size for size in sizes if size is not None]
    spark, made = local_session(records=sum(known) if len(known) == len(sizes) else None)
    try:
        if made and into is not None:
            check_lasting(spark, into)
        return audit(spark, sources, out, strategies=strategies, choice=choice, salt=salt, into=into, progress=progress)
    finally:
        if made:
            spark.stop()


def audit(
    spark: SparkSession,
    source: Source | Mapping[str, Source] | Mapping[str, str | Path],
    out: str | Path,
    *,
    cluster: str = "default",
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
    salt: str | None = None,
    into: Catalog | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Run all stages and write ``out/tables/<table>/`` and ``out/summary.json``.

    Parameters
    ----------
    spark : SparkSession
    source : path, DataFrame or Capture; or a mapping of cluster names to such
        A capture folder, a Parquet file or folder, or any DataFrame with the columns of Spark's Kafka source.
    out : path
        Rows are added to the tables in it, none twice: the same captures again add nothing, later ones what is new in them.
    cluster : str
        Goes into the column of that name; a mapping brings its own names.
    strategies : sequence of str, optional
        What to compare; default: all. Those by lag take part where log ends are known.
    choice : Choice, optional
        Patterns of groups and topics, and a window of time; default: everything.
    salt : str, optional
        Names of groups, topics, clients and members are hashed with it in everything that is written and returned.
    into : Catalog, optional
        Tables of a Spark catalog that get the same rows.
    progress : callable, optional
        ``progress(stage, done, total)``, at the start of each stage.

    Raises
    ------
    CaptureError
        The source cannot be read, or `out` holds tables of another kind: of another cluster, or of an earlier version.
    OptionError
        No source is given; a cluster without a name; no such schema; names in `out` are hashed otherwise.
    UnknownStrategyError

    Notes
    -----
    Every table is written once beside the stored ones; at the end all are stored. Raw records are read twice by tasks in Python:
    where records of groups stand, then all. What is no local Parquet file is written as such by Spark's executors first, below
    `out`. Only sums and the top findings come to the driver.
    """
    comparable(strategies)
    sources: Mapping[str, Source | str | Path] = source if isinstance(source, Mapping) else {cluster: source}
    if not sources:
        raise OptionError("no source to audit; give at least one capture")
    if "" in sources:
        raise OptionError("a cluster without a name; give one with --cluster")
    check_out(out, salt)
    check_kept(out)
    if into is not None:
        check_target(spark, into)
    captures = {name: _capture(one) for name, one in sources.items()}
    where = ", ".join(str(one) if isinstance(one, str | Path) else "records" for one in sources.values())
    with reading(where):
        summary = Run(spark, captures, str(out), choice or Choice(), salt, into, progress).run(where, strategies)
    return result_of(out, summary)


def result_of(out: str | Path, summary: dict[str, Any]) -> AuditResult:
    """The result of an audit by its summary."""
    return AuditResult(str(out), summary, tuple(map(_finding, summary["findings"]["top"])))


def check_kept(out: str | Path) -> None:
    """Whether nobody keeps the tables in `out` up to date (``--since last``): rows beside theirs would be there twice.

    Raises
    ------
    OptionError
    """
    if exists(join(str(out), ".since", "state.json")):
        raise OptionError(f"{out}: its tables are kept up by --since last; give that too, or another --out")


def check_out(out: str | Path, salt: str | None) -> None:
    """Whether rows of this audit may stand beside those that are in the folder already.

    Raises
    ------
    CaptureError
        It holds an audit in an earlier version's form.
    OptionError
        Names there are plain and are to be hashed now, or the other way round, or with another salt.
    """
    found = summary_of(str(out))
    if found is None:
        return
    try:
        before = json.loads(found)
    except ValueError:
        before = None
    if not isinstance(before, dict) or before.get("format") != 2:
        raise CaptureError(
            f"{out}/summary.json: not the summary of an audit of this version; give another --out, or delete {out}"
        )
    if before.get("hashed") != (None if salt is None else fingerprint(salt)):
        hashed = (
            "hashed (give --anonymize and their --salt)" if salt is None else "hashed with another salt (give theirs with --salt)"
        )
        held = "plain" if before.get("hashed") is None else hashed
        raise OptionError(f"{out}: the names there are {held}; one folder has names of one kind, give another --out")


def check_writable(out: str | Path) -> None:
    """Make the folder, before Spark is started for what cannot be kept.

    Raises
    ------
    OptionError
        It cannot be made, or nothing can be made in it.
    """
    probe = join(str(out), ".transaction", f"probe-{uuid4().hex}")
    try:
        write_bytes(probe, b"")
        delete(probe)
    except StorageError as error:
        raise OptionError(f"{out}: nothing can be written there ({error.reason}); give another --out") from None


def _capture(source: str | Path | DataFrame | Capture) -> Capture:
    if isinstance(source, Capture):
        return source
    if isinstance(source, DataFrame):
        return Capture(check_columns(source, "records"), notes=(ONLY_RECORDS,))
    return read_capture(source)


def _finding(row: Mapping[str, Any]) -> Finding:
    moment = None if row["at"] is None else datetime.fromisoformat(row["at"])
    return Finding(**{name: value for name, value in row.items() if name not in ("score", "at")}, at=moment)
