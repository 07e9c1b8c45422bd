"""`counterpoise plan`: the plan of one group, what moves, and the proof."""

from __future__ import annotations

import json

import click

from counterpoise.assignors.registry import assignor
from counterpoise.cli.compare_command import comparison_rows, print_comparison
from counterpoise.cli.inputs import read_options, read_snapshots, snapshot_argument, strategy_options
from counterpoise.cli.render import console, lag_line, partition_list, plan_table, proven
from counterpoise.laws import verify
from counterpoise.planning.assign import assign
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.plan import Plan

__all__ = ["command"]


@click.command("plan")
@snapshot_argument
@strategy_options
@click.option("--compare", "compared", metavar="NAMES", help='Also measure these strategies (comma separated, or "all").')
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group instead of tables.")
def command(
    snapshot: str, strategy: str, protocol: str | None, options: tuple[str, ...], compared: str | None, as_json: bool
) -> None:
    """Plan the group in SNAPSHOT: JSON, JSON lines, or the text of kafka-consumer-groups --describe; - is stdin.

    \b
    Example:
      counterpoise plan group.json --strategy cooperative-sticky
      kafka-consumer-groups --bootstrap-server H:P --describe --group g | counterpoise plan - --compare all
    """
    bound = read_options(options)
    for name in (compared or "all").split(","):
        if name.strip() not in {"all", ""}:
            assignor(name.strip())
    for group in read_snapshots(snapshot):
        plan = assign(group, strategy, protocol=protocol, **bound)
        if as_json:
            value = plan.to_object() | ({"group": group.name} if group.name is not None else {})
            violations = verify(group, plan)
            value["proven"] = {
                "balanced_and_sticky": plan.certificate.sticky,
                "violations": [violation.message for violation in violations],
            }
            if compared:
                value["comparison"] = comparison_rows(group, compared)
            click.echo(json.dumps(value))
        else:
            _print(group, plan, compared)


def _print(group: Group, plan: Plan, compared: str | None) -> None:
    out = console()
    out.print(plan_table(plan, f"{group.name or 'group'}: {plan.strategy}, {plan.protocol}"))
    out.print(f"\nloads {_loads(plan)}, kept {plan.kept}, moved {plan.moved}", markup=False)
    if plan.withheld:
        out.print(f"waits for a revocation: {partition_list(plan.withheld)}", markup=False)
    if plan.unassigned:
        out.print(f"nobody subscribes to: {partition_list(plan.unassigned)}", markup=False)
    dropped = group.settled.unknown_topic + group.settled.vanished_partition
    if dropped:
        out.print(f"claims on topics or partitions that do not exist, ignored: {dropped}", markup=False)
    if plan.lag_figures is not None:
        out.print(lag_line(plan.lag_figures), markup=False)
    violations = verify(group, plan)
    for violation in violations:
        out.print(f"not optimal ({violation.law}): {violation.message}", markup=False)
    if not violations:
        out.print(f"proven: {proven(plan.strategy, plan.options, group)}")
    if compared:
        print_comparison(out, group, compared)


def _loads(plan: Plan) -> str:
    loads = list(plan.loads.values())
    return f"{min(loads)} to {max(loads)}" if loads else "none"
