"""`counterpoise verify`: is any plan, from anywhere, valid, complete, balanced and sticky?"""

from __future__ import annotations

import json
import sys

import click

from counterpoise.cli.inputs import one_group, read_text, snapshot_argument
from counterpoise.cli.render import proven
from counterpoise.laws import verify
from counterpoise.snapshot.written import WrittenPlan, read_plan

__all__ = ["command"]


@click.command("verify")
@snapshot_argument
@click.argument("plan", metavar="PLAN", type=click.Path(allow_dash=True))
@click.option("--law", "laws", multiple=True, metavar="NAME", help="Only this law (may be repeated), whatever made the plan.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of words.")
def command(snapshot: str, plan: str, laws: tuple[str, ...], as_json: bool) -> None:
    """Check PLAN for the group in SNAPSHOT. PLAN is the JSON of `counterpoise plan --json`, or {member: {topic: [partitions]}}.

    A plan is asked whether it is optimal; where it names sticky-first or lag-sticky as its strategy, whether it keeps what
    that promises, and whether the figures about lag that it carries are true.

    Exit code 0: proven optimal. 1: something is wrong, or better is possible; it says what.

    \b
    Example:
      counterpoise plan group.json --json > plan.json && counterpoise verify group.json plan.json
    """
    group, read = one_group(snapshot), read_plan(read_text(plan))
    violations = verify(group, read, laws or None)
    if as_json:
        click.echo(json.dumps({"violations": [{"law": v.law, "message": v.message} for v in violations]}))
    elif violations:
        for violation in violations:
            click.echo(f"{violation.law}: {violation.message}")
    else:
        strategy, options = (read.strategy, read.options) if isinstance(read, WrittenPlan) else ("", {})
        click.echo(f"proven: {', '.join(laws) if laws else 'valid, complete; ' + proven(strategy, options, group)}")
    sys.exit(1 if violations else 0)
