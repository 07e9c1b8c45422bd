"""`counterpoise export`: a group's partitions shared out over Spark queries, ready to be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from counterpoise.errors import MissingExtraError

__all__ = ["command"]


@click.command("export")
@click.argument("audit", metavar="OUT_DIR", type=click.Path(path_type=Path))
@click.option("--group", required=True, help="The group whose partitions are shared out.")
@click.option("--queries", required=True, type=int, metavar="N", help="Over how many queries.")
@click.option("--strategy", "-s", default="sticky", show_default=True, help="Name of the strategy.")
@click.option("--cluster", help="Where several clusters have such a group.")
@click.option("--previous", type=click.Path(path_type=Path), help="The export before (JSON): what a sticky strategy keeps.")
@click.option(
    "--offsets",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Where a stopped query ended: a file of its checkpoint's folder offsets; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "assign", "spark"]),
    default="json",
    show_default=True,
    help="The plan with everything about it; calls of a consumer's assign; options of Spark's Kafka source.",
)
def command(
    audit: Path,
    group: str,
    queries: int,
    strategy: str,
    cluster: str | None,
    previous: Path | None,
    offsets: tuple[Path, ...],
    form: str,
) -> None:
    """Share a group's partitions out over N queries, from an audit's OUT_DIR: who reads what, from which offset.

    How to change over (drain, stop, new checkpoint) and how many queries need no restart is told on standard error.

    \b
    Example:
      counterpoise export out/shop --group order-service --queries 3 > plan.json
      counterpoise export out/shop --group order-service --queries 4 --previous plan.json --format spark
    """
    try:
        from counterpoise.pipeline.export import export_plan, read_offsets, read_previous
    except ImportError as error:
        raise MissingExtraError("export needs pyarrow: pip install 'counterpoise[spark]'") from error
    plan = export_plan(
        audit,
        group,
        strategy,
        queries,
        cluster=cluster,
        previous=None if previous is None else read_previous(previous),
        reached=read_offsets(offsets),
    )
    if form == "json":
        click.echo(json.dumps(plan, indent=1))
    elif form == "assign":
        click.echo("\n".join(_calls(plan)))
    else:
        for query in plan["queries"]:
            click.echo(json.dumps({name: query[name] for name in ("query", "assign", "startingOffsets")}))
    click.echo(f"{plan['no_restart']} of {queries} queries need no restart; kept {plan['kept']}, moved {plan['moved']}", err=True)
    for note in plan["notes"]:
        click.echo(note, err=True)
    for number, step in enumerate(plan["procedure"], 1):
        click.echo(f"{number}. {step}", err=True)


def _calls(plan: dict[str, Any]) -> list[str]:
    """One call per query, as confluent-kafka takes it; kafka-python and aiokafka have the same pairs, without offsets."""
    lines = []
    for query in plan["queries"]:
        offsets = json.loads(query["startingOffsets"])
        parts = [f"TopicPartition({t!r}, {p}, {o})" for t, held in offsets.items() for p, o in held.items()]
        lines.append(f"consumer.assign([{', '.join(parts)}])  # {query['query']}")
    return lines
