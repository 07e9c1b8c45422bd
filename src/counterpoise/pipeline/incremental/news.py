"""What a capture holds that the last audit has not seen, and whether it is still the same capture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.direct.lag.ends_file import EndsFile, with_samples
from counterpoise.pipeline.direct.lag.new_samples import NewSamples, newest_sample
from counterpoise.pipeline.incremental.kept.kept_places import FilePlaces, places_in
from counterpoise.pipeline.incremental.saved import ClusterState, micros_of, moment, text_of
from counterpoise.pipeline.incremental.seen import Seen, sampled_at, seen_by_spark, time_of, topic_ids, topic_marks
from counterpoise.pipeline.source.capture import Capture

__all__ = ["SETTLED", "Looked", "first_after", "last_settled", "look", "look_at_samples", "news", "reach"]

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
    dropped : bool
        Records that an earlier audit read are not there any more.
    ends : dict
        Cluster name -> its samples, where they lie in plain local files.
    places : dict
        Cluster name -> where its records begin and end, file by file, where these are plain and local.
    """

    now: dict[str, ClusterState]
    instants: dict[str, list[datetime]]
    dropped: bool
    ends: dict[str, EndsFile] = field(default_factory=dict)
    places: dict[str, FilePlaces] = field(default_factory=dict)


def look(
    captures: Mapping[str, Capture],
    was: Mapping[str, ClusterState],
    identities: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, FilePlaces],
) -> Looked:
    """What the captures hold: enough to tell whether anything is new. What samples they hold tells `look_at_samples`.

    Parameters
    ----------
    captures, was, identities : mapping
        Cluster name -> its capture, how far the last audit came, and what says that it is this capture.
    known : mapping
        Cluster name -> what the last audit left of its files.

    Raises
    ------
    CaptureError
        A capture is not the one of the last audit, or has lost records that were not read yet.
    """
    found = Looked({}, {}, dropped=False)
    dropped = False
    for name, capture in captures.items():
        now, gone = reach(_places(capture, was[name], known.get(name, {}), found.places, name), was[name], name)
        dropped |= gone
        now.identity, now.notes = dict(identities[name]), list(capture.notes)
        if capture.local is None or not capture.local.ends:
            found.instants[name] = sampled_at(capture)
            now.sampled_to, now.topics = text_of(max(found.instants[name], default=None)), topic_marks(capture)
        else:
            at, ids = newest_sample(capture.local.ends), topic_ids(capture)
            now.sampled_to = None if at is None else text_of(time_of(at))
            # As long as there is no other sample: a mark is an id and a number that comes from samples.
            marks = {topic: mark.rpartition(" ")[2] for topic, mark in was[name].topics.items() if topic in ids}
            now.topics = {topic: f"{ids[topic]} {number}" for topic, number in marks.items()}
        found.now[name] = now
    return replace(found, dropped=dropped)


def look_at_samples(
    looked: Looked,
    captures: Mapping[str, Capture],
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
    for name, capture in captures.items():
        if capture.local is not None and capture.local.ends:
            before = kept.get(name, EndsFile.empty())
            new = NewSamples(capture.local.ends, micros_of(was[name].final_until) if before.logs else None)
            looked.ends[name] = ends = with_samples(before, new, str(folder.absolute()))
            looked.instants[name] = [time_of(at) for at in ends.instants.tolist()]
            looked.now[name].topics = topic_marks(capture, ends.lives_of_topics())


def news(records: DataFrame, positions: Mapping[str, int]) -> DataFrame:
    """The records beyond the positions; all of them where there are none."""
    if not positions:
        return records
    partition, offset = fn.col("partition"), fn.col("offset")
    beyond = [(partition == int(index)) & (offset >= at) for index, at in sorted(positions.items())]
    return records.where(reduce(or_, beyond, ~partition.isin([int(index) for index in positions])))


def _places(capture: Capture, was: ClusterState, known: FilePlaces, places: dict[str, FilePlaces], cluster: str) -> list[Seen]:
    """Where the records begin and end: one pass over three columns."""
    last = {int(index): at - 1 for index, at in was.positions.items()}
    if capture.local is None:
        return seen_by_spark(capture.records, last)
    found, places[cluster] = places_in(capture.local.records, last, known)
    return found


def reach(found: Sequence[Seen], before: ClusterState, cluster: str) -> tuple[ClusterState, bool]:
    """Positions, stamps and firsts after all records, and whether some of them have been dropped.

    Raises
    ------
    CaptureError
        The records up to the last audit are not those it read, or some that it did not read are not there any more.
    """
    now = ClusterState(dict(before.positions), dict(before.stamps), dict(before.firsts))
    whole = True
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
        whole &= now.firsts.setdefault(index, row.first or 0) == (row.first or 0)
    return now, not (whole and before.firsts.keys() <= {str(row.partition) for row in found})


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


def first_after(instants: Sequence[datetime], moment: datetime | None) -> datetime | None:
    """The first sample after a moment; None without one, or without a moment."""
    at = len(instants) if moment is None else bisect_right(instants, moment)
    return instants[at] if at < len(instants) else None
