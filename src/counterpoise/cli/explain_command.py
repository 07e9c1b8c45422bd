"""`counterpoise explain`: why a plan puts a partition where it does."""

from __future__ import annotations

import json

import click

from counterpoise.cli.inputs import named, read_options, read_snapshots, snapshot_argument, strategy_options
from counterpoise.cli.render import say
from counterpoise.errors import SnapshotError
from counterpoise.explanation import explain
from counterpoise.planning.assign import assign

__all__ = ["command"]


@click.command("explain")
@snapshot_argument
@click.argument("topic")
@click.argument("partition", type=int)
@strategy_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group instead of words.")
def command(
    snapshot: str, topic: str, partition: int, strategy: str, protocol: str | None, options: tuple[str, ...], as_json: bool
) -> None:
    """Say in words why TOPIC PARTITION stays, moves, waits or is unassigned.

    \b
    Example:
      counterpoise explain group.json orders 3 --strategy sticky
    """
    bound = read_options(options, strategy)
    for name, group in named(read_snapshots(snapshot)):
        plan = assign(group, strategy, protocol=protocol, **bound)
        try:
            reason = explain(group, plan, topic, partition)
        except SnapshotError as error:
            raise SnapshotError(f"{name}{error}") from None
        value: dict[str, object] = {"group": group.name} if group.name is not None else {}
        value |= {"topic": topic, "partition": partition, "reason": reason}
        say(json.dumps(value) if as_json else f"{name}{reason}")
