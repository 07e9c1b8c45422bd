"""What a capture holds that the last audit has not seen, and whether it is still the same capture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from counterpoise.errors import CaptureError
from counterpoise.pipeline.direct.lag.ends_file import EndsFile, with_samples
from counterpoise.pipeline.direct.lag.new_samples import NewSamples, newest_sample
from counterpoise.pipeline.incremental.kept.kept_places import FilePlaces, places_in
from counterpoise.pipeline.incremental.saved import ClusterState, micros_of, moment, text_of
from counterpoise.pipeline.incremental.seen import Seen, time_of, topic_ids, topic_marks
from counterpoise.pipeline.source.capture import Local

__all__ = ["SETTLED", "Looked", "last_settled", "look", "look_at_samples", "reach"]

SETTLED = timedelta(seconds=60)
"""A sample of log ends this much older than the newest record has all its commits: records are written within seconds."""


@dataclass(frozen=True)
class Looked:
    """What captures hold, before anything of it is decoded.

    Attributes
    ----------
    now : dict
        Cluster name -> how far its capture is.
    instants : dict
        Cluster name -> when log ends were sampled, ascending.
    ends : dict
        Cluster name -> its samples.
    places : dict
        Cluster name -> where its records begin and end, file by file.
    """

    now: dict[str, ClusterState]
    instants: dict[str, list[datetime]]
    ends: dict[str, EndsFile] = field(default_factory=dict)
    places: dict[str, FilePlaces] = field(default_factory=dict)


def look(
    captures: Mapping[str, Local],
    was: Mapping[str, ClusterState],
    identities: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Sequence[str]],
    known: Mapping[str, FilePlaces],
) -> Looked:
    """What the captures hold: enough to tell whether anything is new. What samples they hold tells `look_at_samples`.

    Parameters
    ----------
    captures, was, identities, notes : mapping
        Cluster name -> its files, how far the last audit came, what says that it is this capture, and what the capture misses.
    known : mapping
        Cluster name -> what the last audit left of its files.

    Raises
    ------
    CaptureError
        A capture is not the one of the last audit, or has lost records that were not read yet.
    """
    found = Looked({}, {})
    for name, local in captures.items():
        now = reach(_places(local, was[name], known.get(name, {}), found.places, name), was[name], name)
        now.identity, now.notes = dict(identities[name]), list(notes[name])
        if not local.ends:
            now.topics = topic_marks(local)
        else:
            at, ids = newest_sample(local.ends), topic_ids(local)
            now.sampled_to = None if at is None else text_of(time_of(at))
            # As long as there is no other sample: a mark is an id and a number that comes from samples.
            marks = {topic: mark.rpartition(" ")[2] for topic, mark in was[name].topics.items() if topic in ids}
            now.topics = {topic: f"{ids[topic]} {number}" for topic, number in marks.items()}
        found.now[name] = now
    return found


def look_at_samples(
    looked: Looked,
    captures: Mapping[str, Local],
    was: Mapping[str, ClusterState],
    kept: Mapping[str, EndsFile],
    folder: Path,
) -> None:
    """Put all that samples tell into `looked`.

    Parameters
    ----------
    looked : Looked
    captures, was : mapping
        As for `look`.
    kept : mapping
        Cluster name -> the samples that the last audit left: those up to what was settled then.
    folder : Path
        For files of this audit alone.
    """
    for name, local in captures.items():
        looked.ends[name] = EndsFile.empty()
        looked.instants[name] = []
        if local.ends:
            before = kept.get(name, EndsFile.empty())
            new = NewSamples(local.ends, micros_of(was[name].final_until) if before.logs else None)
            looked.ends[name] = ends = with_samples(before, new, str(folder.absolute()))
            looked.instants[name] = [time_of(at) for at in ends.instants.tolist()]
            looked.now[name].topics = topic_marks(local, ends.lives_of_topics())


def _places(local: Local, was: ClusterState, known: FilePlaces, places: dict[str, FilePlaces], cluster: str) -> list[Seen]:
    """Where the records begin and end: one pass over three columns."""
    last = {int(index): at - 1 for index, at in was.positions.items()}
    found, places[cluster] = places_in(local.records, last, known)
    return found


def reach(found: Sequence[Seen], before: ClusterState, cluster: str) -> ClusterState:
    """Positions and stamps after all records.

    Raises
    ------
    CaptureError
        The records up to the last audit are not those it read, or some that it did not read are not there any more.
    """
    now = ClusterState(dict(before.positions), dict(before.stamps))
    _check_lost([row for row in found if row.first is not None], before, cluster)
    for row in found:
        index = str(row.partition)
        if row.end is None:
            continue
        at = before.positions.get(index, 0)
        other = row.was is not None and row.was != before.stamps.get(index)
        if row.end < at - 1 or other:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} is not the one of the last audit (log partition {index} "
                f"{'holds another record at' if other else 'ends before'} offset {at - 1}); to audit anew, delete .since in "
                "the output folder, or give another --out"
            )
        if row.end >= at:
            now.positions[index], now.stamps[index] = row.end + 1, row.us or 0
    return now


def _check_lost(rows: Sequence[Seen], before: ClusterState, cluster: str) -> None:
    """A capture drops its oldest files: if what it begins with is newer than the last audit, what came between may be gone.

    Offsets that nobody ever sees (control records, what was compacted) look the same: then the partition goes on without a hole,
    or others still have what was read.
    """
    end = moment(before.end)
    oldest = min((row.first_us for row in rows if row.first_us is not None), default=None)
    if end is None or oldest is None or oldest <= round(end.timestamp() * 1_000_000):
        return
    for row in sorted(rows, key=lambda row: row.partition):
        at = before.positions.get(str(row.partition), 0)
        if row.first is not None and row.first > at:
            raise CaptureError(
                f"--since last: the capture of cluster {cluster} dropped records before they were audited (log partition "
                f"{row.partition}: offsets {at} to {row.first - 1}); to audit anew what is left, delete .since in the "
                "output folder, or give another --out; a longer --keep-days of the capture prevents it"
            )


def last_settled(instants: Sequence[datetime], end: datetime | None, before: datetime | None) -> datetime | None:
    """The last sample that is settled in a cluster whose newest record is of `end`; never before `before`."""
    settled = bisect_right(instants, end - SETTLED) if end is not None else 0
    found = [one for one in (instants[settled - 1] if settled else None, before) if one is not None]
    return max(found, default=None)
