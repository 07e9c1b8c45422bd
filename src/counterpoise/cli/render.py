"""Plans and figures for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.laws.promises import promised
from counterpoise.pipeline.wording import grouped
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.json_text import visible
from counterpoise.snapshot.names import partition_list
from counterpoise.snapshot.plan import Plan

__all__ = ["console", "lag_line", "plan_table", "proven", "say", "table_of"]

_FOLDED = 12
"""Characters to which a column of text may be folded, if a table does not fit."""


def say(line: object, *, err: bool = False) -> None:
    """A line of output; names in it can neither move the cursor, nor end the line, nor reorder it."""
    click.echo(visible(line), err=err)


class _Console(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(visible, text.split("\n"))), **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """A table gets its minimal width: Rich would cut numbers and leave out columns, a terminal only breaks lines."""
        width, height = self.size
        least = max([0, *(one.min_width or 0 for one in objects if isinstance(one, Table))])
        if least > width:
            self.size = least, height
        super().print(*objects, **options)
        if least > width:
            self.size = width, height

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  # called while the error is handled; Rich itself would exit with 1, which means findings


def console(*, stderr: bool = False) -> Console:
    """A console that never guesses: no markup or highlighting, width from the terminal, 160 in a pipe; names as in `say`."""
    made = _Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made.width = 160
    return made


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Sequence[str] = ()) -> Table:
    """A plain table; columns named in `numeric` are aligned to the right. Cells are text, never markup.

    These and the first column are never folded, others to no less than `_FOLDED` characters.
    """
    cells = [["" if cell is None else visible(cell) for cell in row] for row in (columns, *rows)]
    table = Table(title=visible(title), title_justify="left", header_style="bold", pad_edge=False, box=None, padding=(0, 1))
    table.min_width = 2 * (len(columns) - 1)
    for name, column in zip(columns, zip(*cells, strict=True), strict=True):
        right, width = name in numeric, max(map(cell_len, column))
        whole = right or name == columns[0]
        table.add_column(column[0], justify="right" if right else "left", overflow="fold", no_wrap=whole)
        table.min_width += width if whole else min(width, _FOLDED)
    for row in cells[1:]:
        table.add_row(*row)
    return table


def plan_table(plan: Plan, title: str) -> Table:
    """One row per member: load, what it keeps, gains and gives up, and its partitions."""
    gives, gains = Counter(giver for _, _, giver, _ in plan.moves), Counter(taker for *_, taker in plan.moves)
    waiting = {member: plan.loads[member] - sum(map(len, topics.values())) for member, topics in plan.assignment.items()}
    rows = [
        (member, plan.loads[member], gains[member], gives[member], waiting[member], partition_list(plan.target[member]))
        for member in plan.member_ids
    ]
    columns = ["member", "load", "moved in", "moved out", "waits for", "partitions"]
    return table_of(title, columns, rows, numeric=columns[1:5])


def lag_line(figures: Mapping[str, Any]) -> str:
    """The lag of a plan in a line: the largest, who has it, and how far above what is possible."""
    if not figures["bound"]:
        return "lag: nothing lags"
    kind = {"balanced": " for balanced counts", None: ""}.get(figures["counts"], " for counts within the band")
    largest, gap = figures["largest"], figures["gap"]
    bound = largest / (1 + gap) if largest else figures["bound"]  # that of the gap: in whole records, if capacities are equal
    return (
        f"lag: at most {grouped(largest)} records per capacity ({visible(figures['member'])}), {gap:.1%} above "
        f"the proven lower bound of {grouped(bound)}{kind}; {figures['moves']} moved"
    )


def proven(strategy: str, options: Mapping[str, object], group: Group) -> str:
    """What an empty result of `verify` proves about a plan of this strategy."""
    laws = promised(strategy, options, group.problem())
    if "sticky" in laws:
        return "no plan is more balanced, and none as balanced keeps more"
    if "sticky-first" in laws:
        return "no valid claim moves, and no plan that moves none is more balanced"
    balance = "no plan is more balanced, " if "balanced" in laws else "every partition has an owner that subscribes, "
    return f"{balance}and the figures about lag are true"
