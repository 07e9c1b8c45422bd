"""`counterpoise plan`: the plan of one group, what moves, and the proof."""

from __future__ import annotations

import json
from typing import Any

import click

from counterpoise.cli.compare_command import comparison_rows, print_comparison
from counterpoise.cli.inputs import PLACE, need, read_options, read_snapshots, snapshot_argument, strategy_names, strategy_options
from counterpoise.cli.render import console, lag_line, plan_table, proven, say
from counterpoise.errors import OptionError
from counterpoise.laws import verify
from counterpoise.planning.assign import assign
from counterpoise.snapshot.group import Group
from counterpoise.snapshot.json_text import visible
from counterpoise.snapshot.names import partition_list
from counterpoise.snapshot.plan import Plan, moves_as_json

__all__ = ["command"]


@click.command("plan")
@snapshot_argument
@strategy_options
@click.option("--compare", "compared", metavar="NAMES", help='Also measure these strategies (comma separated, or "all").')
@click.option("--lag-from", metavar="OUT_DIR", type=PLACE, help="Take the lag from an audit's output folder.")
@click.option(
    "--lag-at", metavar="TIME", help="With --lag-from: the lag at this time (ISO 8601, UTC without a zone). Default: the last."
)
@click.option("--cluster", metavar="NAME", help="With --lag-from: the cluster of the group, if several have one of this name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group instead of tables.")
def command(
    snapshot: str,
    strategy: str,
    protocol: str | None,
    options: tuple[str, ...],
    compared: str | None,
    lag_from: str | None,
    lag_at: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Plan the group in SNAPSHOT: JSON, JSON lines, or the text of kafka-consumer-groups --describe; - is stdin.

    \b
    Example:
      counterpoise plan group.json --strategy cooperative-sticky
      kafka-consumer-groups --bootstrap-server H:P --describe --group g | counterpoise plan - --compare all
    """
    bound = read_options(options, strategy)
    for option, given in (("--lag-at", lag_at), ("--cluster", cluster)):
        if given is not None and lag_from is None:
            raise OptionError(f"{option} {given}: only with --lag-from, which says whose lag")
    chosen = strategy_names(compared)
    for read in read_snapshots(snapshot):
        group = read if lag_from is None else _with_lag(read, lag_from, lag_at, cluster)
        plan = assign(group, strategy, protocol=protocol, **bound)
        if as_json:
            value = plan.to_object() | ({"group": group.name} if group.name is not None else {})
            value["missing_topics"] = dict(group.missing_topics)
            value["moves"] = moves_as_json(plan.moves)
            value["certificate"] = _certificate(plan)
            violations = verify(group, plan)
            value["proven"] = {
                "balanced_and_sticky": plan.certificate.sticky,
                "violations": [violation.message for violation in violations],
            }
            if compared is not None:
                value["comparison"] = comparison_rows(group, chosen)
            click.echo(json.dumps(value))
        else:
            _print(group, plan)
            if compared is not None:
                print_comparison(group, chosen)


def _with_lag(group: Group, out: str, at: str | None, cluster: str | None) -> Group:
    """The group with the lag that an audit found; unknown lags count as 0, and standard error says how many there are."""
    need("--lag-from", "spark", "pyarrow")
    from counterpoise.pipeline.audited_lag import audited_lag
    from counterpoise.pipeline.source.scope import parse_time

    if group.name is None:
        raise OptionError('--lag-from: the snapshot does not say which group it is; add "group": NAME to it')
    found = audited_lag(out, group.name, None if at is None else parse_time(at, "--lag-at"), cluster=cluster)
    topics = {topic: known.partitions for topic, known in group.topics.items()}
    unknown = found.unknown(topics)
    note = f"; unknown: {unknown} {'partition' if unknown == 1 else 'partitions'}, counted as 0" if unknown else ""
    say(f"lag of {group.name} as of {found.at.isoformat()}{note}", err=True)
    return Group(group.topics, group.members, found.of(topics), group.name)


def _certificate(plan: Plan) -> dict[str, Any]:
    """The numbers that prove the plan (`laws.Certificate`), by names."""
    made = plan.certificate
    return {
        "balanced": made.balanced,
        "sticky": made.sticky,
        "heaviest": {member: plan.member_ids[at] for member, at in zip(plan.member_ids, made.heaviest.tolist(), strict=False)},
        "member_label": dict(zip(plan.member_ids, made.member_label.tolist(), strict=False)),
        "topic_label": dict(zip(plan.topic_names, made.topic_label.tolist(), strict=False)),
    }


def _print(group: Group, plan: Plan) -> None:
    out = console()
    out.print(plan_table(plan, f"{group.name or 'group'}: {plan.strategy}, {plan.protocol}"))
    loads = plan.loads.values()
    shown = f"{min(loads)} to {max(loads)}" if loads else "none"
    out.print(f"\nloads {shown}, kept {plan.kept}, moved {plan.moved}")
    if plan.withheld:
        out.print(f"waits for a revocation: {partition_list(plan.withheld)}")
    if plan.unassigned:
        out.print(f"nobody subscribes to: {partition_list(plan.unassigned)}")
    if dropped := group.settled.unknown_topic + group.settled.vanished_partition:
        out.print(f"claims on topics or partitions that do not exist, ignored: {dropped}")
    if plan.lag_figures is not None:
        out.print(lag_line(plan.lag_figures))
    violations = verify(group, plan)
    for violation in violations:
        out.print(f"not optimal ({violation.law}): {visible(violation.message)}")
    if not violations:
        out.print(f"proven: {proven(plan.strategy, plan.options, group)}")
