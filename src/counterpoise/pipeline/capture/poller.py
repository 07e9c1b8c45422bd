"""The polling loop, for clusters that hide the offsets topic: poll all groups, write changes, sample log ends, compact."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from counterpoise.errors import CaptureError, SourceError
from counterpoise.pipeline.capture.columns import ABORTED_FILE, OFFSETS_TOPIC, in_batches
from counterpoise.pipeline.capture.folder import CANNOT_WRITE, CaptureFolder, reason_of
from counterpoise.pipeline.capture.group_poll import is_hidden, nothing_visible, poll_groups, unconfirmed
from counterpoise.pipeline.capture.polled_records import PolledHistory
from counterpoise.pipeline.capture.recording import Recording, Status
from counterpoise.pipeline.capture.sampler import Sample, sample
from counterpoise.pipeline.records.place import POLLED

__all__ = ["Poller"]

_FAULTS = 20
"""Maximal number of faults in capture.json."""


class Poller(Recording):
    """A recording by polls.

    At the start the last written records are read from the folder, so a run after a stop or a kill writes the changes since then.
    The time of a change is that of the first poll that sees it: late by up to the time between two polls.
    """

    def run(self, *, follow: bool) -> Status:
        """Poll once, or with `follow` until `stop`.

        Raises `SourceError` if the cluster does not answer, or shows no group (at the start; later a following recording waits),
        and `CaptureError` if the folder cannot be written, or has other content.
        """
        self._folder = CaptureFolder(self._out)
        with self._folder.held():
            self._begin()
            flushed = sampled = time.monotonic()
            while True:
                due = time.monotonic() + self._schedule.poll
                self._poll(patient=follow and self._polls > 0)
                if time.monotonic() - sampled >= self._schedule.sample:
                    sampled = time.monotonic()
                    self._sample()
                if self._pending and time.monotonic() - flushed >= self._schedule.flush:
                    flushed = time.monotonic()
                    self._write(patient=follow)
                self._report(self.status)
                if not follow or self._stop.wait(max(0.0, due - time.monotonic())):
                    break
            self._write(patient=False)
            self._merge_and_drop()
            self._folder.update_about(hidden=self.status.hidden, **self._polled())
        return self.status

    def _begin(self) -> None:
        cluster_id = self._cluster.cluster_id
        about = self._folder.about
        if about and about.get("source") != "poll":
            raise CaptureError(f"{self._out}: holds a capture from the offsets topic or a backup; give another folder")
        if about.get("cluster_id", cluster_id) != cluster_id:
            raise CaptureError(f"{self._out}: holds a capture of another cluster; give another folder")
        self._next: int = self._folder.records.state.get("next", 0)
        self._history, self._polls, self._rebalancing = PolledHistory(_recorded(self._folder)), 0, 0
        self._topic_ids: dict[str, bytes] = {}
        self._without_id: set[str] = set()  # topics that samples lack, as without the right to describe them
        facts = {"format": 1, "topic": OFFSETS_TOPIC, "source": "poll", "cluster_id": cluster_id, "complete": False}
        self._folder.update_about(**facts, started_at=about.get("started_at", time.time()), hidden=[])
        self._folder.write_json(ABORTED_FILE, [])
        self._add_sample(sample(self._cluster))

    def _poll(self, *, patient: bool) -> None:
        try:
            self._add_poll(patient=patient)
        except SourceError as error:
            if not patient:
                raise
            self.status.trouble = str(error)

    def _add_poll(self, *, patient: bool) -> None:
        poll = poll_groups(self._cluster)
        kept = poll.names or set()
        if poll.names is not None and (lost := self._history.groups.keys() - kept):
            kept |= unconfirmed(self._cluster, lost, poll)
        if not poll.groups and not self.status.groups and not self._folder.records.pieces and not patient:
            raise nothing_visible(self._cluster)
        with_ids = [group.members for group in poll.groups if group.modern and group.stable]
        assigned = {topic for members in with_ids for member in members for topic, _ in member.assigned}
        if not assigned <= self._topic_ids.keys() | self._without_id:  # without its id a new topic's partitions would be missing
            self._sample()
            self._without_id = assigned - self._topic_ids.keys()
        now_ms = time.time_ns() // 1_000_000
        changes = self._history.changes(poll.groups, self._topic_ids, now_ms, cache(partial(is_hidden, self._cluster, poll)))
        if poll.names is not None:
            changes += self._history.deletions(kept)
        if changes:
            numbered = enumerate(changes, self._next)
            self._pending += in_batches((POLLED, number, now_ms, 0, key, value) for number, (key, value) in numbered)
            self._next += len(changes)
        self._polls += 1
        self._rebalancing += sum(not group.stable for group in poll.groups)
        self.status.groups, self.status.trouble = len(poll.groups), ""
        more = [f"{len(poll.faults)} faults in all"] if len(poll.faults) > _FAULTS else []
        self.status.hidden = [*poll.faults[:_FAULTS], *more]

    def _sample(self) -> None:
        try:
            self._add_sample(sample(self._cluster))
            self._merge_and_drop()
        except SourceError as error:
            self.status.trouble = str(error)
        except CANNOT_WRITE as error:
            self.status.trouble = f"cannot write ({reason_of(error)})"

    def _add_sample(self, taken: Sample) -> None:
        self._topic_ids |= {name: base64.urlsafe_b64decode(about["topic_id"] + "==") for name, about in taken.topics.items()}
        self._write_sample(taken, every=self._schedule.poll, **self._polled())

    def _polled(self) -> dict[str, Any]:
        """The counts of this run for ``capture.json``."""
        return {"polls": self._polls, "rebalancing": self._rebalancing}

    @property
    def _position(self) -> dict[str, Any]:
        return {"next": self._next}


def _recorded(folder: CaptureFolder) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in folder.records.batches(["key", "value"]):
        yield from zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
