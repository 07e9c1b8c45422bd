"""`counterpoise lag`: the lag per member and partition now, and whether another assignment would reduce the largest."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counterpoise.cli.inputs import FILE, FiniteRange, cluster_settings, need
from counterpoise.cli.render import console, table_of
from counterpoise.errors import OptionError
from counterpoise.model.lag import BELOW_BEGIN, BEYOND_END, EXACT, RESET_POLICY
from counterpoise.model.problem import MOST_CAPACITY
from counterpoise.planning.assign import assign
from counterpoise.snapshot.names import partition_list

if TYPE_CHECKING:
    from counterpoise.clients.live_group import LiveGroup, PartitionState

__all__ = ["command", "hint", "read_capacities"]

_QUALITIES = {
    EXACT: ("exact", ""),
    RESET_POLICY: ("reset_policy", "nothing committed"),
    BEYOND_END: ("beyond_end", "committed beyond the end"),
    BELOW_BEGIN: ("below_begin", "committed before the first offset"),
    None: ("unknown", "unknown"),
}
"""How a lag was found: its name in JSON, and the note in tables."""


@click.command("lag")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help="The cluster.")
@click.option("--group", "group_id", required=True, help="The consumer group.")
@click.option("--command-config", "config", type=FILE, help="Properties file, as for Kafka's tools.")
@click.option(
    "--reset", default="latest", show_default=True, type=click.Choice(["latest", "earliest", "none"]),
    help="auto.offset.reset of the group: decides the lag if nothing is committed.",
)  # fmt: skip
@click.option(
    "--capacity", "capacities", multiple=True, metavar="CLIENT=N",
    help="Capacity of a member, by client id or member id, as in its configuration; repeatable. Default: 1.",
)  # fmt: skip
@click.option("--timeout", default=10.0, show_default=True, type=FiniteRange(0.001, 3600), help="Seconds for each request.")
@click.option("--partitions", "each", is_flag=True, help="Add a row per partition; --json always has them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def command(
    bootstrap_server: str,
    group_id: str,
    config: Path | None,
    reset: str,
    capacities: tuple[str, ...],
    timeout: float,
    each: bool,
    as_json: bool,
) -> None:
    """Show the lag of a group now: who holds it, and whether another assignment would reduce the largest lag.

    Exit code 0: fine. 1: some offsets could not be read, or another assignment would reduce the largest lag by a tenth or more.
    2: there is no such group. 3: the cluster does not answer.

    \b
    Example:
      counterpoise lag --bootstrap-server localhost:9092 --group orders
    """
    if not group_id:
        raise OptionError("--group is empty (an unset variable?); give the name of a group")
    capacity, settings = read_capacities(capacities), cluster_settings(bootstrap_server, config)
    need("lag", "live", "confluent_kafka", "pyarrow")
    from counterpoise.clients.live_group import read_live_group
    from counterpoise.pipeline.capture.cluster import Cluster

    admin = Cluster(settings, timeout).admin
    live = read_live_group(settings, group_id, reset=reset, timeout=timeout, capacity=capacity, admin=admin)
    advice = hint(live)
    if as_json:
        click.echo(json.dumps(_as_object(live, advice)))
    else:
        _print(live, advice, each=each)
    sys.exit(1 if live.faults or advice else 0)


def hint(live: LiveGroup) -> str | None:
    """What another assignment would gain, in a sentence; None below a tenth of the largest lag per capacity."""
    if len(live.group.members) < 2:
        return None
    capacity = {member.id: member.capacity for member in live.group.members}
    held = _lag_by_member(live)
    now = max(Fraction(lag, capacity[member]) for member, lag in held.items())
    plan = assign(live.group, "lag-sticky", protocol="eager")
    best = plan.lag_report.largest
    if best * 10 > now * 9 or not now:
        return None
    per = " per capacity" if any(one != 1 for one in capacity.values()) else ""
    return (
        f"lag-sticky would cut the largest lag of a member{per} from {math.ceil(now)} to {math.ceil(best)} by moving "
        f"{plan.moved} {'partition' if plan.moved == 1 else 'partitions'}"
    )


def read_capacities(words: Sequence[str]) -> dict[str, int]:
    """CLIENT=N words to capacities by name; a name may hold "="."""
    capacities: dict[str, int] = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        digits = value.lstrip("0")
        if not equals or not name or not digits.isdecimal() or len(digits) > 10 or int(digits) > MOST_CAPACITY:
            raise OptionError(f"--capacity {word}: expected CLIENT=N, N a whole number from 1 to {MOST_CAPACITY}")
        capacities[name] = int(digits)
    return capacities


def _print(live: LiveGroup, advice: str | None, *, each: bool) -> None:
    out = console()
    held = _lag_by_member(live)
    weighted = any(member.capacity != 1 for member in live.group.members)
    rows = [
        (member.id, live.client_ids.get(member.id, ""), *([member.capacity] if weighted else []),
         sum(map(len, member.owned.values())), held[member.id],
         partition_list(member.owned))
        for member in sorted(live.group.members, key=lambda member: -held[member.id])
    ]  # fmt: skip
    title = f"{live.group.name}: {live.state.lower()}" + (f", {live.strategy}" if live.strategy else "")
    columns = ["member", "client", *(["capacity"] if weighted else []), "partitions", "lag", "holds"]
    out.print(table_of(title, columns, rows, numeric=columns[2:-1]))
    if each:
        columns = ["topic", "partition", "lag", "committed", "begin", "end", "member", "note"]
        out.print(table_of("", columns, [_row(state) for state in live.partitions], numeric=columns[1:6]))
    nobody = sum(state.lag or 0 for state in live.partitions if state.owner is None)
    out.print(
        f"\nin all {sum(state.lag or 0 for state in live.partitions)} behind" + (f", {nobody} with nobody" if nobody else "")
    )
    for fault in live.faults:
        out.print(f"not read: {fault}")
    if advice:
        out.print(advice)


def _row(state: PartitionState) -> tuple[object, ...]:
    offsets = ("" if value < 0 else value for value in (state.committed, state.begin, state.end))
    lag = "?" if state.lag is None else state.lag
    return state.topic, state.partition, lag, *offsets, state.owner, _QUALITIES[state.quality][1]


def _lag_by_member(live: LiveGroup) -> dict[str, int]:
    held = {member.id: 0 for member in live.group.members}
    for state in live.partitions:
        if state.owner is not None:
            held[state.owner] += state.lag or 0
    return held


def _as_object(live: LiveGroup, advice: str | None) -> dict[str, Any]:
    held = _lag_by_member(live)
    return {
        "group": live.group.name,
        "state": live.state,
        "strategy": live.strategy,
        "members": [
            {
                "id": member.id,
                "client_id": live.client_ids.get(member.id, ""),
                "capacity": member.capacity,
                "lag": held[member.id],
            }
            for member in live.group.members
        ],
        "partitions": [
            asdict(state) | dict(zip(("quality", "note"), _QUALITIES[state.quality], strict=True)) for state in live.partitions
        ],
        "not_read": list(live.faults),
        "hint": advice,
    }
