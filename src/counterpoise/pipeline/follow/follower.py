"""`audit --follow`: the stream that puts every rebalance into the tables at once, and the audits that go over it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from counterpoise.errors import SourceError
from counterpoise.pipeline.follow.audits import Aside, Audits, InSession, Job
from counterpoise.pipeline.follow.gauges import Now
from counterpoise.pipeline.follow.query import Steps, cause_of, reached, start_query
from counterpoise.pipeline.follow.seed import Samples, begin_with
from counterpoise.pipeline.follow.tail import HEAVY, Tail
from counterpoise.pipeline.incremental.journal import Journal
from counterpoise.pipeline.incremental.saved import load
from counterpoise.pipeline.schemas import STEP_STATES
from counterpoise.pipeline.source.layout import check_source

__all__ = ["Follow", "Pace", "Status"]

_LOOK_S = 0.5
_PATIENCE_S = 10.0
"""For an audit of an earlier run that has just lost its parent, and ends."""


@dataclass(frozen=True)
class Pace:
    """Seconds between two micro-batches, and between two audits; and how many offsets a micro-batch takes at most."""

    trigger: float = 1.0
    report: float = 300.0
    limit: int = 200_000


@dataclass
class Status:
    """Where following stands: what it does, steps it wrote, groups it knows, and audits it has made."""

    doing: str = "starting"
    steps: int = 0
    groups: int = 0
    audits: int = 0


class Follow:
    """One capture followed into one output folder.

    Parameters
    ----------
    spark : SparkSession
        With `query.FOLLOW_SETTINGS`, or such.
    source : path
        A capture folder, which something else writes.
    out : path
    cluster : str
    pace : Pace
    strategies, groups
        As for `update`.
    report : callable, optional
        ``report(status)``, twice a second.
    audits : Audits, optional
        Who makes the audits, of the same source, `out`, cluster, strategies and groups; default: this session.
    watch : callable, optional
        Called twice a second; what it raises ends following.

    Attributes
    ----------
    now : Now
        The figures.
    tail : Tail
        The live end of `rebalances`.
    status : Status
    reached : dict
        Log partition -> the offset up to which the stream has come.

    Notes
    -----
    What lasts is what an audit leaves (`update`): tables, positions and the states of groups, made visible by one journal.
    A start audits what is there and begins the stream behind it, with these states; the stream's own checkpoint serves one run.
    So a backlog is the batch's, which is made for it, and whatever ends the process, no step is lost and none is there twice.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: str | Path,
        out: str | Path,
        *,
        cluster: str = "default",
        pace: Pace | None = None,
        strategies: tuple[str, ...] | None = None,
        groups: tuple[str, ...] = (),
        report: Callable[[Status], None] | None = None,
        audits: Audits | None = None,
        watch: Callable[[], None] | None = None,
    ) -> None:
        check_source(source)
        self._spark, self._source, self._out, self._cluster = spark, Path(source), Path(out), cluster
        self._pace, self._groups = pace or Pace(), groups
        self._audits = audits or InSession(spark, Job(self._source, self._out, cluster, strategies, groups))
        self._report, self._watch = report or _nothing, watch or (lambda: None)
        self._stopped = threading.Event()
        self._journal = Journal(self._out)
        self._samples = Samples(self._source)
        self.status = Status()
        self.reached: dict[str, int] = {}
        self.now = Now()
        self.tail = Tail(self._out)

    def stop(self) -> None:
        """Ask a running `run` to return; may be called from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Follow until `stop`; an audit that is under way then is given up, the next start makes it.

        Raises
        ------
        CaptureError
        OptionError
            As `update`; another audit writes to the same folder.
        SourceError
            The stream has failed.
        """
        with self._journal.open(_PATIENCE_S):
            try:
                self._wait_for(Aside(partial(self._audit, beside=False)), "auditing what is recorded")
                if not self._stopped.is_set():
                    self._stream()
            except BaseException:
                self._audits.give_up()
                raise

    def _stream(self) -> None:
        self.tail.clear()
        begin_with(self.now, self._out, self._cluster, self._aborted())
        query = self.start()
        try:
            self._follow(query)
        finally:
            query.stop()

    def _follow(self, query: Any) -> None:
        due, audit = time.monotonic() + self._pace.report, None
        while not self._stopped.wait(_LOOK_S):
            self._look(query)
            self._tell("following" if audit is None else "following, auditing")
            if audit is not None and audit.done:
                audit.end()
                audit, due = None, time.monotonic() + self._pace.report
            elif audit is None and (time.monotonic() >= due or self.tail.weight > HEAVY):
                audit = Aside(partial(self._audit, beside=True))
        if audit is not None:
            self._wait_for(audit, "stopping")

    def _wait_for(self, work: Aside, doing: str) -> None:
        while not work.wait(_LOOK_S):
            self._tell(doing)
            self._watch()
            if self._stopped.is_set():
                self._audits.give_up()
        try:
            work.end()
        except Exception:
            if not self._stopped.is_set():
                raise

    def _audit(self, *, beside: bool) -> None:
        """Bring all tables up to date; the live end of `rebalances` begins behind it."""
        self._audits.run(self._journal, self.tail.handed_over, beside=beside)
        self.status.audits += 1

    def start(self, *, available_now: bool = False) -> Any:
        """Start the stream where the last audit ended (or at the beginning, if there was none); a query of Spark's."""
        saved = load(self._journal.root / "state.json")
        positions = {} if saved is None else saved.clusters[self._cluster].positions
        records = Steps(self._source, positions, self._cluster, self._groups, self._aborted(), self._pace.limit)
        states = None if saved is None else self._states(saved.number)
        trigger = None if available_now else self._pace.trigger
        return start_query(self._spark, records, states, self._journal.root / "checkpoint", trigger, self._write)

    def _write(self, finished: list[dict[str, Any]], unfinished: list[dict[str, Any]], commits: list[dict[str, Any]]) -> None:
        """One micro-batch to the tables and to the figures; done again, it is the same."""
        self.tail.add(finished, unfinished)
        rows = [*finished, *unfinished]
        for row in sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"])):
            self.now.step(row)
        for row in sorted(commits, key=lambda row: (row["log_partition"], row["log_offset"])):
            self.now.commit(self._cluster, row)
        self.status.steps += len(finished)

    def sample(self) -> None:
        """Take the newest log ends into the figures."""
        found = self._samples.newest()
        if found is not None:
            self.now.sampled(self._cluster, *found)

    def _look(self, query: Any) -> None:
        self._watch()
        self.sample()
        failure = query.exception()
        if failure is not None or not query.isActive:
            words = "it ended" if failure is None else cause_of(str(failure))
            raise SourceError(f"{self._source}: the stream has failed ({words}); start again, nothing is lost") from failure
        self.reached = reached(query) or self.reached

    def _tell(self, doing: str) -> None:
        self.status.doing, self.status.groups = doing, len(self.now.groups)
        self._report(self.status)

    def _states(self, number: int) -> DataFrame:
        # A copy: the next audit takes the folder away, while Spark may look at it again.
        kept = self._journal.root / "begin"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._journal.root / f"steps-{number:08d}", kept)
        return self._spark.read.schema(STEP_STATES).parquet(str(kept.absolute()))

    def _aborted(self) -> list[tuple[int, int]]:
        file = self._source / "aborted_offsets.json"
        return [(pair[0], pair[1]) for pair in json.loads(file.read_bytes())] if file.is_file() else []


def _nothing(_: Any) -> None:
    """Nobody listens."""
