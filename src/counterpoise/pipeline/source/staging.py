"""What an audit reads of a capture: its Parquet files as they are, or the rows of a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.capture import Capture, CaptureFiles
from counterpoise.pipeline.source.checks import aborted_records, topic_ids

__all__ = ["SourceFiles", "source_files"]

_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


@dataclass(frozen=True)
class SourceFiles:
    """One capture.

    Attributes
    ----------
    files : CaptureFiles
        Without files of records if these are a DataFrame.
    records : DataFrame, optional
        Columns of Spark's Kafka source.
    topic_ids : dict, optional
        Topic -> its id at the end of the recording.
    aborted : frozenset, optional
        Log partition and offset of records that never took effect; None: nobody knows.
    """

    files: CaptureFiles
    records: DataFrame | None
    topic_ids: Mapping[str, str] | None
    aborted: frozenset[tuple[int, int]] | None


def source_files(captures: Mapping[str, Capture], folder: Path) -> dict[str, SourceFiles]:
    """Cluster name -> its capture. Samples in a DataFrame are written below `folder`, which driver and executors share."""
    return {name: _source(capture, (folder / f"source-{at}").absolute()) for at, (name, capture) in enumerate(captures.items())}


def _source(capture: Capture, folder: Path) -> SourceFiles:
    files = capture.files
    if files is not None:
        ids = None if files.topics is None else topic_ids(files.topics)
        aborted = None if files.aborted is None else aborted_records(files.aborted)
        return SourceFiles(files, None, ids, aborted)
    ends = () if capture.log_ends is None else _written(capture.log_ends, folder / "log-ends")
    ids = aborted = None
    if capture.topics is not None:
        ids = {row["topic"]: row["topic_id"] for row in capture.topics.select("topic", "topic_id").collect() if row["topic_id"]}
    if capture.aborted is not None:
        aborted = frozenset((row["log_partition"], row["log_offset"]) for row in capture.aborted.collect())
    return SourceFiles(CaptureFiles((), ends), capture.records, ids, aborted)


def _written(rows: DataFrame, folder: Path) -> tuple[str, ...]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with configured(rows.sparkSession, _MICROS):
        rows.write.parquet(str(folder))
    return tuple(str(file) for file in sorted(folder.glob("*.parquet")))
