"""`counterpoise audit`: the main job, over a capture."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from counterpoise.cli.render import console
from counterpoise.errors import MissingExtraError

__all__ = ["command"]


@click.command("audit")
@click.argument("source", metavar="SOURCE", type=click.Path())
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder for tables and report.")
@click.option("--cluster", default="default", show_default=True, help="Name of the cluster, a column of every table.")
@click.option("--strategies", "names", metavar="NAMES", help="Strategies to replay (comma separated). Default: all.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON instead of words.")
def command(source: str, out: Path, cluster: str, names: str | None, as_json: bool) -> None:
    """Audit the consumer groups recorded in SOURCE, a folder with consumer_offsets.parquet, or that file.

    Writes OUT/tables/<table>/ (Parquet), OUT/summary.json and OUT/report.html, and prints the findings.
    Exit code 0: no findings. 1: findings. 2: SOURCE cannot be read.

    \b
    Example:
      counterpoise audit examples/shop --out out/shop
    """
    _need_extras()
    from counterpoise.pipeline.audit import run_audit
    from counterpoise.report.render import write_report
    from counterpoise.report.terminal import print_findings

    strategies = tuple(name.strip() for name in names.split(",") if name.strip()) if names else None
    err = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        shown = bar.add_task("starting Spark", total=None)

        def step(stage: str, done: int, total: int) -> None:
            bar.update(shown, description=f"{stage} ({done} of {total})")

        result = run_audit(source, out, cluster=cluster, strategies=strategies, progress=step)
        bar.update(shown, description="writing the report")
        report = write_report(result.out)
    if as_json:
        click.echo(json.dumps(result.summary))
    else:
        out_console = console()
        print_findings(result.summary, result.findings, out_console)
        out_console.print(f"\nreport   {report}\ntables   {result.out / 'tables'}", markup=False)
    sys.exit(1 if result.findings else 0)


def _need_extras() -> None:
    missing = [name for name in ("pyspark", "pyarrow", "jinja2") if find_spec(name) is None]
    if missing:
        extras = "spark,report" if "pyspark" in missing or "pyarrow" in missing else "report"
        raise MissingExtraError(f"audit needs {', '.join(missing)}: pip install 'counterpoise[{extras}]'")
