"""The fold of a bucket of groups: a state that is advanced chunk by chunk in log order, and the rows that become final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER
from counterpoise.pipeline.fold import changes
from counterpoise.pipeline.fold.group_figures import (
    add_stops,
    commit_columns,
    commits_by_group,
    committed_partitions,
    groups_with_commits,
    lag_figures,
)
from counterpoise.pipeline.fold.group_state import GroupState
from counterpoise.pipeline.fold.health_fold import add_health, add_state_times, health_figures, open_rows
from counterpoise.pipeline.fold.health_rows import HealthRows
from counterpoise.pipeline.fold.lag import Samples, keep_newest_lag, lag_rows, times_of_slices
from counterpoise.pipeline.fold.lag_lookup import LagLookup
from counterpoise.pipeline.fold.log_ends import LogEnds
from counterpoise.pipeline.fold.ownership import NewSteps
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.fold.poll_timeouts import add_last_commits
from counterpoise.pipeline.fold.saved_partitions import restored_partitions, state_of_partitions
from counterpoise.pipeline.fold.sizing import add_samples, sizing_columns
from counterpoise.pipeline.fold.stops import Stops, find_stops
from counterpoise.pipeline.fold.strategy_figures import add_metrics
from counterpoise.pipeline.history.fold_state import decode_state, encode_state
from counterpoise.pipeline.history.plan_cache import PlanCache
from counterpoise.pipeline.source.scope import AuditScope

if TYPE_CHECKING:
    from counterpoise.pipeline.fold.table_rows import TableRows

__all__ = ["Bucket", "Chunk", "FoldSpec"]

Row = Mapping[str, Any]


@dataclass(frozen=True)
class FoldSpec:
    """The parameters of the fold for one cluster."""

    strategies: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # Topic id -> name
    ids_at_end: Mapping[str, str] | None = None  # Topic -> its id at the end of the recording
    scope: AuditScope = field(default_factory=AuditScope)  # Its `reset`, `headroom` and `policy` are read
    # Rows of lag up to this time, in microseconds, may be final (`positions.watermark_of`); `NEVER`: no record follows
    watermark: int = NEVER
    gaps: tuple[tuple[int, int, int], ...] = ()  # As `capture.folder.Missing.gaps`


@dataclass(frozen=True)
class Chunk:
    """The next records of a bucket's groups in log order."""

    # Rows of `group_generations` (with `record_type` null) and `modern_group_records`, group by group, each in log order
    records: Iterable[Row]
    commits: pa.Table  # Rows of `AGGREGATE_COLUMNS`; none spans a group record or a sample
    until: int = NEVER  # No record of a later chunk is before this time, in microseconds


class Bucket:
    """The state of a bucket of groups, restored from `state` if given. `plans` is a cache, which changes no result."""

    def __init__(self, spec: FoldSpec, ends: LogEnds, plans: PlanCache, state: bytes | None = None) -> None:
        saved = {} if state is None else decode_state(state)
        self._spec, self._ends, self._plans = spec, ends, plans
        self.parts = restored_partitions(saved["partitions"]) if saved else PartitionStates()
        self._new = NewSteps(self.parts.names)
        self.groups: dict[str, GroupState] = {}
        for group, of_group in saved.get("groups", {}).items():
            self._group(group, of_group)

    def state(self) -> bytes:
        """The state for the next chunk: O(partitions and members), independent of the length of the history."""
        groups = {name: group.state for name, group in sorted(self.groups.items())}
        return encode_state({"partitions": state_of_partitions(self.parts), "groups": groups})

    def _group(self, name: str, state: Mapping[str, Any] | None = None) -> GroupState:
        if name not in self.groups:
            self.groups[name] = GroupState(name, self._spec.strategies, self._plans, state)
        return self.groups[name]

    def advance(self, chunk: Chunk, rows: TableRows) -> None:
        """Fold a chunk; rows that no later chunk can change are added to `rows`."""
        self._feed(chunk.records, rows)
        # All samples and all records up to this time are known.
        until = min(NEVER if chunk.until == NEVER else chunk.until - 1, self._spec.watermark)
        self._fold(chunk.commits, rows, min(until, NEVER - 1), until)

    def finish(self, chunk: Chunk, rows: TableRows, end: int) -> Iterator[dict[str, Any]]:
        """Fold the last chunk and add all remaining rows to `rows`, as if no record followed. The bucket cannot be used again.

        `end` is the end of the recording, in microseconds. Yields the figures of each group, in columns of `group_report`.
        """
        self._feed(chunk.records, rows)
        for _, group in sorted(self.groups.items()):
            for step in group.steps.unfinished():
                rows.add_step(group.add(step))
        stops = self._fold(chunk.commits, rows, None, NEVER)
        for _, group in sorted(self.groups.items()):
            for replay in group.replays.close():
                rows.add_replay(replay)
        self._add_replays(rows)
        opened = open_rows(self.parts, self._ends.instants)
        self._add_health(rows, opened)
        counted, with_commits = committed_partitions(self.parts, stops), groups_with_commits(self.parts)
        lag = dict(lag_figures(self.parts, self._ends.instants))
        health = dict(health_figures(self.groups, self.parts, opened))
        for name, group in sorted(self.groups.items()):
            for row in changes.change_rows(group.changes, name, end):
                rows.add_change(row)
            # Stops count the partitions with a commit over all steps; of a group without steps the last sample shows them.
            figures = {**lag.get(name, {}), **self._figures(name, group, counted, with_commits), **health.get(name, {})}
            if figures.get("first_ts") is not None or group.commits is not None:
                yield {"group_id": name, **figures, **group.strategies.figures}

    def _figures(self, name: str, group: GroupState, counted: Int64, with_commits: frozenset[int]) -> dict[str, Any]:
        """The figures of a group without lag, health and strategies."""
        figures, code = dict(group.step_figures.summary()), self.parts.names.groups.get(name)
        if figures:
            figures |= {
                "causes": list(figures["causes"].items()),
                "libraries": sorted({*chain(*group.libraries.values())}) or None,
            }
            if group.stops.known:
                figures |= {**group.stops.figures, "committed_partitions": int(counted[code])}
        if code is not None:
            figures |= sizing_columns(group.sizing, self.parts, code, figures.get("members_now"), self._spec.scope.headroom)
        if group.commits is not None:
            figures |= commit_columns(group.commits, gone=code not in with_commits)
        return figures | group.timeouts.figures

    def _fold(self, commits: pa.Table, rows: TableRows, until: int | None, replay_until: int) -> Stops:
        """Fold commits and the steps that took effect; lag is final up to `until`, None: no record follows."""
        parts, spec, ends = self.parts, self._spec, self._ends
        for name, chunk_commits in commits_by_group(commits):
            self._group(name).add_commits(chunk_commits)
        new, self._new = self._new, NewSteps(parts.names)
        parts.add(new, commits)
        limit = NEVER if until is None else until
        generations = [(name, at) for name, group in self.groups.items() for at in group.times()]
        lookup = LagLookup(generations, ends.instants, parts)
        eras = {name: group.changes for name, group in self.groups.items()}
        sizing = {name: group.sizing for name, group in self.groups.items()}
        for moment in times_of_slices(parts, ends, limit):
            found = [Samples.empty()]
            for lag in lag_rows(parts, ends, spec.ids_at_end, spec.scope.reset, moment):
                rows.add_lag(parts, lag.written)
                keep_newest_lag(parts, lag.written)
                found.append(lag.samples)
            parts.since = max(parts.since, moment)
            every = Samples.joined(found)
            lookup.add(every)
            samples = every.take(np.flatnonzero((every.committed >= 0) | (every.owner >= 0)))
            changes.add_lag(eras, parts, samples)
            add_samples(sizing, parts, ends.instants, samples)
            self._add_health(rows, add_health(parts, ends.instants, every, moment))
        for _, group in sorted(self.groups.items()):
            for replay in group.replay(replay_until, lookup.at):
                rows.add_replay(replay)
        watermarks = None if until is None else parts.watermarks(ends, until, complete=spec.watermark == NEVER)
        stops = find_stops(parts, ends, limit, watermarks)
        figures = {name: group.stops for name, group in self.groups.items()}
        add_stops(figures, parts, stops)
        changes.add_stops(eras, parts, stops)
        add_last_commits({name: group.timeouts for name, group in self.groups.items()}, parts, stops)
        if watermarks is not None and until is not None:
            self._add_replays(rows)
            for group in self.groups.values():
                group.timeouts.count_final(until)
                group.changes.forget(until)
            parts.drop_finished(watermarks, until)
        return stops

    def _add_health(self, rows: TableRows, found: HealthRows) -> None:
        rows.add_health(self.parts, found)
        add_state_times(self.groups, self.parts, found)

    def _feed(self, records: Iterable[Row], rows: TableRows) -> None:
        for name, of_group in groupby(records, key=lambda row: str(row["group_id"])):
            for step in self._group(name).feed(of_group, self._spec.names, self._new.add, self._spec.gaps):
                rows.add_step(step)

    def _add_replays(self, rows: TableRows) -> None:
        metrics = rows.take_metrics()
        if metrics is not None:
            add_metrics({name: group.strategies for name, group in self.groups.items()}, metrics)
