"""`audit --since last`: what is new since the last audit into the same folder, with the result of an audit of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from counterpoise.errors import OptionError
from counterpoise.pipeline.audit import AuditResult, check_out, check_writable, result_of
from counterpoise.pipeline.direct.lag.ends_file import EndsFile
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.incremental.journal import HandOver, Journal, no_one
from counterpoise.pipeline.incremental.kept.kept_places import load_places
from counterpoise.pipeline.incremental.news import look, look_at_samples
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, identity_of, load
from counterpoise.pipeline.incremental.tasks.task_update import update_by_tasks
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.layout import check_source, count_records
from counterpoise.pipeline.source.sources import read_capture, reading
from counterpoise.pipeline.source.staging import files_of

__all__ = ["check_kept_up", "run_update", "update", "update_session"]


def run_update(
    sources: Mapping[str, str | Path],
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
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
    _checked(sources, out, strategies, choice or Choice())
    check_writable(out)
    spark, made = update_session(sources)
    try:
        return update(spark, sources, out, strategies=strategies, choice=choice, progress=progress)
    finally:
        if made:
            spark.stop()


def update_session(sources: Mapping[str, str | Path], settings: Mapping[str, str] | None = None) -> tuple[SparkSession, bool]:
    """A session for `update`, as `local_session` gives it; with further settings."""
    sizes = [count_records(one) for one in sources.values()]
    known = [size for size in sizes if size is not None]
    return local_session(settings, records=sum(known) if len(known) == len(sizes) else None)


def update(
    spark: SparkSession,
    sources: Mapping[str, str | Path],
    out: str | Path,
    *,
    strategies: Sequence[str] | None = None,
    choice: Choice | None = None,
    progress: Progress | None = None,
    held: Journal | None = None,
    handover: HandOver = no_one,
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
        As for `audit`; of `choice` only the patterns of groups and the reset policy can be kept up.
    held : Journal, optional
        Of `out`, where the caller holds it open for more than this audit.
    handover : callable, optional
        See `journal.HandOver`.

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
    chosen = choice or Choice()
    options, identities = _checked(sources, out, strategies, chosen)
    journal = held or Journal(Path(out))
    where = ", ".join(map(str, sources.values()))
    with journal.open() if held is None else nullcontext(), reading(where):
        journal.recover()
        saved = load(journal.root / "state.json")
        captures = {name: read_capture(spark, source) for name, source in sources.items()}
        if progress is not None:
            progress("new records", 0, 1)
        was = {name: ClusterState() if saved is None else saved.clusters[name] for name in captures}
        known = {name: load_places(place) for name, place in _kept_files(journal, saved, "places").items()}
        files = files_of(captures, journal.staged / "source")
        looked = look(files, was, identities, {name: one.notes for name, one in captures.items()}, known)
        same = saved is not None and all(one.sees(was[name]) for name, one in looked.now.items())
        if same and (Path(out) / "summary.json").exists():
            last = json.loads((Path(out) / "summary.json").read_bytes())
            return replace(result_of(Path(out), last), nothing_new=True)
        kept = _kept_files(journal, saved, "ends")
        ends = {name: EndsFile.load(place, journal.root / "ends") for name, place in kept.items()}
        look_at_samples(looked, files, was, ends, journal.staged / "records")
        made = update_by_tasks(spark, captures, files, chosen, journal, saved, looked, options, where, handover, progress)
    return result_of(Path(out), made)


def _kept_files(journal: Journal, saved: Saved | None, kind: str) -> dict[str, Path]:
    """Cluster name -> the one file of a kind that the last audit left, where tasks made it."""
    if saved is None:
        return {}
    kept = {name: was.kept[kind][0][0] for name, was in saved.clusters.items() if kind in was.kept}
    return {name: journal.root / f"kept-{saved.number:08d}" / file for name, file in kept.items()}


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
    sources: Mapping[str, str | Path], out: str | Path, strategies: Sequence[str] | None, choice: Choice
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and identities to keep, held against those of the last audit: all that can be said before anything is read."""
    if choice != Choice(choice.groups, reset=choice.reset):
        raise OptionError("--since last goes on with all there is: leave out --topic, --from and --to")
    options = {"--cluster": list(sources), "--group": list(choice.groups), "--reset": choice.reset}
    options["--strategies"] = list(comparable(strategies))
    check_out(out, None)
    identities = {name: identity_of(source) for name, source in sources.items()}
    saved = load(Path(out) / ".since" / "state.json") if check_kept_up(out) else None
    if saved is not None:
        saved.check(options, identities)
    return options, identities
