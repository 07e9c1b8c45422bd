"""The files that an audit reads: those of a capture on disks that all workers share, or its rows, written once by Spark.

A DataFrame (Spark's Kafka source, Delta, Iceberg), an object store and a window of time come to the same files that way:
executors write them below the working folder of the audit, and the driver holds only topics and aborted offsets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.capture import Capture, CaptureFiles
from counterpoise.pipeline.storage.files import is_local

__all__ = ["files_of", "staged"]

_ROW_GROUP = 16 << 20
"""Bytes of a row group, about: tasks share them out."""
_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def files_of(captures: Mapping[str, Capture], folder: Path) -> dict[str, CaptureFiles]:
    """Cluster name -> its files; those that are written go into `folder`, which driver and executors share."""
    return {name: staged(capture, folder / f"source-{at}") for at, (name, capture) in enumerate(captures.items())}


def staged(capture: Capture, folder: Path) -> CaptureFiles:
    """The files of one capture."""
    if capture.files is not None and all(map(is_local, capture.files.records)):
        return capture.files
    capture = capture.frames()
    assert capture.records is not None
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    records = _written(capture.records, folder / "records")
    ends = () if capture.log_ends is None else _written(capture.log_ends, folder / "log-ends")
    topics = aborted = None
    if capture.topics is not None:
        rows = capture.topics.select("topic", "partitions", "topic_id").collect()
        listed = {row["topic"]: {"partitions": row["partitions"], "topic_id": row["topic_id"]} for row in rows}
        topics = _json(listed, folder / "topics.json")
    if capture.aborted is not None:
        pairs = [[row["log_partition"], row["log_offset"]] for row in capture.aborted.collect()]
        aborted = _json(sorted(pairs), folder / "aborted_offsets.json")
    return CaptureFiles(records, ends, topics, aborted)


def _written(rows: DataFrame, folder: Path) -> tuple[str, ...]:
    with configured(rows.sparkSession, _MICROS):
        rows.write.option("parquet.block.size", str(_ROW_GROUP)).parquet(str(folder))
    return tuple(str(file) for file in sorted(folder.glob("*.parquet")))


def _json(value: object, file: Path) -> str:
    file.write_text(json.dumps(value, sort_keys=True), encoding="utf-8")
    return str(file)
