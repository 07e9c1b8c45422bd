"""`audit --follow`: updates of the tables, one after the other, and gauges that are read from the tables after each."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from counterpoise.errors import CounterpoiseError, SourceError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.follow.gauges import Gauges
from counterpoise.pipeline.gateway import JVM_ENDED, jvm_ended
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.tables.catalog import Catalog
from counterpoise.pipeline.tables.transaction import TableTransaction

__all__ = ["Follow", "Status", "cause_of"]

_POLL_S = 0.25
STALE_S = 600.0
"""Seconds after which an update that has not ended is trouble; the first update of a start may take longer."""
_SIGTERM_S = 1.0
"""Seconds that an update which failed waits for `stopped`: SIGTERM goes to all processes, and may end a Python worker first."""
_ERROR = re.compile(r"(?!java\.|org\.|py4j\.|pyspark\.)[\w.]+(Error|Exception)\b")
"""The last line of a Python traceback, if its error is not of Java or Spark."""


@dataclass
class Status:
    """The current activity, and the numbers of stored updates, of groups with gauges, and of written reports."""

    doing: str = "starting"
    updates: int = 0
    groups: int = 0
    reports: int = 0


class Follow:
    """Keeps one output folder up to date while its captures grow; options are those of `audit`.

    An update is one `audit` with `since_last`; it writes nothing if the captures have not changed. If the process ends at any
    time, no row is lost or duplicated: one manifest makes tables and the state for the next update visible.

    `sources`: cluster name -> capture folder, which another process or thread writes. `write_report` writes the report from the
    tables; it is called after updates with new records, at most every `report_every` seconds. An update begins at the earliest
    `trigger` seconds after the one before. ``on_status(status)`` and ``watch()`` are called several times a second; their
    exceptions end `run`. `stopped`: whoever sets this event ends `run`.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, str | Path],
        out: str | Path,
        *,
        trigger: float = 1.0,
        report_every: float = 300.0,
        strategies: tuple[str, ...] | None = None,
        scope: AuditScope | None = None,
        salt: str | None = None,
        into: Catalog | None = None,
        write_report: Callable[[], object] | None = None,
        on_status: Callable[[Status], None] | None = None,
        watch: Callable[[], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> None:
        self._spark, self._sources, self._out = spark, dict(sources), str(out)
        self._trigger, self._report_every = trigger, report_every
        self._options: dict[str, Any] = {"strategies": strategies, "scope": scope, "salt": salt, "into": into}
        self._write_report, self._on_status, self._watch = write_report or _nothing, on_status or _nothing, watch or _nothing
        self._stopped = stopped or threading.Event()
        self._failed: Exception | None = None
        self._transaction = TableTransaction(self._out, private=salt is not None)
        self._began: float | None = None
        self.status = Status()
        self.gauges = Gauges(sources)

    def trouble(self) -> str | None:
        """Why the tables are not kept up to date; None: they are, as far as this process can know."""
        lasted = 0.0 if self._began is None or self.status.doing != "following" else time.monotonic() - self._began
        if self._failed is not None:
            return f"failed: {self._failed}"
        return f"the last update began {lasted:.0f} s ago and has not ended" if lasted > STALE_S else None

    def run(self) -> None:
        """Run updates until `stopped` is set, which cancels a running update; the next start repeats it.

        Raises what `audit` raises, also if another audit writes to the same folder; `SourceError` if an update failed in Spark or
        the JVM has ended.
        """
        with self._transaction.open():
            worker = InheritableThread(target=self._work, name="counterpoise-updates", session=self._spark)
            worker.start()
            try:
                while worker.is_alive():
                    worker.join(_POLL_S)
                    self._on_status(self.status)
                    self._watch()
                    if self._stopped.is_set():
                        self._cancel()
            finally:
                self._stopped.set()
                while worker.is_alive():
                    self._cancel()
                    worker.join(_POLL_S)
        if self._failed is not None:
            raise self._failed

    def _work(self) -> None:
        try:
            self._updates()
        except Exception as error:  # noqa: BLE001 - raised by `run`, in the thread that waits
            if self._stopped.wait(_SIGTERM_S):
                return
            self._failed = error
            if not isinstance(error, CounterpoiseError) or jvm_ended():
                where = ", ".join(map(str, self._sources.values()))
                reason = JVM_ENDED if jvm_ended() else cause_of(str(error))
                self._failed = SourceError(f"{where}: an update has failed ({reason}); start again, nothing is lost")
                if not isinstance(error, OSError):  # an OSError in the chain gives exit code 3
                    failure = OSError(reason)
                    failure.__cause__, error = error, failure
                self._failed.__cause__ = error

    def _updates(self) -> None:
        self.status.doing = "reading what is recorded"
        due, stale = 0.0, True
        while not self._stopped.is_set():
            self._began = start = time.monotonic()
            result = audit(self._spark, self._sources, self._out, since_last=True, held=self._transaction, **self._options)
            if not result.nothing_new or self.status.doing != "following":
                self.gauges.refresh(self._transaction.manifest)
                self.status.updates += 0 if result.nothing_new else 1
                self.status.groups = len(self.gauges.groups)
                stale = True
            self.status.doing = "following"
            if stale and time.monotonic() >= due:
                self._write_report()
                self.status.reports += 1
                due, stale = time.monotonic() + self._report_every, False
            self._began = start + self._trigger  # the next one: a pause is no trouble, however long
            self._wait(start + self._trigger)

    def _wait(self, until: float) -> None:
        """Return at this time or if stopped. OSError if the JVM has ended: an update that finds nothing new does not call it."""
        while not self._stopped.wait(max(0.0, min(_POLL_S, until - time.monotonic()))):
            if jvm_ended():
                raise OSError(JVM_ENDED)
            if time.monotonic() >= until:
                return

    def _cancel(self) -> None:
        self.status.doing = "stopping"
        with suppress(Exception):  # without a JVM there is no job
            self._spark.interruptAll()  # the session has no other jobs; tags are per thread


def cause_of(text: str) -> str:
    """The cause in an error message of Spark: the last error of Python's tracebacks, or else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no words"]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors[-1] if errors else lines[0])[:300]


def _nothing(*_: Any) -> None:
    """The default callback."""
