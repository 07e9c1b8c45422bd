"""Replays as rows of the tables `replays` and `metrics`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

import pyarrow as pa

from counterpoise.metrics import Metrics
from counterpoise.pipeline.history.arrow_assignments import assignments
from counterpoise.pipeline.history.replay_fold import Replay
from counterpoise.pipeline.history.topic_skew import skew_of
from counterpoise.pipeline.schemas import MEASURED_REPLAYS

__all__ = ["MEASURED_REPLAYS", "PendingReplays", "replay_batch"]

_BATCH = 1024
_OF_ROW = ("group_id", "generation", "log_partition", "log_offset", "log_ts", "leader_library")
_FIGURES = tuple(field.name for field in fields(Metrics))


class PendingReplays:
    """A buffer of replays that returns rows of `MEASURED_REPLAYS` in batches: a thousand, fewer if plans are large."""

    def __init__(self) -> None:
        self._replays: list[tuple[str, Replay]] = []
        self._weight = 0

    def add(self, cluster: str, replay: Replay) -> Iterator[pa.RecordBatch]:
        """Add a replay; yields a batch of all if there are enough."""
        self._replays.append((cluster, replay))
        self._weight += 1 + len(replay.owner) // 64
        if self._weight >= _BATCH:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield a batch of all replays, if there are any."""
        if self._replays:
            yield replay_batch(self._replays)
            self._replays, self._weight = [], 0


def replay_batch(pending: Sequence[tuple[str, Replay]]) -> pa.RecordBatch:
    """Pairs of a cluster and a replay as rows of `MEASURED_REPLAYS`; plans that replays share are converted once."""
    columns = _columns(pending)
    of = {(id(one.inputs), id(one.owner)): (one.inputs, one.owner) for _, one in pending}  # `pending` keeps the objects alive
    number = {key: at for at, key in enumerate(of)}
    place = pa.array([number[id(one.inputs), id(one.owner)] for _, one in pending], pa.int32())
    plain = [pa.array(columns[field.name], field.type) for field in MEASURED_REPLAYS if field.name != "assignment"]
    return pa.RecordBatch.from_arrays([*plain, assignments(list(of.values())).take(place)], schema=MEASURED_REPLAYS)


def _columns(pending: Sequence[tuple[str, Replay]]) -> dict[str, list[object]]:
    """The columns without the assignment, as lists."""
    replays_ = [replay for _, replay in pending]
    rows = [replay.row for replay in replays_]
    columns: dict[str, list[object]] = {name: [row[name] for row in rows] for name in _OF_ROW}
    figures = [replay.metrics for replay in replays_]
    columns |= {name: [getattr(one, name) for one in figures] for name in _FIGURES}
    skews = [skew_of(replay) for replay in replays_]
    return columns | {
        "cluster": [cluster for cluster, _ in pending],
        "incarnation": [replay.step["incarnation"] for replay in replays_],
        "strategy": [replay.name for replay in replays_],
        "mode": [replay.mode for replay in replays_],
        "protocol_kind": [replay.inputs.kind for replay in replays_],
        "declared": [replay.declared for replay in replays_],
        "n_members": [replay.inputs.problem.n_members for replay in replays_],
        "n_partitions": [replay.inputs.problem.n_partitions for replay in replays_],
        "matches_observed": [replay.matches for replay in replays_],
        "lag_unknown": [replay.inputs.lag_unknown for replay in replays_],
        "n_skewed_topics": [None if skew is None else skew.topics for skew in skews],
        "skewed_topics": [None if skew is None else skew.worst for skew in skews],
    }
