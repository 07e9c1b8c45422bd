"""Writes report.html: one file that loads nothing else, with every name escaped and scripts bound to their hash."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from counterpoise.errors import MissingExtraError
from counterpoise.report.detail import detail, visible_lines
from counterpoise.report.history import Row
from counterpoise.report.limits import Limits
from counterpoise.report.overview import (
    SPARK_BINS,
    bars,
    figures,
    first_groups,
    group_rows,
    headline,
    importance,
    period_of,
    span_words,
    strategy_rows,
)
from counterpoise.report.ribbons import Ints
from counterpoise.report.words import accepted, clock, count, long, paragraphs, phrase, plural, slug, visible

if TYPE_CHECKING:
    from counterpoise.report.load import Audit

__all__ = ["write_report"]

_TEMPLATES = files("counterpoise.report") / "templates"
_GROUPS_AT_ONCE = 8
_FEW_SEGMENTS = 60


def write_report(out_dir: str | Path, limits: Limits | None = None) -> str:
    """Write ``out_dir/report.html`` from the tables and the summary of an audit.

    Parameters
    ----------
    out_dir : path or URI
        The audit's output folder.
    limits
        How much is drawn; the page says what is left out.

    Returns
    -------
    str
        Where the page is. The same tables give the same bytes.

    Raises
    ------
    CaptureError
        The folder is no audit's output, or a table cannot be read.
    MissingExtraError
        jinja2 or pyarrow is not installed.

    Notes
    -----
    Groups are read a few at a time and written one by one; memory is bounded by one row per group, one number per
    step, and `limits`.
    """
    try:
        import jinja2  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the report needs jinja2 and pyarrow: pip install 'counterpoise[report]'") from error
    from counterpoise.pipeline.storage.files import is_local, upload
    from counterpoise.report.load import open_audit

    audit = open_audit(out_dir)
    page = _environment().get_template("report.html.j2").generate(**_page(audit, limits or Limits()))
    place = f"{audit.out}/report.html"
    if not is_local(place):
        with TemporaryFile() as draft:
            draft.writelines(piece.encode() for piece in page)
            draft.seek(0)
            upload(place, draft)
        return place
    hidden = Path(audit.out) / ".report.html.part"
    try:
        with hidden.open("wb") as draft:
            draft.writelines(piece.encode() for piece in page)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)
    return place


def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: _asset(name) if name.endswith(".j2") else None),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "phrase": phrase, "count": count, "clock": clock, "plural": plural}
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _page(audit: Audit, limits: Limits) -> dict[str, Any]:
    """What the page's template needs; the groups' sections are made while they are written."""
    from markupsafe import Markup

    summary, findings = audit.summary, audit.findings()
    groups = importance(audit.groups(), findings)
    period = period_of(summary, groups)
    rhythm = audit.rhythm(SPARK_BINS, *period)
    chosen = groups[: limits.groups]
    detailed = {str(group["group_id"]) for group in chosen}
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "summary": summary,
        "headline": headline(summary, period),
        "span": span_words(period),
        "style": Markup(_asset("report.css")),  # noqa: S704 - our own file, no part of it comes from outside
        "script": Markup(script),  # noqa: S704 - our own file, no part of it comes from outside
        "script_hash": f"sha256-{digest}",
        "figures": figures(summary),
        "charts": _charts(summary),
        "strategies": strategy_rows(summary["strategies"], None, None, None),
        "actions": [_action(summary, row, detailed) for row in summary["actions"]],
        "by_group": _by_group(findings[: limits.findings], detailed, period),
        "listed": Counter(row["severity"] for row in findings[: limits.findings]),
        "open_groups": limits.open_groups,
        "findings_left_out": max(len(findings) - limits.findings, 0),
        "rows": group_rows(groups[: limits.table], findings, rhythm, detailed),
        "rows_left_out": max(len(groups) - limits.table, 0),
        "sections": _sections(audit, chosen, findings, rhythm, period, limits),
        "n_sections": len(chosen),
        "sections_left_out": len(groups) - len(chosen),
        "notes": [visible(note) for note in summary["notes"]],
    }


def _charts(summary: Row) -> list[tuple[str, Any]]:
    charts = [
        ("Rebalances by cause", bars(summary["rebalances"]["by_cause"])),
        ("Steps by kind", bars(summary["rebalances"]["by_kind"])),
        ("Groups by type", bars(summary["groups"]["by_type"])),
        ("Groups by strategy", bars(summary["groups"]["by_protocol"])),
    ]
    return [(title, made) for title, made in charts if made]


def _action(summary: Row, row: Row, detailed: set[str]) -> Row:
    """An action as the page shows it; the summary has its first groups only."""
    texts = {name: visible(row[name]) for name in ("severity", "title", "saves", "cost", "action")}
    blocks = [
        (visible(block["library"]), block["n_groups"], paragraphs(visible_lines(block["lines"]))) for block in row["config"]
    ]
    groups = []
    for name, one in zip(first_groups(summary, row, len(row["groups"])), row["groups"], strict=False):
        seconds = [(one["saved_seconds"], "s"), (one["estimated_seconds"], "s estimated"), (one["saved_moves"], "moves")]
        figures = ", ".join(f"{count(round(value))} {unit}" for value, unit in seconds if round(value))
        groups.append((name, slug(name, "g") if name in detailed else None, figures))
    return {**texts, "rank": row["rank"], "config": blocks, "groups": groups, "more": row["n_groups"] - len(groups)}


def _by_group(findings: list[Row], detailed: set[str], period: tuple[int, int]) -> list[Row]:
    """Findings under their groups, the group with the most important one first."""
    mine: dict[str, list[Row]] = {}
    for row in findings:
        mine.setdefault(str(row["group_id"]), []).append(_finding(row, detailed, period))
    return [{"group": found[0]["group"], "anchor": found[0]["anchor"], "findings": found} for found in mine.values()]


def _finding(row: Row, detailed: set[str], period: tuple[int, int]) -> Row:
    """A finding as the page shows it."""
    group = str(row["group_id"])
    when = [f"generation {row['generation']}"] if row["generation"] is not None else []
    return {
        "rank": row["rank"],
        "severity": row["severity"],
        "kind": phrase(row["kind"]),
        "group": visible(group),
        "anchor": slug(group, "g") if group in detailed else None,
        "title": visible(row["title"]),
        "accepted": accepted(row),
        "owner": visible(row["owner"] or ""),
        "evidence": visible_lines(row["evidence"]),
        "cost": visible_lines(row["cost"]),
        "action": paragraphs(visible_lines(row["action"])),
        "when": ", ".join([*when, f"{clock(row['at'], day=long(period))} UTC"] if row["at"] is not None else when),
    }


def _sections(
    audit: Audit,
    groups: list[Row],
    findings: list[Row],
    rhythm: dict[str, tuple[Ints, Ints]],
    period: tuple[int, int],
    limits: Limits,
) -> Iterator[Row]:
    """One section after the other; the tables are read for a few groups at a time."""
    names = {str(group["group_id"]) for group in groups}
    by_group: dict[str, list[Row]] = {}
    for row in findings[: limits.findings]:
        by_group.setdefault(str(row["group_id"]), []).append(_finding(row, names, period))
    left = limits.page_segments
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        part = groups[start : start + _GROUPS_AT_ONCE]
        listed = [str(group["group_id"]) for group in part]
        lags = audit.lags(listed)
        histories = audit.histories({name: rhythm[name][1] for name in listed if name in rhythm}, limits.steps)
        for group, name in zip(part, listed, strict=True):
            bound = replace(limits, segments=max(min(limits.segments, left), _FEW_SEGMENTS))
            made = detail(group, histories.pop(name, None), lags.get(name), by_group.get(name, []), period, bound)
            left -= sum(len(strip.segments) for strip in made["picture"].strips) if made["picture"] else 0
            yield made
