"""The streaming query: a capture folder's records, state per group, and what each micro-batch brings."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from counterpoise.pipeline.capture.columns import OFFSETS_TOPIC
from counterpoise.pipeline.folds.fold_state import from_text
from counterpoise.pipeline.follow.events import COMMITS, commits_of, events
from counterpoise.pipeline.follow.folder_source import CaptureStream
from counterpoise.pipeline.follow.processor import FINISHED, OPEN, followed
from counterpoise.pipeline.schemas import REBALANCES
from counterpoise.pipeline.session import configured

__all__ = ["FOLLOW_SETTINGS", "Steps", "Taker", "cause_of", "reached", "start_query"]

_QUERY = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A micro-batch writes what has changed, not the whole state.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A micro-batch brings few groups; every further task costs a store's commit and a worker, whatever is in it.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
FOLLOW_SETTINGS = {
    **_QUERY,
    # A micro-batch has one task at a time; one more place, so that what Spark does besides never takes it.
    "spark.master": "local[2]",
    # The plans of a stream with state are deeper than a thread's usual stack.
    "spark.driver.defaultJavaOptions": "-Xss4m",
    # Of many plans over few rows, compiling them is most of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""What a session of our own needs for a stream, beside `session.LOCAL_SETTINGS`."""
_ERROR = re.compile(r"(?!java\.|org\.|py4j\.|pyspark\.)[\w.]+(Error|Exception)\b")
"""How a line begins that ends a traceback; what only hands one on is none."""
Taker: TypeAlias = Callable[[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]], None]


@dataclass(frozen=True)
class Steps:
    """What a query reads.

    Attributes
    ----------
    source : Path
        A capture folder.
    positions : mapping
        Log partition -> first offset that is not known yet.
    cluster : str
    groups : sequence of str
        Patterns of names; none: all.
    aborted : sequence of (log partition, log offset)
        Commits that never took effect.
    limit : int
        Offsets in a micro-batch at most.
    """

    source: Path
    positions: Mapping[str, int]
    cluster: str
    groups: Sequence[str]
    aborted: Sequence[tuple[int, int]]
    limit: int


def start_query(
    spark: SparkSession, steps: Steps, states: DataFrame | None, checkpoint: Path, trigger: float | None, take: Taker
) -> Any:
    """Start the query with a checkpoint of its own; what is in that folder goes.

    Parameters
    ----------
    steps : Steps
    states : DataFrame, optional
        `incremental.folded.STEP_STATES` to begin with.
    checkpoint : Path
    trigger : float, optional
        Seconds; None: what is there now, then end.
    take : callable
        ``take(finished steps, unfinished steps, commits)`` for each micro-batch, as rows.
    """
    shutil.rmtree(checkpoint, ignore_errors=True)
    spark.dataSource.register(CaptureStream)
    start = {OFFSETS_TOPIC: dict(steps.positions)} if steps.positions else {}
    reader = spark.readStream.format("counterpoise-capture").option("path", str(steps.source.absolute()))
    reader = reader.option("startingOffsets", json.dumps(start)).option("maxOffsetsPerTrigger", str(steps.limit))

    def batch(frame: DataFrame, _number: int) -> None:
        rows = frame.toArrow().to_pylist()
        told = {what: [row["data"] for row in rows if row["what"] == what] for what in (FINISHED, OPEN, COMMITS)}
        finished, unfinished = ([from_text(data.decode()) for data in told[what]] for what in (FINISHED, OPEN))
        take(
            [_step(row) for row in finished],
            [_step(row) for row in unfinished],
            [r for d in told[COMMITS] for r in commits_of(d)],
        )

    with configured(spark, _QUERY):
        found = events(reader.load(), steps.cluster, steps.groups, steps.aborted)
        out = followed(found, states, (steps.source / "topics.json").absolute())
        writer = out.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint.absolute()))
        pace = {"availableNow": True} if trigger is None else {"processingTime": f"{round(trigger * 1000)} milliseconds"}
        return writer.trigger(**pace).start()


def reached(query: Any) -> dict[str, int]:
    """Log partition -> the offset up to which micro-batches are done; nothing before the first."""
    progress = query.lastProgress
    told = None if progress is None else progress["sources"][0]["endOffset"]
    found: dict[str, int] = (json.loads(told) if isinstance(told, str) else told or {}).get(OFFSETS_TOPIC, {})
    return found


def cause_of(told: str) -> str:
    """What went wrong, of all that Spark says: the last error of Python's tracebacks, or else the first line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()] or ["no words"]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors[-1] if errors else lines[0])[:300]


def _step(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row.get(name) for name in REBALANCES.names}
