"""An update: the state of the last audit, the new part of the captures, and the state for the next audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.engine import ClusterInput, Engine, Job
from counterpoise.pipeline.fold.ends_file import EndsFile, samples_of
from counterpoise.pipeline.incremental.positions import (
    check_same_capture,
    files_of,
    first_record,
    read_until,
    recreated,
    watermark_of,
)
from counterpoise.pipeline.incremental.saved import ClusterState, SavedState, identity_of
from counterpoise.pipeline.source.spark_records import count_before, in_window
from counterpoise.pipeline.storage.files import is_local

__all__ = ["FinalRowsChangedError", "NothingNewError", "Update"]


class FinalRowsChangedError(Exception):
    """New records or samples change rows that were final. The audit has to read all records again."""


class NothingNewError(Exception):
    """There is nothing new since the last audit."""


class Update:
    """An audit with ``--since last``.

    `options` as for `SavedState.check`. `saved` is the state of the last audit (None: all records are read).
    """

    def __init__(self, job: Job, options: Mapping[str, Any], saved: SavedState | None) -> None:
        self._captures, self._scope, self._transaction = job.captures, job.scope, job.transaction
        self._job, self._options, self.saved = job, options, saved
        self._last = {name: ClusterState() if saved is None else saved.clusters[name] for name in self._captures}
        # The states for the next audit; complete after `add_scanned`. A topic that was deleted keeps its last id.
        self.clusters = {
            name: ClusterState(
                identity=identity_of(one),
                notes=[*one.notes, *one.faults],
                files=files_of(one.files),
                topics={**self._last[name].topics, **(one.files.topic_ids or {})},
            )
            for name, one in self._captures.items()
        }

    def from_scratch(self) -> Update:
        """The same without a saved state: all records are read."""
        return Update(self._job, self._options, None)

    @property
    def unchanged(self) -> bool:
        """Whether neither a file of the captures nor the policy has changed since the last audit."""
        return (
            self.saved is not None
            and self.saved.options == dict(self._options)
            and all(
                (now.files, now.topics, now.notes) == (last.files, last.topics, last.notes)
                for now, last in ((self.clusters[name], self._last[name]) for name in self.clusters)
            )
        )

    def input(self, name: str, scratch: Path) -> ClusterInput:
        """The new records of one cluster, and the states to fold them into.

        New samples are appended to the file of the last audit, in `scratch` if the state is not on this machine.
        """
        last, work, source = self._last[name], self._transaction, self._captures[name]
        before = None if last.ends is None else EndsFile.load(work.place_of(last.ends), work.place_of(last.samples))
        place, local = work.new_files.state_file("ends", "bin"), is_local(work.state)
        new_file = place if local else str(scratch / f"ends-{uuid4().hex}.bin")
        now = self.clusters[name].files
        changed = (file for file in source.files.records if last.files.get(file) != now[file])
        ends = samples_of(source.files, new_file, self._scope.window, before, last.watermark)
        if ends.file and not local:
            ends = replace(ends, upload_to=place)
        return ClusterInput(tuple(changed), ends, last)

    def add_scanned(self, engine: Engine) -> None:
        """Check the scanned records against the last audit, and set the positions of `clusters`.

        Raises `CaptureError` if the captures are not those of the last audit, `FinalRowsChangedError` if new records change final
        rows, and `NothingNewError` if there are none.
        """
        names = engine.topic_names()
        for name, last in self._last.items():
            manifests = [one for one in engine.scanned if one["cluster"] == name]
            now = self.clusters[name]
            some_unchanged = any(last.files.get(file) == marks for file, marks in now.files.items())
            first = min((time for one in manifests for time, _ in one["flushes"]), default=None)
            check_same_capture(name, last, some_unchanged, manifests, first, self._captures[name].deleted_before)
            named = any(one in names for one in last.unnamed)
            ends = engine.clusters[name].ends
            # The first samples may be before the watermark that was found without them.
            older = last.ends is None and len(ends.instants) > 0
            late = last.watermark is not None and (older or (first is not None and first <= last.watermark))
            now.lives = ends.lives_of_topics()
            now.groups = engine.groups.get(name, {})
            in_scope = any(now.groups[group] and not before for group, before in last.groups.items())
            now.begin = last.begin if last.positions else first_record(self._captures[name].files)
            # Of the records before the window the newest of each key count; which they are is known when all are read.
            early = any(one["early"] for one in manifests)
            if (named or late or early or in_scope or recreated(last, now)) and self._still_complete(name, last):
                raise FinalRowsChangedError
            self._set_positions(name, engine)
        if self.unchanged and not any(one["flushes"] for one in engine.scanned):
            raise NothingNewError

    def _still_complete(self, name: str, last: ClusterState) -> bool:
        """Whether a capture still has all records that it had at the last audit, so that they can be read again.

        True for a DataFrame with at least as many records up to the saved positions, and for a capture of files whose first
        record is no newer than at the last audit (older, if the clock of a broker was set back). If records are gone, rows that
        were written from them stay.
        """
        capture = self._captures[name]
        if capture.records is not None:
            return count_before(in_window(capture.records, self._scope), last.positions) >= last.records
        now = first_record(capture.files)
        return now == last.begin or (now is not None and last.begin is not None and now < last.begin)

    def _set_positions(self, name: str, engine: Engine) -> None:
        last, now = self._last[name], self.clusters[name]
        now.positions, now.stamps, now.records = dict(last.positions), dict(last.stamps), last.records
        since = -NEVER if self._scope.window[0] is None else self._scope.window[0]
        for one in (one for one in engine.scanned if one["cluster"] == name):
            if one["times"] and one["times"][0] >= since:  # not those before the window, which are compacted
                now.records += one["decoded"] + one["errors"] + sum(n for _, n, _ in one["kinds"])
            for partition, offset, time in one["last"]:
                if offset >= now.positions.get(partition, 0):
                    now.positions[partition], now.stamps[partition] = offset + 1, time
        now.end = max((at for at in (last.end, engine.last_record_time(name)) if at is not None), default=None)
        now.read = read_until(engine.clusters[name].record_files, now.positions, last.read)
        now.watermark = watermark_of(engine.clusters[name].ends, now.read, now.end, last.watermark)
        now.buckets, now.names = engine.tasks[name].buckets, dict(sorted(engine.topic_names().items()))

    def save_state(self, engine: Engine, provisional_files: list[str], sums: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Write the state for the next audit, after `Engine.fold`; returns state files that the transaction shall add and remove.

        `provisional_files` are new files of tables with provisional rows; `sums` as in `SavedState`.
        """
        work, added, stay = self._transaction, list[str](), set[str]()
        for name, now in self.clusters.items():
            mine = [one for one in engine.folded if one["cluster"] == name]
            now.unnamed = sorted({topic_id for one in mine for topic_id in one["unnamed"]})
            states = [one["states"] for one in mine if one["states"] is not None]
            now.states = sorted(map(work.name_of, states))
            added += states
            if now.watermark is not None and engine.clusters[name].ends.file:
                added += self._save_samples(now, engine.clusters[name].ends)
                stay.add(now.samples)
        saved = work.new_files.state_file("saved", "json")
        SavedState(dict(self._options), self.clusters, sorted(map(work.name_of, provisional_files)), sums).save(saved)
        added = [file for file in (*added, saved) if work.name_of(file) not in work.manifest.files]
        return added, [work.place_of(name) for name in sorted(work.state_files - stay)]

    def _save_samples(self, now: ClusterState, ends: EndsFile) -> list[str]:
        """Save samples up to the watermark; the next audit reads the others again, because more may come between them."""
        about, file = self._transaction.new_files.state_file("ends", "json"), ends.upload_to or ends.file
        replace(ends.up_to(now.watermark or 0), file="").save(about)
        now.ends, now.samples = self._transaction.name_of(about), self._transaction.name_of(file)
        return [about, file]
