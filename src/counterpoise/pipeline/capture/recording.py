"""The common base of recordings of the offsets topic and by polls: schedule, status, and writing."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from counterpoise.pipeline.capture.cluster import Cluster
from counterpoise.pipeline.capture.columns import TOPICS_FILE
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, reason_of
from counterpoise.pipeline.capture.sampler import Sample, sample_batch
from counterpoise.pipeline.capture.settings import Settings

__all__ = ["Recording", "Schedule", "Status"]


@dataclass(frozen=True)
class Schedule:
    """Seconds between two writes, two samples and two polls; days after which records are dropped, None: never."""

    flush: float = 10.0
    sample: float = 30.0
    keep_days: float | None = None
    poll: float = 5.0


@dataclass
class Status:
    """The status of a recording."""

    records: int = 0  # Number of records that this run wrote
    behind: int = 0  # Number of readable offsets that are not read yet
    groups: int = 0  # Number of distinct groups in the records of this run
    passed: int = 0  # Number of offsets without a visible record: markers and aborted records of transactions, compacted records
    hidden: list[str] = field(default_factory=list)  # One sentence per partition with an open transaction
    trouble: str = ""  # The error for which it waits; empty: none


class Recording(ABC):
    """One recording into the folder `out`, a path or URI.

    ``report(status)`` is called about twice a second, or after each poll.
    """

    def __init__(
        self, settings: Settings, out: str | Path, schedule: Schedule, report: Callable[[Status], None] | None = None
    ) -> None:
        self._settings, self._out, self._schedule = settings, out, schedule
        self._report: Callable[[Status], None] = report or (lambda _: None)
        self._stop = threading.Event()
        self._cluster = Cluster(settings)
        self._pending: list[pa.RecordBatch] = []
        self._folder: CaptureFolder  # opened by `run`
        self.status = Status()

    def stop(self) -> None:
        """Ask a running `run` to write its records and return; may be called from a signal handler."""
        self._stop.set()

    @abstractmethod
    def run(self, *, follow: bool) -> Status:
        """Record up to now, or with `follow` until `stop`."""

    @property
    @abstractmethod
    def _position(self) -> dict[str, Any]:
        """The position of the next run, when all pending records are written."""

    def _facts(self) -> dict[str, Any]:
        """What changes in ``capture.json`` with the pending records."""
        return {}

    def _write_sample(self, taken: Sample, **facts: Any) -> None:
        self._folder.samples.append([sample_batch(taken)], {})
        self._folder.write_json(TOPICS_FILE, taken.topics)
        self._folder.update_about(**{"sampled_at": taken.at, "hidden": self.status.hidden, **facts})

    def _write(self, *, patient: bool) -> None:
        """Append pending records; if the disk is full, wait if `patient` (without reading more), else raise."""
        while self._pending or not self._folder.records.pieces:
            try:
                if facts := self._facts():
                    self._folder.update_about(**facts)
                self._folder.records.append(self._pending, self._position)
            except CANNOT_WRITE as error:
                self.status.trouble = f"cannot write ({reason_of(error)}); waiting for space"
                self._folder.free()
                self._report(self.status)
                if not patient or self._stop.wait(1.0):
                    raise
            else:
                self.status.records += sum(map(len, self._pending))
                self._pending = []
                self.status.trouble = ""

    def _merge_and_drop(self, *, drop: bool = True) -> None:
        days = self._schedule.keep_days if drop else None
        self._folder.merge_and_drop(None if days is None else time.time() - 86_400 * days)
