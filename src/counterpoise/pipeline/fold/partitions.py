"""The state of a bucket's partitions: their owners and commits between two chunks of the log.

It is O(partitions), independent of the length of the history. It has the spans of ownership that later records may change, and
one row of commits per partition and interval between two steps, up to the last sample of the partition's log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, Float, first_of_runs, last_at, pick, run_starts, widened
from counterpoise.pipeline.fold.health_state import Busy, MemberHealth, unknown
from counterpoise.pipeline.fold.log_ends import LogEnds
from counterpoise.pipeline.fold.ownership import FOLLOWING, Names, NewSteps, OwnerSpans, Steps
from counterpoise.pipeline.scan.aggregation import Aggregates, aggregated, aggregates_of

__all__ = ["Keys", "PartitionStates", "newest_commits"]


def _codes(texts: pa.ChunkedArray, known: dict[str, int]) -> Int64:
    """Codes of strings in a dictionary, which is extended; -1: null."""
    if not len(texts):
        return np.zeros(0, np.int64)
    encoded = texts.dictionary_encode().unify_dictionaries().combine_chunks()
    codes = [*(known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()), -1]
    of_row: Int64 = np.array(codes, np.int64)[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return of_row


@dataclass(frozen=True)
class Keys(Columns):
    """One row per partition of a group, sorted by the codes of group, topic and partition."""

    group: Int64
    topic: Int64
    partition: Int64
    counted: Bool  # The group has committed for it
    begun: Bool  # `last_before` and `gap_before` include commits before the first step of the group
    # owner_before, last_before: The last owner (-1: none) and the last commit (-NEVER: none) in spans whose stops are in
    # the figures
    owner_before: Int64
    last_before: Int64
    gap_before: Float  # The usual gap between these commits, in seconds; nan: unknown
    # lag_at, lag_owner, lag, lag_quality: The newest final row of `partition_lag`: time (-NEVER: none), member (-1: none),
    # lag (-1: unknown), code of the quality
    lag_at: Int64
    lag_owner: Int64
    lag: Int64
    lag_quality: Int64
    # window_at, window_owner, window_committed, window_committed_at, window_end: The begin of the present window (see
    # `sizing`; -NEVER: none), and of the row of lag then: member, newest committed offset (-1: none), time of its commit,
    # end of the log
    window_at: Int64
    window_owner: Int64
    window_committed: Int64
    window_committed_at: Int64
    window_end: Int64
    # produced, busiest: Records produced in the group's open period, and in its busiest one
    produced: Int64
    busiest: Int64

    @classmethod
    def new(cls, group: Int64, topic: Int64, partition: Int64) -> Keys:
        """Keys without commits, stops and lag."""
        return cls(group, topic, partition, **{name: np.full(len(group), value) for name, value in _NEW_KEY.items()})


_NEW_KEY: dict[str, Any] = {
    **dict.fromkeys(("counted", "begun"), False),
    **dict.fromkeys(("last_before", "lag_at", "window_at"), -NEVER),
    **dict.fromkeys(
        ("owner_before", "lag_owner", "lag", "window_owner", "window_committed", "window_committed_at", "window_end"), -1
    ),
    **dict.fromkeys(("lag_quality", "produced", "busiest"), 0),
    "gap_before": np.nan,
}


class PartitionStates:
    """The state of a bucket's partitions.

    Attributes
    ----------
    names : Names
    keys : Keys
    steps : Steps
    spans : OwnerSpans
        Sorted by key, time and log offset.
    commits : Aggregates
        Sorted by key, then by time: no row spans a sample or a step of its group.
    step_group, step_time : int64
        Distinct times of steps, by group: those for which rows of lag may still be computed.
    n_steps, third_step, owned_since : int64
        By group: the number of its steps, the time of the third, and that of the first that assigns a partition, or leaves the
        group without members.
    health : float64
        The matrix of `health_state`, one column per key.
    member_health : MemberHealth
        Health of members and groups.
    busy : Busy
    since : int
        Rows of `partition_lag` up to then are final, in microseconds.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.keys, self.steps, self.spans, self.commits = Keys.empty(), Steps.empty(), OwnerSpans.empty(), Aggregates.empty()
        self.step_group = self.step_time = self.n_steps = self.third_step = self.owned_since = np.zeros(0, np.int64)
        self.health, self.member_health, self.busy = unknown(0), MemberHealth.empty(), Busy.empty()
        self.since = -NEVER
        self._logs: tuple[LogEnds | None, Int64, Int64] = (None, self.keys.partition, np.zeros((0, 2), np.int64))

    @property
    def groups(self) -> list[str]:
        """Names of groups by code."""
        return list(self.names.groups)

    @property
    def topics(self) -> list[str]:
        """Names of topics by code."""
        return list(self.names.topics)

    @property
    def members(self) -> list[str]:
        """Ids of members by code."""
        return list(self.names.members)

    def add(self, new: NewSteps, commits: pa.Table) -> None:
        """Add a chunk: steps in log order, and rows of `AGGREGATE_COLUMNS`."""
        names, old = self.names, self.keys
        first = len(self.steps.group)
        new_steps, span_topic, span_partition, spans = new.arrays(first)
        steps = Steps.joined([self.steps, new_steps])
        span_group = steps.group[spans.step]
        group, topic = _codes(commits["group_id"], names.groups), _codes(commits["topic"], names.topics)
        topic_id = _codes(commits["topic_id"], names.ids).astype(np.int32)
        self.owned_since = widened(self.owned_since, len(names.groups), NEVER)
        np.minimum.at(self.owned_since, span_group, spans.time)
        np.minimum.at(self.owned_since, *np.array(new.unowned, np.int64).reshape(-1, 2).T)
        places = [
            np.concatenate(columns)
            for columns in (
                (old.group, group, span_group),
                (old.topic, topic, span_topic),
                (old.partition, commits["partition"].to_numpy().astype(np.int64), span_partition),
            )
        ]
        key, first_row = _numbered(*places)
        n, m = len(old.group), len(old.group) + len(commits)
        self.keys = Keys.new(*(column[first_row] for column in places)).put(key[:n], **vars(old))
        health, self.health = self.health, unknown(len(first_row))
        self.health[:, key[:n]] = health
        rows = Aggregates.joined(
            [
                replace(self.commits, key=key[:n][self.commits.key].astype(np.int32)),
                aggregates_of(commits, key[n:m].astype(np.int32), topic_id),
            ]
        )
        self.commits = rows.take(np.lexsort((rows.offset, rows.max_ts, rows.key)))
        both = [replace(self.spans, key=key[:n][self.spans.key]), replace(spans, key=key[m:])]
        self._add_steps(steps, OwnerSpans.joined(both), first)

    def _add_steps(self, steps: Steps, spans: OwnerSpans, first: int) -> None:
        order = np.argsort(steps.group, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        groups, times = steps.group[first:], steps.time[first:]
        self.steps = steps.take(order).with_empty()
        spans = replace(spans, step=np.where(spans.step >= 0, place[np.maximum(spans.step, 0)] if len(place) else -1, -1))
        spans = spans.ended(self.steps)
        self.spans = spans.take(np.lexsort((spans.offset, spans.time, spans.key)))
        n = len(self.names.groups)
        before, third = (widened(column, n, fill) for column, fill in ((self.n_steps, 0), (self.third_step, NEVER)))
        for group, time in zip(groups.tolist(), times.tolist(), strict=True):
            before[group] += 1
            if before[group] == FOLLOWING:
                third[group] = time
        self.n_steps, self.third_step = before, third
        group, time = np.concatenate((self.step_group, groups)), np.concatenate((self.step_time, times))
        order = np.lexsort((time, group))
        group, time = group[order], time[order]
        fresh = run_starts(group, time)
        self.step_group, self.step_time = group[fresh], time[fresh]

    def drop_finished(self, watermarks: Int64, until: int) -> None:
        """Drop rows that no later chunk needs, after rows of lag up to `until` and all known stops are written.

        - spans of ownership that are finished (see `_finished_spans`), and their commits;
        - commits before `watermarks`, except the newest row of each partition, which stays without its counts, because lag is
          counted from its offset; rows between the same two steps become one;
        - steps before the last `FOLLOWING` of each group, and times for which no row of lag can follow.
        """
        commits, finished = self.commits, self._finished_spans(watermarks)
        is_old = commits.max_ts <= watermarks[commits.key]
        droppable = self._of_finished_spans(finished, watermarks) & is_old
        newest, old = np.zeros(len(commits), np.bool_), np.flatnonzero(is_old)
        newest_first = old[::-1]
        newest[newest_first[run_starts(commits.key[newest_first])]] = True
        newest[old[newest_commits(commits.take(old))]] = True  # another one, if the broker's clock was set back
        counted = np.flatnonzero(droppable & newest)
        rows = commits.put(counted, live=0, dead=0, live_ts=NEVER, live_offset=NEVER, live_until=-NEVER)
        keep = np.flatnonzero(~droppable | newest)
        rows = rows.take(keep)
        cell = np.where(is_old[keep], self._cells(rows), (1 << 40) + np.arange(len(rows)))
        self.commits, _ = aggregated(rows, cell)
        self.spans = self._without_old_steps(self.spans.take(np.flatnonzero(~finished)))
        self._drop_step_times(watermarks, until)

    def _finished_spans(self, watermarks: Int64) -> Bool:
        """Whether the stop of each span is counted, its end is final, and rows of lag up to the next span are written."""
        spans = self.spans
        next_time = np.full(len(spans.key), NEVER)
        next_time[:-1][spans.key[1:] == spans.key[:-1]] = spans.time[1:][spans.key[1:] == spans.key[:-1]]
        return np.asarray((spans.closed != NEVER) & spans.timed & (next_time <= watermarks[spans.key]))

    def _of_finished_spans(self, finished: Bool, watermarks: Int64) -> Bool:
        """Whether the span of each row of commits is finished. Before the first span: whether that begins by the watermark."""
        key, span, first = self.commits.key, self._span_of(self.commits), np.full(len(self.keys.group), NEVER)
        np.minimum.at(first, self.spans.key, self.spans.time)
        before_first = self.keys.begun[key] & (first[key] <= watermarks[key])
        return np.where(span < 0, before_first, np.append(finished, False)[span])

    def watermarks(self, ends: LogEnds, until: int, *, complete: bool) -> Int64:
        """By key: the time after which rows of lag may still be computed, if those up to `until` are final.

        `complete`: no sample follows `ends`, so no row of lag follows the last sample of a log.
        """
        if not ends.log or until == NEVER:
            return np.full(len(self.keys.group), until)
        log = self.logs(ends)
        at = last_at(ends.time, log[:, 0], log[:, 1], np.full(len(log), until))
        waits = (at >= 0) & ((at + 1 < log[:, 1]) if complete else True)
        return np.where(waits, ends.time[at], until)

    def logs(self, ends: LogEnds) -> Int64:
        """By key: first row of its log's samples, and the one after the last."""
        known, partition, logs = self._logs
        if known is not ends or partition is not self.keys.partition:
            topics = self.topics
            names = [topics[at] for at in self.keys.topic.tolist()]
            found = [ends.log.get(pair, (0, 0)) for pair in zip(names, self.keys.partition.tolist(), strict=True)]
            logs = np.array(found, np.int64).reshape(-1, 2)
            self._logs = ends, self.keys.partition, logs
        return logs.copy()

    def _span_of(self, rows: Aggregates) -> Int64:
        """The row of `spans` that each row of commits comes after; -1: before the first of its key."""
        spans = self.spans
        key = np.concatenate((spans.key, rows.key))
        order = np.lexsort((np.concatenate((spans.offset, rows.offset)), np.concatenate((spans.time, rows.ts)), key))
        is_commit = order >= len(spans)
        at = np.maximum.accumulate(np.where(is_commit, -1, order))[is_commit]
        row = order[is_commit] - len(spans)
        span = np.empty(len(rows), np.int64)
        span[row] = np.where((at >= 0) & (pick(spans.key, at) == rows.key[row]), at, -1)
        return span

    def _cells(self, rows: Aggregates) -> Int64:
        """For each row the number of known steps of its group, and of ends of spans, before it."""
        spans, steps, group = self.spans, self.steps, self.keys.group
        marks = [(steps.group, steps.time, steps.offset), (group[spans.key], spans.time, spans.offset)]
        for bound in (spans.nobody_from, spans.closed):
            final = np.flatnonzero((spans.step < 0) & (bound != NEVER))
            marks.append((group[spans.key[final]], bound[final], np.full(len(final), NEVER)))
        of_mark, time, offset = (np.concatenate(columns) for columns in zip(*marks, strict=True))
        columns = ((offset, rows.offset), (time, rows.ts), (of_mark, group[rows.key]))
        order = np.lexsort([np.concatenate(pair) for pair in columns])
        is_mark = order < len(time)
        cell = np.empty(len(rows), np.int64)
        cell[order[~is_mark] - len(time)] = np.cumsum(is_mark)[~is_mark]
        return cell

    def _without_old_steps(self, spans: OwnerSpans) -> OwnerSpans:
        """Drop steps before the last `FOLLOWING` of each group; the columns of their spans are final."""
        group = self.steps.group
        places = np.arange(len(group))
        end = np.searchsorted(group, group, "right")
        stay = end - places <= FOLLOWING
        place = np.full(len(group) + 1, -1)
        place[:-1][stay] = np.arange(int(stay.sum()))
        self.steps = self.steps.take(np.flatnonzero(stay))
        return replace(spans, step=place[spans.step])

    def _drop_step_times(self, watermarks: Int64, until: int) -> None:
        """Keep the times of steps after the last sample of some log of the group, if the partition has a commit.

        Between samples a row of lag needs a commit. A deleted topic has no more samples, and Kafka deletes its offsets.
        """
        commits, n = self.commits, len(self.keys.group)
        live = np.full(n, -1)
        rows = np.flatnonzero(~commits.deleted)
        live[commits.key[rows]] = rows  # of several rows of a key the last one wins
        key = np.flatnonzero(live >= 0)
        after = live[key] + 1
        dead = np.append(commits.key, -1)[after] == key
        group, since = self.keys.group[key], watermarks[key]
        least, first, last = (np.full(len(self.names.groups), one) for one in (until, NEVER, -NEVER))
        np.minimum.at(least, group[~dead], since[~dead])
        np.minimum.at(first, group[dead], since[dead])
        np.maximum.at(last, group[dead], commits.max_ts[after[dead]])
        time, of = self.step_time, self.step_group
        stay = (time >= least[of]) | ((time >= first[of]) & (time < last[of]))
        self.step_group, self.step_time = self.step_group[stay], self.step_time[stay]


def newest_commits(rows: Aggregates) -> Int64:
    """Indices of the newest commit of each key, the one with the highest log offset, in key order."""
    newest_first = np.lexsort((rows.offset, rows.key))[::-1]
    return newest_first[run_starts(rows.key[newest_first])][::-1]


def _numbered(group: Int64, topic: Int64, partition: Int64) -> tuple[Int64, Int64]:
    """The key of each row, and for each key a row that has it."""
    order = np.lexsort((partition, topic, group))
    new = first_of_runs(*(column[order] for column in (group, topic, partition)))
    key = np.empty(len(order), np.int64)
    key[order] = np.cumsum(new) - 1
    return key, order[new]
