"""Figures of `group_report` on commits, stops and lag: sums and extremes that each chunk updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import NEVER, run_starts, runs
from counterpoise.pipeline.fold.lag import QUALITIES
from counterpoise.pipeline.fold.partitions import PartitionStates, newest_commits
from counterpoise.pipeline.fold.stops import Stops

__all__ = [
    "CommitFigures",
    "StopFigures",
    "add_stops",
    "commit_columns",
    "commits_by_group",
    "committed_partitions",
    "groups_with_commits",
    "lag_figures",
]

Figures = dict[str, Any]
_LAG_NAMED, _UNOWNED_NAMED = 5, 5
"""How many partitions are listed: of the member with most lag, and of those with commits without an owner."""
_WITH_COMMIT = [QUALITIES.index(name) for name in ("exact", "interpolated")]
"""The qualities of a row of `partition_lag` that has a commit."""
_COMMITS = [("live", "sum"), ("dead", "sum"), ("live_ts", "min"), ("live_until", "max")]


class StopFigures:
    """One group's stops: seconds, the longest one, and commits without an owner. Its attributes are its state."""

    def __init__(self) -> None:
        self.known = False
        self.stopped = self.left_out = self.unowned = 0
        self.worst: list[Any] | None = None
        self.by_partition: Counter[tuple[str, int]] = Counter()
        self.most: list[int] | None = None

    @property
    def figures(self) -> Figures:
        """Columns of `group_report`; empty if no partition was assigned and none committed."""
        if not self.known:
            return {}
        worst, most = self.worst, sorted(self.by_partition.items(), key=lambda one: (-one[1], one[0]))[:_UNOWNED_NAMED]
        return {
            "stopped_partition_seconds": None if worst is None else self.stopped / 1_000_000,
            "longest_stop_seconds": None if worst is None else -worst[0],
            "longest_stop_generation": None if worst is None or worst[1] < 0 else worst[1],
            "longest_stop_ts": None if worst is None else worst[2],
            "stopped_unsampled_seconds": None if worst is None else self.left_out / 1_000_000,
            "commits_without_owner": self.unowned,
            "partitions_without_owner": len(self.by_partition),
            "unowned_commits": [{"topic": topic, "partition": at, "commits": n} for (topic, at), n in most],
            "unowned_generation": None if self.most is None else self.most[1],
        }


def add_stops(by_group: Mapping[str, StopFigures], parts: PartitionStates, stops: Stops) -> None:
    """Add stops that became known and counts that became final to the figures of their groups."""
    groups, topics = parts.groups, parts.topics
    n = len(groups)
    for group in np.unique(stops.group).tolist():
        by_group[groups[group]].known = True
    known = np.flatnonzero(stops.timed & ~np.isnan(stops.stop))
    order = known[np.lexsort((stops.at[known], stops.generation[known], -stops.stop[known], stops.group[known]))]
    for row in order[run_starts(stops.group[order])].tolist():
        figures = by_group[groups[stops.group[row]]]
        longest = [-float(stops.stop[row]), int(stops.generation[row]), int(stops.at[row])]
        figures.worst = longest if figures.worst is None else min(figures.worst, longest)
    # Whole microseconds: a sum of fractions would depend on the order of rows.
    stopped, left_out = (np.floor(one[known] * 1_000_000 + 0.5).astype(np.int64) for one in (stops.stop, stops.left_out))
    counted = np.flatnonzero(stops.counted)
    sums_of = (("stopped", known, stopped), ("left_out", known, left_out), ("unowned", counted, stops.unowned[counted]))
    for name, rows, values in sums_of:
        sums = np.zeros(n, np.int64)
        np.add.at(sums, stops.group[rows], values)
        for group in np.flatnonzero(sums).tolist():
            setattr(by_group[groups[group]], name, getattr(by_group[groups[group]], name) + int(sums[group]))
    keys = parts.keys
    for row in counted[stops.unowned[counted] > 0].tolist():
        key, figures = stops.key[row], by_group[groups[stops.group[row]]]
        most = [-int(stops.unowned[row]), int(stops.generation[row])]
        figures.by_partition[topics[keys.topic[key]], int(keys.partition[key])] += int(stops.unowned[row])
        figures.most = most if figures.most is None else min(figures.most, most)


def committed_partitions(parts: PartitionStates, stops: Stops) -> Int64:
    """By group: the number of partitions with commits since its first step, including `stops`."""
    committed = parts.keys.counted.copy()
    committed[stops.key[stops.counted & (stops.commits > 0)]] = True
    return np.bincount(parts.keys.group[committed], minlength=len(parts.names.groups)).astype(np.int64)


CommitFigures = list[int]
"""Number of commits and tombstones, first and last time of commits."""


def commits_by_group(commits: pa.Table) -> Iterator[tuple[str, CommitFigures]]:
    """Yield each group of rows of `AGGREGATE_COLUMNS` with the figures of its rows."""
    table = commits.group_by("group_id", use_threads=False).aggregate(_COMMITS)
    columns = [table["group_id"], *(table[f"{name}_{function}"] for name, function in _COMMITS)]
    for group, *figures in zip(*(one.to_pylist() for one in columns), strict=True):
        yield group, figures


def commit_columns(figures: CommitFigures, *, gone: bool) -> Figures:
    """Columns of `group_report`; `gone`: the group has no committed offset any more."""
    live, dead, first, last = figures
    times = {"first_commit": first if live else None, "last_commit": last if live else None}
    return {"commits": live, "commit_tombstones": dead, **times, "commits_gone": gone}


def groups_with_commits(parts: PartitionStates) -> frozenset[int]:
    """Codes of the groups with at least one partition whose newest commit is no tombstone."""
    newest = parts.commits.take(newest_commits(parts.commits))
    return frozenset(parts.keys.group[newest.key[~newest.deleted]].tolist())


def lag_figures(parts: PartitionStates, instants: Int64) -> Iterator[tuple[str, Figures]]:
    """Yield each group, and columns of `group_report` on its lag at the end and on its partitions with a commit.

    Partitions without a row at the last sample, the last of `instants`, are not counted: those of deleted topics, without a
    leader, or without owner and commit. If there are no samples, the newest row of each partition is counted.
    """
    keys, groups, members, topics = parts.keys, parts.groups, parts.members, parts.topics
    rows = np.flatnonzero(keys.lag_at >= instants[-1] if len(instants) else keys.lag_at != -NEVER)
    rows = rows[np.argsort(keys.group[rows], kind="stable")]
    for run in runs(keys.group[rows]):
        mine = rows[run]
        lag, owner, quality = keys.lag[mine], keys.lag_owner[mine], keys.lag_quality[mine]
        known = lag >= 0
        total = int(lag[known].sum()) if known.any() else None
        owned = known & (owner >= 0)
        by_owner = [(-int(lag[owned & (owner == one)].sum()), members[one], one) for one in np.unique(owner[owned]).tolist()]
        least, name, code = min(by_owner, default=(0, None, None))
        worst = mine[owned & (owner == code) & (lag > 0)] if code is not None else mine[:0]
        named = [(-int(keys.lag[at]), topics[keys.topic[at]], int(keys.partition[at])) for at in worst.tolist()]
        yield (
            groups[keys.group[mine[0]]],
            {
                "lag_now": total,
                "lag_quality": "exact" if bool((quality == 0).all()) else "unknown",
                "lag_owner": name,
                "lag_partitions": None
                if name is None
                else [{"topic": topic, "partition": at, "lag": -behind} for behind, topic, at in sorted(named)[:_LAG_NAMED]],
                "lag_owner_share": -least / total if name is not None and total else None,
                "committed_partitions": int(np.isin(quality, _WITH_COMMIT).sum()) or None,
            },
        )
