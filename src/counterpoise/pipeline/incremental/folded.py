"""The folds over new records only: states of groups in, rows out, finished and unfinished ones apart, and the states after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from counterpoise.pipeline.folds.epochs import as_generations
from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.replay_fold import ReplayFold
from counterpoise.pipeline.folds.replay_memo import Plans
from counterpoise.pipeline.rebalances import StepsFold, step_weight
from counterpoise.pipeline.records.arrow_types import arrow_schema
from counterpoise.pipeline.records.grouped import by_group
from counterpoise.pipeline.replays import Pending, replay_batch
from counterpoise.pipeline.schemas import MEASURED_REPLAYS, REBALANCES

__all__ = ["REPLAY_STATES", "STEP_STATES", "fold_replays", "fold_steps", "step_rows"]

_KEY = ("cluster", "group_id")
_TOLD = [StructField("open", BooleanType()), StructField("state", StringType())]
STEP_STATES = StructType(
    [*(StructField(name, StringType()) for name in _KEY), _TOLD[1], StructField("unnamed", ArrayType(StringType()))]
)
"""One row per group: `state` of its `StepsFold`, and topic ids in its steps that nobody has named."""
REPLAY_STATES = StructType(
    [
        *(StructField(name, StringType()) for name in _KEY),
        _TOLD[1],
        StructField("last_partition", IntegerType()),
        StructField("last_offset", LongType()),
        StructField("last_ts", TimestampType()),
        StructField("finished_ts", TimestampType()),
    ]
)
"""One row per group: `state` of its `ReplayFold`, where its last generation stands, and the time of the one before."""
_STEPS = StructType([*REBALANCES.fields, *_TOLD, STEP_STATES["unnamed"]])
_REPLAYS = StructType([*MEASURED_REPLAYS.fields, *_TOLD, *REPLAY_STATES.fields[3:]])
_BATCH = 512


def fold_steps(records: DataFrame, states: DataFrame | None) -> DataFrame:
    """Columns of `rebalances`, `open` (further records may still change the row), and one row per group with its `state`.

    Parameters
    ----------
    records : DataFrame
        New ones, as `rebalances.group_records` gives them.
    states : DataFrame, optional
        `STEP_STATES` of their groups, as far as there are any.
    """
    told = None if states is None else states.drop("unnamed")
    return _ordered(records, told).mapInArrow(_step_batches, _STEPS)


def fold_replays(generations: DataFrame, states: DataFrame | None, names: Sequence[str]) -> DataFrame:
    """Columns of `replays` and `metrics`, `open`, and one row per group with its `state` and the place of its last generation.

    Parameters
    ----------
    generations : DataFrame
        As `replays.replay_inputs` gives them: new ones with their `lag` and, before them, the last one of each group that has a
        state.
    states : DataFrame, optional
        `REPLAY_STATES` of their groups, as far as there are any.
    names : sequence of str
        Strategies.
    """
    told = None if states is None else states.select(*_KEY, "state", "finished_ts")
    return _ordered(generations, told).mapInArrow(_replay_batches(names), _REPLAYS)


def _ordered(rows: DataFrame, states: DataFrame | None) -> DataFrame:
    if states is None:
        return rows.repartition(*_KEY).sortWithinPartitions(*_KEY, "log_partition", "log_offset")
    first = states.withColumn("log_partition", fn.lit(-1)).withColumn("log_offset", fn.lit(-2).cast("bigint"))
    whole = rows.unionByName(first, allowMissingColumns=True)
    return whole.repartition(*_KEY).sortWithinPartitions(*_KEY, "log_partition", "log_offset")


def _parted(rows: Iterator[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, Iterator[Mapping[str, Any]]]:
    """The row with the group's state, if there is one, and its records."""
    first = next(rows)
    return (first, rows) if first.get("state") is not None else (None, chain([first], rows))


def step_rows(group: tuple[str, str], rows: Iterable[Mapping[str, Any]], saved: str | None) -> Iterator[dict[str, Any]]:
    """The rows of one group in `_STEPS`: finished steps, unfinished ones, and the state last."""
    fold = StepsFold(None if saved is None else from_text(saved))
    key = {"cluster": group[0], "group_id": group[1]}
    for row in rows:
        for step in fold.feed(row):
            yield {**key, **step, "open": False}
    for step in fold.unfinished():
        yield {**key, **step, "open": True}
    yield {**key, "state": to_text(fold.state), "unnamed": fold.unnamed}


def _step_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(_STEPS)
    pending: list[dict[str, Any]] = []
    weight = 0
    for group, rows in by_group(batches):
        saved, records = _parted(rows)
        for row in step_rows(group, records, None if saved is None else saved["state"]):
            pending.append(row)
            weight += step_weight(row)
            if weight >= 2000:
                yield pa.RecordBatch.from_pylist(pending, schema=schema)
                pending, weight = [], 0
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=schema)


def _replay_batches(names: Sequence[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        states: list[dict[str, Any]] = []
        plans = Plans()
        for group, rows in by_group(batches):
            yield from _replays_of(group, rows, names, plans, states)
            if len(states) >= _BATCH:
                yield _state_batch(states)
                states = []
        if states:
            yield _state_batch(states)

    return run


def _replays_of(
    group: tuple[str, str],
    rows: Iterator[Mapping[str, Any]],
    names: Sequence[str],
    plans: Plans,
    states: list[dict[str, Any]],
) -> Iterator[pa.RecordBatch]:
    saved, generations = _parted(rows)
    fold = ReplayFold(names, None if saved is None else from_text(saved["state"]), plans)
    finished = None if saved is None else saved["finished_ts"]
    pending = Pending()
    for row in as_generations(generations):
        finished = finished if fold.last is None else fold.last["log_ts"]
        for replay in fold.feed(row):
            for batch in pending.add(group[0], replay):
                yield _told(batch, open_=False)
    for batch in pending.settle():
        yield _told(batch, open_=False)
    last = fold.last
    state = to_text(fold.state)
    unfinished = [(group[0], replay) for replay in fold.close()]
    if unfinished:
        yield _told(replay_batch(unfinished), open_=True)
    if last is not None:
        place = {"last_partition": last["log_partition"], "last_offset": last["log_offset"], "last_ts": last["log_ts"]}
        states.append({"cluster": group[0], "group_id": group[1], "state": state, **place, "finished_ts": finished})


def _told(batch: pa.RecordBatch, *, open_: bool) -> pa.RecordBatch:
    schema = arrow_schema(_REPLAYS)
    rest = [pa.nulls(batch.num_rows, field.type) for field in list(schema)[len(batch.schema) + 1 :]]
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array([open_] * batch.num_rows), *rest], schema=schema)


def _state_batch(states: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(states), schema=arrow_schema(_REPLAYS))
