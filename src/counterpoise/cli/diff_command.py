"""`counterpoise diff`: two audits side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from counterpoise.cli.inputs import PLACE, need
from counterpoise.cli.render import console, say, table_of
from counterpoise.errors import some

__all__ = ["command"]

_SHOWN = 20
"""Rows of a table on a terminal."""
_FLEET = (
    ("groups", "groups"), ("members", "members"), ("rebalances_per_day", "rebalances a day"), ("moved_per_day", "moves a day"),
    ("stopped_seconds_per_day", "stopped partition-seconds a day"), ("lag", "lag at the end"),
    ("critical", "critical findings"), ("warning", "warnings"), ("notice", "notices"),
)  # fmt: skip


@click.command("diff")
@click.argument("one", metavar="OUT1", type=PLACE)
@click.argument("two", metavar="OUT2", type=PLACE)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with all rows.")
def command(one: str, two: str, as_json: bool) -> None:
    """Compare two audits, such as before and after a change: OUT1 is the earlier one.

    Groups that are new, gone and changed with figures per day; sums over the fleet; findings that are new and gone; actions.

    Exit code 1: it is worse. A critical or warning finding is new; or the fleet stops more than 1.25 times as many
    partition-seconds a day (rebalances, if commits show no stop), and not by chance (docs/definitions.md, verdict).

    \b
    Example:
      counterpoise diff out/monday out/friday
    """
    need("diff", "report", "pyarrow")
    from counterpoise.report.audit_output import open_audit
    from counterpoise.report.difference import difference

    found = difference(open_audit(one), open_audit(two))
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print(found)
    raise SystemExit(int(found["worse"]))


def _print(found: Mapping[str, Any]) -> None:
    fleet, groups = found["fleet"], found["groups"]
    for name, period in zip(("OUT1", "OUT2"), found["periods"], strict=True):
        hours = f"{period['from']} to {period['to']}, {period['seconds'] / 3600:,.1f} hours"
        say(f"{name}: {hours if period['from'] else 'no records'}")
    rows = [(label, *(_number(fleet[side][name]) for side in ("before", "after"))) for name, label in _FLEET]
    console().print(table_of("", ["fleet", "OUT1", "OUT2"], rows, numeric=["OUT1", "OUT2"]))
    for name in ("new", "gone"):
        if groups[name]:
            say(f"{name} groups ({len(groups[name])}): {some(groups[name], _SHOWN)}")
    columns = ["group", "what changed", "rebalances a day", "stopped a day", "lag", "verdict"]
    names = ("rebalances_per_day", "stopped_seconds_per_day", "lag")
    _table("changed groups", columns, [
        (row["group_id"], "; ".join(f"{name} {_pair(*pair)}" for name, pair in row["state"].items()),
         *(_pair(*(_number(row[side][name]) for side in ("before", "after"))) for name in names), row["verdict"])
        for row in groups["changed"]
    ])  # fmt: skip
    for name in ("new", "gone"):
        columns = ["group", "severity", "finding", "title"]
        _table(f"{name} findings", columns, [
            (row["group_id"], row["severity"], row["kind"], row["title"]) for row in found["findings"][name]
        ])  # fmt: skip
    columns = ["action", "groups", "saves (partition-seconds)"]
    _table("actions", columns, [
        (row["title"], _pair(*row["n_groups"]), _pair(*map(_number, row["saved_seconds"]))) for row in found["actions"]
    ])  # fmt: skip
    say("")
    say(f"fleet: {fleet['verdict']}; {'it is worse' if found['worse'] else 'nothing is worse'}")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        say("")
        console().print(table_of(f"{title} ({len(rows)})", columns, rows[:_SHOWN]))
        if len(rows) > _SHOWN:
            say(f"{len(rows) - _SHOWN} more are not shown; --json prints all")


def _pair(was: object, now: object) -> str:
    return f"{_text(was)} -> {_text(now)}" if was != now else _text(now)


def _text(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.1f}"
