"""`counterpoise capture`: record a cluster's group history, once or continuously."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.markup import escape
from rich.status import Status as Line

from counterpoise.cli.inputs import FILE, PLACE, FiniteRange, Place, cluster_settings, need, stopped_by_signals
from counterpoise.cli.render import console, say
from counterpoise.errors import OptionError
from counterpoise.snapshot.json_text import visible

if TYPE_CHECKING:
    from counterpoise.pipeline.capture.backup.dump_folder import DumpCounts
    from counterpoise.pipeline.capture.backup.segments import SegmentCounts
    from counterpoise.pipeline.capture.poller import Poller
    from counterpoise.pipeline.capture.recorder import Recorder
    from counterpoise.pipeline.capture.recording import Schedule, Status
    from counterpoise.pipeline.capture.settings import Settings

__all__ = ["command", "trouble_lines", "words_of"]


@click.command("capture")
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="The cluster to record.")
@click.option(
    "--out", required=True, type=PLACE, help="Folder, or a place like s3://bucket/folder; an earlier capture there is continued."
)
@click.option("--follow", is_flag=True, help="Record until stopped (SIGTERM or Ctrl-C). Default: up to now.")
@click.option("--command-config", "config", type=FILE, help="Properties file, as for Kafka's tools.")
@click.option("--flush-every", default=10.0, show_default=True, type=FiniteRange(0.1), help="Seconds between two files.")
@click.option(
    "--sample-every", default=30.0, show_default=True, type=FiniteRange(0.1), help="Seconds between samples of log ends."
)
@click.option("--poll", is_flag=True, help="For clusters whose offsets topic cannot be read: poll the groups; sees less.")
@click.option("--poll-every", default=5.0, show_default=True, type=FiniteRange(0.1), help="Seconds between two polls.")
@click.option(
    "--keep-days", type=FiniteRange(0, min_open=True), help="Delete files whose records are all older. Default: keep all."
)
@click.option(
    "--from-segments",
    "segments",
    type=Place(file_okay=False, path_type=Path),
    help="Read a broker's data folder, or a copy of it, instead of a cluster.",
)
@click.option(
    "--from-dump",
    "dump",
    type=Place(dir_okay=False, path_type=Path),
    help="Read the output of kafka-dump-log --offsets-decoder instead of a cluster.",
)
@click.option("--json", "as_json", is_flag=True, help="The status as JSON (with --follow a line per sample).")
def command(
    bootstrap: str | None,
    out: str,
    follow: bool,
    config: Path | None,
    flush_every: float,
    sample_every: float,
    poll: bool,
    poll_every: float,
    keep_days: float | None,
    segments: Path | None,
    dump: Path | None,
    as_json: bool,
) -> None:
    """Record the offsets topic, log ends and topics of a cluster into OUT, which `counterpoise audit` reads.

    Each record is stored once, even if the process is killed; run it again to continue. Nothing is written to the cluster.
    Needs Read and Describe on __consumer_offsets, and Describe on the topics; with --poll Describe on groups and topics.

    \b
    Examples:
      counterpoise capture --bootstrap-server broker:9092 --out history
      counterpoise capture --bootstrap-server broker:9092 --out history --follow --keep-days 30
      counterpoise capture --bootstrap-server broker:9092 --out history --follow --poll --poll-every 2
      counterpoise capture --from-segments /var/lib/kafka/data --out history
      counterpoise capture --from-dump dump.txt --out history
    """
    need("capture", "live", "confluent_kafka", "pyarrow")
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if segments is not None or dump is not None:
        named = "--from-dump" if segments is None else "--from-segments"
        if given - {"segments", "dump", "out", "as_json"} or (segments and dump):
            raise OptionError(f"{named} reads files: it goes with --out and --json only")
        _read_backup(segments, dump, out, as_json)
        return
    from counterpoise.pipeline.capture.poller import Poller
    from counterpoise.pipeline.capture.recorder import Recorder
    from counterpoise.pipeline.capture.recording import Schedule

    if "poll_every" in given and not poll:
        raise OptionError("--poll-every goes with --poll; give both, or none")
    schedule = Schedule(flush_every, sample_every, keep_days, poll_every)
    _record(Poller if poll else Recorder, cluster_settings(bootstrap, config), out, schedule, follow, as_json)


def _record(kind: type[Recorder | Poller], settings: Settings, out: str, schedule: Schedule, follow: bool, as_json: bool) -> None:
    err = console(stderr=True)
    line = Line("asking the cluster", console=err)
    shown_at, tell = time.monotonic(), trouble_lines()

    def show(status: Status) -> None:
        nonlocal shown_at
        if err.is_terminal:
            line.update(escape(visible(words_of(status))))
        elif follow and not as_json:
            tell(status)
        if as_json and follow and time.monotonic() - shown_at >= schedule.sample:
            shown_at = time.monotonic()
            click.echo(json.dumps(asdict(status)))

    running = kind(settings, out, schedule, show)
    with stopped_by_signals(running.stop):
        with line if err.is_terminal else nullcontext():
            status = running.run(follow=follow)
        # Signals are still caught: a second one must not end the process before the result is printed (`timeout` sends two).
        if as_json:
            click.echo(json.dumps({**asdict(status), "out": str(out)}))
        else:
            say(words_of(status))
            say(f"next: counterpoise audit {out} --out DIR")


def _read_backup(segments: Path | None, dump: Path | None, out: str, as_json: bool) -> None:
    found: SegmentCounts | DumpCounts
    if segments is not None:
        from counterpoise.pipeline.capture.backup.segments import from_segments

        found = parts = from_segments(segments, out)
        source, unread = f"{parts.segments} segments of {parts.partitions} partitions", "damaged stretches"
    else:
        from counterpoise.pipeline.capture.backup.dump_folder import from_dump

        if not dump or not dump.exists():
            raise OptionError(f"{dump}: no such file; give the text that kafka-dump-log --offsets-decoder printed")
        found = from_dump(dump, out)
        source, unread = f"{found.segments} segments", "unreadable"
    if as_json:
        click.echo(json.dumps({**asdict(found), "out": str(out)}))
        return
    hidden = f"{found.aborted} of aborted and {found.undecided} of open transactions"
    words = f"{found.records:,} records from {source}; {hidden}, {found.unreadable} {unread}"
    for line in (words, *found.faults[:10], f"next: counterpoise audit {out} --out DIR"):
        say(line)


def trouble_lines() -> Callable[[Status], None]:
    """Return a function that prints a line when a recording pauses, and when it resumes."""
    waits = False

    def tell(status: Status) -> None:
        nonlocal waits
        if bool(status.trouble) != waits:
            waits = not waits
            say(f"counterpoise: {status.trouble or 'recording again'}", err=True)

    return tell


def words_of(status: Status) -> str:
    """What a recording has done so far, in a line."""
    words = [f"{status.records:,} records written", f"{status.behind:,} behind", f"{status.groups:,} groups seen"]
    words += [f"{status.passed:,} offsets without a visible record"] if status.passed else []
    hidden = [line for line in status.hidden if "open transaction" in line]
    words += [f"{len(hidden)} partition(s) with a tail hidden by an open transaction"] if hidden else []
    words += [line for line in status.hidden if line not in hidden][:1]
    words += [status.trouble] if status.trouble else []
    return ", ".join(words)
