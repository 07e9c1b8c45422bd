"""A capture: its files, or a DataFrame of its records with the other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from counterpoise.errors import CaptureError, SnapshotError
from counterpoise.pipeline.storage.files import read_bytes
from counterpoise.snapshot.json_text import decoded, fitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Capture", "CaptureFiles"]

T = TypeVar("T")
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Topic(msgspec.Struct):
    partitions: _Partition
    topic_id: str | None = None


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
        expected = 'expected topic -> {"partitions": number, "topic_id": string}; record it again'
        topics = _read(self.topics, dict[str, _Topic], expected)
        return None if topics is None else {name: about.topic_id for name, about in topics.items() if about.topic_id}

    @cached_property
    def aborted_records(self) -> frozenset[tuple[int, int]] | None:
        """Log partition and offset of records of aborted transactions; None: unknown. Raises as `topic_ids`."""
        pairs = _read(self.aborted, list[tuple[_Partition, _Offset]], "expected pairs [partition, offset]; record it again")
        return None if pairs is None else frozenset(pairs)


def _read(where: str | None, kind: type[T], expected: str) -> T | None:
    try:
        return None if where is None else fitted(decoded(read_bytes(where), expected), kind, "$", expected)
    except SnapshotError as error:
        raise CaptureError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Capture:
    """The recording of one cluster."""

    files: CaptureFiles = CaptureFiles()
    records: DataFrame | None = None  # Columns of Spark's Kafka source; used instead of `files.records`
    notes: tuple[str, ...] = ()  # One sentence for each thing that is missing or left out
    place: str = "records"  # The path or URI, as the user gave it
    n_records: int | None = None  # By the footers of the files
    faults: tuple[str, ...] = ()  # Notes that name groups and topics: faults of polls
