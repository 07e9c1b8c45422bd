"""`counterpoise audit`: audits the groups of captures, once or continuously."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from counterpoise.cli.audit_follow import follow
from counterpoise.cli.audit_options import check_together, policy_of
from counterpoise.cli.capture_command import words_of
from counterpoise.cli.inputs import FILE, PLACE, FiniteRange, cluster_settings, need, strategy_names
from counterpoise.cli.render import console, say
from counterpoise.errors import CaptureError, OptionError
from counterpoise.pipeline.wording import SEVERITIES

if TYPE_CHECKING:
    from counterpoise.pipeline.audit import AuditResult
    from counterpoise.pipeline.capture.settings import Settings

__all__ = ["TaskColumn", "command"]

_FAIL_ON: dict[str, tuple[str, ...]] = {"notice": SEVERITIES, "warning": SEVERITIES[:2], "critical": SEVERITIES[:1], "never": ()}
"""Value of --fail-on -> severities that give exit code 1."""


@click.command("audit")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1, type=PLACE)
@click.option("--out", required=True, type=PLACE, help="Folder for tables and report, or a place like s3://bucket/folder.")
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
@click.option("--anonymize", is_flag=True, help="Hash the names of groups, topics, clients and members in all of OUT.")
@click.option(
    "--salt", envvar="COUNTERPOISE_SALT", metavar="TEXT", help="With --anonymize: the salt of the hashes. Default: random."
)
@click.option("--into", metavar="SCHEMA", help="Add the rows to tables of this schema of Spark's catalog too (catalog.schema).")
@click.option("--table-prefix", metavar="TEXT", help="With --into: prefix of the names of those tables.")
@click.option("--since", "since_last", metavar="last", help="last: read only what is new since the last such audit into OUT.")
@click.option("--follow", "following", is_flag=True, help="Run until stopped; new records reach the tables within seconds.")
@click.option(
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    help="No SOURCE: record this cluster into OUT/capture (with --anonymize beside OUT).",
)
@click.option("--command-config", "properties", type=FILE, help="Properties file, as for Kafka's tools.")
@click.option(
    "--config",
    type=FILE,
    help="Accepted findings, owners of groups. Default: counterpoise.toml here, if there is one.",
)
@click.option(
    "--metrics-port", metavar="PORT", type=click.IntRange(1, 65535), help="With --follow: serve OpenMetrics for Prometheus there."
)
@click.option(
    "--metrics-host", metavar="HOST", help="With --metrics-port: address to listen at (0.0.0.0: all). Default: 127.0.0.1."
)
@click.option("--trigger", type=FiniteRange(0.1), help="With --follow: seconds between two reads of the capture. Default: 1.")
@click.option("--report-every", type=FiniteRange(1), help="With --follow: seconds between two reports. Default: 300.")
@click.option(
    "--fail-on", "fail_on", type=click.Choice([*_FAIL_ON]), help="Exit code 1 only for findings this severe. Default: notice."
)
@click.option("--severity", type=click.Choice([*_FAIL_ON][:3]), help="Print only actions, findings and groups this severe.")
@click.option("--top", metavar="N", type=click.IntRange(1), help="Print only the first N actions (--verbose: and findings).")
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
    properties: Path | None,
    config: Path | None,
    metrics_port: int | None,
    metrics_host: str | None,
    trigger: float | None,
    report_every: float | None,
    fail_on: str | None,
    severity: str | None,
    top: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Audit the consumer groups recorded in each SOURCE, a folder with consumer_offsets.parquet, or that file; or of a cluster.

    Writes OUT/tables/<table>/ (Parquet by cluster and date; rows are added, never twice), OUT/summary.json and OUT/report.html,
    and prints what to do: the actions, ranked by what they save.
    Exit code 0: no findings (--fail-on: none so severe). 1: findings. 2: a SOURCE cannot be read.

    \b
    Example:
      counterpoise audit examples/shop --out out/shop
      counterpoise audit east west --cluster east --cluster west --group 'orders-*' --from 2026-11-21T04:00 --out out/both
      counterpoise audit history --since last --out out/history
      counterpoise audit --bootstrap-server broker:9092 --out out/now
      counterpoise audit --follow --bootstrap-server broker:9092 --metrics-port 9308 --out live
    """
    need("audit", "spark,report", "pyspark", "pyarrow", "jinja2")
    context = click.get_current_context()
    given = {each.opts[0]: context.params[str(each.name)] for each in context.command.params}
    if not anonymize and context.get_parameter_source("salt") is ParameterSource.ENVIRONMENT:
        given["--salt"] = None  # Exported for other audits
    check_together(given)
    if bootstrap is not None or properties is not None:
        need("--bootstrap-server", "follow" if following else "live", "confluent_kafka")
    from counterpoise.pipeline.source.scope import AuditScope, parse_time
    from counterpoise.pipeline.storage.files import beside, join
    from counterpoise.pipeline.tables.catalog import Catalog
    from counterpoise.report.difference import changed_findings
    from counterpoise.report.terminal import print_audit, print_changes
    from counterpoise.report.words import plural

    recorded = beside(out, "capture") if anonymize and not sources else join(out, "capture")
    captures = _by_cluster(sources, clusters) if sources else {_only_one(clusters): recorded}
    begin = None if since is None else parse_time(since, "--from")
    end = None if until is None else parse_time(until, "--to")
    scope = AuditScope(groups, topics, begin, end, reset, headroom, policy_of(config))
    secret = (salt or token_hex(16)) if anonymize else None
    options: dict[str, Any] = {"strategies": strategy_names(names), "scope": scope, "salt": secret}
    options["into"] = None if into is None else Catalog(into, table_prefix or "")
    settings = None if sources else cluster_settings(bootstrap, properties)
    if following:
        pace, address = (trigger or 1.0, report_every or 300.0), (metrics_host or "127.0.0.1", metrics_port)
        follow(captures, out, settings=settings, pace=pace, address=address, **options)
        return
    before = _findings_of(out, captures)
    result, report = _run(captures, out, settings, since_last=since_last is not None, **options)
    now = _findings_of(out, captures) if verbose or before is not None else None
    changes = None if before is None else changed_findings(before, now or ())
    if as_json:
        click.echo(json.dumps(result.summary | ({} if changes is None else {"since_last_audit": changes})))
    else:
        shown = console()
        severities = _FAIL_ON[severity or "notice"]
        print_audit(result.summary, shown, now if verbose else None, severities=severities, most=top)
        if changes is not None:
            print_changes(changes, shown, None if verbose else top or 5, severities)
        total = result.summary["findings"]["total"]
        more = "" if verbose or not total else f"; {plural(total, 'finding')}: in the report, or printed with --verbose"
        kept = [] if sources else [f"capture  {recorded}: the same command continues it; `audit {recorded}` needs no cluster"]
        for line in (f"report   {report}{more}", f"tables   {result.place}/tables", *kept):
            say(line)
    found = result.summary["findings"]["by_severity"]
    sys.exit(1 if any(found.get(severity) for severity in _FAIL_ON[fail_on or "notice"]) else 0)


def _run(
    captures: dict[str, str], out: str, settings: Settings | None, *, since_last: bool, **options: Any
) -> tuple[AuditResult, str]:
    """Audit captures, after recording the cluster of `settings` into the only one; returns the result and the page."""
    from counterpoise.pipeline.audit import audit, check_out
    from counterpoise.report.render import write_report

    err = console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), TaskColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        shown = bar.add_task("starting Spark", total=None)

        def step(stage: str, done: int = 0, total: int = 0) -> None:
            bar.update(shown, description=f"{stage} ({done} of {total})" if total else stage)

        if not check_out(out, options["salt"], since_last=since_last) and since_last:
            err.print(f"{out}: no earlier audit with --since last, so everything is read")
        if settings is not None:
            from counterpoise.pipeline.capture.recorder import Recorder
            from counterpoise.pipeline.capture.recording import Schedule

            step("asking the cluster")
            (folder,) = captures.values()
            recorder = Recorder(settings, folder, Schedule(), lambda status: step(f"recording: {words_of(status)}"))
            recorder.run(follow=False)
        result = audit(None, captures, out, since_last=since_last, progress=step, **options)
        if result.nothing_new:
            until_then = result.summary["to"] or "any record"
            err.print(f"nothing new since the last audit of records up to {until_then}: nothing is written")
        step("writing the report")
        return result, result.report if _reported(result) else write_report(result.place)


def _findings_of(out: str, clusters: Iterable[str]) -> list[dict[str, Any]] | None:
    """The findings of the last audit into a folder; None: it was of other clusters, or cannot be read."""
    from counterpoise.report.audit_output import open_audit

    try:
        audit = open_audit(out)
        return audit.findings() if audit.clusters == frozenset(clusters) else None
    except CaptureError:
        return None


def _reported(result: AuditResult) -> bool:
    """Whether report.html shows this result already."""
    if not result.nothing_new:
        return False
    from counterpoise.pipeline.storage.files import file_infos, join

    page, summary = (file_infos(join(result.place, name)).values() for name in ("report.html", "summary.json"))
    return bool(page) and max(one.mtime_ns for one in page) >= max(one.mtime_ns for one in summary)


def _only_one(clusters: tuple[str, ...]) -> str:
    if len(clusters) > 1:
        raise OptionError("a process records one cluster; give --cluster once, or the captures of several")
    return next(iter(clusters), "default")


def _by_cluster(sources: tuple[str, ...], clusters: tuple[str, ...]) -> dict[str, str]:
    names = clusters or (("default",) if len(sources) == 1 else ())
    if len(names) != len(sources) or len(set(names)) != len(names):
        raise OptionError(
            f"captures: {len(sources)}, names of clusters: {len(set(names))}; give --cluster once for each capture, all different"
        )
    return dict(zip(names, sources, strict=True))


class TaskColumn(ProgressColumn):
    """A column of progress: tasks of Spark's running stages, their rate, and the time left; empty with Spark Connect.

    Counts are asked from Spark twice a second.
    """

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._stages: tuple[int, ...] = ()
        self._first, self._since = 0, 0.0

    def render(self, task: Task) -> Text:
        """The text for now; rate and time left count Spark's tasks that ended since these stages were first seen."""
        from counterpoise.pipeline.session import running_tasks

        stages, done, total = running_tasks()
        if stages != self._stages:
            self._stages, self._first, self._since = stages, done, time.monotonic()
        ended, seconds = done - self._first, time.monotonic() - self._since
        rest = f", {ended / seconds:.1f} a second, {(total - done) * seconds / ended:.0f} s left" if ended and seconds else ""
        return Text(f"{done} of {total} tasks{rest}" if total else "", style="progress.remaining")
