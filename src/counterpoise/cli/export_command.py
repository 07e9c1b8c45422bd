"""`counterpoise export`: a group's partitions, or a plan, split over Spark queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from counterpoise.cli.inputs import FILE, PLACE, need
from counterpoise.cli.render import say
from counterpoise.errors import OptionError

__all__ = ["command"]


@click.command("export")
@click.argument("source", metavar="OUT_DIR|PLAN.json", type=PLACE)
@click.option("--group", help="The group to split; with OUT_DIR.")
@click.option("--queries", type=int, metavar="N", help="Number of queries; with OUT_DIR.")
@click.option("--strategy", "-s", help="Name of the strategy; with OUT_DIR.  [default: sticky]")
@click.option("--cluster", help="Which cluster, if several have such a group.")
@click.option(
    "--previous",
    type=FILE,
    help="The previous export (JSON), of which a sticky strategy keeps as much as it can.",
)
@click.option(
    "--offsets",
    multiple=True,
    type=FILE,
    help="Where a stopped query ended: a file in the folder offsets of its checkpoint; repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "assign", "spark"]),
    default="json",
    show_default=True,
    help="The whole plan; calls of a consumer's assign; options of Spark's Kafka source.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    source: str,
    group: str | None,
    queries: int | None,
    strategy: str | None,
    cluster: str | None,
    previous: Path | None,
    offsets: tuple[Path, ...],
    form: str,
    as_json: bool,
) -> None:
    """Split a group's partitions over N queries, with starting offsets: from an audit's OUT_DIR, or from a plan
    (plan --json) with one query per member.

    Standard error says how to change over (drain, stop, new checkpoint) and how many queries need no restart.

    \b
    Example:
      counterpoise export out/shop --group order-service --queries 3 > first.json
      counterpoise export out/shop --group order-service --queries 4 --previous first.json --format spark
      counterpoise export plan.json --previous first.json --offsets checkpoint/offsets/17 --format spark
    """
    if as_json and form != "json":
        raise OptionError(f"--json with --format {form}; give one of them")
    need("export", "spark", "pyarrow")
    from counterpoise.pipeline.export import export_plan, export_written, read_offsets, read_previous
    from counterpoise.pipeline.storage.files import is_local

    local = is_local(source)
    if local and not Path(source).exists():
        raise OptionError(f"{source}: no such file or folder")
    before, reached = None if previous is None else read_previous(previous), read_offsets(offsets)
    if local and Path(source).is_file():
        given = {"--group": group, "--queries": queries, "--strategy": strategy, "--cluster": cluster}
        if named := [name for name, value in given.items() if value is not None]:
            raise OptionError(
                f"{', '.join(named)} with {source}: the plan already says who gets what; leave it out, or give OUT_DIR"
            )
        plan = export_written(Path(source), previous=before, reached=reached)
    elif group is None or queries is None:
        raise OptionError("an audit's folder needs --group and --queries; or give a plan (`counterpoise plan --json`)")
    else:
        plan = export_plan(source, group, strategy or "sticky", queries, cluster=cluster, previous=before, reached=reached)
    filled = [query for query in plan["queries"] if query["assign"] != "{}"]  # Spark and the clients refuse to start without any
    if form == "json":
        click.echo(json.dumps(plan, indent=1))
    elif form == "assign":
        for line in _calls(filled):
            say(line)
    else:
        for query in filled:
            click.echo(json.dumps({name: query[name] for name in ("query", "assign", "startingOffsets")}))
    say(
        f"{plan['no_restart']} of {len(plan['queries'])} queries need no restart; kept {plan['kept']}, moved {plan['moved']}",
        err=True,
    )
    for note in plan["notes"]:
        say(note, err=True)
    for number, step in enumerate(plan["procedure"], 1):
        say(f"{number}. {step}", err=True)


def _calls(queries: list[dict[str, Any]]) -> list[str]:
    """One call per query, as confluent-kafka takes it; kafka-python and aiokafka have the same pairs, without offsets."""
    lines = []
    for query in queries:
        offsets = json.loads(query["startingOffsets"])
        parts = [f"TopicPartition({t!r}, {p}, {o})" for t, held in offsets.items() for p, o in held.items()]
        lines.append(f"consumer.assign([{', '.join(parts)}])  # {query['query']}")
    return lines
