"""The lag that a leader could have known at a generation, for replays of strategies.

It is the lag at the last sample of the cluster before the generation, of any log, so it does not depend on which groups are
audited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import runs
from counterpoise.pipeline.fold.lag import QUALITIES, Samples
from counterpoise.pipeline.fold.partitions import PartitionStates

__all__ = ["LagLookup"]


class LagLookup:
    """Lag by group and time, from the newest final rows in the state and from rows that are added.

    `generations` are the groups and times (microseconds) for which `at` will be called; `instants` are the times of samples of
    the cluster, ascending.
    """

    def __init__(self, generations: Iterable[tuple[str, int]], instants: Int64, parts: PartitionStates) -> None:
        self._instants, self._parts, self._code = instants, parts, parts.names.groups
        known = [(self._code[group], at) for group, at in generations if group in self._code]
        pairs = np.array(known, np.int64).reshape(-1, 2)
        last = np.searchsorted(instants, pairs[:, 1], "right") - 1
        self._wanted = np.unique(pairs[:, 0][last >= 0] * len(instants) + last[last >= 0])
        self._rows: list[tuple[Int64, Int64, Int64]] = []
        keys = parts.keys
        sampled = np.flatnonzero(keys.lag_quality != QUALITIES.index("interpolated"))
        self._keep(sampled, keys.lag_at[sampled], keys.lag[sampled])

    def add(self, rows: Samples) -> None:
        """Keep the rows that `at` will return."""
        self._keep(rows.key, rows.time, rows.lag)

    def _keep(self, key: Int64, time: Int64, lag: Int64) -> None:
        n = len(self._instants)
        if not len(self._wanted):
            return
        place = np.minimum(np.searchsorted(self._instants, time), n - 1)
        place = np.where(self._instants[place] == time, self._parts.keys.group[key] * n + place, -1)
        at = np.minimum(np.searchsorted(self._wanted, place), len(self._wanted) - 1)
        mine = np.flatnonzero((self._wanted[at] == place) & (lag >= 0))
        self._rows.append((place[mine], key[mine], lag[mine]))

    def at(self, group: str, moment: int) -> list[Mapping[str, Any]] | None:
        """``topic, partitions, lags`` of a group at a time, for known lags; None: there is no sample before it."""
        last = int(np.searchsorted(self._instants, moment, "right")) - 1
        if last < 0:
            return None
        topics = self._parts.topics
        entries = self._entries.get(self._code.get(group, -1) * len(self._instants) + last, ())
        return [{"topic": topics[topic], "partitions": partitions, "lags": lags} for topic, partitions, lags in entries]

    @cached_property
    def _entries(self) -> dict[int, list[tuple[int, Int64, Int64]]]:
        """Group and instant -> topics with their partitions and lags."""
        if not self._rows:
            return {}
        place, key, lag = (np.concatenate(columns) for columns in zip(*self._rows, strict=True))
        order = np.lexsort((key, place))  # keys are sorted by group, topic and partition
        place, key, lag = place[order], key[order], lag[order]
        topic, partition = self._parts.keys.topic[key], self._parts.keys.partition[key].astype(np.int32)
        entries: dict[int, list[tuple[int, Int64, Int64]]] = {}
        for mine in runs(place, topic):
            entries.setdefault(int(place[mine.start]), []).append((int(topic[mine.start]), partition[mine], lag[mine]))
        return entries
