"""`counterpoise audit --follow`: the audit that runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.status import Status as Line

from counterpoise.cli.capture_command import trouble_lines
from counterpoise.cli.inputs import need, stopped_by_signals
from counterpoise.cli.render import console, say

if TYPE_CHECKING:
    from counterpoise.pipeline.capture.settings import Settings
    from counterpoise.pipeline.follow.follower import Status

__all__ = ["follow"]

FLUSH_S, SAMPLE_S = 0.5, 15.0
"""Seconds between two files, and between two samples of log ends, of the capture that runs alongside."""


def follow(
    captures: Mapping[str, str],
    out: str,
    *,
    settings: Settings | None,
    address: tuple[str, int | None],
    pace: tuple[float, float],
    **options: Any,
) -> None:
    """Follow `captures` until SIGTERM or Ctrl-C; with `settings`, also record that cluster into the only capture.

    `pace` has the seconds between two reads of the captures, and between two reports; metrics are served at `address`.
    """
    host, port = address
    need("--follow", "follow", *(() if port is None else ("prometheus_client",)))
    from counterpoise.pipeline.audit import check_out
    from counterpoise.pipeline.follow.follower import Follow
    from counterpoise.pipeline.gateway import sigterm_deferred
    from counterpoise.pipeline.session import local_session
    from counterpoise.pipeline.source.capture import read_capture
    from counterpoise.pipeline.tables.catalog import check_lasting
    from counterpoise.report.render import write_report

    check_out(out, options["salt"], since_last=True)
    stopped = threading.Event()
    with stopped_by_signals(stopped.set), _recorded(settings, next(iter(captures.values())), stopped) as watch, _shown() as show:
        if stopped.is_set():
            return
        for one in captures.values():
            read_capture(one)
        with sigterm_deferred():
            spark, made = local_session(records=0)
        try:
            if made and options["into"] is not None:
                check_lasting(spark, options["into"])
            report = partial(write_report, out)
            callbacks: dict[str, Any] = {"write_report": report, "on_status": show, "watch": watch}
            trigger, every = pace
            running = Follow(spark, captures, out, trigger=trigger, report_every=every, stopped=stopped, **callbacks, **options)
            with ExitStack() as served:
                if port is not None:
                    from counterpoise.pipeline.follow.openmetrics import serve

                    served.callback(serve(running.gauges, port, host, running.trouble))
                running.run()
        finally:
            if made:
                with suppress(Exception):  # A JVM that is gone cannot be stopped; the error of `run` says why it is gone.
                    spark.stop()


@contextmanager
def _recorded(settings: Settings | None, folder: str, stopped: threading.Event) -> Iterator[Callable[[], None]]:
    """Record what there is now into `folder`, and go on in a thread within the block.

    Yields a function that raises the error with which the thread has ended. A signal before the block ends the recording at once,
    and sets `stopped`.
    """
    if settings is None:
        yield lambda: None
        return
    from counterpoise.pipeline.capture.recorder import Recorder
    from counterpoise.pipeline.capture.recording import Schedule
    from counterpoise.pipeline.gateway import sigterm_deferred

    schedule = Schedule(flush=FLUSH_S, sample=SAMPLE_S)
    # Catch up first: the audit needs something to read, and errors of the cluster appear before Spark starts.
    try:
        with stopped_by_signals(partial(signal.default_int_handler, signal.SIGINT, None)):  # raises KeyboardInterrupt
            Recorder(settings, folder, schedule).run(follow=False)
    except KeyboardInterrupt:
        stopped.set()
    if stopped.is_set():
        yield lambda: None
        return
    recorder = Recorder(settings, folder, schedule, trouble_lines())
    pool = ThreadPoolExecutor(1, "counterpoise-capture")
    with sigterm_deferred():  # So that the main thread receives it.
        running = pool.submit(recorder.run, follow=True)

    def watch() -> None:
        if running.done():
            running.result()

    try:
        yield watch
    finally:
        recorder.stop()
        pool.shutdown()
    watch()  # The last write, after `stop`, may fail too.


@contextmanager
def _shown() -> Iterator[Callable[[Status], None]]:
    """Show the status in one line of the terminal; without a terminal, print a line for each change."""
    err = console(stderr=True)
    line = Line("starting Spark", console=err)
    last = ""

    def show(status: Status) -> None:
        nonlocal last
        words = f"{status.doing}: {status.updates:,} updates, {status.groups:,} groups, {status.reports:,} reports"
        if err.is_terminal:
            line.update(escape(words))
        elif status.doing != last:
            say(words, err=True)
        last = status.doing

    with line if err.is_terminal else nullcontext():
        yield show
