"""One recording as the stages of an audit see it: its files, or tables of Spark."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

__all__ = ["Capture", "CaptureFiles"]


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
    """

    records: DataFrame | None = None
    log_ends: DataFrame | None = None
    topics: DataFrame | None = None
    aborted: DataFrame | None = None
    notes: tuple[str, ...] = ()
    files: CaptureFiles | None = None

    @property
    def tells_aborted(self) -> bool:
        """Whether it says which records never took effect."""
        return self.aborted is not None if self.files is None else self.files.aborted is not None
