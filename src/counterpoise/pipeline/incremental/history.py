"""How far the last audit of some captures came, how far this one comes, and what it leaves for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from counterpoise.pipeline.engine import ClusterInput, Engine
from counterpoise.pipeline.fold.ends_file import EndsFile, samples_of
from counterpoise.pipeline.incremental.saved import ClusterState, Saved, identity_of, save
from counterpoise.pipeline.incremental.snapshot import (
    changed_files,
    check_same_capture,
    files_of,
    first_record,
    read_until,
    recreated,
    settled_until,
    topic_ids_of,
)
from counterpoise.pipeline.scan.aggregation import NEVER
from counterpoise.pipeline.source.capture import Capture, SourceFiles
from counterpoise.pipeline.source.choice import Choice
from counterpoise.pipeline.storage.files import is_local, upload
from counterpoise.pipeline.stored.transaction import TableTransaction

__all__ = ["History", "StateTooOldError"]

Sums: TypeAlias = dict[str, Any]


class StateTooOldError(Exception):
    """What is new says something else of records that were folded: all is to be read again."""


class History:
    """What audits with ``--since last`` into one folder know of their captures.

    Attributes
    ----------
    clusters : dict of ClusterState
        Cluster name -> how far this audit comes; complete after `read`.
    saved : Saved, optional
        What the last audit left; None: all is read.

    Parameters
    ----------
    captures : mapping
        Cluster name -> capture of files.
    sources : mapping
        Cluster name -> its place.
    choice : Choice
    options : mapping
        What `Saved.check` expects the next time.
    transaction : TableTransaction
        Open.
    saved : Saved, optional
    """

    def __init__(
        self,
        captures: Mapping[str, Capture],
        sources: Mapping[str, str],
        choice: Choice,
        options: Mapping[str, Any],
        transaction: TableTransaction,
        saved: Saved | None,
    ) -> None:
        self._captures, self._sources, self._choice, self._options = captures, sources, choice, options
        self._transaction, self.saved = transaction, saved
        self.clusters = {name: _seen(capture, sources[name]) for name, capture in captures.items()}
        self._was = {name: ClusterState() if saved is None else saved.clusters[name] for name in captures}

    def from_scratch(self) -> History:
        """The same, with everything to be read."""
        return History(self._captures, self._sources, self._choice, self._options, self._transaction, None)

    @property
    def unchanged(self) -> bool:
        """Whether the captures are as the last audit found them."""
        return self.saved is not None and all(
            (now.files, now.topics, now.notes) == (was.files, was.topics, was.notes)
            for now, was in ((self.clusters[name], self._was[name]) for name in self.clusters)
        )

    def input(self, name: str, source: SourceFiles, scratch: Path) -> ClusterInput:
        """Of one cluster: the records that are new, and the states that they are folded into.

        Samples are added to the file of the last audit, in `scratch` if the state is not on this machine.
        """
        was, work = self._was[name], self._transaction
        before = None if was.ends is None else EndsFile.load(work.place_of(was.ends), work.place_of(was.samples))
        new_file = (
            partial(work.new_files.state_file, "ends", "bin")
            if is_local(work.state)
            else (scratch / f"ends-{uuid4().hex}.bin").__str__
        )
        ends = samples_of(source.files, new_file, self._choice.window, before, was.settled)
        return ClusterInput(
            replace(source, files=changed_files(source.files, was.files, self.clusters[name].files)),
            ends,
            begin={int(partition): at for partition, at in was.positions.items()},
            # Samples come in the order of time: none will lie between earlier commits.
            settled=int(ends.instants[-1]) if len(ends.instants) else NEVER,
            states=tuple(map(work.place_of, was.states)),
            buckets=was.buckets,
            names=was.names,
            groups=was.groups,
        )

    def read(self, engine: Engine) -> None:
        """What an engine has scanned: how far it came.

        Raises
        ------
        CaptureError
            The captures are not those of the last audit.
        StateTooOldError
        """
        names = engine.names()
        for name, was in self._was.items():
            mine = [one for one in engine.scanned if one["cluster"] == name]
            now = self.clusters[name]
            still = any(was.files.get(file) == marks for file, marks in now.files.items())
            first = min((time for one in mine for time, _ in one["cuts"]), default=None)
            check_same_capture(name, was, still, mine, first)
            named = any(one in names for one in was.unnamed)
            ends = engine.clusters[name].ends
            older = was.ends is None and len(ends.instants) > 0  # the first samples: what was settled without them may be later
            late = was.settled is not None and (older or (first is not None and first <= was.settled))
            now.lives = ends.lives_of_topics()
            now.groups = engine.groups.get(name, {})
            chosen = any(now.groups[group] and not before for group, before in was.groups.items())
            now.begin = was.begin if was.positions else self._begin(name)
            # What a capture has dropped cannot be read again: then rows stay as they are.
            if (named or late or chosen or recreated(was, now)) and self._begin(name) == was.begin:
                raise StateTooOldError
            self._reached(name, engine)

    def _begin(self, name: str) -> int | None:
        files = self._captures[name].files
        assert files is not None
        return first_record(files)

    def _reached(self, name: str, engine: Engine) -> None:
        was, now = self._was[name], self.clusters[name]
        now.positions, now.stamps = dict(was.positions), dict(was.stamps)
        for one in engine.scanned:
            for partition, offset, time in one["last"] if one["cluster"] == name else ():
                if offset >= now.positions.get(str(partition), 0):
                    now.positions[str(partition)], now.stamps[str(partition)] = offset + 1, time
        now.end = max((at for at in (was.end, engine.end_of(name)) if at is not None), default=None)
        now.read = was.read | read_until(engine.clusters[name].source.files, now.positions)
        now.settled = settled_until(engine.clusters[name].ends, now.read, now.end, was.settled)
        now.buckets, now.names = engine.clusters[name].buckets, dict(sorted(engine.names().items()))

    def leave(self, engine: Engine, open_files: list[str], sums: Sums) -> tuple[list[str], list[str]]:
        """Write the state for the next audit.

        Parameters
        ----------
        engine : Engine
            After `fold`.
        open_files : list of str
            New files of tables with rows that later records may still change.
        sums : dict
            See `Saved.sums`.

        Returns
        -------
        added, removed : list of str
            State files, for `TableTransaction.publish`.
        """
        work, added, stay = self._transaction, list[str](), set[str]()
        for name, now in self.clusters.items():
            mine = [one for one in engine.folded if one["cluster"] == name]
            now.unnamed = sorted({topic_id for one in mine for topic_id in one["unnamed"]})
            states = [one["states"] for one in mine if one["states"] is not None]
            now.states = sorted(map(work.name_of, states))
            added += states
            if now.settled is not None and engine.clusters[name].ends.file:
                added += self._left_samples(now, engine.clusters[name].ends)
                stay.add(now.samples)
        saved = work.new_files.state_file("saved", "json")
        save(Saved(dict(self._options), self.clusters, sorted(map(work.name_of, open_files)), sums), saved)
        added = [file for file in (*added, saved) if work.name_of(file) not in work.manifest.files]
        return added, [work.place_of(name) for name in sorted(work.state_files - stay)]

    def _left_samples(self, now: ClusterState, ends: EndsFile) -> list[str]:
        """Samples up to what is settled need not be read again; a later one of the others may still be to come."""
        about, file = self._transaction.new_files.state_file("ends", "json"), ends.file
        if not is_local(self._transaction.state):
            file = self._transaction.new_files.state_file("ends", "bin")
            with Path(ends.file).open("rb") as content:
                upload(file, content)
        replace(ends.up_to(now.settled or 0), file="").save(about)
        now.ends, now.samples = self._transaction.name_of(about), self._transaction.name_of(file)
        return [about, file]


def _seen(capture: Capture, source: str) -> ClusterState:
    """What a capture holds, before any of it is read."""
    assert capture.files is not None
    found = ClusterState(identity=identity_of(source), notes=list(capture.notes), files=files_of(capture.files))
    found.topics = topic_ids_of(capture.files)
    return found
