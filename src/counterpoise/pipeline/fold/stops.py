"""Stops of partitions around a rebalance, estimated from commits, and commits without an owner; for the groups of one bucket.

The offsets topic does not record the start of a rebalance. It records the last commit of the old owner and the first commit of
the new one (on any of its partitions, because a partition without traffic has no commits). A stop is the time between the two
minus the usual gap between commits, minus the last time without members, which no strategy makes shorter, and minus the time
without samples: the broker may have been away. Commits count as the owner's up to the third step after the one that assigned
the partition; later ones count only in the number of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, Bool, Columns, Float, first_of_runs, pick
from counterpoise.pipeline.fold.log_ends import LogEnds
from counterpoise.pipeline.fold.partitions import PartitionStates

__all__ = ["Stops", "find_stops"]


@dataclass(frozen=True)
class Stops:
    """One row per partition and step that assigned it, and one for commits before the first such step."""

    # The partition and its group, as codes
    key: Int64
    group: Int64
    # Generation and time (in microseconds) of the step; -1 and -NEVER before the first step
    generation: Int64
    at: Int64
    # The owner before (-1: none), and the time of its last commit (-NEVER: none)
    owner_before: Int64
    last_before: Int64
    # Seconds of the stop, and seconds of it that are left out because no samples exist; nan: the partition did not stop, or the
    # commit before or after the stop is missing
    stop: Float
    left_out: Float
    # Number of commits after the step, and of those without an owner
    commits: Int64
    unowned: Int64
    timed: Bool  # Whether the stop became known with this call
    counted: Bool  # Whether the two numbers of commits became final with this call


@dataclass(frozen=True)
class _CommitsBySpan(Columns):
    """Commits grouped by span of ownership, sorted by key and time."""

    # The partition, and the row of `PartitionStates.spans`; -1: the span before the first step
    key: Int64
    span: Int64
    # Times of the first and the last commit of the owner; NEVER and -NEVER: none
    first: Int64
    last: Int64
    gap: Float  # Mean seconds between them; nan: fewer than two
    # As in `Stops`
    commits: Int64
    unowned: Int64


def find_stops(parts: PartitionStates, ends: LogEnds, until: int, watermarks: Int64 | None) -> Stops:
    """The stops that became known, in O(n log n) of spans and commits in the state; marks them as timed in the state.

    `watermarks` is a result of `PartitionStates.watermarks`; None: no record follows, so every stop is known.

    A stop is known when `FOLLOWING` steps have followed, the last of them (`OwnerSpans.closed`) not after `until`; all samples up
    to `until` are known. Spans of one owner and step share their first and last commit, and the smallest of their mean gaps, in
    seconds. The last commit before a span comes from the nearest earlier span of the partition that has one, or from `Keys` if
    that span is no longer in the state; a recreated topic has none.
    """
    by_span = _commits_by_span(parts)
    keys, spans, at = parts.keys, parts.spans, by_span.span
    has_span, rows = at >= 0, np.arange(len(at))
    group = keys.group[by_span.key]
    timed_before = np.where(has_span, pick(spans.timed, at), keys.begun[by_span.key])
    owner, time = np.where(has_span, pick(spans.owner, at), -1), np.where(has_span, pick(spans.time, at), -NEVER)
    # A step is identified by its log offset, as two may have the same millisecond; -1: before the first step. -2: no
    # commit of the partition is valid yet; kept apart from -1, because its first one may come after those stops were counted.
    step = np.where(has_span, pick(spans.offset, at), np.where(by_span.last == -NEVER, -2, -1))
    first, last, gap = _of_owners(by_span, group, step, owner)
    known = {"last_before": last != -NEVER, "owner_before": has_span, "gap_before": ~np.isnan(gap)}
    values = {"last_before": last, "owner_before": owner, "gap_before": gap}
    recreated = pick(spans.recreated, at) & has_span & ~timed_before
    starts = np.searchsorted(by_span.key, by_span.key)
    reset = np.maximum.accumulate(np.where(recreated, rows, -1))
    begins = np.maximum(starts, reset)

    def before(name: str) -> Any:
        place = _before(known[name] & ~timed_before, begins)
        nothing = np.where(reset >= starts, _NOTHING[name], getattr(keys, name)[by_span.key])
        return np.where(place >= 0, pick(values[name], place), nothing)

    last_before, owner_before = before("last_before"), before("owner_before")
    usual = np.fmin(gap, before("gap_before"))
    usual = np.where(np.isnan(usual), 0.0, usual)
    both = (first != NEVER) & (last_before != -NEVER)
    filled = pick(spans.empty_until, at)
    empty = np.maximum(filled - np.maximum(pick(spans.empty_since, at), last_before), 0)
    silence = np.where(both, first / 1e6 - last_before / 1e6 - empty / 1e6, np.nan)
    stopped = both & has_span & (owner_before >= 0) & (pick(spans.eager, at) | (owner != owner_before))
    stop = np.where(stopped, np.maximum(silence - usual, 0.0), np.nan)
    unsampled = ends.unsampled(last_before, first) - ends.unsampled(filled - empty, filled)
    left_out = np.minimum(stop, unsampled / 1e6)
    closed = np.where(has_span, pick(spans.closed, at), parts.third_step[group]) <= until
    following = np.full(len(at), NEVER)
    following[:-1] = np.where(by_span.key[1:] == by_span.key[:-1], time[1:], NEVER)
    final = watermarks is None
    stops = Stops(
        key=by_span.key,
        group=group,
        generation=np.where(has_span, pick(spans.generation, at), -1),
        at=time,
        owner_before=owner_before,
        last_before=last_before,
        stop=stop - left_out,
        left_out=left_out,
        commits=by_span.commits,
        unowned=by_span.unowned,
        timed=(closed | final) & ~timed_before,
        counted=np.ones(len(at), np.bool_) if watermarks is None else closed & (following <= watermarks[by_span.key]),
    )
    if not final:
        parts.spans = spans.put(at[stops.timed & has_span], timed=True)
        _update_keys(parts, stops, until, stops.timed & recreated, known, values)
    return stops


_NOTHING = {"last_before": -NEVER, "owner_before": -1, "gap_before": np.nan}


def _update_keys(
    parts: PartitionStates, stops: Stops, until: int, recreated: Bool, known: Mapping[str, Bool], values: Mapping[str, Any]
) -> None:
    """Update `Keys` with the last owner, commit and gap of spans that are timed; a recreated topic starts again without them."""
    keys, rows = parts.keys, np.arange(len(stops.key))
    counted, reset = keys.counted.copy(), np.full(len(keys.group), -1)
    counted[stops.key[stops.counted & (stops.commits > 0)]] = True
    reset[stops.key[recreated]] = rows[recreated]  # of several rows of a key the last one wins
    changed: dict[str, Any] = {"begun": keys.begun | (parts.third_step[keys.group] <= until), "counted": counted}
    for name, nothing in _NOTHING.items():
        column = np.where(reset >= 0, nothing, getattr(keys, name))
        mine = np.flatnonzero(stops.timed & known[name] & (rows >= reset[stops.key]))
        column[stops.key[mine]] = values[name][mine]
        changed[name] = column
    parts.keys = replace(keys, **changed)


def _commits_by_span(parts: PartitionStates) -> _CommitsBySpan:
    """Group commits by span of ownership: spans and commits are sorted together, and each span takes the commits after it."""
    spans, commits = parts.spans, parts.commits
    has_steps = parts.n_steps > 0
    live = commits.take(np.flatnonzero((commits.live > 0) & has_steps[parts.keys.group[commits.key]]))
    key: Int64 = np.concatenate((spans.key, live.key))
    time = np.concatenate((spans.time, live.live_ts))
    order = np.lexsort((np.concatenate((spans.offset, live.live_offset)), time, key))
    key, time = key[order], time[order]
    is_step = order < len(spans)
    new = is_step | first_of_runs(key)
    starts = np.flatnonzero(new)
    at: Int64 = np.where(is_step[starts], order[starts], -1)
    zeros = np.zeros(len(spans), np.int64)
    count = np.concatenate((zeros, live.live))[order]
    until = np.concatenate((zeros - NEVER, live.live_until))[order]
    span = np.cumsum(new) - 1
    nobody_from = np.where(at >= 0, pick(spans.nobody_from, at), NEVER)[span]
    closed = np.where(at >= 0, pick(spans.closed, at), parts.third_step[parts.keys.group[key[starts]]])[span]
    # A commit in the same millisecond as the step is before it in the log.
    nobody = (time >= nobody_from) & (until > nobody_from)
    counts = ~is_step & (time < closed)
    first: Int64 = np.minimum.reduceat(np.where(counts, time, NEVER), starts)
    last: Int64 = np.maximum.reduceat(np.where(counts, until, -NEVER), starts)
    owned: Int64 = np.add.reduceat(np.where(counts, count, 0), starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(owned > 1, (last / 1e6 - first / 1e6) / (owned - 1), np.nan)
    unowned: Int64 = np.add.reduceat(np.where(nobody, count, 0), starts)
    return _CommitsBySpan(key[starts], at, first, last, gap, np.add.reduceat(count, starts), unowned)


def _of_owners(by_span: _CommitsBySpan, group: Int64, step: Int64, owner: Int64) -> tuple[Int64, Int64, Float]:
    """For each span the first commit, the last one and the smallest mean gap over all spans of the same group, step and owner."""
    order = np.lexsort((owner, step, group))
    new = first_of_runs(group[order], step[order], owner[order])
    starts = np.flatnonzero(new)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    first, last = np.minimum.reduceat(by_span.first[order], starts), np.maximum.reduceat(by_span.last[order], starts)
    gap = np.fmin.reduceat(by_span.gap[order], starts)
    return first[number], last[number], gap[number]


def _before(known: Bool, begins: Int64) -> Int64:
    """For each row the nearest known row before it, not before `begins`; -1: none."""
    newest = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
    previous = np.concatenate(([-1], newest[:-1]))[: len(known)]
    return np.where(previous >= begins, previous, -1)
