"""`counterpoise compare`: several strategies on one group, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from counterpoise.cli.inputs import read_snapshots, snapshot_argument, strategy_names
from counterpoise.cli.render import console, table_of
from counterpoise.planning.compare import compare
from counterpoise.snapshot.group import Group

__all__ = ["command", "comparison_rows", "print_comparison"]


@click.command("compare")
@snapshot_argument
@click.option("--strategies", "names", default="all", show_default=True, help='Comma separated names, or "all".')
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group instead of tables.")
def command(snapshot: str, names: str, as_json: bool) -> None:
    """Measure strategies on the group in SNAPSHOT.

    \b
    Example:
      counterpoise compare group.json --strategies range,sticky
    """
    chosen = strategy_names(names)
    for group in read_snapshots(snapshot):
        if as_json:
            click.echo(json.dumps({"group": group.name, "comparison": comparison_rows(group, chosen)}))
        else:
            print_comparison(group, chosen)


def comparison_rows(group: Group, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """The metrics of each strategy as plain values. None: all, but those that need lag only if the group's lag is known."""
    return [{"strategy": name} | asdict(row) for name, row in compare(group, names).items()]


def print_comparison(group: Group, names: Sequence[str] | None) -> None:
    """The same as a table."""
    columns, rows = compare(group, names).rows_as_text()
    console().print(table_of(group.name or "group", columns, rows, numeric=columns[1:]))
