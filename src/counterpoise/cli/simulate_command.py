"""`counterpoise simulate`: what a change would cost a group, strategy by strategy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from counterpoise.assignors.registry import strategies
from counterpoise.cli.inputs import PLACE, FiniteRange, Place, need, strategy_names
from counterpoise.cli.ownership_picture import draw_outcomes
from counterpoise.cli.render import console, table_of
from counterpoise.errors import OptionError, ScenarioError
from counterpoise.simulation.outcome import Outcome
from counterpoise.simulation.recorded import Recorded, recorded
from counterpoise.simulation.scenario import Scenario
from counterpoise.simulation.scenario_file import load, ready_scenarios
from counterpoise.simulation.simulate import DEFAULT_STRATEGIES, simulate

__all__ = ["command"]

_COLUMNS = (
    "strategy", "protocol", "rounds", "rebalances", "failed", "moved", "revoked", "stopped (s)", "spread", "safe", "settled",
)  # fmt: skip


@click.command("simulate")
@click.argument("scenario", required=False)
@click.option(
    "--strategies", "names", help='Comma separated names, or "all".  [default: the six, without fair, that need no lag]'
)
@click.option(
    "--library", metavar="NAME", help="The client library of all members, such as kafka-python.  [default: the scenario's]"
)
@click.option("--audit", metavar="OUT_DIR", type=PLACE, help="Take the scenario from an audit's tables; needs --group.")
@click.option("--group", help="The recorded group to replay, with --audit.")
@click.option("--cluster", help="With --audit: the cluster of the group, if several have one of this name.")
@click.option(
    "--members", type=click.IntRange(1), metavar="N", help="With --audit: replay the recorded production with N members."
)
@click.option(
    "--capacity", type=FiniteRange(0, min_open=True), metavar="R", help="With --members: records per second of a member."
)
@click.option("--picture", type=Place(dir_okay=False, readable=False), metavar="FILE.svg", help="Draw the owners over time.")
@click.option("--list", "listing", is_flag=True, help="List the ready scenarios.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def command(
    scenario: str | None,
    names: str | None,
    library: str | None,
    audit: str | None,
    group: str | None,
    cluster: str | None,
    members: int | None,
    capacity: float | None,
    picture: str | None,
    listing: bool,
    as_json: bool,
) -> None:
    """Simulate SCENARIO (a .toml or .json file, or the name of a ready one) under each strategy.

    "stopped" counts partition-seconds without an owner, or with one that does not read while it joins; exit code 1 means that
    a strategy was not safe or did not settle.

    With --members: the lag of a recorded group over time, if N members had to consume what was produced; exit code 1 means
    that they do not keep up.

    \b
    Examples:
      counterpoise simulate rolling-restart-of-50 --strategies range,cooperative-sticky
      counterpoise simulate scale-out --library kafka-python
      counterpoise simulate --audit out/demo --group order-service --picture life.svg
      counterpoise simulate --audit out/demo --group order-service --members 2
    """
    if listing:
        rows = [(name, load(name).about) for name in ready_scenarios()]
        if as_json:
            click.echo(json.dumps(dict(rows)))
        else:
            console().print(table_of("ready scenarios", ["name", "about"], rows))
        return
    if members is not None:
        if audit is None or group is None or any((scenario, names, library, picture)):
            raise OptionError("--members goes with --audit and --group, and with --cluster, --capacity and --json alone")
        need("simulate --members", "report", "pyarrow")
        from counterpoise.cli.simulate_size import simulate_size

        raise SystemExit(not simulate_size(audit, group, cluster, members, capacity, as_json=as_json))
    if capacity is not None:
        raise OptionError("--capacity goes with --members N")
    given, past = _given(scenario, audit, group, cluster)
    if library is not None:
        given = given.with_library(library)
    outcomes = simulate(given, DEFAULT_STRATEGIES if names is None else strategy_names(names) or strategies())
    if picture:
        try:
            Path(picture).write_text(draw_outcomes(given.name, outcomes), encoding="utf-8")
        except OSError as error:
            raise OptionError(f"--picture {picture}: {error.strerror or error}") from error
    if as_json:
        click.echo(json.dumps(_as_json(given, outcomes, past)))
    else:
        _print(given, outcomes, past)
    if any(outcome.double_owned_seconds or not outcome.settled for outcome in outcomes.values()):
        raise SystemExit(1)


def _given(scenario: str | None, audit: str | None, group: str | None, cluster: str | None) -> tuple[Scenario, Recorded | None]:
    if cluster is not None and audit is None:
        raise OptionError(f"--cluster {cluster}: only with --audit DIR, whose clusters it chooses from")
    if (scenario is None) == (audit is None) or (audit is None) != (group is None):
        raise OptionError("name one SCENARIO, or --audit DIR with --group NAME; --list shows the ready scenarios")
    if scenario is not None:
        return load(scenario), None
    need("reading an audit's tables", "report", "pyarrow")
    from counterpoise.pipeline.tables.paths import rows_of_group

    rows = rows_of_group(str(audit), "group_generations", str(group), cluster).to_pylist()
    if not rows:
        raise ScenarioError(f"{group}: the audit has no such classic group")
    past = recorded(rows, name=str(group))
    return past.scenario, past


def _as_json(scenario: Scenario, outcomes: dict[str, Outcome], past: Recorded | None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "scenario": scenario.name,
        "about": scenario.about,
        "outcomes": [
            outcome.figures() | {"history": [asdict(entry) for entry in outcome.history]} for outcome in outcomes.values()
        ],
    }
    if past is not None:
        value["recorded"] = {name: figure for name, figure in asdict(past).items() if name != "scenario"}
    return value


def _print(scenario: Scenario, outcomes: dict[str, Outcome], past: Recorded | None) -> None:
    out = console()
    rows = [
        (
            o.strategy, o.protocol, o.rounds, o.rebalances, o.failed, o.moved, o.revoked, f"{o.stopped_partition_seconds:,.1f}",
            o.spread, "yes" if not o.double_owned_seconds else "NO", "yes" if o.settled else "NO",
        )
        for o in outcomes.values()
    ]  # fmt: skip
    out.print(table_of(scenario.name, _COLUMNS, rows, numeric=_COLUMNS[2:9]))
    for o in outcomes.values():
        if o.refused:
            out.print(f"{o.strategy}: joins refused, without a strategy in common with the others: {o.refused}")
    if scenario.about:
        out.print(scenario.about)
    if past is not None:
        unseen = f"; {past.missing} failed ones left no record" if past.missing else ""
        out.print(f"Recorded under {past.strategy}: {past.generations} generations, {past.revoked} partitions revoked{unseen}.")
