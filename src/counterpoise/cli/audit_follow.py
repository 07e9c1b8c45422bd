"""`counterpoise audit --follow`: the audit that goes on until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.status import Status as Line

from counterpoise.cli.inputs import cluster_settings, need
from counterpoise.cli.render import console, say
from counterpoise.errors import CaptureError, MissingExtraError, OptionError

if TYPE_CHECKING:
    from counterpoise.pipeline.capture.settings import Settings
    from counterpoise.pipeline.follow.follower import Status

__all__ = ["Wanted", "check_together", "follow"]

_AUDIT = (sys.executable, "-m", "counterpoise.cli.follow_audit")
_ALONE = ("--topic", "--from", "--to", "--reset", "--anonymize", "--into", "--json")
_FOLLOWING = ("--bootstrap-server", "--command-config", "--metrics-port", "--trigger", "--report-every")
FLUSH_S, SAMPLE_S = 0.5, 15.0
"""Of the capture that runs beside, in seconds."""


@dataclass(frozen=True)
class Wanted:
    """What `--follow` is given: a capture folder, or a cluster to record; names; a port; and how often what happens."""

    source: str | None
    out: Path
    cluster: str
    strategies: tuple[str, ...] | None
    groups: tuple[str, ...]
    bootstrap: str | None
    config: Path | None
    port: int | None
    trigger: float
    report_every: float


def check_together(following: bool, given: Mapping[str, object]) -> None:
    """Whether options that are given go together.

    Raises
    ------
    OptionError
    """
    only = [name for name in _FOLLOWING if given.get(name) is not None]
    if only and not following:
        raise OptionError(f"{only[0]} goes with --follow; give both, or none")
    if not following:
        return
    if given["--since"]:
        raise OptionError("--since and --follow: give one of them; following begins where the last audit into OUT ended anyway")
    wrong = [name for name in _ALONE if given.get(name)]
    if wrong:
        raise OptionError(f"{wrong[0]} does not go with --follow, which keeps up tables of all there is; leave it out")


def follow(wanted: Wanted) -> None:
    """Follow until SIGTERM or Ctrl-C.

    Raises
    ------
    CounterpoiseError
    """
    metrics = () if wanted.port is None else ("prometheus_client",)
    need("--follow", "follow", "pyspark", "pyarrow", "confluent_kafka", "google.protobuf", *metrics)
    settings = _settings(wanted)
    if (wanted.source is None) == (settings is None):
        raise OptionError("--follow: give one capture folder that is being written, or --bootstrap-server")
    if "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
        raise OptionError("--follow needs a Spark session of its own: start it without SPARK_REMOTE and spark-submit")
    try:
        from counterpoise.pipeline.follow.follower import Follow, Pace
        from counterpoise.pipeline.follow.query import FOLLOW_SETTINGS
    except ImportError:
        raise MissingExtraError("--follow needs pyspark 4.2 or newer: pip install 'counterpoise[follow]'") from None
    from counterpoise.pipeline.follow.apart import Apart
    from counterpoise.pipeline.follow.audits import Job
    from counterpoise.pipeline.gateway import without_sigterm
    from counterpoise.pipeline.session import local_session
    from counterpoise.pipeline.source.layout import check_source

    folder = wanted.out / "capture" if wanted.source is None else Path(wanted.source)
    with _recorded(settings, folder) as watch, _shown() as show:
        check_source(folder)
        with without_sigterm():
            spark, made = local_session(FOLLOW_SETTINGS, records=0)
        job = Job(folder, wanted.out, wanted.cluster, wanted.strategies, wanted.groups)
        try:
            running = Follow(
                spark,
                folder,
                wanted.out,
                cluster=wanted.cluster,
                pace=Pace(wanted.trigger, wanted.report_every),
                strategies=wanted.strategies,
                groups=wanted.groups,
                report=show,
                audits=Apart(job, _AUDIT),
                watch=watch,
            )
            with _until_told(running.stop), _served(running.now, wanted.port):
                running.run()
        finally:
            if made:
                spark.stop()


@contextmanager
def _until_told(stop: Callable[[], None]) -> Iterator[None]:
    before = {each: signal.signal(each, lambda *_: stop()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _served(now: Any, port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    from counterpoise.pipeline.follow.openmetrics import serve

    end = serve(now, port)
    try:
        yield
    finally:
        end()


@contextmanager
def _recorded(settings: Settings | None, folder: Path) -> Iterator[Callable[[], None]]:
    """While following a cluster: its history recorded into `folder`; gives what raises when recording has failed."""
    if settings is None:
        yield lambda: None
        return
    from counterpoise.pipeline.capture.recorder import Recorder, Schedule
    from counterpoise.pipeline.gateway import without_sigterm

    schedule = Schedule(flush=FLUSH_S, sample=SAMPLE_S)
    # Up to now first: there must be something to read, and what is wrong with the cluster is said before Spark starts.
    Recorder(settings, folder, schedule).run(follow=False)
    recorder = Recorder(settings, folder, schedule)
    failed: list[BaseException] = []

    def record() -> None:
        try:
            recorder.run(follow=True)
        except BaseException as error:  # noqa: BLE001 - told by `watch`, in the thread that follows
            failed.append(error)

    def watch() -> None:
        if failed:
            raise CaptureError(f"{folder}: recording has ended ({failed[0]}); start again, nothing is lost") from failed[0]

    thread = threading.Thread(target=record, name="counterpoise-capture")
    with without_sigterm():  # So that the main thread is the one that hears it.
        thread.start()
    try:
        yield watch
    finally:
        recorder.stop()
        thread.join()


@contextmanager
def _shown() -> Iterator[Callable[[Status], None]]:
    """One line that says how it goes; where nobody looks at a terminal, a line for every change of what it does."""
    err = console(stderr=True)
    line = Line("starting Spark", console=err)
    last = ""

    def show(status: Status) -> None:
        nonlocal last
        words = f"{status.doing}: {status.steps:,} steps written, {status.groups:,} groups, {status.audits:,} audits"
        if err.is_terminal:
            line.update(escape(words))
        elif status.doing != last:
            say(words, err=True)
        last = status.doing

    if err.is_terminal:
        line.start()
    try:
        yield show
    finally:
        line.stop()


def _settings(wanted: Wanted) -> Settings | None:
    if wanted.bootstrap is None and wanted.config is None:
        return None
    return cluster_settings(wanted.bootstrap, wanted.config)
