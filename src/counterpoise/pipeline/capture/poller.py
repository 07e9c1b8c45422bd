"""The polling loop, for clusters that hide the offsets topic: look at all groups, write what changed, sample, tidy."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import CaptureError, SourceError
from counterpoise.pipeline.capture.cluster import Cluster
from counterpoise.pipeline.capture.columns import ARROW, OFFSETS_TOPIC
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, why
from counterpoise.pipeline.capture.group_poll import look, nothing_visible
from counterpoise.pipeline.capture.polled_records import PolledHistory
from counterpoise.pipeline.capture.recorder import Schedule, Status
from counterpoise.pipeline.capture.sampler import Sample, sample, sample_batch
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.records.place import POLLED

__all__ = ["Poller"]

_FAULTS = 20
"""So many of the groups that cannot be read are named in capture.json."""


class Poller:
    """One recording by polls into one folder.

    Parameters
    ----------
    settings : Settings
    out : Path
    every : float
        Seconds between two looks.
    schedule : Schedule
    report : callable, optional
        ``report(status)`` after each look.

    Notes
    -----
    What was last written is read from the folder when it starts, so a run that was stopped or killed goes on with what has
    changed since. A change is dated by the look that first saw it: up to `every` seconds late.
    """

    def __init__(
        self,
        settings: Settings,
        out: str | Path,
        every: float,
        schedule: Schedule,
        report: Callable[[Status], None] | None = None,
    ) -> None:
        self._out, self._every, self._schedule, self._report = out, every, schedule, report
        self._stop = threading.Event()
        self._cluster = Cluster(settings)
        self._history = PolledHistory()
        self._topic_ids: dict[str, bytes] = {}
        self._pending: list[pa.RecordBatch] = []
        self._next = self._polls = self._unsettled = 0
        self.status = Status()

    def stop(self) -> None:
        """Ask a running `run` to write what it has and return; may be called from a signal handler."""
        self._stop.set()

    def run(self, *, follow: bool) -> Status:
        """Look once, or with `follow` until `stop`.

        Raises
        ------
        SourceError
            The cluster cannot be asked, or shows no group (at the start; later a recording that follows waits).
        CaptureError
            The folder cannot be written, or holds something else.
        """
        folder = CaptureFolder(self._out)
        with folder.held():
            self._begin(folder)
            flushed = sampled = time.monotonic()
            while True:
                due = time.monotonic() + self._every
                self._look(folder, patient=follow and self._polls > 0)
                if time.monotonic() - sampled >= self._schedule.sample:
                    sampled = time.monotonic()
                    self._sample(folder)
                if self._pending and time.monotonic() - flushed >= self._schedule.flush:
                    flushed = time.monotonic()
                    self._write(folder, patient=follow)
                if self._report is not None:
                    self._report(self.status)
                if not follow or self._stop.wait(max(0.0, due - time.monotonic())):
                    break
            self._write(folder, patient=False)
            self._tidy(folder)
        return self.status

    def _begin(self, folder: CaptureFolder) -> None:
        cluster_id = self._cluster.cluster_id
        about = folder.about
        if about and about.get("source") != "poll":
            raise CaptureError(f"{self._out}: holds a history from the offsets topic or a backup; give another folder")
        if about.get("cluster_id", cluster_id) != cluster_id:
            raise CaptureError(f"{self._out}: holds the history of another cluster; give another folder")
        self._next, self._polls = folder.records.state.get("next", 0), 0
        self._history = PolledHistory(_recorded(folder))
        facts = {"format": 1, "topic": OFFSETS_TOPIC, "source": "poll", "cluster_id": cluster_id, "complete": False}
        folder.say(**facts, started_at=about.get("started_at", time.time()), hidden=[])
        folder.write_json("aborted_offsets.json", [])
        self._keep(folder, sample(self._cluster))

    def _look(self, folder: CaptureFolder, *, patient: bool) -> None:
        try:
            seen = look(self._cluster)
        except SourceError as error:
            if not patient:
                raise
            self.status.trouble = str(error)
            return
        if not seen.groups and not self.status.groups and not folder.records.pieces and not patient:
            raise nothing_visible(self._cluster)
        now_ms = time.time_ns() // 1_000_000
        told = self._history.changes(seen.groups, self._topic_ids, now_ms)
        told += self._history.gone(seen.names) if seen.names is not None else []
        if told:
            self._pending.append(self._batch(told, now_ms))
        self._polls += 1
        self._unsettled += sum(not group.settled for group in seen.groups)
        self.status.groups, self.status.trouble = len(seen.groups), ""
        notes = [*seen.faults[:_FAULTS], *([f"{len(seen.faults)} faults in all"] if len(seen.faults) > _FAULTS else [])]
        self.status.hidden = notes

    def _batch(self, told: list[tuple[bytes, bytes | None]], now_ms: int) -> pa.RecordBatch:
        count = len(told)
        first, self._next = self._next, self._next + count
        columns = [
            pa.array([key for key, _ in told], pa.binary()),
            pa.array([value for _, value in told], pa.binary()),
            pa.repeat(OFFSETS_TOPIC, count),
            pa.array(np.full(count, POLLED, np.int32)),
            pa.array(np.arange(first, first + count)),
            pa.array(np.full(count, now_ms * 1000)).cast(ARROW.field("timestamp").type),
            pa.array(np.zeros(count, np.int32)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ARROW)

    def _sample(self, folder: CaptureFolder) -> None:
        try:
            self._keep(folder, sample(self._cluster))
            self._tidy(folder)
        except SourceError as error:
            self.status.trouble = str(error)
        except CANNOT_WRITE as error:
            self.status.trouble = f"cannot write ({why(error)})"

    def _keep(self, folder: CaptureFolder, taken: Sample) -> None:
        self._topic_ids |= {name: base64.urlsafe_b64decode(about["topic_id"] + "==") for name, about in taken.topics.items()}
        folder.samples.append([sample_batch(taken)], {})
        folder.write_json("topics.json", taken.topics)
        told: dict[str, Any] = {"polls": self._polls, "unsettled": self._unsettled, "every": self._every}
        folder.say(sampled_at=taken.at, hidden=self.status.hidden, **told)

    def _write(self, folder: CaptureFolder, *, patient: bool) -> None:
        while self._pending or not folder.records.pieces:
            try:
                folder.records.append(self._pending, {"next": self._next})
            except CANNOT_WRITE as error:
                self.status.trouble = f"cannot write ({why(error)}); waiting for space"
                folder.free()
                if self._report is not None:
                    self._report(self.status)
                if not patient or self._stop.wait(1.0):
                    raise CaptureError(f"{self._out}: {why(error)}; nothing of what was written is lost") from None
            else:
                self.status.records += sum(map(len, self._pending))
                self._pending = []

    def _tidy(self, folder: CaptureFolder) -> None:
        days = self._schedule.keep_days
        folder.tidy(None if days is None else time.time() - 86_400 * days)


def _recorded(folder: CaptureFolder) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in folder.records.batches(["key", "value"]):
        yield from zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
