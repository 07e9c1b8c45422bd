"""Rows of `partition_lag` for the groups of one bucket, in arrays. A commit counts from the time when it was appended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.arrays import ranges
from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, last_at, pick, slices
from counterpoise.pipeline.fold.health_rows import named
from counterpoise.pipeline.fold.log_ends import LogEnds
from counterpoise.pipeline.fold.partitions import PartitionStates, newest_commits
from counterpoise.pipeline.scan.aggregation import Aggregates
from counterpoise.pipeline.schemas import COLUMNS
from counterpoise.pipeline.source.scope import Reset

__all__ = ["QUALITIES", "LagRows", "Samples", "keep_newest_lag", "lag_rows", "times_of_slices"]

_COLUMNS = COLUMNS["partition_lag"]
_ROWS = 25_000
QUALITIES = ("exact", "interpolated", "unknown", "reset_policy")


@dataclass(frozen=True)
class Samples(Columns):
    """Rows of `partition_lag` at samples of log ends, not those between samples; and samples of logs that have no such row."""

    key: Int64  # The partition's code
    time: Int64  # The time of the sample, in microseconds
    owner: Int64  # The member's code; -1: none
    lag: Int64  # -1: unknown
    committed: Int64  # The newest committed offset; -1: none
    committed_at: Int64  # The time of its commit
    # start, end: The sampled ends of the log
    start: Int64
    end: Int64


@dataclass(frozen=True)
class LagRows(Samples):
    """Rows of `partition_lag`, at samples and between them, and samples of logs that have no such row."""

    quality: Int64  # Code into `QUALITIES`; -1: the table has no such row
    time_lag: Int64  # `time_lag_ms`; -1: unknown
    clamped: Bool

    @property
    def written(self) -> LagRows:
        """The rows of the table."""
        return self.take(np.flatnonzero(self.quality >= 0))

    @property
    def samples(self) -> LagRows:
        """The rows at samples."""
        return self.take(np.flatnonzero((self.quality != QUALITIES.index("interpolated")) & (self.end >= 0)))

    def batch(self, parts: PartitionStates) -> pa.RecordBatch:
        """The rows with the columns of the table."""
        keys, at = parts.keys, self.key
        numbers = {"committed": self.committed, "log_start": self.start, "log_end": self.end, "lag": self.lag}
        columns = {
            **{name: pa.array(column, mask=column < 0) for name, column in {**numbers, "time_lag_ms": self.time_lag}.items()},
            "group_id": named(parts.groups, keys.group[at]),
            "topic": named(parts.topics, keys.topic[at]),
            "partition": pa.array(keys.partition[at].astype(np.int32)),
            "at": pa.array(self.time).cast(pa.timestamp("us", tz="UTC")),
            "owner": named(parts.members, self.owner),
            "quality": pa.array(QUALITIES).take(pa.array(self.quality)),
            "clamped": pa.array(self.clamped),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in _COLUMNS.names], schema=_COLUMNS)


def times_of_slices(parts: PartitionStates, ends: LogEnds, until: int) -> list[int]:
    """Times at which to cut the new rows of lag up to `until`: a slice has all rows of its samples, about `_ROWS` of them.

    If `lag_rows` is called up to each of these times in turn, rows of one sample never come in two calls.
    """
    instants = ends.instants[(ends.instants > parts.since) & (ends.instants < until)]
    at_once = max(_ROWS // max(len(parts.keys), 1), 1)
    return [*instants[at_once - 1 :: at_once].tolist(), until]


def lag_rows(
    parts: PartitionStates, ends: LogEnds, ids_at_end: Mapping[str, str] | None, reset: Reset | None = None, until: int = NEVER
) -> Iterator[LagRows]:
    """Yield rows at every sample of a partition's log, and between samples at every step of its group.

    Rows that were final before (`PartitionStates.since`) are skipped; samples after `until` (microseconds) are not used. Without
    samples there is one row per partition, at its last commit, of quality `unknown`. `ids_at_end`: topic -> its id at the end of
    the recording. The lag of a partition without a commit follows the reset policy, the members' ``auto.offset.reset``; without a
    policy it is unknown. It is never silently counted from the end of the log.
    """
    if not ends.log:
        if until == NEVER:
            yield from _last_commits(parts)
        return
    log = parts.logs(ends)
    last = last_at(ends.time, log[:, 0], log[:, 1], np.full(len(log), until))
    log[:, 1] = np.where(last < 0, log[:, 0], last + 1)
    steps, step_time = np.searchsorted(parts.step_group, np.arange(len(parts.names.groups) + 1)), parts.step_time
    first_sample, first_step = _firsts(parts, ends, log, steps)
    group = parts.keys.group
    at_steps = np.where(log[:, 1] > log[:, 0], steps[group + 1] - first_step, 0)
    samples = log[:, 1] - first_sample
    former, last_in_log = _of_former_topics(parts, ids_at_end), _last_in_log(parts.commits)
    for part in slices(samples + at_steps, _ROWS):
        keys = np.flatnonzero(samples[part] + at_steps[part] > 0) + part.start
        if len(keys):
            key_s, at_s = np.repeat(keys, samples[keys]), ranges(first_sample[keys], samples[keys])
            key_a, at_a = np.repeat(keys, at_steps[keys]), ranges(first_step[keys], at_steps[keys])
            key = np.concatenate((key_s, key_a))
            time = np.concatenate((ends.time[at_s], step_time[at_a]))
            before = last_at(ends.time, log[key_a, 0], log[key_a, 1], step_time[at_a])
            sample = np.concatenate((at_s, before))
            yield from _rows(parts, ends, key, time, sample, len(key_s), former, last_in_log, reset, until)


def keep_newest_lag(parts: PartitionStates, rows: LagRows) -> None:
    """Keep the newest row of each partition in `parts.keys`."""
    keys = parts.keys
    order = np.argsort(rows.time, kind="stable")
    newest = order[rows.time[order] >= keys.lag_at[rows.key[order]]]
    values = {"lag_at": rows.time, "lag_owner": rows.owner, "lag": rows.lag, "lag_quality": rows.quality}
    parts.keys = keys.put(rows.key[newest], **{name: value[newest] for name, value in values.items()})


def _last_commits(parts: PartitionStates) -> Iterator[LagRows]:
    """The rows without samples: the last commit of each partition, with an unknown lag; a later commit replaces the row."""
    commits = parts.commits
    last = newest_commits(commits)
    last = last[~commits.deleted[last]]
    if len(last):
        none, time = np.full(len(last), -1), commits.ts[last]
        unknown, no = np.full(len(last), QUALITIES.index("unknown")), np.zeros(len(last), np.bool_)
        key, committed = commits.key[last].astype(np.int64), commits.committed[last]
        yield LagRows(key, time, none, none, committed, time, none, none, unknown, none, no)


def _firsts(parts: PartitionStates, ends: LogEnds, log: Int64, steps: Int64) -> tuple[Int64, Int64]:
    """For each key, the first sample after the final rows, and the first step from the sample before it on."""
    group = parts.keys.group
    bounds = steps[group], steps[group + 1]
    if parts.since == -NEVER or not len(ends.time):
        return log[:, 0], bounds[0]
    before = last_at(ends.time, log[:, 0], log[:, 1], np.full(len(log), parts.since))
    sample = np.where(before >= 0, before + 1, log[:, 0])
    passed = last_at(parts.step_time, *bounds, ends.time[before] - 1)
    return sample, np.where((before >= 0) & (passed >= 0), passed + 1, bounds[0])


def _of_former_topics(parts: PartitionStates, ids_at_end: Mapping[str, str] | None) -> Bool:
    """Whether the newest commit of each row has another topic id than the topic of that name at the end of the recording."""
    commits, code = parts.commits, parts.names.ids
    if ids_at_end is None or not len(commits):
        return np.zeros(len(commits), np.bool_)
    now = np.array([-1 if ids_at_end.get(topic) is None else code.get(ids_at_end[topic], -2) for topic in parts.topics], np.int64)
    of_row = now[parts.keys.topic[commits.key]]
    return np.asarray((commits.topic_id >= 0) & (of_row != -1) & (commits.topic_id != of_row))


def _last_in_log(commits: Aggregates) -> Int64:
    """For each row of commits, which are sorted by key and time: of its key's rows up to it, the one that is last in the log.

    It may not be the row itself: a coordinator's clock may be behind that of the one before.
    """
    rises = (commits.offset[1:] >= commits.offset[:-1]) | (commits.key[1:] != commits.key[:-1])
    if rises.all():
        return np.arange(len(commits))
    in_log_order = np.lexsort((commits.offset, commits.key))
    return in_log_order[np.maximum.accumulate(np.argsort(in_log_order))]


def _rows(
    parts: PartitionStates,
    ends: LogEnds,
    key: Int64,
    time: Int64,
    sample: Int64,
    samples: int,
    former: Bool,
    last_in_log: Int64,
    reset: Reset | None,
    until: int,
) -> Iterator[LagRows]:
    """The rows of some keys: the first `samples` are at samples, the others at steps."""
    between = np.arange(len(key)) >= samples
    passed = time - ends.time[sample]
    keep = np.flatnonzero(~between | ((sample >= 0) & (passed > 0) & ends.has_next(sample)))
    key, time, sample, between = key[keep], time[keep], sample[keep], between[keep]
    known_at = time.copy()
    known_at[between] = ends.time[sample[between] + 1]
    commit, offset, committed_at = _commits(parts, last_in_log, key, time)
    known = commit >= 0
    if known.any():
        known &= ~parts.commits.deleted[commit] & ~(former[commit] & ends.is_newest[ends.life(sample)])
    owner, owned = _owners_at(parts, key, time)
    keep = np.flatnonzero((known | ~between) & (known_at <= until))
    if len(keep):
        columns: tuple[Any, ...] = (key, time, sample, between, offset, committed_at, known, owner, owned)
        yield _lag(ends, reset, *(column[keep] for column in columns))


def _commits(parts: PartitionStates, last_in_log: Int64, key: Int64, time: Int64) -> tuple[Int64, Int64, Int64]:
    """Of the rows of commits up to a time the one that is last in the log (-1: none), its offset, and its time."""
    commits = parts.commits
    bounds = np.searchsorted(commits.key, np.arange(len(parts.keys.group) + 1))
    last = last_at(commits.max_ts, bounds[key], bounds[key + 1], time)
    commit = np.where(last >= 0, pick(last_in_log, last), -1)
    return commit, pick(commits.committed, commit), pick(commits.ts, commit)


def _owners_at(parts: PartitionStates, key: Int64, time: Int64) -> tuple[Int64, Bool]:
    """The owner at a time, and whether there is one."""
    spans = parts.spans
    bounds = np.searchsorted(spans.key, np.arange(len(parts.keys.group) + 1))
    span = last_at(spans.time, bounds[key], bounds[key + 1], time)
    until = pick(spans.until, span)
    return pick(spans.owner, span), (span >= 0) & ((until == NEVER) | (time < until))


def _lag(
    ends: LogEnds,
    reset: Reset | None,
    key: Int64,
    time: Int64,
    sample: Int64,
    between: Bool,
    offset: Int64,
    committed_at: Int64,
    known: Bool,
    owner: Int64,
    owned: Bool,
) -> LagRows:
    """The rows at these times, each with the last sample up to it; `between`: the time is after that sample.

    `offset` and `committed_at` are the newest committed offset and the time of its commit, if `known`; `owner` is the owner, if
    `owned`.
    """
    begin, end, written = ends.start[sample], ends.end[sample], known | owned
    if between.any():  # interpolated to the next sample
        at, when = sample[between], time[between]
        share = (when - ends.time[at]) / (ends.time[at + 1] - ends.time[at])
        end[between] += np.floor((ends.end[at + 1] - ends.end[at]) * share).astype(np.int64)
    reached = offset if reset is None else np.where(known, offset, begin if reset == "earliest" else end)
    behind = end - np.maximum(reached, begin)
    quality = np.where(known, np.where(between, 1, 0), 2 if reset is None else 3)
    return LagRows(
        key=key,
        time=time,
        owner=np.where(owned, owner, -1),
        lag=np.where(known if reset is None else written, np.maximum(behind, 0), -1),
        committed=np.where(known, offset, -1),
        committed_at=np.where(written, committed_at, -1),
        start=begin,
        end=end,
        quality=np.where(written, quality, -1),
        time_lag=_time_lag(ends, sample, time, offset, known, end),
        clamped=known & ((behind < 0) | (offset < begin)),
    )


def _time_lag(ends: LogEnds, sample: Int64, time: Int64, offset: Int64, known: Bool, end: Int64) -> Int64:
    """How long ago, in ms, the offset was the end of the log; -1: that is unknown."""
    lag = np.where(known & (offset >= end), 0, -1)
    rest = np.flatnonzero(known & (lag < 0))
    # Ends only rise within a life: an offset below this row's end is below the ends of all later samples.
    mark = last_at(ends.end, ends.life_first[ends.life(sample[rest])], sample[rest] + 1, offset[rest])
    rest, mark = rest[mark >= 0], mark[mark >= 0]
    low, high, since = ends.end[mark], ends.end[mark + 1], ends.time[mark]
    grows = ends.has_next(mark) & (high > low)
    share = (offset[rest] - low) / np.where(grows, high - low, 1)
    line = since + np.floor(share * (ends.time[mark + 1] - since)).astype(np.int64)
    lag[rest] = np.maximum(np.floor((time[rest] - np.where(grows, line, since)) / 1000).astype(np.int64), 0)
    return lag
