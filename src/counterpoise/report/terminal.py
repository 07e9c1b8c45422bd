"""The audit in a terminal: verdict, actions and worst groups on one screen; verbose: whole actions, and all findings in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from counterpoise.pipeline.wording import SEVERITIES
from counterpoise.report.history import Row
from counterpoise.report.overview import first_groups, group_name, headline, period_of
from counterpoise.report.words import accepted, count, number, paragraphs, percent, phrase, plural, visible

__all__ = ["print_audit", "print_changes"]

_LINES, _NOTES, _WORST = 36, 3, 5
"""Lines in all; those kept for notes; groups that are named."""
_STYLES = {"critical": "bold red", "warning": "bold yellow", "notice": "bold blue"}


def print_audit(
    summary: dict[str, Any],  # The audit's summary (``summary.json``)
    console: Console,  # Where to print; names are printed as they are, never as markup
    # Rows of the table `findings`, ranked. If given, actions are printed with their groups and configuration, and all findings
    # follow; the number of lines has no bound then.
    findings: Iterable[dict[str, Any]] | None = None,
    *,
    # severities: print only actions, findings and worst groups of these. most: print only the first actions and findings; a line
    # counts those that are left out
    severities: Collection[str] = SEVERITIES,
    most: int | None = None,
) -> None:
    """Print the verdict, the actions, notes on data quality and the worst groups: at most 36 lines of 100 columns."""
    verdict = Text(headline(summary, period_of(summary)).replace("\u00a0", " "), "bold")
    fleet, worst = Text(_fleet(summary), "dim"), _worst(summary, severities) if findings is None else []
    console.print(verdict, fleet, sep="\n")
    actions, hidden = _chosen(summary["actions"], severities, most)
    taken = sum(len(console.render_lines(text)) for text in (verdict, fleet)) + len(worst) + _NOTES
    with_cost = _LINES - taken - 2 * len(actions)
    for at, action in enumerate(actions):
        console.print(_head(action, ""), no_wrap=True, overflow="ellipsis")
        groups = first_groups(summary, action, 5 if findings is None else 20)
        if findings is None:
            lines = [visible(action["saves"]), f"{visible(action['cost'])}; {groups}"][: 2 if at < with_cost else 1]
            console.print(Text("\n".join(f"     {line}" for line in lines)), no_wrap=True, overflow="ellipsis")
            continue
        blocks = (f"{one['library']} ({first_groups(summary, one, 5)}):\n{one['lines']}" for one in action["config"])
        what = [("gain", action["saves"]), ("cost", action["cost"]), ("groups", groups)]
        console.print(Padding(_body(what, "\n".join([action["action"], *blocks])), (0, 0, 1, 5)))
    if not summary["actions"]:
        console.print(_nothing(summary))
    if summary["findings"]["accepted"]:
        console.print(Text(f"{plural(summary['findings']['accepted'], 'finding')} accepted in counterpoise.toml", "dim"))
    if summary["data_quality"]:
        notes = "; ".join(f"{plural(note['n_groups'], 'group')} {phrase(note['kind'])}" for note in summary["data_quality"])
        console.print(Text(f"data quality: {notes} (see the report)", "dim"), no_wrap=True, overflow="ellipsis")
    for line in worst:
        console.print(line, no_wrap=True, overflow="ellipsis")
    listed, more = _chosen(findings or (), severities, most)
    for row in listed:
        console.print(_head(row, f"{row['group_id']}  "))
        what = [("evidence", row["evidence"]), ("cost", row["cost"]), ("accepted", accepted(row)), ("owner", row["owner"])]
        console.print(Padding(_body(what, row["action"]), (0, 0, 1, 5)))
    if hidden or more:
        console.print(Text(f"left out: {plural(hidden, 'action')}, {plural(more, 'finding')} (--severity, --top)", "dim"))


def _worst(summary: dict[str, Any], severities: Collection[str]) -> list[Text]:
    """The groups with the most important findings of these severities, a line each below a heading."""
    found: dict[str, Row] = {}
    for row in summary["findings"]["top"]:
        if row["accepted_until"] is None and row["severity"] in severities:
            found.setdefault(group_name(summary, row), row)
    lines = [Text("worst groups" if found else "", "bold")]
    for name, row in list(found.items())[:_WORST]:
        line = Text("     ")
        line.append(row["severity"], style=_STYLES.get(row["severity"], "bold"))
        line.append(f"  {visible(name)}", style="bold cyan")
        lines.append(line.append(f"  {visible(row['title'])}"))
    return lines if found else []


def _chosen(rows: Iterable[Row], severities: Collection[str], most: int | None) -> tuple[list[Row], int]:
    """The first rows of these severities, and the number of the others."""
    listed = list(rows)
    chosen = [row for row in listed if row["severity"] in severities][:most]
    return chosen, len(listed) - len(chosen)


def print_changes(
    changes: Mapping[str, Sequence[Row]], console: Console, most: int | None, severities: Collection[str] = SEVERITIES
) -> None:
    """Print how many findings are new and gone since the last audit, and the first ones of these severities."""
    words = ", ".join(f"{plural(len(rows), 'finding')} {name}" for name, rows in changes.items() if rows)
    console.print(Text(f"{words or 'no finding is new or gone'} since the last audit", "bold"))
    for sign, rows in zip("+-", changes.values(), strict=True):
        for row in _chosen(rows, severities, most)[0]:
            line = f"   {sign} {row['severity']}  {visible(row['group_id'])}  {visible(row['title'])}"
            console.print(Text(line), no_wrap=True, overflow="ellipsis")


def _nothing(summary: dict[str, Any]) -> Text:
    """Why there are no actions."""
    if not summary["records"]["total"]:
        return Text("Nothing was recorded: there are no records, so nothing is known about any group.", "yellow")
    if not summary["groups"]["total"]:
        return Text("Nothing found: these records hold no group, or none that was asked for (--group, --topic).", "yellow")
    if summary["findings"]["total"]:
        return Text("No action is advised; see the findings.")
    return Text("Nothing to do: the groups are balanced, sticky and quiet.", "green")


def _fleet(summary: dict[str, Any]) -> str:
    """The figures of the fleet in two or three lines."""
    groups, steps, records, faith = summary["groups"], summary["rebalances"], summary["records"], summary["fidelity"]
    by_type = sorted(groups["by_type"].items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{count(n)} {phrase(name)}" for name, n in by_type) or "none"
    read = (
        f"{number(records['total'])} records, {count(records['commits'])} of them commits; {count(records['errors'])} unreadable"
    )
    faithful = f"; replay fidelity {percent(faith['share'])} ({count(faith['matched'])} of {count(faith['compared'])})"
    members = f"{plural(summary['members']['distinct'], 'member')}, groups: {kinds}"
    whole = f"{members}; {plural(steps['generations'], 'generation')}, {count(steps['failed_generations'])} failed"
    return f"{whole}\n{read}{faithful if faith['compared'] else ''}"


def _head(row: dict[str, Any], who: str) -> Text:
    text = Text(f"{row['rank']:>3}. ")
    text.append(str(row["severity"]), style=_STYLES.get(row["severity"], "bold"))
    text.append("  ")
    text.append(visible(who), style="bold cyan")
    text.append(visible(row["title"]), style="bold")
    return text


def _body(what: Iterable[tuple[str, str | None]], todo: str | None) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in what:
        if text:
            table.add_row(Text(name), Text("\n".join(visible(line) for line in str(text).splitlines())))
    action = Text("")
    for index, (kind, text) in enumerate(paragraphs(todo)):
        action.append("\n" if index else "")
        action.append("\n".join(visible(line) for line in text.splitlines()), style="green" if kind == "config" else "")
    if action.plain:
        table.add_row(Text("do"), action)
    return table
