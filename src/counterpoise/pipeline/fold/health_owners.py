"""The activity of owners: a member that reduces its lag on some partitions has not stopped on its others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Columns, first_of_runs, last_at, last_of_runs
from counterpoise.pipeline.fold.health_state import Busy, Seen
from counterpoise.pipeline.fold.health_thresholds import HOUR, RECORDS, SEVERAL
from counterpoise.pipeline.fold.lag import Samples
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.scan.aggregation import NEVER

__all__ = ["Owners", "owners_at"]


@dataclass(frozen=True)
class Owners(Columns):
    """What is known of a partition's group and owner at a sample."""

    managed: Bool  # The group has had a member with partitions
    busy_at: Int64  # The last sample at which the owner was busy on some partition, in microseconds; -NEVER: none
    catches_up: Bool  # The records that waited there became fewer


def owners_at(parts: PartitionStates, was: Seen, rows: Samples) -> Owners:
    """The owners at samples, which are sorted by key and time; updates `parts.busy`. O(n log n)."""
    group, owned = parts.keys.group[rows.key], rows.owner >= 0
    first = first_of_runs(rows.key)
    before = np.where(first, was.committed[rows.key], np.roll(rows.committed, 1))
    ended = np.where(first, was.end[rows.key], np.roll(rows.end, 1))
    gained = np.where(before >= 0, rows.committed - before, 0)
    fewer = gained > rows.end - ended
    new = np.flatnonzero(owned & (gained > 0) & (rows.lag >= np.maximum(SEVERAL * gained, RECORDS)))
    marks = Busy.joined([parts.busy, Busy(group[new], rows.owner[new], rows.time[new], fewer[new])])
    marks = marks.take(np.lexsort((marks.fewer, marks.at, marks.member, marks.group)))
    newest = marks.take(np.flatnonzero(last_of_runs(marks.group, marks.member)))
    parts.busy = newest.take(np.flatnonzero(newest.at > rows.time.max(initial=0) - HOUR))
    wide = len(parts.names.members) + 1
    known, asked = marks.group * wide + marks.member, group * wide + rows.owner
    at = last_at(marks.at, np.searchsorted(known, asked, "left"), np.searchsorted(known, asked, "right"), rows.time)
    busy_at = np.where(at >= 0, np.append(marks.at, -NEVER)[at], -NEVER)
    return Owners(parts.owned_since[group] <= rows.time, busy_at, (at >= 0) & np.append(marks.fewer, False)[at])
