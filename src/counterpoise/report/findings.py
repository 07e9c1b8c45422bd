"""Findings as the page shows them: in full in the section of their group, and listed by kind over all groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from counterpoise.report.history import Row
from counterpoise.report.words import accepted, clock, long, paragraphs, phrase, slug, visible, visible_lines

__all__ = ["by_kind", "finding_words", "status"]


def status(row: Row) -> str:
    """Its severity, or that it is accepted."""
    return str(row["severity"]) if row["accepted_until"] is None else "accepted"


def finding_words(row: Row, period: tuple[int, int]) -> Row:
    """A finding in words."""
    group = str(row["group_id"])
    when = [f"generation {row['generation']}"] if row["generation"] is not None else []
    return {
        "rank": row["rank"],
        "severity": row["severity"],
        "status": status(row),
        "kind": phrase(row["kind"]),
        "group": visible(group),
        "anchor": slug(group),
        "title": visible(row["title"]),
        "accepted": accepted(row),
        "owner": visible(row["owner"] or ""),
        "evidence": visible_lines(row["evidence"]),
        "cost": visible_lines(row["cost"]),
        "action": paragraphs(visible_lines(row["action"])),
        "when": ", ".join([*when, f"{clock(row['at'], day=long(period))} UTC"] if row["at"] is not None else when),
    }


def by_kind(findings: Iterable[Row], number_of: Mapping[str, int], period: tuple[int, int]) -> list[Row]:
    """The kinds of findings of the groups that `number_of` numbers, each with its findings; the most important first.

    Each has its code and name, the status of its most important finding, and `finding_words` with the group's number.
    """
    kinds: dict[str, list[Row]] = {}
    for row in findings:
        if str(row["group_id"]) in number_of:
            found = finding_words(row, period) | {"number": number_of[str(row["group_id"])]}
            kinds.setdefault(str(row["kind"]), []).append(found)
    return [{"code": code, "name": phrase(code), "status": rows[0]["status"], "rows": rows} for code, rows in kinds.items()]
