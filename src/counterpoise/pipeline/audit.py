"""The audit: all stages in order, every table to Parquet, and a summary of sums; records never reach the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from counterpoise.errors import CaptureError, OptionError, StorageError
from counterpoise.pipeline.findings import Finding
from counterpoise.pipeline.history.replay_fold import comparable
from counterpoise.pipeline.incremental.history import History, StateTooOldError
from counterpoise.pipeline.incremental.saved import identity_of, is_continued, load
from counterpoise.pipeline.run import Progress, Run
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.anonymous import fingerprint
from counterpoise.pipeline.source.capture import Capture
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.layout import check_source, count_records
from counterpoise.pipeline.source.sources import ONLY_RECORDS, check_columns, read_capture, reading
from counterpoise.pipeline.storage.files import delete, is_local, join, write_bytes
from counterpoise.pipeline.stored.catalog import Catalog, check_lasting, check_target
from counterpoise.pipeline.stored.manifest import load_manifest, summary_of
from counterpoise.pipeline.stored.transaction import TableTransaction

__all__ = ["AuditResult", "Source", "audit", "check_continued", "run_audit"]

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
    since_last: bool = False,
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
    _check_out(out, salt, since_last=since_last)
    _check_writable(out)
    sizes = [count_records(one) for one in sources.values()]
    spark, made = local_session(records=None if None in sizes else sum(size for size in sizes if size is not None))
    options: dict[str, Any] = {"strategies": strategies, "choice": choice, "salt": salt, "into": into, "progress": progress}
    try:
        if made and into is not None:
            check_lasting(spark, into)
        return audit(spark, sources, out, since_last=since_last, **options)
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
    since_last: bool = False,
    held: TableTransaction | None = None,
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
        Tables of a Spark catalog that get the same rows; with `since_last` final rows only if their format cannot replace rows.
    since_last : bool
        Read what is new since the last audit into `out` with `since_last`, and leave a state for the next one. Without such an
        audit all is read. Options and captures must be the same each time.
    held : TableTransaction, optional
        Of `out`, open, if the caller is the writer for more than this audit.
    progress : callable, optional
        ``progress(stage, done, total)``, at the start of each stage.

    Raises
    ------
    CaptureError
        The source cannot be read, or `out` holds tables of another kind: of another cluster, or of an earlier version. With
        `since_last`: a capture is not that of the last audit, or has dropped what was not read yet; the state cannot be read.
    OptionError
        No source is given; a cluster without a name; no such schema; names in `out` are hashed otherwise. With `since_last`: an
        option is not that of the last audit; a source is no capture of files; `out` is of audits without it.
    UnknownStrategyError

    Notes
    -----
    Tasks write tables under their final names; one manifest makes them visible. With `since_last` and nothing new nothing is
    written. Only sums and the top findings come to the driver.
    """
    names = comparable(strategies)
    sources: Mapping[str, Source | str | Path] = source if isinstance(source, Mapping) else {cluster: source}
    if not sources:
        raise OptionError("no source to audit; give at least one capture")
    if "" in sources:
        raise OptionError("a cluster without a name; give one with --cluster")
    _check_out(out, salt, since_last=since_last)
    if into is not None:
        check_target(spark, into)
    where = ", ".join(str(one) if isinstance(one, str | Path) else "records" for one in sources.values())
    work = held or TableTransaction(str(out), private=since_last and salt is not None)
    choice = choice or Choice()
    with work.open() if held is None else nullcontext(), reading(where):
        captures = {name: _capture(one) for name, one in sources.items()}
        history = None
        if since_last:
            history = _history(captures, sources, choice, {"--into": into, "--strategies": names}, work)
            before = summary_of(str(out), work.manifest)
            if history.unchanged and before is not None:
                return replace(_result(out, json.loads(before)), nothing_new=True)
        run = partial(Run, spark, captures, work, choice, salt, into, progress)
        try:
            summary = run(history).run(where, names)
        except StateTooOldError:
            assert history is not None
            work.discard()
            summary = run(history.from_scratch()).run(where, names)
    return _result(out, summary)


def _result(out: str | Path, summary: dict[str, Any]) -> AuditResult:
    return AuditResult(str(out), summary, tuple(map(_finding, summary["findings"]["top"])))


def _history(
    captures: Mapping[str, Capture],
    sources: Mapping[str, Source | str | Path],
    choice: Choice,
    options: Mapping[str, Any],
    work: TableTransaction,
) -> History:
    """What the last audit left, held against the options and captures of this one."""
    for name, capture in captures.items():
        if capture.files is None:
            raise OptionError(f"cluster {name}: --since last needs a capture of files, to know what is new; give its path")
    places = {name: str(one) for name, one in sources.items()}
    kept: dict[str, Any] = {"--cluster": list(sources), "--group": list(choice.groups), "--topic": list(choice.topics)}
    kept |= {name: None if at is None else at.isoformat() for name, at in (("--from", choice.since), ("--to", choice.until))}
    into = options["--into"]
    kept |= {"--reset": choice.reset, "--into": None if into is None else f"{into.schema}.{into.prefix}"}
    kept["--strategies"] = list(options["--strategies"])
    saved = load(work)
    if saved is not None:
        saved.check(kept, {name: identity_of(place) for name, place in places.items()})
    return History(captures, places, choice, kept, work, saved)


def check_continued(out: str | Path) -> bool:
    """Whether there is an earlier audit with ``--since last`` in `out` to continue.

    Raises
    ------
    OptionError
        There are tables of audits without it: it would have to replace them.
    """
    manifest = load_manifest(str(out))
    if manifest is not None and is_continued(manifest):
        return True
    if summary_of(str(out), manifest) is not None:
        raise OptionError(
            f"--since last: the audit in {out} was made without it, and it cannot go on from there; give another --out"
        )
    return False


def _check_out(out: str | Path, salt: str | None, *, since_last: bool) -> None:
    """Whether rows of this audit may stand beside those that are in the folder already.

    Raises
    ------
    CaptureError
        It holds an audit in an earlier version's form.
    OptionError
        Names there are plain and are to be hashed now, or the other way round, or with another salt. The audits there are with
        ``--since last`` and this one is without it, or the other way round.
    """
    manifest = load_manifest(str(out))
    if since_last:
        check_continued(out)
    found = summary_of(str(out), manifest)
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
    if not since_last and "since_last" in before:
        raise OptionError(f"{out}: its tables are kept up by --since last; give that too, or another --out")
    if before.get("hashed") != (None if salt is None else fingerprint(salt)):
        hashed = (
            "hashed (give --anonymize and their --salt)" if salt is None else "hashed with another salt (give theirs with --salt)"
        )
        held = "plain" if before.get("hashed") is None else hashed
        raise OptionError(f"{out}: the names there are {held}; one folder has names of one kind, give another --out")


def _check_writable(out: str | Path) -> None:
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
