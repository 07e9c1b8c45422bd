"""The audit as a user starts it: options and sources are checked, then `Run` writes all tables and the summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.engine import Job
from counterpoise.pipeline.findings import Finding
from counterpoise.pipeline.history.replay_fold import comparable
from counterpoise.pipeline.incremental.saved import identity_of, is_continued, load_state
from counterpoise.pipeline.incremental.since_last import FinalRowsChangedError, NothingNewError, Update
from counterpoise.pipeline.run import SUMMARY_FORMAT, Progress, Run
from counterpoise.pipeline.schemas import TABLES
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.capture import Capture, read_capture
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.source.spark_records import check_columns, read_errors
from counterpoise.pipeline.storage.files import absolute, is_local, join
from counterpoise.pipeline.tables.anonymous import fingerprint
from counterpoise.pipeline.tables.catalog import Catalog, check_lasting, check_target
from counterpoise.pipeline.tables.manifest import load_manifest, summary_of
from counterpoise.pipeline.tables.paths import read_table
from counterpoise.pipeline.tables.transaction import TableTransaction
from counterpoise.snapshot.frozen import frozen
from counterpoise.snapshot.html import html_table
from counterpoise.snapshot.json_text import fitted

__all__ = ["AuditResult", "Source", "audit", "check_out"]

Source: TypeAlias = str | Path | DataFrame | Capture
_ONLY_RECORDS = "only records were given: lag is unknown, and commits of aborted or open transactions, if any, count as commits"


@dataclass(frozen=True, repr=False)
class AuditResult:
    """The result of an audit.

    Attributes
    ----------
    place : str
        Folder with ``tables/`` and ``summary.json``, a path or a URI.
    summary : dict
        As in summary.json; read-only.
    findings : tuple of Finding
        Ranked, at most 200; all of them are in the table.
    nothing_new : bool
        ``--since last`` found no new records: this is the result of the last audit.
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

    @property
    def report(self) -> str:
        """Path or URI of ``report.html``, which `counterpoise.audit` writes."""
        return join(self.place, "report.html")

    def table(self, name: str) -> pa.Table:
        """One of the tables of docs/tables.md, all rows; pandas, Polars and DuckDB read it.

        Raises
        ------
        OptionError
            There is no such table.
        """
        if name not in TABLES:
            raise OptionError(f"table {name!r} is unknown; there are: {', '.join(TABLES)}")
        return read_table(join(self.place, "tables", name))

    def __repr__(self) -> str:
        groups, found = self.summary["groups"]["total"], self.summary["findings"]["total"]
        return f"AuditResult({self.place!r}, {groups} groups, {self.summary['rebalances']['total']} rebalances, {found} findings)"

    def _repr_html_(self) -> str:
        rows = [(one.rank, one.severity, one.group_id, one.title, one.action) for one in self.findings]
        return html_table(repr(self), ["rank", "severity", "group", "title", "action"], rows)


def audit(
    spark: SparkSession | None,
    source: Source | Mapping[str, Source],
    out: str | Path,
    *,
    cluster: str = "default",
    strategies: Sequence[str] | None = None,
    scope: AuditScope | None = None,
    salt: str | None = None,
    into: Catalog | None = None,
    since_last: bool = False,
    held: TableTransaction | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Run all stages and write ``out/tables/<table>/`` and ``out/summary.json``.

    Parameters
    ----------
    spark : SparkSession, optional
        None: the active session, or a new one, which is stopped at the end; what needs no session is checked before.
    source : path, DataFrame or Capture; or a mapping of cluster names to such
        A capture folder, a Parquet file or folder, or any DataFrame with the columns of Spark's Kafka source.
    out : path
        Rows are added to its tables, none twice: the same captures again add nothing, later ones add their new records.
    cluster : str
        The value of the column of that name; ignored if `source` is a mapping.
    strategies : sequence of str, optional
        The strategies to replay; default: all. Those by lag are replayed for generations with known log ends.
    scope : AuditScope, optional
        Patterns of groups and topics, and a window of time; default: everything.
    salt : str, optional
        Names of groups, topics, clients and members are hashed with it in everything that is written and returned.
    into : Catalog, optional
        Tables of a Spark catalog that get the same rows; with `since_last`, final rows only if their format cannot replace rows.
    since_last : bool
        Read only records that are new since the last audit into `out` with `since_last`, and save a state for the next one.
        Without such an audit all records are read. Options and captures must be the same each time; give all records of a
        DataFrame each time.
    held : TableTransaction, optional
        An open transaction of `out`, if the caller writes several audits in it.
    progress : callable, optional
        ``progress(stage, done, total)``, at the start of each stage.

    Raises
    ------
    CaptureError
        The source cannot be read, or `out` holds tables of another cluster or of an earlier version. With `since_last`: a
        capture is not that of the last audit, or has dropped records that were not read yet; the state cannot be read.
    OptionError
        No source is given; a cluster has no name; the schema does not exist; names in `out` are hashed with another salt or not
        hashed. With `since_last`: an option is not that of the last audit; `out` has audits without it.
    UnknownStrategyError
        A strategy is not registered.

    Notes
    -----
    Tasks write files of tables under their final names; one manifest makes them visible. With `since_last` and no new records
    nothing is written. Only sums and the top findings reach the driver.
    """
    names = comparable(strategies)
    sources = source if isinstance(source, Mapping) else {cluster: source}
    if not sources:
        raise OptionError("no source to audit; give at least one capture")
    if "" in sources:
        raise OptionError("a cluster without a name; give one with --cluster")
    captures = {name: _capture(one) for name, one in sources.items()}
    check_out(out, salt, since_last=since_last)
    where = ", ".join(one.place for one in captures.values())
    work = held or TableTransaction(str(out), private=since_last and salt is not None)
    job = Job(captures, work, names, scope or AuditScope(), salt, into)
    with work.open() if held is None else nullcontext(), read_errors(where):
        try:
            update = _update(job) if since_last else None
            with _session(spark, captures, into) as session:
                try:
                    summary = Run(session, job, progress, update).run(where)
                except FinalRowsChangedError:
                    assert update is not None
                    work.discard()
                    summary = Run(session, job, progress, update.from_scratch()).run(where)
        except NothingNewError:
            before = summary_of(str(out), work.manifest)
            assert before is not None, "a state is stored with a summary"
            return replace(_result(out, json.loads(before)), nothing_new=True)
    return _result(out, summary)


def _result(out: str | Path, summary: dict[str, Any]) -> AuditResult:
    top = fitted(summary["findings"]["top"], tuple[Finding, ...], "$.findings.top", "audit again")
    return AuditResult(absolute(out), frozen(summary), top)


@contextmanager
def _session(spark: SparkSession | None, captures: Mapping[str, Capture], into: Catalog | None) -> Iterator[SparkSession]:
    made, counts = False, [one.n_records for one in captures.values()]
    if spark is None:
        spark, made = local_session(records=None if None in counts else sum(filter(None, counts)))
    try:
        if into is not None:
            if made:
                check_lasting(spark, into)
            check_target(spark, into)
        yield spark
    finally:
        if made:
            spark.stop()


def _update(job: Job) -> Update:
    """Make the update, and check its options and captures.

    Raises `NothingNewError` if no file has changed; whether a DataFrame has changed is known when it is read.
    """
    scope, into = job.scope, job.into
    same: dict[str, Any] = {"--cluster": list(job.captures), "--group": list(scope.groups), "--topic": list(scope.topics)}
    same |= {name: None if at is None else at.isoformat() for name, at in (("--from", scope.since), ("--to", scope.until))}
    same |= {"--reset": scope.reset, "--headroom": scope.headroom, "--strategies": list(job.strategies)}
    same["--into"] = None if into is None else f"{into.schema}.{into.prefix}"
    saved = load_state(job.transaction)
    if saved is not None:
        saved.check(same, {name: identity_of(one) for name, one in job.captures.items()})
    update = Update(job, {**same, "policy": repr(scope.policy)}, saved)
    if update.unchanged and all(one.records is None for one in job.captures.values()):
        raise NothingNewError
    return update


def check_out(out: str | Path, salt: str | None, *, since_last: bool) -> bool:
    """Check that the rows of this audit can be added to those in the folder; returns whether it has an audit already.

    Raises `CaptureError` if an earlier version wrote the folder, or its ``summary.json`` is damaged. Raises `OptionError` if its
    salt differs (or only one has a salt), or if only one of the two audits uses ``--since last``.
    """
    manifest = load_manifest(str(out))
    text = summary_of(str(out), manifest)
    if text is None:
        return False
    if since_last and not (manifest is not None and is_continued(manifest)):
        raise OptionError(f"--since last: the audit in {out} was made without it and cannot be continued; give another --out")
    try:
        before = json.loads(text)
    except ValueError:
        before = None
    if not isinstance(before, dict) or before.get("format") != SUMMARY_FORMAT:
        raise CaptureError(
            f"{out}/summary.json: not the summary of an audit of this version; give another --out, or delete {out}"
        )
    if not since_last and "since_last" in before:
        raise OptionError(f"{out}: its tables are kept up by --since last; give that too, or another --out")
    if before.get("hashed") != (None if salt is None else fingerprint(salt)):
        hashed = (
            "hashed (give --anonymize and their --salt)" if salt is None else "hashed with another salt (give theirs with --salt)"
        )
        held = "plain" if before.get("hashed") is None else hashed
        raise OptionError(f"{out}: the names there are {held}; one folder has names of one kind, give another --out")
    return True


def _capture(source: str | Path | DataFrame | Capture) -> Capture:
    if isinstance(source, Capture):
        return source
    if isinstance(source, DataFrame):
        with read_errors("records"):
            return Capture(records=check_columns(source), notes=(_ONLY_RECORDS,))
    return read_capture(source)
