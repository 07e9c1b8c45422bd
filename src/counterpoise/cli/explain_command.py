"""`counterpoise explain`: why a partition is where a plan puts it."""

from __future__ import annotations

import json

import click

from counterpoise.cli.inputs import one_group, read_options, snapshot_argument, strategy_options
from counterpoise.explanation import explain
from counterpoise.planning.assign import assign

__all__ = ["command"]


@click.command("explain")
@snapshot_argument
@click.argument("topic")
@click.argument("partition", type=int)
@strategy_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of words.")
def command(
    snapshot: str, topic: str, partition: int, strategy: str, protocol: str | None, options: tuple[str, ...], as_json: bool
) -> None:
    """Say in words why TOPIC PARTITION stays, moves, waits or is unassigned.

    \b
    Example:
      counterpoise explain group.json orders 3 --strategy sticky
    """
    group = one_group(snapshot)
    plan = assign(group, strategy, protocol=protocol, **read_options(options))
    reason = explain(group, plan, topic, partition)
    click.echo(json.dumps({"topic": topic, "partition": partition, "reason": reason}) if as_json else reason)
