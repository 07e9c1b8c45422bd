"""The findings in words for a terminal: ranked, each with its group, the evidence, the cost and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from counterpoise.errors import MissingExtraError
from counterpoise.report.words import count, number, paragraphs, percent, phrase, plural, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["print_findings"]

_STYLES = {"critical": "bold red", "warning": "bold yellow", "notice": "bold blue"}


def print_findings(summary: dict[str, Any], findings: Iterable[Any], console: Console, *, most: int = 20) -> None:
    """Print the fleet's figures and its most important findings.

    Parameters
    ----------
    summary
        The audit's summary (``summary.json``).
    findings
        Ranked findings: dicts or objects with the columns of the table `findings`.
    console
        Where to print; names are printed as they are, never as markup.
    most
        Findings printed; a line says how many more there are.

    Raises
    ------
    MissingExtraError
        rich is not installed.
    """
    try:
        from rich.padding import Padding
    except ImportError as error:
        raise MissingExtraError("the findings need rich: pip install 'counterpoise[report]'") from error
    rows = [row if isinstance(row, dict) else {name: getattr(row, name) for name in _COLUMNS} for row in findings]
    console.print(_fleet(summary))
    several = len(summary.get("clusters", ())) > 1
    for row in rows[:most]:
        console.print(_head(row, f"{row['cluster']}/{row['group_id']}" if several else row["group_id"]))
        console.print(Padding(_body(row), (0, 0, 1, 5)))
    total = max(int(summary["findings"]["total"]), len(rows))
    if total > most:
        console.print(_plain(f"{plural(total - min(most, len(rows)), 'more finding')}: see the report", "dim"))
    if not rows:
        console.print(_nothing(summary))


_COLUMNS = ("cluster", "rank", "severity", "kind", "group_id", "title", "evidence", "cost", "action")


def _nothing(summary: dict[str, Any]) -> Text:
    """Why there are no findings."""
    if not summary["records"]["total"]:
        return _plain("Nothing was recorded: there are no records, so nothing is known about any group.", "yellow")
    if not summary["groups"]["total"]:
        return _plain("Nothing found: these records hold no group, or none that was asked for (--group, --topic).", "yellow")
    return _plain("Nothing found: the groups are balanced, sticky and quiet.", "green")


def _plain(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style)


def _fleet(summary: dict[str, Any]) -> RenderableType:
    """Two columns: what, how many."""
    from rich.table import Table

    groups, steps, records, faith = summary["groups"], summary["rebalances"], summary["records"], summary["fidelity"]
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column()

    def listed(counts: dict[str, int]) -> str:
        return ", ".join(f"{count(n)} {phrase(name)}" for name, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])) if n)

    lines = [
        (count(groups["total"]), f"groups: {listed(groups['by_type'])}"),
        (count(steps["total"]), f"rebalances in {plural(steps['generations'], 'generation')}: {listed(steps['by_cause'])}"),
        (count(steps["failed_generations"]), "failed generations"),
        (count(summary["members"]["distinct"]), "members"),
        (
            number(records["total"]),
            f"records, {count(records['commits'])} of them commits; {count(records['errors'])} could not be read",
        ),
    ]
    if faith["compared"]:
        lines.append(
            (
                percent(faith["share"]),
                f"replay fidelity: {count(faith['matched'])} of {count(faith['compared'])} generations reproduced",
            )
        )
    lines.append((count(summary["findings"]["total"]), f"findings: {listed(summary['findings']['by_severity']) or 'none'}"))
    for value, words in lines:
        table.add_row(_plain(value), _plain(words))
    return table


def _head(row: dict[str, Any], group: str) -> Text:
    text = _plain(f"\n{row['rank']:>3}. ")
    text.append(str(row["severity"]), style=_STYLES.get(row["severity"], "bold"))
    text.append("  ")
    text.append(visible(group), style="bold cyan")
    text.append(f"  {visible(row['title'])}", style="bold")
    return text


def _body(row: dict[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in (("evidence", row["evidence"]), ("cost", row["cost"])):
        if text:
            table.add_row(_plain(name), _plain("\n".join(visible(line) for line in str(text).splitlines())))
    action = _plain("")
    for index, (kind, text) in enumerate(paragraphs(row["action"])):
        action.append("\n" if index else "")
        action.append("\n".join(visible(line) for line in text.splitlines()), style="green" if kind == "config" else "")
    if action.plain:
        table.add_row(_plain("do"), action)
    return table
