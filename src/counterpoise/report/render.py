"""Writes report.html: one file that loads nothing else, with every name escaped and scripts bound to their hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from counterpoise.errors import MissingExtraError
from counterpoise.extras import pip_install
from counterpoise.report.changes import FIGURES
from counterpoise.report.findings import by_kind
from counterpoise.report.group_table import COLUMNS, SPARK_BINS, choices, group_rows
from counterpoise.report.history import Row, by_group
from counterpoise.report.limits import Limits
from counterpoise.report.overview import (
    bars,
    figures,
    first_groups,
    group_name,
    headline,
    importance,
    period_of,
    span_words,
    strategy_rows,
)
from counterpoise.report.sections import Sections, packed
from counterpoise.report.words import count, paragraphs, phrase, plural, slug, visible, visible_lines

if TYPE_CHECKING:
    from counterpoise.report.audit_output import Audit

__all__ = ["write_report"]

_TEMPLATES = files("counterpoise.report") / "templates"
_SCRIPTS = ("page.js", "tables.js", "view.js")
_SAVED = (("saved_seconds", "s"), ("estimated_seconds", "s estimated"))


def write_report(out_dir: str | Path, limits: Limits | None = None) -> str:
    """Write ``out_dir/report.html`` from the tables and the summary of an audit; returns its path or URI.

    `limits`: how much is drawn; the page says what is left out. The same tables give the same bytes. Groups are read a few at a
    time and written one by one; memory is bounded by a few numbers per group and finding, one per step, and `limits`.

    Raises `CaptureError` if the folder is no audit's output, or a table cannot be read, and `MissingExtraError` if jinja2 or
    pyarrow is not installed.
    """
    try:
        import jinja2  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"the report needs jinja2 and pyarrow: {pip_install('report')}") from error
    from counterpoise.pipeline.storage.files import is_local, upload
    from counterpoise.report.audit_output import open_audit

    audit = open_audit(out_dir)
    environment = _environment()
    page = environment.get_template("report.html.j2").generate(**_page(audit, limits or Limits(), environment))
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
    environment.filters |= {"visible": visible, "packed": packed, "phrase": phrase, "count": count, "plural": plural}
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _page(audit: Audit, limits: Limits, environment: Any) -> dict[str, Any]:
    """What the page's template needs; the groups' sections are made while they are written."""
    from markupsafe import Markup

    summary, findings = audit.summary, audit.findings(["group_id", "rank"])
    groups = [str(row["group_id"]) for row in importance(audit.groups(["group_id", "rebalances"]), findings)]
    period = period_of(summary)
    row_of = {row["group_id"]: row for row in audit.groups(names=groups[: limits.groups])}
    chosen, listed = [row_of[name] for name in groups[: limits.groups]], audit.findings(most=limits.findings)
    number_of = {str(group["group_id"]): number for number, group in enumerate(chosen)}
    found = by_group(listed)
    rhythm, lags = audit.rhythm(SPARK_BINS, *period), audit.lags_now()
    kinds = by_kind(listed, number_of, period)
    rows = group_rows(chosen, found, rhythm, lags, audit.action_groups())
    template = environment.get_template("_group.html.j2", globals={"change_figures": FIGURES})
    sections = Sections(audit, chosen, found, audit.changes(), rhythm, lags, period, limits, template)
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {
        "summary": summary,
        "docs": summary.get("docs"),
        "limits": limits,
        "headline": headline(summary, period),
        "span": span_words(period),
        "style": Markup(_asset("report.css")),  # noqa: S704 - our own file, no part of it comes from outside
        "script": Markup(script),  # noqa: S704 - our own files, no part of them comes from outside
        "script_hash": f"sha256-{digest}",
        "figures": figures(summary),
        "charts": [
            ("Rebalances by cause", bars(summary["rebalances"]["by_cause"])),
            ("Steps by kind", bars(summary["rebalances"]["by_kind"])),
            ("Groups by type", bars(summary["groups"]["by_type"])),
            ("Groups by strategy", bars(summary["groups"]["by_protocol"], visible)),
        ],
        "strategies": strategy_rows(summary["strategies"], None, None),
        "actions": [_action(summary, row, number_of) for row in summary["actions"]],
        "columns": COLUMNS,
        "choices": choices(rows, summary["actions"]),
        "rows": rows,
        "groups_left_out": len(groups) - len(chosen),
        "kinds": kinds,
        "findings_left_out": len(findings) - sum(len(kind["rows"]) for kind in kinds),
        "sections": sections,
        "notes": [visible(note) for note in summary["notes"]],
    }


def _action(summary: Row, row: Row, number_of: Mapping[str, int]) -> Row:
    """An action as the page shows it; the summary has its first groups only."""
    texts = {name: visible(row[name]) for name in ("severity", "title", "saves", "cost", "action")}
    blocks = [
        (visible(block["library"]), first_groups(summary, block, 3), paragraphs(visible_lines(block["lines"])))
        for block in row["config"]
    ]
    groups = []
    for one in row["groups"]:
        name = group_name(summary, one)
        figures = [f"{count(round(one[key]))} {unit}" for key, unit in _SAVED if round(one[key])]
        figures += [plural(round(one["saved_moves"]), "move")] if round(one["saved_moves"]) else []
        groups.append((visible(name) or "(empty name)", slug(name) if name in number_of else None, ", ".join(figures)))
    about = {"rank": row["rank"], "n_groups": row["n_groups"], "first": first_groups(summary, row, 3)}
    return {**texts, **about, "config": blocks, "groups": groups}
