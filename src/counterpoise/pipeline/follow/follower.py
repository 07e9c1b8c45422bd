"""`audit --follow`: many small updates of the tables, one after the other, and figures read from what each has written."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from counterpoise.errors import CounterpoiseError, SourceError
from counterpoise.pipeline.audit import audit
from counterpoise.pipeline.follow.gauges import Gauges
from counterpoise.pipeline.source.layout import check_source
from counterpoise.pipeline.source.scope import AuditScope
from counterpoise.pipeline.stored.catalog import Catalog
from counterpoise.pipeline.stored.transaction import TableTransaction

__all__ = ["Follow", "Pace", "Status", "cause_of"]

_LOOK_S = 0.25
_LAST_WORD_S = 1.0
"""A service manager sends SIGTERM to all processes at once: a worker may end before this process has heard of it."""
_JOBS = "counterpoise-follow"
_ERROR = re.compile(r"(?!java\.|org\.|py4j\.|pyspark\.)[\w.]+(Error|Exception)\b")
"""How the last line of a Python traceback begins."""


@dataclass(frozen=True)
class Pace:
    """Seconds between two looks at the captures, and between two reports."""

    trigger: float = 1.0
    report: float = 300.0


@dataclass
class Status:
    """Where following stands: what it does, how many updates were stored, how many groups have figures, how many reports."""

    doing: str = "starting"
    updates: int = 0
    groups: int = 0
    reports: int = 0


class Follow:
    """Captures followed into one output folder.

    Parameters
    ----------
    spark : SparkSession
    sources : mapping
        Cluster name -> capture folder, which something else writes.
    out : path
    pace : Pace
    strategies, scope, salt, into
        As for `audit`.
    page : callable, optional
        Writes the report from the tables; called when something is new, every `Pace.report` seconds at most.
    report : callable, optional
        ``report(status)``, some times a second.
    watch : callable, optional
        Called some times a second; what it raises ends following.

    Attributes
    ----------
    gauges : Gauges
        Figures of the groups, as of the last update.
    status : Status

    Notes
    -----
    Each look is one `audit` with `since_last`; it writes nothing if the captures have not changed. What ends the process at any
    moment loses no row and doubles none: tables and the state for the next update become visible by one manifest.
    """

    def __init__(
        self,
        spark: SparkSession,
        sources: Mapping[str, str | Path],
        out: str | Path,
        *,
        pace: Pace | None = None,
        strategies: tuple[str, ...] | None = None,
        scope: AuditScope | None = None,
        salt: str | None = None,
        into: Catalog | None = None,
        page: Callable[[], object] | None = None,
        report: Callable[[Status], None] | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        for one in sources.values():
            check_source(one)
        self._spark, self._sources, self._out, self._pace = spark, dict(sources), str(out), pace or Pace()
        self._options: dict[str, Any] = {"strategies": strategies, "scope": scope, "salt": salt, "into": into}
        self._page, self._report, self._watch = page or _nothing, report or _nothing, watch or _nothing
        self._stopped = threading.Event()
        self._failed: Exception | None = None
        self._transaction = TableTransaction(self._out, private=salt is not None)
        self.status = Status()
        self.gauges = Gauges(sources)

    def stop(self) -> None:
        """Ask a running `run` to return; may be called from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Follow until `stop`. An update that is under way then is given up: the next start makes it.

        Raises
        ------
        CaptureError
        OptionError
            As `audit`; another audit writes to the same folder.
        SourceError
            Spark has failed.
        """
        with self._transaction.open():
            worker = InheritableThread(target=self._work, name="counterpoise-updates")
            worker.start()
            try:
                while worker.is_alive():
                    worker.join(_LOOK_S)
                    self._report(self.status)
                    self._watch()
                    if self._stopped.is_set():
                        self._give_up()
            finally:
                self._stopped.set()
                while worker.is_alive():
                    self._give_up()
                    worker.join(_LOOK_S)
        if self._failed is not None:
            raise self._failed

    def _work(self) -> None:
        try:
            self._spark.sparkContext.setJobGroup(_JOBS, "counterpoise audit --follow", interruptOnCancel=True)
            self._updates()
        except Exception as error:  # noqa: BLE001 - raised by `run`, in the thread that waits
            if self._stopped.wait(_LAST_WORD_S):
                return
            known = isinstance(error, CounterpoiseError)
            self._failed = error if known else self._failure(error)

    def _updates(self) -> None:
        self.status.doing = "reading what is recorded"
        due, stale = 0.0, True
        while not self._stopped.is_set():
            begun = time.monotonic()
            result = audit(self._spark, self._sources, self._out, since_last=True, held=self._transaction, **self._options)
            if not result.nothing_new or self.status.doing != "following":
                self.gauges.refresh(self._transaction.manifest)
                self.status.updates += 0 if result.nothing_new else 1
                self.status.groups = len(self.gauges.groups)
                stale = True
            self.status.doing = "following"
            if stale and time.monotonic() >= due:
                self._page()
                self.status.reports += 1
                due, stale = time.monotonic() + self._pace.report, False
            self._stopped.wait(max(0.0, begun + self._pace.trigger - time.monotonic()))

    def _give_up(self) -> None:
        self.status.doing = "stopping"
        try:
            self._spark.sparkContext.cancelJobGroup(_JOBS)
        except Exception:  # noqa: BLE001 - without a JVM there is no job
            self._stopped.set()

    def _failure(self, error: Exception) -> SourceError:
        where = ", ".join(map(str, self._sources.values()))
        found = SourceError(f"{where}: an update has failed ({cause_of(str(error))}); start again, nothing is lost")
        found.__cause__ = error
        return found


def cause_of(words: str) -> str:
    """What went wrong, of all that Spark says: the last error of Python's tracebacks, or else the first line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()] or ["no words"]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors[-1] if errors else lines[0])[:300]


def _nothing(*_: Any) -> None:
    """Nobody listens."""
