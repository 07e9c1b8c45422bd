"""What a capture holds that the last audit has not seen, and whether it is still the same capture."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.errors import CaptureError
from counterpoise.pipeline.incremental.saved import ClusterState, moment, text_of
from counterpoise.pipeline.incremental.seen import Seen, sampled_at, seen_by_spark, seen_in, topic_marks
from counterpoise.pipeline.source.capture import Capture

__all__ = ["SETTLED", "Looked", "first_after", "last_settled", "look", "news", "reach"]

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
    """

    now: dict[str, ClusterState]
    instants: dict[str, list[datetime]]
    dropped: bool


def look(captures: Mapping[str, Capture], was: Mapping[str, ClusterState], identities: Mapping[str, Mapping[str, Any]]) -> Looked:
    """What the captures hold.

    Raises
    ------
    CaptureError
        A capture is not the one of the last audit, or has lost records that were not read yet.
    """
    found = Looked({}, {}, dropped=False)
    dropped = False
    for name, capture in captures.items():
        now, gone = reach(capture, was[name], name)
        dropped |= gone
        now.identity, now.notes = dict(identities[name]), list(capture.notes)
        found.instants[name] = sampled_at(capture)
        now.sampled_to, now.topics = text_of(max(found.instants[name], default=None)), topic_marks(capture)
        found.now[name] = now
    return replace(found, dropped=dropped)


def news(records: DataFrame, positions: Mapping[str, int]) -> DataFrame:
    """The records beyond the positions; all of them where there are none."""
    if not positions:
        return records
    partition, offset = fn.col("partition"), fn.col("offset")
    beyond = [(partition == int(index)) & (offset >= at) for index, at in sorted(positions.items())]
    return records.where(reduce(or_, beyond, ~partition.isin([int(index) for index in positions])))


def reach(capture: Capture, before: ClusterState, cluster: str) -> tuple[ClusterState, bool]:
    """Positions, stamps and firsts after all records, and whether some of them have been dropped; one pass over three columns.

    Raises
    ------
    CaptureError
        The records up to the last audit are not those it read, or some that it did not read are not there any more.
    """
    last = {int(index): at - 1 for index, at in before.positions.items()}
    found = seen_by_spark(capture.records, last) if capture.local is None else seen_in(capture.local.records, last)
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
