"""`counterpoise audit`: audits the groups of captures, once or continuously."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from counterpoise.cli.audit_follow import check_together, follow
from counterpoise.cli.inputs import FiniteRange, need, strategy_names
from counterpoise.cli.render import console
from counterpoise.errors import OptionError

if TYPE_CHECKING:
    from counterpoise.pipeline.audit import AuditResult

__all__ = ["command"]


_FAIL_ON: dict[str, tuple[str, ...]] = {
    "notice": ("critical", "warning", "notice"),
    "warning": ("critical", "warning"),
    "critical": ("critical",),
    "never": (),
}
"""Value of --fail-on -> severities that give exit code 1."""


@click.command("audit")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1, type=click.Path())
@click.option("--out", required=True, help="Folder for tables and report, or a place like s3://bucket/folder.")
@click.option(
    "--cluster",
    "clusters",
    metavar="NAME",
    multiple=True,
    help="Name of the cluster, a column of every table; with several SOURCEs once for each, in their order. Default: default.",
)
@click.option(
    "--group", "groups", metavar="PATTERN", multiple=True, help="Only groups whose names match (*, ?, [abc]); repeatable."
)
@click.option("--topic", "topics", metavar="PATTERN", multiple=True, help="Only groups that use matching topics; repeatable.")
@click.option("--from", "since", metavar="TIME", help="Only records from this time on (ISO 8601; UTC without a zone).")
@click.option("--to", "until", metavar="TIME", help="Only records before this time.")
@click.option(
    "--reset",
    type=click.Choice(["latest", "earliest"]),
    help="auto.offset.reset of the groups: decides the lag if nothing is committed. Default: that lag is unknown.",
)
@click.option(
    "--headroom", default=0.2, show_default=True, type=FiniteRange(0, 10), help="Reserve of a group's members: 0.2 is a fifth."
)
@click.option("--strategies", "names", metavar="NAMES", help="Strategies to replay (comma separated). Default: all.")
@click.option("--anonymize", is_flag=True, help="Hash the names of groups, topics, clients and members in everything written.")
@click.option(
    "--salt", envvar="COUNTERPOISE_SALT", metavar="TEXT", help="With --anonymize: hash with TEXT; default: a random one."
)
@click.option("--into", metavar="SCHEMA", help="Add the rows to tables of this schema of Spark's catalog too (catalog.schema).")
@click.option("--table-prefix", metavar="TEXT", help="With --into: prefix of the names of those tables.")
@click.option("--since", "since_last", metavar="last", help="last: read only what is new since the last such audit into OUT.")
@click.option("--follow", "following", is_flag=True, help="Run until stopped; new records reach the tables within seconds.")
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="With --follow: record this cluster into OUT/capture.")
@click.option(
    "--command-config", "config", type=click.Path(path_type=Path), help="With --follow: properties file, as for Kafka's tools."
)
@click.option(
    "--metrics-port", type=click.IntRange(1, 65535), help="With --follow: serve OpenMetrics for Prometheus at this port."
)
@click.option(
    "--metrics-host", metavar="HOST", help="With --metrics-port: address to listen at (0.0.0.0: all). Default: 127.0.0.1."
)
@click.option("--trigger", type=FiniteRange(0.1), help="With --follow: seconds between two reads of the capture. Default: 1.")
@click.option("--report-every", type=FiniteRange(1), help="With --follow: seconds between two reports. Default: 300.")
@click.option(
    "--fail-on", "fail_on", type=click.Choice([*_FAIL_ON]), help="Exit code 1 only for findings this severe. Default: notice."
)
@click.option("--verbose", is_flag=True, help="Print the actions with their configuration, and all findings.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON instead of words.")
def command(
    sources: tuple[str, ...],
    out: str,
    clusters: tuple[str, ...],
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    reset: Literal["latest", "earliest"] | None,
    headroom: float,
    names: str | None,
    anonymize: bool,
    salt: str | None,
    into: str | None,
    table_prefix: str | None,
    since_last: str | None,
    following: bool,
    bootstrap: str | None,
    config: Path | None,
    metrics_port: int | None,
    metrics_host: str | None,
    trigger: float | None,
    report_every: float | None,
    fail_on: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Audit the consumer groups recorded in each SOURCE, a folder with consumer_offsets.parquet, or that file.

    Writes OUT/tables/<table>/ (Parquet by cluster and date; rows are added, never twice), OUT/summary.json and OUT/report.html,
    and prints what to do: the actions, ranked by what they save.
    Exit code 0: no findings (--fail-on: none so severe). 1: findings. 2: a SOURCE cannot be read.

    \b
    Example:
      counterpoise audit examples/shop --out out/shop
      counterpoise audit east west --cluster east --cluster west --group 'orders-*' --from 2026-11-21T04:00 --out out/both
      counterpoise audit history --since last --out out/history
      counterpoise audit --follow --bootstrap-server broker:9092 --metrics-port 9308 --out live
    """
    need("audit", "spark,report", "pyspark", "pyarrow", "jinja2")
    context = click.get_current_context()
    check_together({option.opts[0]: context.params[str(option.name)] for option in context.command.params})
    strategies = strategy_names(names)
    if not following and not sources:
        raise OptionError("no SOURCE; give the folder of a capture, or --follow with --bootstrap-server")
    if since_last not in (None, "last"):
        raise OptionError(f"--since {since_last}: only last is known; for a time give --from")
    if salt is not None and not anonymize:
        raise OptionError("--salt goes with --anonymize (COUNTERPOISE_SALT too); give both, or none")
    if anonymize and salt is None and (following or since_last):
        raise OptionError("--anonymize: the next audit must hash names alike; give --salt too, the same each time")
    if verbose and (following or as_json):
        raise OptionError("--verbose: text is printed neither with --follow nor with --json; give one of them")
    if table_prefix is not None and into is None:
        raise OptionError("--table-prefix goes with --into; give both, or none")
    from counterpoise.pipeline.source.scope import AuditScope
    from counterpoise.pipeline.stored.catalog import Catalog

    captures = _by_cluster(sources, clusters) if sources else {}
    scope = AuditScope(groups, topics, _moment(since, "--from"), _moment(until, "--to"), reset, headroom)
    catalog = None if into is None else Catalog(into, table_prefix or "")
    secret = (salt or token_hex(16)) if anonymize else None
    options: dict[str, Any] = {"strategies": strategies, "scope": scope, "salt": secret, "into": catalog}
    if following:
        recorded = "default" if sources else _only_one(clusters)
        options |= {"pace": (trigger or 1.0, report_every or 300.0), "port": metrics_port, "host": metrics_host or "127.0.0.1"}
        follow(captures, out, cluster=recorded, bootstrap=bootstrap, config=config, **options)
        sys.exit(0)
    from counterpoise.pipeline.audit import check_continued, run_audit
    from counterpoise.report.load import open_audit
    from counterpoise.report.render import write_report
    from counterpoise.report.terminal import print_audit

    err = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        shown = bar.add_task("starting Spark", total=None)

        def step(stage: str, done: int, total: int) -> None:
            bar.update(shown, description=f"{stage} ({done} of {total})")

        if since_last and not check_continued(out):
            err.print(f"{out}: no earlier audit with --since last, so everything is read", markup=False, highlight=False)
        result = run_audit(captures, out, since_last=since_last is not None, progress=step, **options)
        if result.nothing_new:
            until_then = result.summary["to"] or "any record"
            err.print(f"nothing new since the last audit, of records up to {until_then}: nothing is written", highlight=False)
        bar.update(shown, description="writing the report")
        report = result.report if _reported(result) else write_report(result.place)
    if as_json:
        click.echo(json.dumps(result.summary))
    else:
        out_console = console()
        print_audit(result.summary, out_console, open_audit(result.place).findings() if verbose else None)
        total = result.summary["findings"]["total"]
        more = "" if verbose or not total else f"; {total:,} findings by group: there, or here with --verbose"
        out_console.print(f"report   {report}{more}\ntables   {result.place}/tables", markup=False)
    found = result.summary["findings"]["by_severity"]
    sys.exit(1 if any(found.get(severity) for severity in _FAIL_ON[fail_on or "notice"]) else 0)


def _reported(result: AuditResult) -> bool:
    """Whether report.html shows this result already."""
    if not result.nothing_new:
        return False
    from counterpoise.pipeline.storage.files import file_infos, join

    page, summary = (file_infos(join(result.place, name)).values() for name in ("report.html", "summary.json"))
    return bool(page) and max(one.mtime_ns for one in page) >= max(one.mtime_ns for one in summary)


def _only_one(clusters: tuple[str, ...]) -> str:
    if len(clusters) > 1:
        raise OptionError("--follow: a process records one cluster; give --cluster once, or the captures of several")
    return next(iter(clusters), "default")


def _by_cluster(sources: tuple[str, ...], clusters: tuple[str, ...]) -> dict[str, str]:
    names = clusters or (("default",) if len(sources) == 1 else ())
    if len(names) != len(sources) or len(set(names)) != len(names):
        raise OptionError(
            f"captures: {len(sources)}, names of clusters: {len(set(names))}; give --cluster once for each capture, all different"
        )
    return dict(zip(names, sources, strict=True))


def _moment(text: str | None, option: str) -> datetime | None:
    from counterpoise.pipeline.source.scope import parse_time

    return None if text is None else parse_time(text, option)
