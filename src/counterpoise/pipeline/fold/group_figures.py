"""Figures of `group_report` about commits, stops and lag: sums and extremes, updated with each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import run_starts
from counterpoise.pipeline.fold.lag import QUALITIES
from counterpoise.pipeline.fold.partitions import Partitions
from counterpoise.pipeline.fold.stops import Stops
from counterpoise.pipeline.scan.aggregation import NEVER

__all__ = ["CommitFigures", "StopFigures", "add_stops", "commit_figures", "committed_partitions", "lag_figures", "of_commits"]

Figures = dict[str, Any]
_LAG_NAMED, _UNOWNED_NAMED = 5, 5
"""How many partitions are listed: of the member with most lag, and of those with commits without an owner."""
_WITH_COMMIT = [QUALITIES.index(name) for name in ("exact", "interpolated")]
"""The qualities of a row of `partition_lag` that has a commit."""
_COMMITS = [("live", "sum"), ("dead", "sum"), ("live_ts", "min"), ("live_until", "max"), ("max_ts", "max")]


class StopFigures:
    """One group's stops: seconds, the longest one, and commits by nobody.

    Parameters
    ----------
    state : sequence, optional
        What `state` gave.
    """

    def __init__(self, state: Any = None) -> None:
        known, worst, stopped, by_nobody, unowned, most = state or (False, None, 0, 0, [], None)
        self.known, self.stopped, self.by_nobody = bool(known), int(stopped), int(by_nobody)
        self.worst: tuple[float, int, int] | None = None if worst is None else (worst[0], worst[1], worst[2])
        self._unowned: dict[tuple[str, int], int] = {(topic, at): n for topic, at, n in unowned}
        self._most: tuple[int, int] | None = None if most is None else (most[0], most[1])

    @property
    def state(self) -> list[Any]:
        """The figures, for the saved state."""
        return [
            self.known,
            self.worst,
            self.stopped,
            self.by_nobody,
            [[*place, n] for place, n in self._unowned.items()],
            self._most,
        ]

    def stop(self, seconds: float, generation: int, at: int) -> None:
        """Add the longest of some stops."""
        here = (-seconds, generation, at)
        self.worst = here if self.worst is None else min(self.worst, here)

    def unowned(self, topic: str, partition: int, generation: int, commits: int) -> None:
        """Add commits without an owner for a partition after a step."""
        self._unowned[topic, partition] = self._unowned.get((topic, partition), 0) + commits
        here = (-commits, generation)
        self._most = here if self._most is None else min(self._most, here)

    @property
    def figures(self) -> Figures:
        """In columns of `group_report`; empty if nothing was handed out and nothing committed."""
        if not self.known:
            return {}
        worst, most = self.worst, sorted(self._unowned.items(), key=lambda one: (-one[1], one[0]))[:_UNOWNED_NAMED]
        return {
            "stopped_partition_seconds": None if worst is None else self.stopped / 1_000_000,
            "longest_stop_seconds": None if worst is None else -worst[0],
            "longest_stop_generation": None if worst is None or worst[1] < 0 else worst[1],
            "longest_stop_ts": None if worst is None else worst[2],
            "commits_without_owner": self.by_nobody,
            "partitions_without_owner": len(self._unowned),
            "unowned_commits": [{"topic": topic, "partition": at, "commits": n} for (topic, at), n in most],
            "unowned_generation": None if self._most is None else self._most[1],
        }


def add_stops(of: Mapping[str, StopFigures], parts: Partitions, stops: Stops) -> None:
    """Add what is new in some stops to their groups' figures."""
    groups, topics = parts.groups, parts.topics
    n = len(groups)
    for group in np.unique(stops.group).tolist():
        of[groups[group]].known = True
    known = np.flatnonzero(stops.timed & ~np.isnan(stops.stop))
    order = known[np.lexsort((stops.at[known], stops.generation[known], -stops.stop[known], stops.group[known]))]
    for row in order[run_starts(stops.group[order])].tolist():
        found = of[groups[stops.group[row]]]
        found.stop(float(stops.stop[row]), int(stops.generation[row]), int(stops.at[row]))
    # Whole microseconds: a sum of fractions would depend on the order in which rows come.
    stopped = np.floor(stops.stop[known] * 1_000_000 + 0.5).astype(np.int64)
    counted = np.flatnonzero(stops.counted)
    for name, rows, values in (("stopped", known, stopped), ("by_nobody", counted, stops.by_nobody[counted])):
        sums = np.zeros(n, np.int64)
        np.add.at(sums, stops.group[rows], values)
        for group in np.flatnonzero(sums).tolist():
            setattr(of[groups[group]], name, getattr(of[groups[group]], name) + int(sums[group]))
    keys = parts.keys
    for row in counted[stops.by_nobody[counted] > 0].tolist():
        key = stops.key[row]
        place = topics[keys.topic[key]], int(keys.partition[key])
        of[groups[stops.group[row]]].unowned(*place, int(stops.generation[row]), int(stops.by_nobody[row]))


def committed_partitions(parts: Partitions, stops: Stops) -> Int64:
    """By group: the number of partitions with commits since its first step, including `stops`."""
    committed = parts.keys.counted.copy()
    committed[stops.key[stops.counted & (stops.commits > 0)]] = True
    return np.bincount(parts.keys.group[committed], minlength=len(parts.names.groups)).astype(np.int64)


CommitFigures = list[Any]
"""Commits, deletions, first and last time of commits, time of the last of all, its log offset, and whether that one deletes."""


def commit_figures(before: dict[str, CommitFigures], commits: pa.Table) -> None:
    """Add rows of `AGGREGATE_COLUMNS` to the figures by group."""
    figures = [*_COMMITS, ("offset", "last"), ("deleted", "last")]
    named = commits.select(["group_id", *dict(figures)]).sort_by("offset")
    for group, live, dead, first, last, of_all, offset, deleted in _rows(named.group_by("group_id", use_threads=False), figures):
        known = before.setdefault(group, [0, 0, NEVER, -NEVER, -NEVER, -1, False])
        known[0] += live
        known[1] += dead
        known[2:5] = min(known[2], first), max(known[3], last), max(known[4], of_all)
        if offset > known[5]:
            known[5:] = offset, deleted


def _rows(grouped: Any, figures: list[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    table = grouped.aggregate(figures)
    columns = [table["group_id"], *(table[f"{name}_{how}"] for name, how in figures)]
    return zip(*(column.to_pylist() for column in columns), strict=True)


def of_commits(found: CommitFigures) -> Figures:
    """In columns of `group_report`, and whether the last of all deletes."""
    live, dead, first, last, _, _, gone = found
    times = {"first_commit": first if live else None, "last_commit": last if live else None}
    return {"commits": live, "commit_tombstones": dead, **times, "commits_gone": gone}


def lag_figures(parts: Partitions) -> Iterator[tuple[str, Figures, int | None]]:
    """By group: the sum of the newest lag, its quality, the owner with most of it; and the number of partitions with a commit."""
    keys, groups, members, topics = parts.keys, parts.groups, parts.members, parts.topics
    rows = np.flatnonzero(keys.lag_at != -NEVER)
    rows = rows[np.argsort(keys.group[rows], kind="stable")]
    for start, end in pairwise([*run_starts(keys.group[rows]).tolist(), len(rows)]):
        mine = rows[start:end]
        lag, owner, quality = keys.lag[mine], keys.lag_owner[mine], keys.lag_quality[mine]
        known = lag >= 0
        total = int(lag[known].sum()) if known.any() else None
        held = known & (owner >= 0)
        by_owner = [(-int(lag[held & (owner == one)].sum()), members[one], one) for one in np.unique(owner[held]).tolist()]
        least, name, code = min(by_owner, default=(0, None, None))
        worst = mine[held & (owner == code) & (lag > 0)] if code is not None else mine[:0]
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
            },
            int(np.isin(quality, _WITH_COMMIT).sum()) or None,
        )
