"""One recording as the stages of an audit see it: its files, or tables of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from counterpoise.pipeline.source.parquet_rows import RAW_TYPES, SAMPLE_TYPES, read_rows
from counterpoise.pipeline.storage.files import read_bytes

__all__ = ["Capture", "CaptureFiles", "Local"]

_ROWS = 65_536
_RECORDS = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
_SAMPLES = "topic string, partition int, log_start bigint, log_end bigint, sampled_at timestamp"


@dataclass(frozen=True)
class CaptureFiles:
    """The files of a capture, local paths or URIs, which every worker can read.

    Attributes
    ----------
    records, ends : tuple of str
        Parquet. Without files in `ends` log ends are not known.
    topics, aborted : str, optional
        JSON.
    """

    records: tuple[str, ...]
    ends: tuple[str, ...] = ()
    topics: str | None = None
    aborted: str | None = None


Local = CaptureFiles


@dataclass(frozen=True)
class Capture:
    """One recording: either `files`, or `records` and what else is known as DataFrames.

    Attributes
    ----------
    records : DataFrame, optional
        Records of the offsets topic, columns of Spark's Kafka source.
    log_ends : DataFrame, optional
        ``topic, partition, log_start, log_end, sampled_at``, without nulls.
    topics : DataFrame, optional
        ``topic, partitions, topic_id``: metadata at the end of the recording.
    aborted : DataFrame, optional
        ``log_partition, log_offset`` of records that a reader of committed data never sees.
    notes : tuple of str
        What is missing or left out, in words.
    files : CaptureFiles, optional
    spark : SparkSession, optional
        Reads the files where `frames` is asked for.
    """

    records: DataFrame | None = None
    log_ends: DataFrame | None = None
    topics: DataFrame | None = None
    aborted: DataFrame | None = None
    notes: tuple[str, ...] = ()
    files: CaptureFiles | None = None
    spark: SparkSession | None = None

    @property
    def tells_aborted(self) -> bool:
        """Whether it says which records never took effect."""
        return self.aborted is not None if self.files is None else self.files.aborted is not None

    def frames(self) -> Capture:
        """The same as DataFrames; Spark's tasks read the files with Arrow, one file each."""
        if self.files is None or self.spark is None:
            return self
        spark, files = self.spark, self.files
        topics = aborted = None
        if files.topics is not None:
            known = json.loads(read_bytes(files.topics))
            listed = [(name, one["partitions"], one.get("topic_id")) for name, one in known.items()]
            topics = spark.createDataFrame(listed, "topic string, partitions int, topic_id string")
        if files.aborted is not None:
            pairs = [(partition, offset) for partition, offset in json.loads(read_bytes(files.aborted))]
            aborted = spark.createDataFrame(pairs, "log_partition int, log_offset bigint")
        records = _frame(spark, files.records, RAW_TYPES, _RECORDS)
        ends = _frame(spark, files.ends, SAMPLE_TYPES, _SAMPLES).dropna() if files.ends else None
        return replace(self, records=records, log_ends=ends, topics=topics, aborted=aborted, files=None)


def _frame(spark: SparkSession, files: tuple[str, ...], types: Mapping[str, pa.DataType], schema: str) -> DataFrame:
    return spark.range(0, len(files), 1, len(files)).mapInArrow(partial(_read, files, types), schema)


def _read(
    files: tuple[str, ...], types: Mapping[str, pa.DataType], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read_rows(files[number], list(types), types, _ROWS)
