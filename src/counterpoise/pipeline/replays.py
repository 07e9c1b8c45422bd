"""Tables `replays` and `metrics`: what every strategy would have done in each generation, and how good that is.

Like `rebalances`: one sort of the group records, then a streaming fold per group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from counterpoise.metrics import Metrics
from counterpoise.pipeline.folds.epochs import EPOCH_TYPE, as_generations
from counterpoise.pipeline.folds.replay_fold import Replay, comparable, replays_of_group
from counterpoise.pipeline.folds.replay_memo import Plans
from counterpoise.pipeline.folds.topic_skew import skew_of
from counterpoise.pipeline.lag import lag_at_generations
from counterpoise.pipeline.records.arrow_assignments import PlanRow, assignments
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.grouped import by_group
from counterpoise.pipeline.schemas import MEASURED_REPLAYS, METRICS, REPLAYS

__all__ = [
    "Pending",
    "epochs_of",
    "in_batches",
    "measured_replays",
    "metrics",
    "replay_batch",
    "replay_batches",
    "replay_inputs",
    "replays",
]

_BATCH = 1024
_OF_ROW = ("group_id", "generation", "log_partition", "log_offset", "log_ts", "leader_library")
_KEY = ("cluster", "group_id", "log_partition", "log_offset", "log_ts", "protocol", "generation")
_OF_GENERATION = ("protocol_type", "leader", "state_ts", "deleted", "members", "leader_library")
_OF_EPOCH = ("group_type", "incarnation", "kind", "protocol_kind", "assignment", "subscriptions", "n_members", "recreated")
_FIGURES = tuple(field.name for field in fields(Metrics))
COLUMNS = arrow_schema(MEASURED_REPLAYS)


def measured_replays(
    generations: DataFrame,
    steps: DataFrame,
    names: Sequence[str] | None = None,
    lag: DataFrame | None = None,
    samples: DataFrame | None = None,
) -> DataFrame:
    """`replays` and `metrics` in one pass: the columns of both.

    Parameters
    ----------
    generations, steps : DataFrame
        Tables `group_generations` and `rebalances`.
    names : sequence of str, optional
        Strategies; default: all registered ones.
    lag, samples : DataFrame, optional
        Table `partition_lag`, and when log ends were sampled (``cluster, at``); without them, and in generations before the first
        sample, strategies by lag are left out.

    Raises
    ------
    UnknownStrategyError
    """
    rows = replay_inputs(generations, epochs_of(steps), lag, samples)
    ordered = rows.repartition("cluster", "group_id").sortWithinPartitions("cluster", "group_id", "log_partition", "log_offset")
    return ordered.mapInArrow(replay_batches(comparable(names)), MEASURED_REPLAYS)


def epochs_of(steps: DataFrame) -> DataFrame:
    """The rows of `rebalances` that are replayed: those of KIP-848 groups, whose generations are told by no single record."""
    return steps.where(fn.col("group_type") == EPOCH_TYPE).select(*_KEY, *_OF_EPOCH)


def replay_inputs(generations: DataFrame, epochs: DataFrame, lag: DataFrame | None, samples: DataFrame | None) -> DataFrame:
    """The columns that replays need of `group_generations` and of `epochs_of`, one below the other; `epochs.as_generations`
    tells them apart. And, where lag was sampled, what it was in each generation.
    """
    classic = generations.select(*_KEY, *_OF_GENERATION)
    rows = classic.unionByName(epochs, allowMissingColumns=True)
    if lag is None or samples is None:
        return rows
    place = ["cluster", "group_id", "log_partition", "log_offset"]
    sized = rows.select(*place, "log_ts", fn.coalesce("n_members", fn.size("members")).alias("n_members"))
    return rows.join(lag_at_generations(sized, lag, samples), place, "left")


def replays(measured: DataFrame) -> DataFrame:
    """Table `replays` from `measured_replays`."""
    return measured.select(*REPLAYS.names)


def metrics(measured: DataFrame) -> DataFrame:
    """Table `metrics` from `measured_replays`."""
    return measured.select(*METRICS.names)


def replay_batches(names: Sequence[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow``: generations sorted by cluster, group and log offset -> rows of `MEASURED_REPLAYS`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plans, groups = Plans(), by_group(batches)
        yield from in_batches((of[0], one) for of, rows in groups for one in replays_of_group(as_generations(rows), names, plans))

    return run


class Pending:
    """Replays until there are a thousand, fewer where plans are large: then they are rows of `MEASURED_REPLAYS`."""

    def __init__(self) -> None:
        self._replays: list[tuple[str, Replay]] = []
        self._weight = 0

    def add(self, cluster: str, replay: Replay) -> Iterator[pa.RecordBatch]:
        """One more; all that wait, where these are enough."""
        self._replays.append((cluster, replay))
        self._weight += 1 + len(replay.owner) // 64
        if self._weight >= _BATCH:
            yield from self.settle()

    def settle(self) -> Iterator[pa.RecordBatch]:
        """All that wait, if any do."""
        if self._replays:
            yield replay_batch(self._replays)
            self._replays, self._weight = [], 0


def in_batches(found: Iterable[tuple[str, Replay]]) -> Iterator[pa.RecordBatch]:
    """Pairs of a cluster and a replay as rows of `MEASURED_REPLAYS`, a thousand at a time."""
    pending = Pending()
    for cluster, replay in found:
        yield from pending.add(cluster, replay)
    yield from pending.settle()


def replay_batch(pending: Sequence[tuple[str, Replay]]) -> pa.RecordBatch:
    """Pairs of a cluster and a replay as rows of `MEASURED_REPLAYS`; plans that replays share are written out once."""
    columns = _columns(pending)
    number: dict[tuple[int, int], int] = {}
    plans: list[PlanRow] = []
    place = []
    for _, replay in pending:  # which keeps all that is told apart by identity here
        key = (id(replay.inputs), id(replay.owner))
        if key not in number:
            number[key] = len(plans)
            told, names = replay.inputs, replay.inputs.group
            start = told.problem.topic_start
            plans.append(PlanRow(names.member_ids, told.client_ids, names.topic_names, start, replay.owner))
        place.append(number[key])
    plain = [pa.array(columns[field.name], field.type) for field in COLUMNS if field.name != "assignment"]
    return pa.RecordBatch.from_arrays([*plain, assignments(plans).take(pa.array(place, pa.int32()))], schema=COLUMNS)


def _columns(pending: Sequence[tuple[str, Replay]]) -> dict[str, list[object]]:
    """The columns but for the assignment, as lists."""
    replays_ = [replay for _, replay in pending]
    rows = [replay.row for replay in replays_]
    told: dict[str, list[object]] = {name: [row[name] for row in rows] for name in _OF_ROW}
    figures = [replay.metrics for replay in replays_]
    told |= {name: [getattr(found, name) for found in figures] for name in _FIGURES}
    skews = [skew_of(replay) for replay in replays_]
    return told | {
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
