"""How long partitions stood still around a rebalance, as commits show it, and commits by nobody; for the groups of one bucket.

The offsets topic does not hold the start of a rebalance. What it shows is the time from the last commit of the old owner to
the first commit of the new one (on any of its partitions: one without traffic has nothing to commit). Members commit every
few seconds anyway, so the usual gap between commits is taken off: what is left is the stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import NEVER, SLOT_US, Marks, Sums, mark_counts, summed
from counterpoise.pipeline.direct.groups.bucket import Bucket
from counterpoise.pipeline.direct.groups.owners import Owned, OwnedOnDisk, moments_of, owned_of
from counterpoise.pipeline.records.arrow_types import arrow_schema

__all__ = ["COLUMNS", "STOPS", "Spans", "spans_of", "stop_rows"]

STOPS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("group_id", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("generation", IntegerType()),
        StructField("log_ts", TimestampType()),
        StructField("owner_before", StringType()),
        StructField("last_before", TimestampType()),
        StructField("stop_s", DoubleType()),
        StructField("commits", LongType()),
        StructField("commits_by_nobody", LongType()),
    ]
)
"""A row per partition and step that hands it out; `stop_s` is null if it did not stop, or one of the two commits is missing."""
COLUMNS = arrow_schema(StructType(STOPS.fields[1:]))
Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Spans:
    """One row per key and span between two steps that hand it out, in this order.

    `held` is a row of the bucket's ``held_*``, -1 before the first step; `first` and `last` are NEVER and -NEVER, `gap` is nan
    where there is no commit (or only one).
    """

    key: Int64
    held: Int64
    first: Int64
    last: Int64
    gap: Float
    commits: Int64
    by_nobody: Int64

    def committed(self, bucket: Bucket) -> Owned:
        """The same by moment and owner."""
        moments = moments_of(bucket.steps)
        some = self.held >= 0
        owner = np.where(some, _pick(bucket.held_owner, self.held), -1)
        at = _pick(moments.of_step, _pick(bucket.held_step, self.held))
        at = np.where(some, at, moments.before[bucket.key_group[self.key]])
        return Owned(at * (len(bucket.members) + 1) + owner + 1, self.first, self.last, self.gap)


def spans_of(bucket: Bucket) -> Spans:
    """The spans of some partitions."""
    return _spans(bucket, _between_steps(bucket))


def stop_rows(bucket: Bucket, owners: OwnedOnDisk | None = None) -> pa.RecordBatch:
    """One row per partition and step that handed it out, and one before the first such step if there were commits.

    Parameters
    ----------
    bucket : Bucket
    owners : OwnedOnDisk, optional
        What owners committed, if these are not all partitions of their groups.
    """
    spans = spans_of(bucket)
    committed = spans.committed(bucket)
    first, last, gap = _of_owners(committed) if owners is None else owners.of(committed.key)
    begins = _lives(bucket, spans)
    said = _before(last != -NEVER, begins)
    owned = _before(spans.held >= 0, begins)
    timed = _before(~np.isnan(gap), begins)
    last_before = np.where(said >= 0, _pick(last, said), -NEVER)
    owner = np.where(spans.held >= 0, _pick(bucket.held_owner, spans.held), -1)
    owner_before = np.where(owned >= 0, _pick(owner, owned), -1)
    usual = np.fmin(gap, np.where(timed >= 0, _pick(gap, timed), np.nan))
    usual = np.where(np.isnan(usual), 0.0, usual)
    both = (first != NEVER) & (last_before != -NEVER)
    silence = np.where(both, first / 1e6 - last_before / 1e6, np.nan)
    step = _pick(bucket.held_step, spans.held)
    eager = _pick(bucket.steps.eager, step)
    stopped = both & (spans.held >= 0) & (owner_before >= 0) & (eager | (owner != owner_before))
    stop = np.maximum(silence - usual, 0.0)
    generation = np.where(spans.held >= 0, _pick(bucket.steps.generation, step), -1)
    at = np.where(spans.held >= 0, _pick(bucket.steps.time, step), 0)
    members = pa.array([*bucket.members, None], pa.string())
    arrays = [
        pa.array(bucket.groups, pa.string()).take(pa.array(bucket.key_group[spans.key])),
        pa.array(bucket.topics, pa.string()).take(pa.array(bucket.key_topic[spans.key])),
        pa.array(bucket.key_partition[spans.key].astype(np.int32)),
        pa.array(generation.astype(np.int32), mask=generation < 0),
        _time(at, spans.held < 0),
        members.take(pa.array(np.where(owner_before >= 0, owner_before, len(bucket.members)))),
        _time(last_before, last_before == -NEVER),
        pa.array(stop, mask=~stopped),
        pa.array(spans.commits),
        pa.array(spans.by_nobody),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def _time(us: Int64, unknown: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.where(unknown, 0, us), mask=unknown).cast(pa.timestamp("us", tz="UTC"))


def _pick(column: npt.NDArray[Any], rows: Int64) -> Any:
    """The rows of a column that may be empty; any value where the row is -1."""
    return column[rows] if len(column) else np.zeros(len(rows), column.dtype)


def _between_steps(bucket: Bucket) -> Sums:
    """Commits that delete nothing, of groups that have steps, summed up between steps and over five minutes at most."""
    has_steps = np.zeros(len(bucket.groups), np.bool_)
    has_steps[bucket.steps.group] = True
    rows = bucket.sums
    rows = rows.take(np.flatnonzero((rows.live > 0) & has_steps[bucket.key_group[rows.key]]))
    marks = Marks.of(bucket.steps.group, bucket.steps.time, bucket.steps.offset)
    cell = rows.ts // SLOT_US + mark_counts(marks, bucket.key_group[rows.key], rows.ts, rows.offset)
    return summed(rows, cell)[0]


def _spans(bucket: Bucket, said: Sums) -> Spans:
    handed = len(bucket.held_key)
    key: Int64 = np.concatenate((bucket.held_key, said.key))
    time = np.concatenate((bucket.steps.time[bucket.held_step], said.live_ts))
    offset = np.concatenate((bucket.steps.offset[bucket.held_step], said.live_offset))
    order = np.lexsort((offset, time, key))
    key, time = key[order], time[order]
    is_step = order < handed
    new = is_step.copy()
    new[:1] = True
    new[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(new)
    if not len(starts):
        nothing = np.zeros(0, np.int64)
        return Spans(nothing, nothing, nothing, nothing, np.zeros(0), nothing, nothing)
    held: Int64 = np.where(is_step[starts], order[starts], -1)
    zeros = np.zeros(handed, np.int64)
    count = np.concatenate((zeros, said.live))[order]
    till = np.concatenate((zeros - NEVER, said.live_until))[order]
    until = np.where(held >= 0, _pick(bucket.nobody_from, held), NEVER)
    over = until[np.cumsum(new) - 1]
    nobody = (time >= over) & (till > over)  # one of the very millisecond of the step stands before it in the log
    first: Int64 = np.minimum.reduceat(np.where(is_step, NEVER, time), starts)
    last: Int64 = np.maximum.reduceat(till, starts)
    commits: Int64 = np.add.reduceat(count, starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(commits > 1, (last / 1e6 - first / 1e6) / (commits - 1), np.nan)
    return Spans(key[starts], held, first, last, gap, commits, np.add.reduceat(np.where(nobody, count, 0), starts))


def _of_owners(committed: Owned) -> tuple[Int64, Int64, Float]:
    """The first commit, the last one and the shortest gap over all that an owner was handed at one time, for each span."""
    known = owned_of(committed)
    at = np.searchsorted(known.key, committed.key)
    return known.first[at], known.last[at], known.gap[at]


def _lives(bucket: Bucket, spans: Spans) -> Int64:
    """For each span where its partition begins, or the life of its topic if that was made anew since."""
    begins = np.searchsorted(spans.key, spans.key)
    if not bucket.anew:
        return begins
    step, topic = _pick(bucket.held_step, spans.held), bucket.key_topic[spans.key]
    pairs = zip(np.where(spans.held >= 0, step, -1).tolist(), topic.tolist(), strict=True)
    first = np.flatnonzero(np.array([pair in bucket.anew for pair in pairs], np.bool_))
    later = np.full(len(begins), -1, np.int64)
    later[first] = first
    return np.maximum(begins, np.maximum.accumulate(later))


def _before(known: npt.NDArray[np.bool_], begins: Int64) -> Int64:
    """For each row the last one before it, of the same key, that is known; -1 = none."""
    newest = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1)) if len(known) else begins
    found = np.concatenate(([-1], newest[:-1]))[: len(known)]
    return np.where(found >= begins, found, -1)
