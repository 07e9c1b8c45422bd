"""`counterpoise strategies`: every strategy, its protocols, what it guarantees, and its options."""

from __future__ import annotations

import json

import click

from counterpoise.assignors.registry import strategies, strategy
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
            options = [
                {"name": name, "default": o.default, "choices": list(o.choices), "expected": o.wanted, "meaning": o.meaning}
                for name, o in one.options.items()
            ]
            value = {"strategy": one.name, "protocols": one.protocols, "guarantee": one.guarantee, "options": options}
            click.echo(json.dumps(value))
        return
    out = console()
    rows = [(one.name, ", ".join(one.protocols), one.guarantee) for one in listed]
    out.print(table_of("strategies", ("name", "protocols", "guarantee"), rows))
    each = [
        (one.name, name, str(o.default), ", ".join(map(str, o.choices)) or o.wanted.removeprefix("expected "), o.meaning)
        for one in listed
        for name, o in one.options.items()
    ]
    out.print()
    out.print(table_of("options", ("strategy", "option", "default", "values", "meaning"), each))
