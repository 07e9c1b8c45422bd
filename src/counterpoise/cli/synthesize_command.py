"""`counterpoise synthesize`: a synthetic fleet as a capture, to test the audit at any size."""

from __future__ import annotations

import json

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from counterpoise.cli.inputs import PLACE, FiniteRange, need
from counterpoise.cli.render import console, say

__all__ = ["command"]


@click.command("synthesize")
@click.option("--out", required=True, type=PLACE, help="A new folder, or a place like s3://bucket/folder.")
@click.option(
    "--records",
    default=1_000_000,
    metavar="N",
    type=click.IntRange(1, 10**10),
    show_default=True,
    help="Approximate number; nearly all are commits.",
)
@click.option("--groups", type=int, help="How many groups. Default: one per 10,000 records.")
@click.option("--rebalances", type=int, help="Exact number of planted ones. Default: ten per group.")
@click.option("--seconds", default=3600.0, type=FiniteRange(300, 10**9), show_default=True, help="How long the recording is.")
@click.option("--sample-every", default=300.0, show_default=True, help="Seconds between samples of log ends.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same bytes.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def command(
    out: str,
    records: int,
    groups: int | None,
    rebalances: int | None,
    seconds: float,
    sample_every: float,
    seed: int,
    as_json: bool,
) -> None:
    """Write the capture of a synthetic fleet into OUT, as `counterpoise capture` would have recorded it.

    Deployments, storms, scaling, failed rounds, expiry and deletion are planted; OUT/planted.json lists what the audit
    must find.

    \b
    Example:
      counterpoise synthesize --records 20000000 --out fleet
      counterpoise audit fleet --out report
    """
    need("synthesize", "spark", "pyarrow")
    from counterpoise.pipeline.synthetic.capture import synthesize
    from counterpoise.pipeline.synthetic.fleet import Fleet

    many = max(1, records // 10_000) if groups is None else groups
    fleet = Fleet(records, many, 10 * many if rebalances is None else rebalances, seconds, sample_every, seed)
    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        shown = bar.add_task(f"writing {out}", total=1.0)
        written = synthesize(fleet, out, lambda share: bar.update(shown, completed=share))
    figures = {"records": written.records, "groups": written.groups, "rebalances": written.rebalances}
    if as_json:
        click.echo(json.dumps(figures | {"out": out}))
    else:
        say(f"{', '.join(f'{figure:,} {name}' for name, figure in figures.items())} in {out}")
