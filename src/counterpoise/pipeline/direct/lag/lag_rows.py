"""Rows of `partition_lag` for the groups of one bucket, in arrays: a commit counts from when it was appended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from counterpoise.model.problem import Int64
from counterpoise.pipeline.direct.commits.sums import NEVER
from counterpoise.pipeline.direct.groups.bucket import Bucket
from counterpoise.pipeline.direct.lag.lives import Lives, last_at
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.schemas import PARTITION_LAG
from counterpoise.pipeline.source.choice import Reset

__all__ = ["LAG_COLUMNS", "Found", "lag_rows"]

LAG_COLUMNS = arrow_schema(StructType(PARTITION_LAG.fields[1:]))
_ROWS = 100_000
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Rows of some partitions, all there are of each.

    Attributes
    ----------
    rows : RecordBatch
        Of `LAG_COLUMNS`.
    key, time : int64
        The partition's code in the bucket, and `at` in microseconds.
    known_at : int64
        From when on a row can be told: the time of its sample; between samples, that of the next one.
    """

    rows: pa.RecordBatch
    key: Int64
    time: Int64
    known_at: Int64

    def newest(self, among: Bool | None = None) -> pa.RecordBatch:
        """The newest row of each partition, perhaps only among some of the rows."""
        some = np.ones(len(self.key), np.bool_) if among is None else among
        last = np.full(int(self.key.max(initial=-1)) + 1, -NEVER)
        np.maximum.at(last, self.key[some], self.time[some])
        return self.rows.take(pa.array(np.flatnonzero(some & (self.time == last[self.key]))))


def lag_rows(
    bucket: Bucket, lives: Lives, now_ids: Mapping[str, str] | None, reset: Reset | None = None, since: Int64 | None = None
) -> Iterator[Found]:
    """Rows at every sample of a partition's log, and between samples at every step of its group.

    Where no log end was sampled there is one row per partition, at its last commit, of quality `unknown`. Where nothing is
    committed lag is unknown too, or follows the reset policy; it never silently takes the end of the log.

    Parameters
    ----------
    bucket : Bucket
    lives : Lives
    now_ids : mapping, optional
        Topic -> its id at the end of the recording.
    reset : "earliest" or "latest", optional
        The members' ``auto.offset.reset``, for partitions without a commit; None: their lag is unknown.
    since : int64, optional
        Per group: rows that were known before that time are left out, and the newest of a partition is that of the others.
    """
    if not lives.log:
        yield from _last_commits(bucket)
        return
    names = [bucket.topics[at] for at in bucket.key_topic.tolist()]
    logs = [lives.log.get(pair, (0, 0)) for pair in zip(names, bucket.key_partition.tolist(), strict=True)]
    log = np.array(logs, np.int64).reshape(-1, 2)
    steps, step_time = _step_times(bucket)
    first_sample, first_step = log[:, 0], steps[bucket.key_group]
    if since is not None:
        first_sample, first_step = _firsts(bucket, lives, log, steps, step_time, since[bucket.key_group])
    asked = np.where(log[:, 1] > log[:, 0], steps[bucket.key_group + 1] - first_step, 0)
    sizes = log[:, 1] - first_sample + asked
    gone = _gone(bucket, now_ids)
    first = 0
    while first < len(sizes):
        after = max(first + 1, int(np.searchsorted(np.cumsum(sizes[first:]), _ROWS, "right")) + first)
        keys = np.arange(first, after)
        keys = keys[sizes[keys] > 0]
        first = after
        if len(keys):
            key_s, at_s = _each(keys, first_sample[keys], log[keys, 1])
            begin = first_step[keys]
            key_a, at_a = _each(keys, begin, begin + asked[keys])
            key = np.concatenate((key_s, key_a))
            time = np.concatenate((lives.time[at_s], step_time[at_a]))
            before = last_at(lives.time, log[key_a, 0], log[key_a, 1], step_time[at_a])
            yield from _rows(bucket, lives, key, time, np.concatenate((at_s, before)), len(key_s), gone, reset)


def _last_commits(bucket: Bucket) -> Iterator[Found]:
    """Where no log end is known: what was committed last, with an unknown lag; a later commit replaces the row."""
    sums = bucket.sums
    order = np.lexsort((sums.offset, sums.key))
    last = order[np.append(sums.key[order][1:] != sums.key[order][:-1], True)[: len(order)]]
    last = last[~sums.deleted[last]]
    key, time = sums.key[last].astype(np.int64), sums.ts[last]
    if not len(key):
        return
    columns = {
        "group_id": pa.array(bucket.groups).take(pa.array(bucket.key_group[key])),
        "topic": pa.array(bucket.topics).take(pa.array(bucket.key_topic[key])),
        "partition": pa.array(bucket.key_partition[key].astype(np.int32)),
        "at": pa.array(time).cast(pa.timestamp("us", tz="UTC")),
        "committed": pa.array(sums.committed[last]),
        "quality": pa.array(["unknown"]).take(pa.array(np.zeros(len(key), np.int64))),
        "clamped": pa.array(np.zeros(len(key), np.bool_)),
    }
    rows = [columns.get(field.name, pa.nulls(len(key), field.type)) for field in LAG_COLUMNS]
    yield Found(pa.RecordBatch.from_arrays(rows, schema=LAG_COLUMNS), key, time, np.full(len(key), NEVER))


def _firsts(bucket: Bucket, lives: Lives, log: Int64, steps: Int64, step_time: Int64, since: Int64) -> tuple[Int64, Int64]:
    """For each key the first sample that is not before `since`, and the first step that is not before the sample before it."""
    before = last_at(lives.time, log[:, 0], log[:, 1], since - 1)
    sample = np.where(before >= 0, before + 1, log[:, 0])
    bounds = steps[bucket.key_group], steps[bucket.key_group + 1]
    if not len(lives.time):
        return sample, bounds[0]
    passed = last_at(step_time, *bounds, lives.time[before] - 1)
    return sample, np.where((before >= 0) & (passed >= 0), passed + 1, bounds[0])


def _step_times(bucket: Bucket) -> tuple[Int64, Int64]:
    """The different times of each group's steps, and where each group's begin."""
    group, time = bucket.steps.group, bucket.steps.time
    order = np.lexsort((time, group))
    group, time = group[order], time[order]
    new = np.ones(len(group), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (time[1:] != time[:-1])
    group, time = group[new], time[new]
    return np.searchsorted(group, np.arange(len(bucket.groups) + 1)), time


def _each(keys: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Each key with all places from `begin` to before `end`."""
    count = end - begin
    key = np.repeat(keys, count)
    return key, np.arange(len(key)) - np.repeat(np.cumsum(count) - count - begin, count)


def _gone(bucket: Bucket, now_ids: Mapping[str, str] | None) -> Bool:
    """Whether a sum's newest commit is of another topic than the one that has the name now."""
    sums = bucket.sums
    if now_ids is None or not len(sums):
        return np.zeros(len(sums), np.bool_)
    code = {name: at for at, name in enumerate(bucket.ids)}
    now = np.array([-1 if now_ids.get(topic) is None else code.get(now_ids[topic], -2) for topic in bucket.topics], np.int64)
    of_row = now[bucket.key_topic[sums.key]]
    found: Bool = (sums.topic_id >= 0) & (of_row != -1) & (sums.topic_id != of_row)
    return found


@dataclass(frozen=True)
class _Asked:
    """Rows to be: a key at a time, with the sample at or before it, whether that is not of this very time, and what was known."""

    key: Int64
    time: Int64
    sample: Int64
    between: Bool
    offset: Int64
    known: Bool
    owner: Int64
    owned: Bool

    def take(self, rows: Int64) -> _Asked:
        return _Asked(*(getattr(self, field.name)[rows] for field in fields(self)))


def _rows(
    bucket: Bucket, lives: Lives, key: Int64, time: Int64, sample: Int64, samples: int, gone: Bool, reset: Reset | None
) -> Iterator[Found]:
    """The rows of some keys: the first `samples` are at samples, the others at steps."""
    between = np.arange(len(key)) >= samples
    passed = time - lives.time[sample]
    keep = np.flatnonzero(~between | ((sample >= 0) & (passed > 0) & lives.has_next[sample]))
    key, time, sample, between = key[keep], time[keep], sample[keep], between[keep]
    said, offset = _commits(bucket, key, time)
    known = said >= 0
    if known.any():
        known &= ~bucket.sums.deleted[said] & ~(gone[said] & lives.newest_life[sample])
    owner, owned = _held(bucket, key, time)
    keep = np.flatnonzero(known | (owned & ~between))
    if len(keep):
        asked = _Asked(key, time, sample, between, offset, known, owner, owned).take(keep)
        known_at = np.where(asked.between, lives.next_time[asked.sample], asked.time)
        yield Found(_batch(bucket, lives, asked, reset), asked.key, asked.time, known_at)


def _commits(bucket: Bucket, key: Int64, time: Int64) -> tuple[Int64, Int64]:
    """The newest sum up to then, and its offset."""
    bounds = np.searchsorted(bucket.sums.key, np.arange(len(bucket.key_group) + 1))
    said = last_at(bucket.sums.max_ts, bounds[key], bounds[key + 1], time)
    return said, bucket.sums.committed[said] if len(bucket.sums) else np.zeros(len(said), np.int64)


def _held(bucket: Bucket, key: Int64, time: Int64) -> tuple[Int64, Bool]:
    """The owner then, and whether there is one."""
    if not len(bucket.held_key):
        return np.zeros(len(key), np.int64), np.zeros(len(key), np.bool_)
    bounds = np.searchsorted(bucket.held_key, np.arange(len(bucket.key_group) + 1))
    found = last_at(bucket.steps.time[bucket.held_step], bounds[key], bounds[key + 1], time)
    until = bucket.held_until[found]
    return bucket.held_owner[found], (found >= 0) & ((until == NEVER) | (time < until))


def _batch(bucket: Bucket, lives: Lives, asked: _Asked, reset: Reset | None) -> pa.RecordBatch:
    key, offset, known = asked.key, asked.offset, asked.known
    begin, end = lives.start[asked.sample], _end(lives, asked)
    reached = offset if reset is None else np.where(known, offset, begin if reset == "earliest" else end)
    behind = end - np.maximum(reached, begin)
    late, timed = _time_lag(lives, asked, end)
    quality = np.where(known, np.where(asked.between, 1, 0), 2)
    owner = np.where(asked.owned, asked.owner, len(bucket.members))
    columns = {
        "group_id": pa.array(bucket.groups).take(pa.array(bucket.key_group[key])),
        "topic": pa.array(bucket.topics).take(pa.array(bucket.key_topic[key])),
        "partition": pa.array(bucket.key_partition[key].astype(np.int32)),
        "at": pa.array(asked.time).cast(pa.timestamp("us", tz="UTC")),
        "committed": pa.array(offset, mask=~known),
        "log_start": pa.array(begin),
        "log_end": pa.array(end),
        "lag": pa.array(np.maximum(behind, 0), mask=None if reset is not None else ~known),
        "owner": pa.array([*bucket.members, None], pa.string()).take(pa.array(owner)),
        "quality": pa.array(["exact", "interpolated", "unknown" if reset is None else "reset_policy"]).take(pa.array(quality)),
        "clamped": pa.array(known & ((behind < 0) | (offset < begin))),
        "time_lag_ms": pa.array(late, mask=~timed),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in LAG_COLUMNS.names], schema=LAG_COLUMNS)


def _end(lives: Lives, asked: _Asked) -> Int64:
    """The end of the log: sampled, or on the line to the next sample."""
    end = lives.end[asked.sample]
    if asked.between.any():
        at, when = asked.sample[asked.between], asked.time[asked.between]
        share = (when - lives.time[at]) / (lives.next_time[at] - lives.time[at])
        end[asked.between] += np.floor((lives.next_end[at] - lives.end[at]) * share).astype(np.int64)
    return end


def _time_lag(lives: Lives, asked: _Asked, end: Int64) -> tuple[Int64, Bool]:
    """How long ago, in ms, the offset was the end of the log; and whether that is known (`log_ends.reached_at`)."""
    late, timed = np.zeros(len(end), np.int64), asked.known & (asked.offset >= end)
    rest = np.flatnonzero(asked.known & ~timed)
    sample = asked.sample[rest]
    # Within a life ends only rise: no later sample is at or below an offset that lies below this row's end.
    mark = last_at(lives.end, lives.life_first[sample], sample + 1, asked.offset[rest])
    rest, mark = rest[mark >= 0], mark[mark >= 0]
    low, high, since = lives.end[mark], lives.next_end[mark], lives.time[mark]
    grows = lives.has_next[mark] & (high > low)
    share = (asked.offset[rest] - low) / np.where(grows, high - low, 1)
    line = since + np.floor(share * (lives.next_time[mark] - since)).astype(np.int64)
    late[rest] = np.maximum(np.floor((asked.time[rest] - np.where(grows, line, since)) / 1000).astype(np.int64), 0)
    timed[rest] = True
    return late, timed
