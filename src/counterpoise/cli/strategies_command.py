"""`counterpoise strategies`: every strategy, its protocols, what it guarantees, and its options."""

from __future__ import annotations

import json
from typing import Any

import click

from counterpoise.assignors.registry import strategies, strategy
from counterpoise.assignors.strategy import Option
from counterpoise.cli.render import console, table_of

__all__ = ["command"]


@click.command("strategies")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per strategy instead of tables.")
def command(as_json: bool) -> None:
    """List the strategies and their options (--option NAME=VALUE of plan and explain; keyword arguments in Python).

    \b
    Example:
      counterpoise strategies --json
    """
    listed = [strategy(name) for name in strategies()]
    if as_json:
        for one in listed:
            options = [{"name": name} | _values(option) for name, option in one.options.items()]
            value = {"strategy": one.name, "protocols": one.protocols, "guarantee": one.guarantee, "options": options}
            click.echo(json.dumps(value))
        return
    out = console()
    rows = [(one.name, ", ".join(one.protocols), one.guarantee) for one in listed]
    out.print(table_of("strategies", ("name", "protocols", "guarantee"), rows))
    each = [(one.name, name, *_cells(option)) for one in listed for name, option in one.options.items()]
    out.print()
    out.print(table_of("options", ("strategy", "option", "default", "values", "meaning"), each))


def _values(option: Option) -> dict[str, Any]:
    return {"default": option.default, "choices": list(option.choices), "expected": option.wanted, "meaning": option.meaning}


def _cells(option: Option) -> tuple[str, str, str]:
    values = ", ".join(map(str, option.choices)) or option.wanted.removeprefix("expected ")
    return str(option.default), values, option.meaning
