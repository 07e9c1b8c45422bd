"""`audit --since last`: what is new since the last audit into the same folder, with the result of an audit of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from counterpoise.errors import OptionError
from counterpoise.pipeline import store
from counterpoise.pipeline.audit import AuditResult, check_out, result_of
from counterpoise.pipeline.folds.replay_fold import comparable
from counterpoise.pipeline.incremental.increment import Increment
from counterpoise.pipeline.incremental.journal import HandOver, Journal, no_one
from counterpoise.pipeline.incremental.saved import identity_of, load, moment
from counterpoise.pipeline.incremental.whole import WHOLE, is_small, make_whole
from counterpoise.pipeline.run import Progress
from counterpoise.pipeline.session import local_session
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.source.sources import check_source, count_records, read_capture, reading
from counterpoise.pipeline.summary import (
    Counted,
    Kinds,
    Sums,
    found_of,
    iso,
    lag_note,
    nothing_note,
    summarize,
    sums_of,
    transaction_note,
)

__all__ = ["check_kept_up", "run_update", "update", "update_session"]

_MANY_PLANS = {
    # Of many plans over what is new, compiling and planning anew is most of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""What going on needs, whatever the size of the capture: it looks at little of it."""


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
    spark, made = update_session(sources, out)
    try:
        return update(spark, sources, out, strategies=strategies, choice=choice, progress=progress)
    finally:
        if made:
            spark.stop()


def update_session(
    sources: Mapping[str, str | Path], out: str | Path, settings: Mapping[str, str] | None = None
) -> tuple[SparkSession, bool]:
    """A session for `update`, as `local_session` gives it; with further settings."""
    sizes = [count_records(one) for one in sources.values()]
    known = [size for size in sizes if size is not None]
    if (Path(out) / ".since" / "state.json").exists() and sum(known) > WHOLE:
        return local_session({**_MANY_PLANS, **(settings or {})}, records=0)
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
        As for `audit`; of `choice` only the patterns of groups can be kept up.
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
    names = options["--strategies"]
    journal = held or Journal(Path(out))
    where = ", ".join(map(str, sources.values()))
    with journal.open() if held is None else nullcontext(), reading(where):
        journal.recover()
        saved = load(journal.root / "state.json")
        captures = {name: read_capture(spark, source) for name, source in sources.items()}
        increment = Increment(spark, captures, journal, saved, chosen, names, progress, handover)
        if not increment.look(identities) and (Path(out) / "summary.json").exists():
            last = json.loads((Path(out) / "summary.json").read_bytes())
            return replace(result_of(Path(out), last), nothing_new=True)
        if is_small(captures, chosen) and not increment.dropped:
            made = make_whole(spark, captures, journal, saved, increment.now, options, where, handover, progress)
            return result_of(Path(out), made)
        summary: dict[str, Any] = {}

        def total(step: Increment, counted: dict[str, Any], kinds: Kinds) -> dict[str, Any]:
            told = sums_of(step.view.whole("rebalances"), step.view.whole("metrics"), step.report)
            about = _summary(step, counted, kinds, told, {} if saved is None else saved.sums)
            notes = [note if len(sources) == 1 else f"{name}: {note}" for name in sources for note in captures[name].notes]
            like = counted["transactional"] + (0 if saved is None else saved.sums["transactional"])
            known = all(capture.aborted is not None for capture in captures.values())
            notes += [*nothing_note(about), *transaction_note(like, known), *lag_note(told.with_lag)]
            about["notes"] = notes
            sums = {"transactional": like, **{name: about[name] for name in ("records", "from", "to")}}
            summary.update(_framed(where, step, about))
            text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
            (journal.staged / "summary.json").write_text(text, encoding="utf-8")
            return sums

        increment.run(options, total)
    return result_of(Path(out), summary)


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
    if choice.topics or choice.since is not None or choice.until is not None:
        raise OptionError("--since last goes on with all there is: leave out --topic, --from and --to")
    options = {"--cluster": list(sources), "--group": list(choice.groups), "--strategies": list(comparable(strategies))}
    check_out(out, None)
    identities = {name: identity_of(source) for name, source in sources.items()}
    saved = load(Path(out) / ".since" / "state.json") if check_kept_up(out) else None
    if saved is not None:
        saved.check(options, identities)
    return options, identities


def _summary(step: Increment, told: Mapping[str, Any], kinds: Kinds, sums: Sums, before: Mapping[str, Any]) -> dict[str, Any]:
    errors = step.errors
    counted = Counted(
        told["decoded"] - told["tombstones"], told["tombstones"], told["errors"], told["first"], told["last"], errors
    )
    about = summarize(counted, sums, found_of(step.findings), kinds)
    if before:
        about["records"] = _added(before["records"], about["records"])
        for name, pick in (("from", min), ("to", max)):
            # All of one form (UTC, milliseconds): texts are ordered as times are.
            about[name] = pick((one for one in (before[name], about[name]) if one is not None), default=None)
    return about


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in [*one, *(name for name in other if name not in one)]:
        left, right = one.get(name, 0), other.get(name, 0)
        found[name] = _added(left or {}, right or {}) if isinstance(left or right, Mapping) else left + right
    return found


def _framed(source: str, step: Increment, about: Mapping[str, Any]) -> dict[str, Any]:
    """The whole summary, in the order of that of any audit."""
    clusters = list(step.now)
    ends = {name: moment(one.end) for name, one in step.now.items()}
    days = {name: None if end is None else end.astimezone(UTC).date().isoformat() for name, end in ends.items()}
    head: dict[str, Any] = {"format": 2, "source": source, "cluster": ", ".join(clusters), "clusters": clusters}
    head |= {"days": days, "hashed": None, "since_last": step.number}
    head |= {"sampled_from": iso(step.sampled[0]), "sampled_to": iso(step.sampled[1])}
    tables = {
        name: {"path": f"tables/{name}", "rows": rows, "stored": rows, "columns": store.stored(name).names}
        for name, rows in step.view.rows(step.number).items()
    }
    rest = {name: value for name, value in about.items() if name != "notes"}
    return {**head, **rest, "tables": tables, "notes": about["notes"]}
