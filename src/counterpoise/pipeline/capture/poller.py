"""The polling loop, for clusters that hide the offsets topic: look at all groups, write what changed, sample, tidy."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counterpoise.errors import CaptureError, SourceError
from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC, in_batches
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, why
from counterpoise.pipeline.capture.group_poll import look, nothing_visible
from counterpoise.pipeline.capture.polled_records import PolledHistory
from counterpoise.pipeline.capture.recording import Recording, Schedule, Status
from counterpoise.pipeline.capture.sampler import Sample, sample
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.records.place import POLLED

__all__ = ["Poller"]

_FAULTS = 20
"""So many of the groups that cannot be read are named in capture.json."""


class Poller(Recording):
    """One recording by polls; `every` is the time between two looks in seconds.

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
        super().__init__(settings, out, schedule, report)
        self._every = every
        self._history = PolledHistory()
        self._topic_ids: dict[str, bytes] = {}
        self._next = self._polls = self._unsettled = 0

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
                self._tell()
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
        self._take(folder, sample(self._cluster))

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
            numbered = enumerate(told, self._next)
            self._pending += in_batches((POLLED, number, now_ms, 0, key, value) for number, (key, value) in numbered)
            self._next += len(told)
        self._polls += 1
        self._unsettled += sum(not group.settled for group in seen.groups)
        self.status.groups, self.status.trouble = len(seen.groups), ""
        notes = [*seen.faults[:_FAULTS], *([f"{len(seen.faults)} faults in all"] if len(seen.faults) > _FAULTS else [])]
        self.status.hidden = notes

    def _sample(self, folder: CaptureFolder) -> None:
        try:
            self._take(folder, sample(self._cluster))
            self._tidy(folder)
        except SourceError as error:
            self.status.trouble = str(error)
        except CANNOT_WRITE as error:
            self.status.trouble = f"cannot write ({why(error)})"

    def _take(self, folder: CaptureFolder, taken: Sample) -> None:
        self._topic_ids |= {name: base64.urlsafe_b64decode(about["topic_id"] + "==") for name, about in taken.topics.items()}
        self._keep(folder, taken, polls=self._polls, unsettled=self._unsettled, every=self._every)

    @property
    def _position(self) -> dict[str, Any]:
        return {"next": self._next}


def _recorded(folder: CaptureFolder) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in folder.records.batches(["key", "value"]):
        yield from zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
