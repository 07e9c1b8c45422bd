"""A capture: as a user gives it (files or DataFrames), and as the scan reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from counterpoise.pipeline.session import configured
from counterpoise.pipeline.source.checks import aborted_records, topic_ids

__all__ = ["Capture", "CaptureFiles", "SourceFiles", "source_files"]

_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


@dataclass(frozen=True)
class CaptureFiles:
    """The files of a capture, local paths or URIs, which every worker can read."""

    # Parquet. Without files in `ends`, log ends are unknown.
    records: tuple[str, ...]
    ends: tuple[str, ...] = ()
    # JSON
    topics: str | None = None
    aborted: str | None = None


@dataclass(frozen=True)
class Capture:
    """The recording of one cluster: either `files`, or `records` and optional further DataFrames."""

    records: DataFrame | None = None  # Records of the offsets topic, columns of Spark's Kafka source
    log_ends: DataFrame | None = None  # ``topic, partition, log_start, log_end, sampled_at``, without nulls
    topics: DataFrame | None = None  # ``topic, partitions, topic_id``: metadata at the end of the recording
    aborted: DataFrame | None = None  # ``log_partition, log_offset`` of records that a reader with ``read_committed`` never sees
    notes: tuple[str, ...] = ()  # One sentence for each thing that is missing or left out
    files: CaptureFiles | None = None


@dataclass(frozen=True)
class SourceFiles:
    """A capture as the scan reads it: DataFrames of samples and metadata are files and values here."""

    files: CaptureFiles  # If the records are a DataFrame, `files.records` is empty
    records: DataFrame | None  # Columns of Spark's Kafka source
    topic_ids: Mapping[str, str] | None  # Topic -> its id at the end of the recording
    aborted: frozenset[tuple[int, int]] | None  # Log partition and offset of records of aborted transactions; None: unknown


def source_files(captures: Mapping[str, Capture], folder: Path) -> dict[str, SourceFiles]:
    """Cluster name -> its capture. Writes samples of a DataFrame to `folder`, which driver and executors share."""
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
