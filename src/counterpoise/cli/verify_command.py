"""`counterpoise verify`: is any plan, from anywhere, valid, complete, balanced and sticky?"""

from __future__ import annotations

import json
import sys

import click

from counterpoise.cli.inputs import one_group, read_text, snapshot_argument
from counterpoise.laws import verify
from counterpoise.snapshot.plan import read_assignment

__all__ = ["command"]


@click.command("verify")
@snapshot_argument
@click.argument("plan", metavar="PLAN", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of words.")
def command(snapshot: str, plan: str, as_json: bool) -> None:
    """Check PLAN for the group in SNAPSHOT. PLAN is the JSON of `counterpoise plan --json`, or {member: {topic: [partitions]}}.

    Exit code 0: proven optimal. 1: something is wrong, or better is possible; it says what.

    \b
    Example:
      counterpoise plan group.json --json > plan.json && counterpoise verify group.json plan.json
    """
    violations = verify(one_group(snapshot), read_assignment(read_text(plan)))
    if as_json:
        click.echo(json.dumps({"violations": [{"law": v.law, "message": v.message} for v in violations]}))
    elif violations:
        for violation in violations:
            click.echo(f"{violation.law}: {violation.message}")
    else:
        click.echo("proven: valid, complete, as balanced as possible, and no plan as balanced keeps more")
    sys.exit(1 if violations else 0)
