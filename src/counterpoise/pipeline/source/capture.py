"""A capture: its files, or a DataFrame of its records with the other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from counterpoise.pipeline.source.checks import aborted_records, topic_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Capture", "CaptureFiles"]


@dataclass(frozen=True)
class CaptureFiles:
    """The files of a capture, local paths or URIs, which every worker can read."""

    # Parquet. Without files in `ends`, log ends are unknown.
    records: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    # JSON
    topics: str | None = None
    aborted: str | None = None
    gaps: tuple[tuple[int, int, int], ...] = field(default=(), kw_only=True)  # As `capture.folder.Missing.gaps`

    @cached_property
    def topic_ids(self) -> Mapping[str, str] | None:
        """Topic -> its id at the end of the recording; None: unknown. Raises `CaptureError` if the file has another form."""
        return None if self.topics is None else topic_ids(self.topics)

    @cached_property
    def aborted_records(self) -> frozenset[tuple[int, int]] | None:
        """Log partition and offset of records of aborted transactions; None: unknown. Raises as `topic_ids`."""
        return None if self.aborted is None else aborted_records(self.aborted)


@dataclass(frozen=True)
class Capture:
    """The recording of one cluster."""

    files: CaptureFiles = CaptureFiles()
    records: DataFrame | None = None  # Columns of Spark's Kafka source; used instead of `files.records`
    notes: tuple[str, ...] = ()  # One sentence for each thing that is missing or left out
    place: str = "records"  # The path or URI, as the user gave it
    n_records: int | None = None  # By the footers of the files
    faults: tuple[str, ...] = ()  # Notes that name groups and topics: faults of polls
