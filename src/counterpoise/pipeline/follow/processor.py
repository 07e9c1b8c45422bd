"""State per group in Structured Streaming: the fold of the batch audit, one group's new records at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from counterpoise.pipeline.folds.fold_state import from_text, to_text
from counterpoise.pipeline.folds.modern_fold import NAMES
from counterpoise.pipeline.follow.events import COMMITS, OF_GROUP
from counterpoise.pipeline.rebalances import step_rows

__all__ = ["FINISHED", "FOLLOWED", "OPEN", "Follower", "followed"]

FINISHED, OPEN = "step", "open"
FOLLOWED = StructType([StructField("what", StringType()), StructField("data", BinaryType())])
"""What comes out: a row of `rebalances` as text (`step`; `open`: further records may change it), or commits as they came."""


def followed(events: DataFrame, states: DataFrame | None, topics: Path | None) -> DataFrame:
    """`FOLLOWED` of a stream of events.

    Parameters
    ----------
    events : DataFrame
        A stream with the columns `events.EVENTS`.
    states : DataFrame, optional
        ``cluster, group_id, state`` to begin with (see `schemas.STEP_STATES`); looked at by a new query only.
    topics : Path, optional
        ``topics.json`` of the capture: the names of topics, for groups whose records hold ids only.

    Notes
    -----
    Needs the state store of RocksDB: ``spark.sql.streaming.stateStore.providerClass``.
    """
    start = None
    if states is not None:
        lanes = states.select("cluster", fn.concat(fn.lit(OF_GROUP), "group_id").alias("lane"), "state")
        start = lanes.groupBy("cluster", "lane")
    return events.groupBy("cluster", "lane").transformWithState(Follower(topics), FOLLOWED, "append", "none", start)


class Follower(StatefulProcessor):
    """One `StepsFold` per group, kept as text; commits go by."""

    def __init__(self, topics: Path | None) -> None:
        self._topics = topics

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state: Any = handle.getValueState("fold", "state string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Steps of the group's new records."""
        cluster, lane = key
        if lane == COMMITS:
            yield from (Row(what=COMMITS, data=event.data) for event in rows)
            return
        records = sorted((from_text(bytes(event.data).decode()) for event in rows), key=_place)
        saved = self._state.get()[0] if self._state.exists() else None
        for row in step_rows((cluster, lane.removeprefix(OF_GROUP)), [*self._names(records), *records], saved):
            if row.get("state") is not None:
                self._state.update((row["state"],))
            else:
                yield Row(what=OPEN if row["open"] else FINISHED, data=to_text(row).encode())

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, N802, N803
        """Go on where an audit ended."""
        self._state.update((initialState.state,))

    def close(self) -> None:
        """Nothing is held."""

    def _names(self, records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """A row that tells names, as the batch has one, if the group's records hold ids of topics."""
        text = " ".join(record.get("payload") or "" for record in records)
        if self._topics is None or '"topic_id"' not in text:
            return
        known = {topic_id: name for topic_id, name in _names_in(self._topics, _age(self._topics)).items() if topic_id in text}
        if known:
            yield {"record_type": NAMES, "payload": json.dumps(known), "deleted": False, "log_ts": None}


def _place(record: dict[str, Any]) -> tuple[int, int]:
    return record["log_partition"], record["log_offset"]


def _age(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


@lru_cache(maxsize=2)
def _names_in(file: Path, age: int) -> dict[str, str]:
    """Topic id -> name; a running capture renews the file, so it is read again when its age is another."""
    about = json.loads(file.read_bytes()) if age else {}
    return {one["topic_id"]: topic for topic, one in about.items() if one.get("topic_id")}
