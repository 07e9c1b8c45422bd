"""Rows of the table `health`: intervals in which a partition, a member or a group is in one state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from counterpoise.model.problem import Int64
from counterpoise.pipeline.arrays import Bool, Columns, Float
from counterpoise.pipeline.fold.health_state import LAG, OFFSET, STATES, WALL, CurrentState, Points
from counterpoise.pipeline.fold.partitions import PartitionStates
from counterpoise.pipeline.schemas import COLUMNS

__all__ = ["GROUP", "HealthRows", "named", "partition_rows"]

_COLUMNS = COLUMNS["health"]
_SCOPES = ("partition", "member", "group")
PARTITION, MEMBER, GROUP = range(len(_SCOPES))


@dataclass(frozen=True)
class HealthRows(Columns):
    """Rows of `health`, with codes of names; -1: none."""

    # scope, state: Codes into `_SCOPES` and `STATES`
    scope: Int64
    state: Int64
    # group, key, member, owner: `key` is that of a partition
    group: Int64
    key: Int64
    member: Int64
    owner: Int64
    # since, until, detected: In microseconds
    since: Int64
    until: Int64
    detected: Int64
    open: Bool  # It is the state at the end of the recording
    partitions: Int64
    lag_begin: Int64
    lag_end: Int64
    lag_peak: Int64
    # produced, consumed, seconds_left: Records per second, and seconds; nan: unknown
    produced: Float
    consumed: Float
    seconds_left: Float

    def batch(self, parts: PartitionStates) -> pa.RecordBatch:
        """The rows with the columns of the table."""
        keys, names = parts.keys, parts.names
        owners = named(parts.members, np.maximum(self.member, self.owner)).to_pylist()
        topic, partition = (np.append(one, -1)[self.key] for one in (keys.topic, keys.partition))
        rates = {"produced_per_second": self.produced, "consumed_per_second": self.consumed, "seconds_left": self.seconds_left}
        columns = {
            "scope": pa.array(_SCOPES).take(pa.array(self.scope)),
            "state": pa.array(STATES).take(pa.array(self.state)),
            "group_id": named(parts.groups, self.group),
            "topic": named(parts.topics, topic),
            "partition": pa.array(partition.astype(np.int32), mask=self.key < 0),
            "member_id": named(parts.members, self.member),
            "client_id": pa.array([names.clients.get(one) for one in owners], pa.string()),
            "owner": named(parts.members, self.owner),
            **{name: pa.array(getattr(self, name)).cast(_COLUMNS.field(name).type) for name in _AS_THEY_ARE},
            **{name: pa.array(one, mask=np.isnan(one)) for name, one in rates.items()},
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in _COLUMNS.names], schema=_COLUMNS)


_AS_THEY_ARE = ("since", "until", "detected", "open", "partitions", "lag_begin", "lag_end", "lag_peak")


def named(names: list[str], codes: Int64) -> pa.Array:
    """The names of codes, null for -1. Only names that occur are converted: a bucket may have had a million members."""
    used = np.bincount(codes + 1) > 0
    listed = [names[code - 1] if code else None for code in np.flatnonzero(used).tolist()]
    return pa.array(listed, pa.string()).take(pa.array(np.cumsum(used)[codes + 1] - 1))


def partition_rows(group: Int64, key: Int64, owner: Float, shown: CurrentState, end: Points, is_open: Bool) -> HealthRows:
    """The rows of partitions from the begin of their states to `end`, with the rates between the two."""
    n, none = len(key), np.full(len(key), -1)
    seconds = (end[WALL] - shown.begun[WALL]) / 1e6
    produced, consumed = (
        np.where(seconds > 0, np.maximum(more, 0) / np.maximum(seconds, 1e-6), np.nan)
        for more in (end[LAG] + end[OFFSET] - shown.begun[LAG] - shown.begun[OFFSET], end[OFFSET] - shown.begun[OFFSET])
    )
    floats = (shown.state, shown.begun[WALL], end[WALL], shown.detected, shown.begun[LAG], end[LAG], shown.peak, owner)
    state, since, until, detected, lag_begin, lag_end, peak, owned = (one.astype(np.int64) for one in floats)
    scope, one = np.full(n, PARTITION), np.ones(n, np.int64)
    names, times = (scope, state, group, key, none, owned), (since, until, detected)
    return HealthRows(*names, *times, is_open, one, lag_begin, lag_end, peak, produced, consumed, shown.seconds_left)
