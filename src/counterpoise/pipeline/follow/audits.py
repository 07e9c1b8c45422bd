"""The audits behind the stream: what they are asked for, and those that run in the stream's own session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from counterpoise.pipeline.incremental.journal import HandOver, Journal
from counterpoise.pipeline.incremental.update import update
from counterpoise.pipeline.source.choice import Choice

__all__ = ["Aside", "Audits", "InSession", "Job"]

_JOBS = "counterpoise-audit"


@dataclass(frozen=True)
class Job:
    """What every audit of one follow is about: arguments of `update`."""

    source: Path
    out: Path
    cluster: str = "default"
    strategies: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ()


class Audits(Protocol):
    """Whoever makes the audits."""

    def run(self, journal: Journal, handover: HandOver, *, beside: bool) -> None:
        """Make one, and return when it is stored; `beside`: the stream runs meanwhile, and goes first."""

    def give_up(self) -> None:
        """End the one that is under way, or about to begin; may be called from another thread, and again."""


class InSession:
    """Audits in a session that is there.

    Parameters
    ----------
    spark : SparkSession
    job : Job

    Notes
    -----
    The stream's tasks and the audit's share cores and memory, so that a micro-batch waits while an audit runs; see `apart.Apart`.
    """

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark, self._job = spark, job

    def run(self, journal: Journal, handover: HandOver, *, beside: bool) -> None:  # noqa: ARG002 - one session, one priority
        """As `Audits`."""
        job = self._job
        self._spark.sparkContext.setJobGroup(_JOBS, "counterpoise audit --follow", interruptOnCancel=True)
        update(
            self._spark,
            {job.cluster: job.source},
            job.out,
            strategies=job.strategies,
            choice=Choice(job.groups),
            held=journal,
            handover=handover,
        )

    def give_up(self) -> None:
        """As `Audits`."""
        self._spark.sparkContext.cancelJobGroup(_JOBS)


class Aside:
    """Work in a thread of its own, so that whoever waits for it can be told to stop."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._failed: BaseException | None = None
        self._thread: threading.Thread = InheritableThread(target=self._run)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether it has ended."""
        self._thread.join(seconds)
        return self.done

    def end(self) -> None:
        """Wait for its end; raises what it raised."""
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised by `end`, in the thread that waits
            self._failed = error
