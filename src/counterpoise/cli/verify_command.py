"""`counterpoise verify`: is any plan, from anywhere, valid, complete, balanced and sticky?"""

from __future__ import annotations

import json
import sys
from dataclasses import astuple
from typing import Any

import click

from counterpoise.cli.inputs import TEXT, named, read_plans, read_snapshots, snapshot_argument
from counterpoise.cli.render import proven, say
from counterpoise.laws import Violation, verify
from counterpoise.snapshot.plan import moves_as_json
from counterpoise.snapshot.written import WrittenPlan

__all__ = ["command"]


@click.command("verify")
@snapshot_argument
@click.argument("plan", metavar="PLAN", type=TEXT)
@click.option("--law", "laws", multiple=True, metavar="NAME", help="Only this law (may be repeated), whatever made the plan.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group instead of words.")
def command(snapshot: str, plan: str, laws: tuple[str, ...], as_json: bool) -> None:
    """Check PLAN for the group in SNAPSHOT. PLAN is the JSON of `counterpoise plan --json`, or {member: {topic: [partitions]}},
    alone or as its "assignment".

    Checks whether the plan is optimal. If it names sticky-first or lag-sticky as its strategy, checks what that strategy
    promises instead. The figures in the plan are checked too. For several groups (JSON lines) PLAN has a line for each.

    Exit code 0: proven optimal. 1: something is wrong, or better is possible; it says what.

    \b
    Example:
      counterpoise plan group.json --json > plan.json && counterpoise verify group.json plan.json
    """
    groups = read_snapshots(snapshot)
    plans = read_plans(plan, len(groups))
    found = [verify(group, read, laws or None) for group, read in zip(groups, plans, strict=True)]
    for (name, group), read, violations in zip(named(groups), plans, found, strict=True):
        if as_json:
            value = {"group": group.name} if group.name is not None else {}
            click.echo(json.dumps(value | {"violations": [_violation_as_json(violation) for violation in violations]}))
        elif violations:
            for violation in violations:
                say(f"{name}{violation.law}: {violation.message}")
        else:
            strategy, options = (read.strategy, read.options) if isinstance(read, WrittenPlan) else ("", {})
            say(f"{name}proven: {', '.join(laws) if laws else 'valid, complete; ' + proven(strategy, options, group)}")
    sys.exit(1 if any(found) else 0)


def _violation_as_json(violation: Violation) -> dict[str, Any]:
    gain = violation.gain if isinstance(violation.gain, int) else float(violation.gain)
    moves = moves_as_json(map(astuple, violation.moves))
    return {"law": violation.law, "message": violation.message, "moves": moves, "gain": gain}
